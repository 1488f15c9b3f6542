"""Search the weights and latency bounds of an application by simulated trials.

`space` says what to choose, `engines/` ask, `evaluation` answers, `tuning_run` goes round, `recommendation` ends it.
"""
