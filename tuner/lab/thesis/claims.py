"""What the thesis concludes, held against our seeds: each conclusion as one run that is worse than another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scaler.model.kernel import Floats
from tuner.lab.thesis.experiments import Key, Outcome

SIGNIFICANT = 0.01
FLIPS = 20_000  # of signs, for a test's p; the least that it can be is one over that

Measure = Callable[[Outcome], float]


@dataclass(frozen=True, slots=True)
class Claim:
    """One run has more of a measure than another, on each of the workloads named."""

    experiment: str
    says: str
    measure: str
    more: str
    less: str
    workloads: tuple[str, ...] = ("w1", "w2")


MEASURES: dict[str, Measure] = {
    "latency": lambda o: o.latency_s,
    "executors": lambda o: o.executors,
    "changes": lambda o: float(o.changes),
    "late": lambda o: o.late,
    "over target": lambda o: o.missed,
}
CLAIMS = (
    Claim("e1", "queue aware is better than static", "latency", "static", "relative"),
    Claim("e1", "queue aware is better than linear", "latency", "linear", "relative"),
    Claim("e2", "a window of 1 min is too sensitive: it changes more", "changes", "sliding1min", "sliding2min"),
    Claim("e2", "a window of 3 min resists: it changes less", "changes", "sliding2min", "sliding3min"),
    Claim("e3", "deciding every 2 min is better on W1", "latency", "d1min", "d2min", ("w1",)),
    Claim("e3", "deciding every 2 min is worse on W2", "latency", "d2min", "d1min", ("w2",)),
    Claim("e3", "deciding every 3 min changes less often", "changes", "d1min", "d3min"),
    Claim("e4", "a start from zero is worse than the optimized one", "latency", "zero", "optimized"),
    Claim("e4", "a random start is worse than the optimized one", "latency", "random", "optimized"),
    Claim("e5", "alpha .007 is better than .7 on W2", "latency", "0-7", "0-0-0-7", ("w2",)),
    Claim("e6", "levels of 15 s are worse than of 10 s", "latency", "15s", "10s"),
    Claim("e7", "10 min of training are worse than 5", "latency", "10min", "5min"),
    Claim("e7", "20 min of training are better than 5", "latency", "5min", "20min"),
    Claim("e8", "a target of 10 s is missed more often than one of 30 s", "over target", "10s", "30s"),
    Claim("final", "12 executors are better than 8", "latency", "S8", "S12"),
    Claim("final", "12 executors are slightly better than 24", "latency", "S24", "S12"),
    Claim("final", "Q-learning takes fewer executors than Spark's manager", "executors", "SparkRM", "QL"),
    Claim("final", "Q-learning is quicker than Spark's manager", "latency", "SparkRM", "QL"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim on one workload, our seeds paired."""

    claim: Claim
    workload: str
    more: float
    less: float
    p: float  # two-sided
    says: str

    @property
    def holds(self) -> bool:
        return self.says == HOLDS


HOLDS, REVERSED, NOISE = "holds", "reversed", "not beyond noise"


def judge(outcomes: Mapping[Key, Sequence[Outcome]]) -> list[Verdict]:
    """A verdict on every claim whose runs are there, workload by workload."""
    found = []
    for claim in CLAIMS:
        for workload in claim.workloads:
            keys = [(claim.experiment, workload, run) for run in (claim.more, claim.less)]
            if all(key in outcomes for key in keys):
                more, less = (np.array([MEASURES[claim.measure](o) for o in outcomes[key]]) for key in keys)
                found.append(decide_claim(claim, workload, more, less))
    return found


def decide_claim(claim: Claim, workload: str, more: Floats, less: Floats) -> Verdict:
    """Whether the difference is what was claimed, beyond chance."""
    p = paired_p(more - less)
    far = p < SIGNIFICANT
    says = (HOLDS if more.mean() > less.mean() else REVERSED) if far else NOISE
    return Verdict(claim, workload, float(more.mean()), float(less.mean()), p, says)


def paired_p(differences: Floats) -> float:
    """Two-sided p of a mean difference: how often random signs bring it about."""
    signs = np.random.default_rng(0).choice((-1.0, 1.0), (FLIPS, len(differences)))
    reached = np.abs(signs @ differences) >= abs(differences.sum()) * (1.0 - 1e-12)
    return float((1 + np.count_nonzero(reached)) / (1 + FLIPS))
