"""The search: an application, a trace and a QoS in; trials and the objective that they recommend out.

`space` says what may be chosen, `engines/` ask, `evaluation` answers, `loop` goes round, `recommendation` ends it.
"""
