"""One operator's scaling problem: service moments, weights of the slot cost, node types and latency bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.hold import HoldTimes
from scaler.model.micro_batches import MicroBatches
from scaler.model.nodes import NodeType

WEIGHTS = ("perf", "rcf", "res")  # keys in documents: performance, reconfiguration, resources
LEAST_QUANTILE, MOST_QUANTILE = 0.5, 0.999


def check_quantile(quantile: float | None) -> None:
    """Refuse a quantile of response times that bounds cannot be about; None is their mean."""
    if quantile is not None and not LEAST_QUANTILE <= quantile <= MOST_QUANTILE:
        raise BadInput(
            f"the quantile is {quantile:g}, and must be {LEAST_QUANTILE} to {MOST_QUANTILE}, as 0.95 is for p95; "
            "leave it out for the mean"
        )


def name_quantile(quantile: float | None) -> str:
    """p95 for .95, p99.9 for .999; mean for None."""
    return "mean" if quantile is None else f"p{100.0 * quantile:.4g}"


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and variance of one tuple's service time on a node of speedup 1, and how many tuples they come from."""

    mean: float
    variance: float
    tuples: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.mean < float("inf"):
            raise BadInput(f"the mean service time is {self.mean} s, and must be positive")
        if not 0.0 <= self.variance < float("inf"):
            raise BadInput(f"the variance of the service time is {self.variance} s^2, and must not be negative")


@dataclass(frozen=True, slots=True)
class Weights:
    """What a violation, a reconfiguration and the whole resource bill are worth against each other."""

    performance: float = 0.6
    reconfiguration: float = 0.2
    resources: float = 0.2

    def __post_init__(self) -> None:
        values = (self.performance, self.reconfiguration, self.resources)
        if not min(values) >= 0.0:
            raise BadInput(f"the weights {values} (perf, rcf, res) must not be negative")
        if not abs(sum(values) - 1.0) <= 1e-6:
            raise BadInput(f"the weights {values} (perf, rcf, res) sum to {sum(values):g}, and must sum to 1")

    def to_json(self) -> dict[str, float]:
        return dict(zip(WEIGHTS, (self.performance, self.reconfiguration, self.resources), strict=True))


def parse_weights(table: Mapping[str, Any]) -> Weights:
    """Weights of a document; KeyError, TypeError or ValueError where it holds none."""
    return Weights(*(float(table[key]) for key in WEIGHTS))


@dataclass(frozen=True, slots=True)
class Task:
    """One operator's scaling problem as a person states it; `kernel.lay_out` turns it into a `Problem`."""

    types: tuple[NodeType, ...]
    k_max: int
    moments: Moments
    bound: float  # seconds, on the quantile of response times
    weights: Weights = field(default_factory=Weights)
    highest_rate: float = 0.0
    levels: int = 30
    gamma: float = 0.99
    normaliser: float | None = None  # price of the dearest deployment; None: k_max of the dearest type
    k_min: int = 1
    one_at_a_time: bool = False  # whether a change is of one replica, as in the published world
    batches: MicroBatches | None = None  # None: a queue
    quantile: float | None = None  # of response times that the bound is about; None: their mean
    hold: HoldTimes | None = None  # of reconfigurations, as measured; None: not known
    slot_s: float = 60.0
    pause_share: float = 1.0  # of the price of a pause that the weight stands for; others share it (joint_changes.py)

    def __post_init__(self) -> None:
        if not self.types:
            raise BadInput("there are no node types; name at least one")
        names = [t.name for t in self.types]
        for name in names:
            if names.count(name) > 1:
                raise BadInput(f"node type {name!r} is named twice; each needs a name of its own")
        if self.k_max < 1:
            raise BadInput(f"the most replicas (k_max) is {self.k_max}, and must be at least 1")
        if not 1 <= self.k_min <= self.k_max:
            raise BadInput(f"the least replicas (k_min) is {self.k_min}, and must be from 1 to k_max, {self.k_max}")
        if not self.bound > 0.0:
            raise BadInput(f"the latency bound is {self.bound} s, and must be positive")
        if not self.highest_rate > 0.0:
            raise BadInput(f"the highest rate to tell apart is {self.highest_rate}, and must be positive")
        if self.levels < 1:
            raise BadInput(f"the number of rate levels is {self.levels}, and must be at least 1")
        if not 0.0 <= self.gamma < 1.0:
            raise BadInput(f"gamma is {self.gamma}, and must lie in [0, 1)")
        check_quantile(self.quantile)

    @property
    def dearest(self) -> float:
        """C_max: the price that resources are measured against."""
        return self.normaliser if self.normaliser is not None else self.k_max * max(t.price for t in self.types)
