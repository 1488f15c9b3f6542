"""A whole application slot by slot: every operator in each slot before the next slot, unlike the simulator's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scaler.model.task import Task
from tests.oracles.slots import Controller, Slot, answer, moves, price


@dataclass
class Row:
    violated: bool
    reconfigured: bool
    resources: float


def replay_application(
    tasks: Sequence[Task],
    controllers: Sequence[Controller],
    order: Sequence[int],
    inflow: Callable[[int, float, dict[int, float]], float],  # operator, external rate, outputs so far -> its rate
    paths: Sequence[Sequence[int]],
    r_max: float,
    rates: Sequence[float],
) -> list[Row]:
    """One row a slot: is any path too slow, was any operator changed, what did all replicas cost."""
    deployments = [tuple(int(i == 0) for i in range(len(task.types))) for task in tasks]
    before: list[Slot | None] = [None] * len(tasks)
    rows = []
    for external in rates:
        outputs: dict[int, float] = {}
        slots: dict[int, Slot] = {}
        for i in order:
            rate = inflow(i, external, outputs)
            utilisation, response, output = answer(tasks[i], deployments[i], rate)
            outputs[i] = output
            slots[i] = Slot(rate, deployments[i], utilisation, response, response > tasks[i].bound, output)
            slots[i].action = controllers[i](slots[i], before[i])
        rows.append(
            Row(
                violated=any(sum(slots[i].response for i in path) > r_max for path in paths),
                reconfigured=any(slot.action != 0 for slot in slots.values()),
                resources=sum(price(task, slots[i].deployment) for i, task in enumerate(tasks)),
            )
        )
        for i, slot in slots.items():
            deployments[i] = moves(tasks[i], slot.deployment)[slot.action]
            before[i] = slot
    return rows
