"""What models of response times predict from: the load, the replicas and the service moments of every window.

Notation: W windows, N node types; k replicas, x = rate / k arrivals per second at each, m and v mean and variance of
the service time at speedup 1, s speedup, rho = x m / s on the slowest type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from scaler.model.kernel import Floats
from tuner.surrogate.observed_windows import Flags


@dataclass(frozen=True, slots=True, eq=False)
class WindowLoad:
    """What a model predicts from, and the batches seen, which serve to fit alone."""

    rate: Floats  # [W]
    earlier: Floats  # [W] the rate in the window before, or the same where there is none
    replicas: Floats  # [W, N]
    speedups: Floats  # [N]
    mean: float
    variance: float
    interval: Floats  # [W] mean between triggers, NaN where unknown
    duration: Floats  # [W] mean of the batches, NaN where unknown
    taken: Floats  # [W] tuples in a batch, NaN where unknown
    batches: Floats  # [W] how many ended, NaN where unknown

    @property
    def each(self) -> Floats:
        """Arrivals per second at each replica [W]."""
        return self.rate / self.replicas.sum(axis=1)

    @property
    def slowest(self) -> Floats:
        """The lowest speedup among the replicas of each window [W]."""
        return np.where(self.replicas > 0.0, self.speedups, math.inf).min(axis=1)

    @property
    def utilisation(self) -> Floats:
        return self.each * self.mean / self.slowest

    @property
    def batch_work(self) -> Floats:
        """Seconds of work that each replica has of a batch [W]; from the arrivals where batches were not counted."""
        rate = np.where(np.isnan(self.taken), self.rate * self.interval, self.taken)
        return rate / self.replicas.sum(axis=1) * self.mean / self.slowest


def blend_earlier(load: WindowLoad, share: float) -> WindowLoad:
    """The load as it is felt: in short windows, this share of it is still that of the window before."""
    return load if share == 0.0 else replace(load, rate=(1.0 - share) * load.rate + share * load.earlier)


def select_windows(load: WindowLoad, which: Flags) -> WindowLoad:
    """Some of the windows."""
    return replace(
        load,
        rate=load.rate[which],
        earlier=load.earlier[which],
        replicas=load.replicas[which],
        interval=load.interval[which],
        duration=load.duration[which],
        taken=load.taken[which],
        batches=load.batches[which],
    )
