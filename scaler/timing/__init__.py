"""Time the service of records inside tasks of Spark, and write the sums as JSON lines.

    timer = ServiceTimer(spark, app="orders", operator="count", folder="timings")  # in the driver

    def work(batches):                                  # given to mapInPandas or mapInArrow
        for batch in batches:
            for row in timer.each(batch.itertuples()):  # each record, from its handing out to the asking for the next
                ...
            yield result                                # outside the inner loop: a yield inside would be timed too

    frame.mapInPandas(timer.whole(work), schema)        # and, or instead, every batch as a whole
    stream.writeStream.foreachBatch(timer.each_batch(write))

The executors need `scaler` as they need every module that the function uses (installed there, or by `--py-files`).
"""

from scaler.timing.stopwatch import NODE_RESOURCE, NODE_TYPE, ServiceTally, Stopwatch
from scaler.timing.timer import ServiceTimer

__all__ = ["NODE_RESOURCE", "NODE_TYPE", "ServiceTally", "ServiceTimer", "Stopwatch"]
