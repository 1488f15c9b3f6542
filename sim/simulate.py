"""Replay a setting: all operators in topological order, stretch by stretch of the trace, into one Run.

Operators touch each other only through rates, so that each is replayed over a whole stretch before the next one: what
one puts out, times selectivities, is what the next takes in. Standard errors come from block sums.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from scaler.model.kernel import Floats, Integers, Problem, lay_out
from scaler.model.policy import build_policy
from scaler.model.task import Task
from scaler.policies import find_policy
from sim.application import order, upstream
from sim.compiler import start_compiling
from sim.plant import fresh_plant
from sim.replay import RECONFIGURATIONS, RESOURCES, SLOTS, VIOLATIONS, Record, fresh_baton, loop_for, walk
from sim.setting import Setting, Shift, check_shifts, cut_stretches, first_deployment, path_limits, perturb_model, tasks

Progress = Callable[[int], None]

STRETCH = 1 << 16  # slots
BLOCKS = 64
MEASURES = ("cost", "violations", "reconfigurations", "resources")


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happened slot by slot; one row per operator."""

    rates: Floats  # [T] external arrival rate
    responses: Floats  # [operators, T] seconds
    actions: Integers  # [operators, T] codes of what was decided in the slot
    start: Integers  # [operators, N] replicas in the first slot

    def replicas(self, operator: int) -> Integers:
        """Replicas by node type in every slot [T, N]."""
        types = self.start.shape[1]
        codes = self.actions[operator]
        changes = np.zeros((len(codes) + 1, types), np.int64)
        changes[0] = self.start[operator]
        for i in range(types):
            changes[1:, i] = (codes == i + 1 + types).astype(np.int64) - (codes == i + 1)
        return np.cumsum(changes, axis=0)[:-1]


@dataclass(frozen=True, slots=True)
class Run:
    """Averages over all slots. Violations and reconfigurations are fractions, resources a price per hour."""

    policy: str  # the title the literature knows it by
    seed: int
    slots: int
    cost: float
    violations: float
    reconfigurations: float
    resources: float
    errors: dict[str, float]  # standard error of each of the above, from batch means
    replicas: Floats  # [operators, N] mean replicas by node type
    policy_bytes: int  # held by the policies' tables at the end
    seconds: float
    timeline: Timeline | None = None
    blocks: Mapping[str, Floats] = field(default_factory=dict)  # each measure's means, block by block


def batch_error(values: Floats, slots: Floats) -> float:
    """Standard error of a mean over slots from its block means, blocks taken for independent.

    values [blocks] are sums over the block's slots; a short last block is left out.
    """
    means = (values / slots)[slots == slots.max()]
    return float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else float("nan")


class OperatorReplay:
    """One operator in the course of a replay: its policy, its plant, its replicas."""

    def __init__(self, task: Task, setting: Setting, seed: int) -> None:
        self.told: Problem = lay_out(task)
        self.truth = self.told
        self.k: Integers = first_deployment(setting)
        self.held: Integers = np.zeros_like(self.k)
        self.plant = fresh_plant(self.told, self.k, setting.inertia)
        self.plant_kind = setting.plant
        self.baton = fresh_baton()
        model = perturb_model(task, seed) if setting.perturbed else task
        self.policy = build_policy(find_policy(setting.policy), task, seed, setting.options, model)

    def shift(self, task: Task, announced: bool) -> None:
        """Continue under other constants, announced to the policy or not."""
        self.truth = lay_out(task)
        if announced:
            self.told = self.truth

    def advance(self, rates: Floats, block: int, sums: Floats, record: Record) -> None:
        """Replay one stretch."""
        rates = rates[:]
        rates.flags.writeable = False  # numba compiles once more for an array it may write to
        world = (self.plant, self.k, self.baton, rates, block, sums, self.held, record)
        policy, kernel = self.policy, self.policy.kernel
        if kernel.compiles:
            policy.state = kernel.grow(policy.state, len(rates))
            loop_for(kernel, self.plant_kind)(self.told, self.truth, policy.state, *world)
        else:
            walk(self.told, self.truth, policy, self.plant_kind, *world)


def simulate(
    setting: Setting,
    seed: int = 0,
    record: bool = False,
    progress: Progress | None = None,
    shifts: Sequence[Shift] = (),
) -> Run:
    """Replay the whole trace; `progress` is called with the number of slots done after each stretch."""
    began = time.perf_counter()
    start_compiling()
    check_shifts(setting, shifts)
    rates, stated = setting.trace.rates, tasks(setting)
    operations = [OperatorReplay(task, setting, operator_seed(seed, i)) for i, task in enumerate(stated)]
    n, block = len(rates), -(-len(rates) // BLOCKS)
    alone = len(operations) == 1 and stated[0].bound == setting.r_max and not setting.path_bounds and not record
    lines = [empty_record(n) for _ in operations] if record else []
    parts = []
    for first, last, shift in cut_stretches(n, block, STRETCH, shifts):
        if shift is not None:
            for operation, task in zip(operations, tasks(shift.setting), strict=True):
                operation.shift(task, shift.announced)
        sums = np.zeros((-(-(last - first) // block), 4))
        if alone:
            operations[0].advance(rates[first:last], block, sums, empty_record(0))
        else:
            here = slice(first, last)
            records = [Record(line.response[here], line.output[here], line.action[here]) for line in lines]
            records = records or [empty_record(last - first) for _ in operations]
            advance_all(setting, operations, rates[first:last], block, sums, records)
        parts.append(sums)
        if progress is not None:
            progress(last)
    return summarise(setting, seed, operations, np.concatenate(parts), lines, time.perf_counter() - began)


def operator_seed(seed: int, operator: int) -> int:
    """A seed for each operator of a run, unrelated to those of neighbouring runs; one operator alone has the run's."""
    return seed if operator == 0 else int(np.random.SeedSequence([seed, operator]).generate_state(1)[0])


def empty_record(slots: int) -> Record:
    return Record(np.empty(slots), np.empty(slots), np.empty(slots, np.int8))


def advance_all(
    setting: Setting, operations: list[OperatorReplay], rates: Floats, block: int, sums: Floats, records: list[Record]
) -> None:
    """One stretch of every operator; a slot is violated if any path is too slow, reconfigured if any operator was."""
    application, n = setting.application, len(rates)
    feeds = upstream(application)
    for i in order(application):
        share = application.sources.get(application.operators[i].name, 0.0)
        inflow = rates * share
        for j, factor in feeds[i]:
            inflow = inflow + records[j].output * factor
        own = np.zeros_like(sums)
        operations[i].advance(inflow, block, own, records[i])
        sums[:, RESOURCES] += own[:, RESOURCES]
    slow = np.zeros(n, bool)
    for path, limit in path_limits(setting).items():
        slow |= sum(records[i].response for i in path) > limit
    moved = np.zeros(n, bool)
    for one in records:
        moved |= one.action != 0
    starts = np.arange(0, n, block)
    sums[:, VIOLATIONS] += np.add.reduceat(slow, starts, dtype=np.float64)
    sums[:, RECONFIGURATIONS] += np.add.reduceat(moved, starts, dtype=np.float64)
    sums[:, SLOTS] += np.diff(np.append(starts, n))


def summarise(
    setting: Setting,
    seed: int,
    operations: list[OperatorReplay],
    sums: Floats,
    lines: list[Record],
    seconds: float,
) -> Run:
    """Averages over all slots and their standard errors."""
    w = setting.weights
    dearest = sum(task.dearest for task in tasks(setting))
    slots = sums[:, SLOTS]
    columns = {"violations": VIOLATIONS, "reconfigurations": RECONFIGURATIONS, "resources": RESOURCES}
    blocks = {name: sums[:, column] for name, column in columns.items()}
    blocks["cost"] = (
        w.performance * blocks["violations"]
        + w.reconfiguration * blocks["reconfigurations"]
        + w.resources * blocks["resources"] / dearest
    )
    means = {name: float(values.sum() / slots.sum()) for name, values in blocks.items()}
    return Run(
        policy=operations[0].policy.kernel.title,
        seed=seed,
        slots=int(slots.sum()),
        **means,
        errors={name: batch_error(values, slots) for name, values in blocks.items()},
        blocks={**{name: values / slots for name, values in blocks.items()}, "slots": slots},
        replicas=np.array([operation.held / slots.sum() for operation in operations]),
        policy_bytes=sum(operation.policy.held_bytes() for operation in operations),
        seconds=seconds,
        timeline=None
        if not lines
        else Timeline(
            rates=setting.trace.rates,
            responses=np.array([line.response for line in lines]),
            actions=np.array([line.action for line in lines]),
            start=np.array([first_deployment(setting)] * len(lines)),
        ),
    )
