"""Search the weights and latency bounds of an application by simulated trials.

`space` says what may be chosen, `engines/` ask, `evaluation` answers, `loop` goes round, `recommendation` ends it.
"""
