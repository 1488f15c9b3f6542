"""Perturb a service model on purpose, as the paper's experiments do.

The service rate is 5 to 10 % off in either direction and taken for exponential; each speedup is up to 20 % off without
changing the order of the node types. Only the published world does so: production starts from the surrogate's figures.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scaler.model.task import Moments, Task

RATE_ERROR = (0.05, 0.10)
SPEEDUP_ERROR = 0.20


def perturb_model(task: Task, seed: int) -> Task:
    """The task with modelling errors drawn from this seed."""
    rng = np.random.default_rng([seed, 0xBE11EF])
    sign = 1.0 if rng.random() < 0.5 else -1.0
    mean = task.moments.mean * (1.0 + sign * rng.uniform(*RATE_ERROR))
    true = np.array([t.speedup for t in task.types])
    order = np.argsort(true, kind="stable")
    low, high = true * (1.0 - SPEEDUP_ERROR), true * (1.0 + SPEEDUP_ERROR)
    low[order[1:]] = np.maximum(low[order[1:]], true[order[:-1]])
    high[order[:-1]] = np.minimum(high[order[:-1]], true[order[1:]])
    speedups = rng.uniform(low, high)
    types = tuple(replace(t, speedup=float(s)) for t, s in zip(task.types, speedups, strict=True))
    return replace(task, types=types, moments=Moments(mean, mean * mean), normaliser=task.dearest)
