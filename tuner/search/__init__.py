"""Search the weights and latency bounds of an application by simulated trials.

`space` says what may be chosen, `engines/` ask, `evaluation` answers, `tuning_run` goes round, `recommendation` ends it.
"""
