"""Small problems that tests share, and the replay of one operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from scaler.model.jit import use_compiler
from scaler.model.joint_changes import UNLIMITED, open_account
from scaler.model.kernel import Floats, Integers, lay_out
from scaler.model.nodes import NodeType
from scaler.model.policy import Kernel, Policy, Start
from scaler.model.task import Moments, Task, Weights
from sim.compiler import start_compiling
from sim.lockstep import decide_each, walk_together
from sim.operator_replay import OperatorReplay
from sim.replay import Record, fresh_baton, loop_for
from sim.replicas import Inertia, Plant, fresh_plant
from sim.setting import perturb_model
from sim.sharing import NO_LIMIT, Links, gather, keep

SPEEDS = (1.0, 0.7, 1.3, 0.9, 1.7)


def make_task(types: int = 3, k_max: int = 4, gamma: float = 0.99, levels: int = 10, **changes: object) -> Task:
    """One operator of 180 tuples per second within 50 ms, one replica a slot, on first speeds of infrastructure A."""
    fields: dict[str, object] = {
        "types": tuple(NodeType(f"A{i + 1}", s, s) for i, s in enumerate(SPEEDS[:types])),
        "k_max": k_max,
        "moments": Moments(1 / 180, (1 / 180) ** 2 / 2),
        "bound": 0.05,
        "weights": Weights(),
        "highest_rate": 650.0,
        "levels": levels,
        "gamma": gamma,
        "one_at_a_time": True,
    }
    return Task(**(fields | changes))  # type: ignore[arg-type]


def make_rates(slots: int, seed: int = 0, low: float = 20.0, high: float = 620.0) -> Floats:
    """A rate that wanders between two limits, with noise."""
    rng = np.random.default_rng(seed)
    wave = (np.sin(np.arange(slots) / 37.0) + 1.0) / 2.0
    return np.clip(low + (high - low) * wave + rng.normal(0.0, 15.0, slots), 0.0, None)


@contextmanager
def interpreted() -> Iterator[None]:
    """Have policies that are built here run as plain Python, as in a driver."""
    use_compiler(None)
    yield
    start_compiling()


class Replayed(NamedTuple):
    """A replay and where it ended."""

    record: Record
    sums: Floats  # [blocks, 4]
    held: Integers  # [N] slots of a replica
    k: Integers  # [N] the last deployment
    state: Any  # the kernel's; None of a policy that is no kernel
    cost: float  # means over all slots
    violations: float
    reconfigurations: float

    @property
    def actions(self) -> list[int]:
        return self.record.action.tolist()


def replay_plainly(
    operation: OperatorReplay, task: Task, rates: Floats, block: int, sums: Floats, record: Record
) -> None:
    """One stretch in Python, by the loop of replays in lockstep."""
    none, one = np.zeros(0, np.int64), np.zeros(1, np.int64)
    ends = np.array([0, 1])
    endless = np.full(len(task.types), NO_LIMIT)
    links = Links(
        one,
        np.ones(1),
        np.zeros(2, np.int64),
        none,
        np.zeros(0),
        ends,
        one,
        np.array([task.bound]),
        endless,
        one,
        False,
        False,
        0.0,
        UNLIMITED,
    )
    course = gather([operation], np.zeros(1, np.int64), open_account(None), len(rates))
    walk_together(
        [operation], decide_each([operation], False), links, course, rates, np.zeros((0, len(task.types))), block, sums
    )
    keep(course, [operation], [record])


def replay(
    task: Task,
    rates: Floats,
    kind: Kernel | Policy,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    *,
    perturbed: bool = False,
    plant: str = "memoryless",
    first: Sequence[int] | None = None,
    block: int | None = None,
    parts: int = 1,
    world: Plant | None = None,
) -> Replayed:
    """Replay one operator's rates in `parts` stretches: a kernel in the compiled loop, a policy in the plain one."""
    p, n, model = lay_out(task), len(rates), perturb_model(task, seed) if perturbed else task
    k = np.array(first or (1, *[0] * (len(task.types) - 1)), np.int64)
    block = block or -(-n // parts)
    record = Record(np.empty(n), np.empty(n), np.empty(n, np.int64))
    rates = rates[:]
    rates.flags.writeable = False  # as in simulate, so that one loop is compiled
    held, baton, sums, state = np.zeros_like(k), fresh_baton(), [], None
    world = world or fresh_plant(p, k, Inertia())
    if isinstance(kind, Kernel):
        state = kind.grow(kind.prepare(Start(task, model, seed, options or {})), n)
    for part in np.array_split(np.arange(n), parts):
        stretch = slice(part[0], part[-1] + 1)
        rows, lines = np.zeros((-(-len(part) // block), 4)), Record(*(line[stretch] for line in record))
        if isinstance(kind, Kernel):
            loop_for(kind, plant, p.one_at_a_time)(
                p, p, state, world, k, baton, rates[stretch], block, rows, held, lines
            )
        else:
            operation = OperatorReplay(p, p, kind, plant, world, k, held, baton)
            replay_plainly(operation, task, rates[stretch], block, rows, lines)
        sums.append(rows)
    violations, reconfigurations, resources, slots = np.concatenate(sums).sum(axis=0)
    cost = (p.w_perf * violations + p.w_rcf * reconfigurations + p.w_res * resources) / slots
    return Replayed(record, np.concatenate(sums), held, k, state, cost, violations / slots, reconfigurations / slots)
