"""Replay a setting: all operators in topological order, stretch by stretch of the trace, into one Run.

Where operators touch each other only through rates, each is replayed over a whole stretch before the next one: what
one puts out, times selectivities, is what the next takes in. Where they share supply, they are replayed in lockstep.
Standard errors come from block sums.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from scaler.model.kernel import Floats, Integers
from scaler.policies import find_any
from sim.application import order, upstream
from sim.compiler import start_compiling
from sim.holding import HELD_S, MOVED, PEAK
from sim.lockstep import LockstepReplay, shares_anything
from sim.operator_replay import OperatorReplay, begin_replay
from sim.replay import RECONFIGURATIONS, RESOURCES, SLOTS, VIOLATIONS, Record
from sim.setting import (
    Setting,
    Shift,
    check_shifts,
    cut_stretches,
    first_deployment,
    path_limits,
    plan_alone,
    tasks,
)
from sim.side_by_side import LEAST_SLOTS, Piece, cut_pieces, replay_side_by_side

Progress = Callable[[int], None]

STRETCH = 1 << 16  # slots
BLOCKS = 64
MEASURES = ("cost", "violations", "reconfigurations", "resources")


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happened slot by slot; one row per operator."""

    rates: Floats  # [T] external arrival rate
    responses: Floats  # [operators, T] seconds
    actions: Integers  # [operators, T] what was decided in the slot (scaler.model.kernel)
    start: Integers  # [operators, N] replicas in the first slot
    base: Integers  # [operators] of deployment keys

    def replicas(self, operator: int) -> Integers:
        """Replicas by node type in every slot [T, N]."""
        actions, types, base = self.actions[operator], self.start.shape[1], int(self.base[operator])
        replicas = np.zeros((len(actions), types), np.int64)
        for i in range(types):
            replicas[1:, i] = (actions[:-1] == i + 1 + types).astype(np.int64) - (actions[:-1] == i + 1)
        jumps = np.flatnonzero(actions[:-1] < 0) + 1
        first = np.concatenate([[0], jumps])
        replicas[0] = self.start[operator]
        replicas[jumps] = (-1 - actions[jumps - 1])[:, None] // base ** np.arange(types) % base
        for begin, end in pairwise([*first.tolist(), len(actions)]):
            replicas[begin:end] = np.cumsum(replicas[begin:end], axis=0)
        return replicas


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
    held_seconds: float = 0.0  # that reconfigurations held arrivals, each by the share that it held
    moved_bytes: float = 0.0  # of state
    peak_extra_bytes: float = 0.0  # the most memory that a reconfiguration of an operator took
    refused: Floats | None = None  # [operators] mean replicas that were asked for and not to be had; None: no limit


def batch_error(values: Floats, slots: Floats) -> float:
    """Standard error of a mean over slots from its block means, blocks taken for independent.

    values [blocks] are sums over the block's slots; a short last block is left out.
    """
    means = (values / slots)[slots == slots.max()]
    return float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else float("nan")


def simulate(
    setting: Setting,
    seed: int = 0,
    record: bool = False,
    progress: Progress | None = None,
    shifts: Sequence[Shift] = (),
    cores: int = 1,
) -> Run:
    """Replay the whole trace; `progress` is called with the number of slots done after each stretch.

    Operators that share nothing are replayed side by side on as many `cores`; the figures are the same.
    """
    began = time.perf_counter()
    start_compiling()
    check_shifts(setting, shifts)
    rates, stated = setting.trace.rates, tasks(setting)
    operations = [
        begin_replay(task, setting, operator, operator_seed(seed, i))
        for i, (task, operator) in enumerate(zip(stated, setting.application.operators, strict=True))
    ]
    n, block = len(rates), -(-len(rates) // BLOCKS)
    alone = len(operations) == 1 and stated[0].bound == setting.r_max and not setting.path_bounds and not record
    apart = operations[0].policy.kernel.compiles and not shares_anything(setting)
    together = None if apart else LockstepReplay(setting, operations, seed)
    lines = [empty_record(n) for _ in operations] if record else []
    parts = []
    for first, last, shift in cut_stretches(n, block, STRETCH, shifts):
        if shift is not None:
            for operation, task in zip(operations, tasks(shift.setting), strict=True):
                operation.shift(plan_alone(shift.setting, task), shift.announced)
        sums = np.zeros((-(-(last - first) // block), 4))
        if together is not None:
            here = slice(first, last)
            records = [Record(line.response[here], line.output[here], line.action[here]) for line in lines]
            together.advance(rates[here], first, block, sums, records)
        elif alone:
            operations[0].advance(rates[first:last], block, sums, empty_record(0))
        else:
            here = slice(first, last)
            records = [Record(line.response[here], line.output[here], line.action[here]) for line in lines]
            records = records or [empty_record(last - first) for _ in operations]
            advance_all(setting, operations, rates[first:last], block, sums, records, cores)
        parts.append(sums)
        if progress is not None:
            progress(last)
    seconds = time.perf_counter() - began
    refused = None if together is None or not together.finite else together.refused / n
    return summarise(setting, seed, operations, np.concatenate(parts), lines, seconds, refused)


def operator_seed(seed: int, operator: int) -> int:
    """A seed for each operator of a run, unrelated to those of neighbouring runs; one operator alone has the run's."""
    return seed if operator == 0 else int(np.random.SeedSequence([seed, operator]).generate_state(1)[0])


def empty_record(slots: int) -> Record:
    return Record(np.empty(slots), np.empty(slots), np.empty(slots, np.int64))


def advance_all(
    setting: Setting,
    operations: list[OperatorReplay],
    rates: Floats,
    block: int,
    sums: Floats,
    records: list[Record],
    cores: int,
) -> None:
    """One stretch of every operator; a slot is violated if any path is too slow, reconfigured if any operator was.

    A path takes the sum of its operators' response times, of quantiles as of means. The sum of quantiles from .9 on is
    no less than the quantile of the sum: on four operators that are independent of each other p95 is up to 1.6 times,
    p99.9 up to 2.2 times as much, less where they are slow together; medians may come out too low
    (tests/test_path_quantiles.py).
    """
    application, n = setting.application, len(rates)
    feeds, sequence = upstream(application), order(application)
    own = np.zeros((len(operations), *sums.shape))

    def advance(i: int, piece: Piece) -> None:
        inflow = rates[piece] * application.sources.get(application.operators[i].name, 0.0)
        for j, factor in feeds[i]:
            inflow = inflow + records[j].output[piece] * factor
        blocks = own[i, piece.start // block : -(-piece.stop // block)]
        line = records[i]
        operations[i].advance(
            inflow, block, blocks, Record(line.response[piece], line.output[piece], line.action[piece])
        )

    if min(cores, len(operations)) > 1 and n >= LEAST_SLOTS:
        before = [[j for j, _ in each] for each in feeds]
        replay_side_by_side(advance, sequence, before, cut_pieces(n, block))
    else:
        for i in sequence:
            advance(i, slice(0, n))
    for i in sequence:
        sums[:, RESOURCES] += own[i, :, RESOURCES]
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
    refused: Floats | None,
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
    holds = np.array([operation.holds() for operation in operations])
    return Run(
        policy=find_any(setting.policy).title,
        seed=seed,
        slots=int(slots.sum()),
        **means,
        errors={name: batch_error(values, slots) for name, values in blocks.items()},
        blocks={**{name: values / slots for name, values in blocks.items()}, "slots": slots},
        replicas=np.array([operation.held / slots.sum() for operation in operations]),
        policy_bytes=sum(operation.policy.held_bytes() for operation in operations),
        seconds=seconds,
        held_seconds=float(holds[:, HELD_S].sum()),
        moved_bytes=float(holds[:, MOVED].sum()),
        peak_extra_bytes=float(holds[:, PEAK].max()),
        refused=refused,
        timeline=None
        if not lines
        else Timeline(
            rates=setting.trace.rates,
            responses=np.array([line.response for line in lines]),
            actions=np.array([line.action for line in lines]),
            start=np.array([first_deployment(setting, operator) for operator in setting.application.operators]),
            base=np.array([operator.k_max + 1 for operator in setting.application.operators]),
        ),
    )
