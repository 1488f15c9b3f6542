"""Setting of a replay: application, node types, trace, policy, bounds and weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.kernel import Integers
from scaler.model.task import Task, Weights
from sim.application import Application, equal_shares, name_path, order, paths, upstream
from sim.infrastructure import Infrastructure
from sim.plant import Inertia
from sim.replay import PLANTS
from sim.trace import Trace


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
