"""The test bed: a real standalone Spark cluster, a streaming word count of two operators on it, and what really was.

python -m tests.bed.run FOLDER  leaves in the folder

    eventlog/           Spark's event log; the operators are the streaming queries `split` and `count`
    progress/           StreamingQueryProgress, a file an operator, a JSON object a line, as the listener got it
    timings/            lines of scaler.timing, a file an operator
    truth/records.csv   every record: when it came to the operator, when it was answered, its cost, what it really took
    truth/responses.csv the same by windows of 10 s, with the columns of a sample
    plan.json           loads, lengths, seed; what the rest is made from is in truth/, channel/ and checkpoint/
    cluster/            logs of master, workers and executors; driver.log is the application's

The costs are slept, not burnt, so that the mean and variance of the service time are known and a busy machine changes
little. What a node does is slowed or sped up by its worker's environment.
"""
