"""Setting of a replay (application, node types, trace, policy, bounds, weights), its shifts, perturbed models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from scaler.model.change_budget import ChangeBudget, share_pause
from scaler.model.errors import BadInput, suggest
from scaler.model.kernel import Integers
from scaler.model.task import Moments, Task, Weights, check_quantile
from sim.application import Application, Operator, equal_shares, name_path, order, paths, upstream
from sim.hold_law import HoldLaw
from sim.infrastructure import Infrastructure
from sim.migration import Migration, lay_out_hold
from sim.plants import PLANTS
from sim.replicas import Inertia
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
    first: Mapping[str, int] = field(default_factory=dict)  # replicas of every operator in the first slot, by node
    # type; empty: k_min of the infrastructure's first type
    one_at_a_time: bool | None = None  # whether a change is of one replica; None: in the published world alone
    plant: str = "memoryless"
    inertia: Inertia = field(default_factory=Inertia)
    path_bounds: Mapping[str, float] = field(default_factory=dict)  # by path, "parse -> count"; others are due in R_max
    perturbed: bool = False  # whether policies start from a perturbed service model, as in the published world
    perturbs_rate: bool = False  # then: its rate is off, as the text has it, and not its mean, as the tables have it
    quantile: float | None = None  # of response times that R_max and bounds are about; None: their mean
    migration: Migration = field(default_factory=Migration)  # how state moves; sizes are the operators'
    together: bool = False  # whether operators make changes together that do not pay alone
    change_budget: ChangeBudget | None = None  # of the application, which keeps eta_R

    def __post_init__(self) -> None:
        if self.plant not in PLANTS:
            raise BadInput(f"there is no plant {self.plant!r}; {suggest(self.plant, PLANTS)}")
        check_quantile(self.quantile)
        if not self.r_max > 0.0:
            raise BadInput(f"R_max is {self.r_max} s, and must be positive")
        if self.highest_rate is not None and not self.highest_rate > 0.0:
            raise BadInput(f"the highest rate is {self.highest_rate}, and must be positive")
        check_first(self)
        check_supply(self)
        names = [operator.name for operator in self.application.operators]
        if self.plant == "batches":
            check_batches(self.application)
        check_migration(self)
        for name in self.bounds:
            if name not in names:
                known = suggest(name, names, f"{self.application.name} has {{}}")
                raise BadInput(f"a latency bound names operator {name!r}; {known}")
        if self.path_bounds:
            path_limits(self)


def check_first(setting: Setting) -> None:
    types = [node.name for node in setting.infrastructure.types]
    for name, count in setting.first.items():
        if name not in types:
            known = suggest(name, types, f"{setting.infrastructure.name} has {{}}")
            raise BadInput(f"the first replicas are on {name!r}; {known}")
        if count < 0:
            raise BadInput(f"the first replicas on {name!r} are {count}, and must be 0 or more")
    total = sum(setting.first.values())
    for operator in setting.application.operators if setting.first else ():
        if not operator.k_min <= total <= operator.k_max:
            limits = f"{operator.name!r} has from {operator.k_min} to {operator.k_max}"
            raise BadInput(f"the first replicas are {total} in all, and operator {limits}")


def check_supply(setting: Setting) -> None:
    first = sum(first_deployment(setting, operator) for operator in setting.application.operators)
    for node, many in zip(setting.infrastructure.types, np.atleast_1d(first).tolist(), strict=True):
        supply = node.supply
        if supply.capacity is not None and many > supply.capacity:
            raise BadInput(
                f"the operators start with {many} replicas on {node.name!r}, and its capacity is {supply.capacity}; "
                "raise the capacity, or state the first replicas"
            )
        if setting.plant == "memoryless" and (supply.lost_per_hour > 0.0 or supply.start_s):
            raise BadInput(
                f"replicas on {node.name!r} take time to start or are taken away, and the plant memoryless knows no "
                "time: choose backlog or batches"
            )


def check_batches(application: Application) -> None:
    if all(operator.batches is None for operator in application.operators):
        raise BadInput(
            f"the plant is batches, and no operator of {application.name!r} states any; give those that run in "
            "micro-batches a table such as batches = {trigger_s = 10, overhead_s = 0.5}"
        )


def check_migration(setting: Setting) -> None:
    kind = setting.migration.kind
    if kind == "none":
        return
    if setting.plant == "memoryless":
        raise BadInput(f"the migration is {kind}, and in the plant memoryless nothing waits; choose backlog or batches")
    for operator in setting.application.operators:
        if operator.stateful and operator.state_bytes == 0.0 and operator.state_growth == 0.0:
            raise BadInput(
                f"the migration is {kind}, and nothing is known of the state of operator {operator.name!r}, which is "
                "stateful; give it state_bytes and partitions"
            )


def hold_law(setting: Setting, operator: Operator) -> HoldLaw:
    """What a change of the operator holds: as measured where it was, else by the setting's migration.

    An operator that was measured runs on Spark: what is not known of it Spark's model says, where its state is known.
    """
    move = replace(setting.migration, state_bytes=operator.state_bytes, partitions=operator.partitions)
    if move.kind == "none" and operator.hold is not None and operator.partitions > 0:
        move = replace(move, kind="spark")
    work = operator.batches.work if operator.batches is not None and setting.plant == "batches" else 1.0
    return lay_out_hold(move, operator.state_growth, operator.hold, work)


def path_limits(setting: Setting) -> dict[tuple[int, ...], float]:
    """Seconds in which an answer is due along every path."""
    application, stated = setting.application, dict(setting.path_bounds)
    limits = {path: stated.pop(name_path(application, path), setting.r_max) for path in paths(application)}
    if stated:
        wrong, known = next(iter(stated)), [name_path(application, path) for path in limits]
        near = suggest(wrong, known[:5], "the paths are {}" + (", ..." if len(known) > 5 else ""))
        raise BadInput(f"a bound is given for the path {wrong!r}; {near}")
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
            k_min=operator.k_min,
            one_at_a_time=is_one_at_a_time(setting),
            moments=operator.moments,
            bound=setting.bounds.get(operator.name, shares[operator.name]),
            weights=setting.weights,
            highest_rate=peak * gain if peak * gain > 0.0 else 1.0,
            levels=setting.levels,
            gamma=setting.gamma,
            normaliser=operator.k_max * infrastructure.normaliser_price,
            batches=operator.batches if setting.plant == "batches" else None,
            hold=operator.hold if setting.plant != "memoryless" else None,
            slot_s=setting.inertia.slot_s,
            quantile=setting.quantile,
        )
        for operator, gain in zip(application.operators, gains(application), strict=True)
    ]


def is_joint(setting: Setting) -> bool:
    """Whether operators decide together, of which there must be several."""
    return setting.together and len(setting.application.operators) > 1


def plan_alone(setting: Setting, task: Task) -> Task:
    """The task as the operator's policy plans it: where others share the price of a pause, with a part of that."""
    return share_pause(task, len(setting.application.operators)) if is_joint(setting) else task


def is_supply_ample(setting: Setting) -> bool:
    """Whether all operators together may have as many replicas of every node type as they ever want."""
    wanted = sum(operator.k_max for operator in setting.application.operators)
    capacities = [node.supply.capacity for node in setting.infrastructure.types]
    return all(capacity is None or capacity >= wanted for capacity in capacities)


def is_one_at_a_time(setting: Setting) -> bool:
    """Whether a change is of one replica: as stated, else in the published world alone."""
    return setting.plant == "memoryless" if setting.one_at_a_time is None else setting.one_at_a_time


def first_deployment(setting: Setting, operator: Operator) -> Integers:
    """The replicas that an operator starts with, by node type."""
    names = [node.name for node in setting.infrastructure.types]
    first = setting.first or {names[0]: operator.k_min}
    return np.array([first.get(name, 0) for name in names], np.int64)


def perturb_model(task: Task, seed: int, of_rate: bool = False) -> Task:
    """Perturb a service model on purpose, with errors drawn from this seed, as the paper's experiments do.

    The mean service time (`of_rate`: the service rate, as the text has it; with the mean more of the published cells
    agree) is 5 to 10 % off in either direction and taken for exponential; each speedup is up to 20 % off without
    changing the order of the node types. Production never does so: it starts from the surrogate's figures.
    """
    rng = np.random.default_rng([seed, 0xBE11EF])
    sign = 1.0 if rng.random() < 0.5 else -1.0
    error = 1.0 + sign * rng.uniform(*RATE_ERROR)
    mean = task.moments.mean / error if of_rate else task.moments.mean * error
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
        if other.quantile != setting.quantile:
            raise BadInput("a shift keeps the quantile of response times that bounds are about")
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
