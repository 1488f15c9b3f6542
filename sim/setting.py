"""Setting of a replay (application, node types, trace, policy, bounds, weights), its shifts, perturbed models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.kernel import Integers
from scaler.model.task import Moments, Task, Weights
from sim.application import Application, equal_shares, name_path, order, paths, upstream
from sim.infrastructure import Infrastructure
from sim.plant import Inertia
from sim.replay import PLANTS
from sim.trace import Trace

RATE_ERROR = (0.05, 0.10)
SPEEDUP_ERROR = 0.20


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything a replay needs but its seed."""

    application: Application
    infrastructure: Infrastructure
    trace: Trace
    policy: str
    r_max: float
    bounds: Mapping[str, float] = field(default_factory=dict)  # by operator; missing ones get an equal share of R_max
    weights: Weights = field(default_factory=Weights)
    highest_rate: float | None = None  # of the external stream, for the rate levels; None: the trace's peak
    levels: int = 30
    gamma: float = 0.99
    options: Mapping[str, Any] = field(default_factory=dict)  # the policy's own
    start: str | None = None  # node type of the first replica; None: the infrastructure's first
    plant: str = "memoryless"
    inertia: Inertia = field(default_factory=Inertia)
    path_bounds: Mapping[str, float] = field(default_factory=dict)  # by path, "parse -> count"; others are due in R_max
    perturbed: bool = False  # whether policies start from a perturbed service model, as in the published world

    def __post_init__(self) -> None:
        if self.plant not in PLANTS:
            raise BadInput(f"there is no plant {self.plant!r}; choose one of {', '.join(PLANTS)}")
        if not self.r_max > 0.0:
            raise BadInput(f"R_max is {self.r_max} s, and must be positive")
        if self.highest_rate is not None and not self.highest_rate > 0.0:
            raise BadInput(f"the highest rate is {self.highest_rate}, and must be positive")
        types = [node.name for node in self.infrastructure.types]
        if self.start is not None and self.start not in types:
            raise BadInput(f"the first replica is on {self.start!r}; {self.infrastructure.name} has {', '.join(types)}")
        names = [operator.name for operator in self.application.operators]
        for name in self.bounds:
            if name not in names:
                known = f"{self.application.name} has {', '.join(names)}"
                raise BadInput(f"a latency bound names operator {name!r}; {known}")
        if self.path_bounds:
            path_limits(self)


def path_limits(setting: Setting) -> dict[tuple[int, ...], float]:
    """Seconds in which an answer is due along every path."""
    application, stated = setting.application, dict(setting.path_bounds)
    limits = {path: stated.pop(name_path(application, path), setting.r_max) for path in paths(application)}
    if stated:
        known = [name_path(application, path) for path in limits]
        raise BadInput(
            f"a bound is given for the path {next(iter(stated))!r}; the paths are {', '.join(known[:5])}"
            + (", ..." if len(known) > 5 else "")
        )
    if not min(limits.values()) > 0.0:
        raise BadInput(f"the bound of a path is {min(limits.values())} s, and must be positive")
    return limits


def gains(application: Application) -> list[float]:
    """Tuples that reach each operator per tuple of the external stream, nothing being held up."""
    gain = [0.0] * len(application.operators)
    feeds = upstream(application)
    for i in order(application):
        gain[i] = application.sources.get(application.operators[i].name, 0.0)
        gain[i] += sum(gain[j] * factor for j, factor in feeds[i])
    return gain


def tasks(setting: Setting) -> list[Task]:
    """Each operator's own scaling problem."""
    application, infrastructure = setting.application, setting.infrastructure
    shares = equal_shares(application, setting.r_max)
    peak = setting.highest_rate if setting.highest_rate is not None else float(setting.trace.rates.max())
    return [
        Task(
            types=infrastructure.types,
            k_max=operator.k_max,
            moments=operator.moments,
            bound=setting.bounds.get(operator.name, shares[operator.name]),
            weights=setting.weights,
            highest_rate=peak * gain if peak * gain > 0.0 else 1.0,
            levels=setting.levels,
            gamma=setting.gamma,
            normaliser=operator.k_max * infrastructure.normaliser_price,
        )
        for operator, gain in zip(application.operators, gains(application), strict=True)
    ]


def first_deployment(setting: Setting) -> Integers:
    """One replica, on the type it is to start on."""
    names = [node.name for node in setting.infrastructure.types]
    k = np.zeros(len(names), np.int64)
    k[0 if setting.start is None else names.index(setting.start)] = 1
    return k


def perturb_model(task: Task, seed: int) -> Task:
    """Perturb a service model on purpose, with errors drawn from this seed, as the paper's experiments do.

    The service rate is 5 to 10 % off in either direction and taken for exponential; each speedup is up to 20 % off
    without changing the order of the node types. Production never does so: it starts from the surrogate's figures.
    """
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


@dataclass(frozen=True, slots=True)
class Shift:
    """From slot `at` on the operators are as `setting` states; policies learn of it if it is announced.

    Prices are always what the setting says; bounds, weights and the policy's constants change only when announced.
    """

    at: int
    setting: Setting
    announced: bool = True


def check_shifts(setting: Setting, shifts: Sequence[Shift]) -> None:
    """Refuse a shift that changes more than the constants of the same operators on the same number of types."""
    last = 0
    for shift in shifts:
        if not last < shift.at < len(setting.trace.rates):
            raise BadInput(f"a shift at slot {shift.at} must lie after slot {last} and inside the trace")
        other = shift.setting
        same = other.application.edges == setting.application.edges and [
            operator.k_max for operator in other.application.operators
        ] == [operator.k_max for operator in setting.application.operators]
        if not same or len(other.infrastructure.types) != len(setting.infrastructure.types):
            raise BadInput("a shift keeps the operators, their most replicas and the number of node types")
        last = shift.at


def cut_stretches(
    slots: int, block: int, most: int, shifts: Sequence[Shift]
) -> Iterator[tuple[int, int, Shift | None]]:
    """Stretches [first, last) of whole blocks, at most about `most` slots, none across a shift."""
    bounds = [0, *(shift.at for shift in shifts), slots]
    stretch = block * max(1, most // block)
    for i, (start, end) in enumerate(pairwise(bounds)):
        for first in range(start, end, stretch):
            yield first, min(end, first + stretch), shifts[i - 1] if i > 0 and first == start else None
