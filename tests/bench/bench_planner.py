"""What a decision of the planner costs, planning included: compiled on average, and uncompiled at the slowest.

Where changes are of any size, and where they are of one replica at a time.

python -m tests.bench.bench_planner
"""

from __future__ import annotations

import time

import numpy as np

from scaler.model.kernel import Floats, lay_out, view_deployment
from scaler.model.nodes import NodeType
from scaler.model.policy import Kernel, Policy, Start
from scaler.model.task import Moments, Task
from scaler.policies.planner.planner import PLANNER
from scaler.policies.rules.threshold import THRESHOLD_C
from sim.infrastructure import find_infrastructure
from sim.plant import memoryless
from sim.replay import apply_action
from sim.replicas import Inertia, fresh_plant
from tests.examples import make_rates, replay

BUDGET_US, BUDGET_MS = 300.0, 50.0


def state_task(types: int, k_max: int, one_at_a_time: bool = True) -> Task:
    """Types of infrastructure A."""
    nodes: tuple[NodeType, ...] = find_infrastructure("A").types[:types]
    moments = Moments(1 / 180, 0.5 / 180**2)
    return Task(nodes, k_max, moments, 0.05, highest_rate=650.0, one_at_a_time=one_at_a_time)


def compiled_us(kernel: Kernel, task: Task, rates: Floats) -> float:
    """Processor time of a slot in the compiled loop, compilation left out."""
    for part in (rates[:100], rates):
        began = time.process_time()
        replay(task, part, kernel)
        took = time.process_time() - began
    return 1e6 * took / len(rates)


def slowest_plain_ms(one_at_a_time: bool, slots: int = 2000) -> float:
    """The slowest learning and deciding of one slot in plain Python at three types and ten replicas."""
    task = state_task(3, 10, one_at_a_time)
    p, policy = lay_out(task), Policy(PLANNER, Start(task, task))
    k, held = np.array([1, 0, 0]), np.zeros(3, np.int64)
    plant = fresh_plant(p, k, Inertia())
    before, action, slowest = None, 0, 0.0
    for rate in make_rates(slots).tolist():
        count = int(k.sum())
        slow = view_deployment(p, k, rate, 0.0, 0.0).slowest
        utilisation, response, _ = memoryless(p, plant, k, count, slow, rate)
        seen = view_deployment(p, k, rate, utilisation, response)
        began = time.process_time()
        if before is not None:
            policy.absorb(k, before, action, seen)
        action = policy.choose(k, seen)
        slowest = max(slowest, time.process_time() - began)
        if action != 0:
            apply_action(p, k, action, held, 0)
        before = seen
    return 1e3 * slowest


def main() -> None:
    rates = make_rates(50_000)
    for one_at_a_time in (True, False):
        print("one replica at a time" if one_at_a_time else "changes of any size")
        for types, k_max in ((3, 10), (3, 20), (6, 20), (10, 20)):
            task = state_task(types, k_max, one_at_a_time)
            took, other = compiled_us(PLANNER, task, rates), compiled_us(THRESHOLD_C, task, rates)
            held = PLANNER.measure(PLANNER.prepare(Start(task, task))) / 2**20
            line = f"  {types} types, {k_max} replicas: {took:.1f} us a decision, {took / BUDGET_US:.3f} of budget"
            print(f"{line}, {took / other:.0f} times a threshold's, {held:.1f} MiB held")
        slowest = slowest_plain_ms(one_at_a_time)
        print(f"  plain Python, 3 types, 10 replicas: slowest {slowest:.1f} ms, {slowest / BUDGET_MS:.2f} of budget")


if __name__ == "__main__":
    main()
