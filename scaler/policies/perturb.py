"""The approximate model that a policy with an estimated cost is given: a task in, the task as it is believed to be out.

As in the paper's experiments: the service rate is 5 to 10 % off in either direction and taken for exponential, and each
speedup is up to 20 % off without changing the order of the node types.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scaler.model.kernel import Integers, lay_out
from scaler.model.task import Moments, Task

RATE_ERROR = (0.05, 0.10)
SPEEDUP_ERROR = 0.20


def believe(task: Task, seed: int) -> Task:
    """The task with errors drawn from this seed."""
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


def first_bad_level(task: Task) -> Integers:
    """The lowest rate level whose middle violates the bound, by parallelism and rank of the slowest type; L if none."""
    p = lay_out(task)
    middles = (np.arange(task.levels) + 0.5) * p.quantum
    within = np.arange(task.k_max + 1)[:, None] * p.capacity[p.order]  # [K + 1, N] highest total rate in the bound
    return np.searchsorted(middles, within, side="right").astype(np.int64)
