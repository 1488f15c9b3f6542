"""Policies in the world of Spark users: micro-batches, start-ups of a slot, a 95 % quantile, changes of any size.

python -m tests.bench.bench_spark_world [--seeds 10] [--days 6] [--other] [--policies planner threshold-p ...]

Six kinds of load, each drawn anew for each seed; `--other`: six others, on which no constant of the planner was chosen.
Printed are, by policy, its cost as multiples of this world's floor (geometric mean and worst; the floor knows the
future, so it is the lower the more suddenly loads rise), late slots, changes and price; and in how many cells each is
the cheapest of those late in at most 5 % of slots. Then, by load, what the first policy's cost consists of.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator

import numpy as np

from scaler.model.micro_batches import MicroBatches
from scaler.model.nodes import NodeType
from scaler.model.task import Moments, Weights
from sim.application import Application, Operator
from sim.arrivals import generate, mmpp, spike
from sim.infrastructure import Infrastructure
from sim.replicas import Inertia
from sim.setting import Setting
from sim.simulate import Run, simulate
from sim.trace import Trace
from tuner.simulation.comparison import find_floor

SLOT_S, DAY, BOUND, QUANTILE, LATE = 60.0, 1440, 30.0, 0.95, 0.05
NODES = (NodeType("small", 1.0, 1.0), NodeType("medium", 1.8, 2.0), NodeType("large", 3.4, 4.0))
COUNT = Operator("count", Moments(0.01, 0.5e-4), 12, batches=MicroBatches(trigger_s=10.0, overhead_s=1.0))
POLICIES = ("planner", "threshold-p", "ds2-p", "flink-p", "spark-ratio-p", "static")


def list_loads(slots: int, seed: int) -> Iterator[tuple[str, Trace]]:
    """Tuples per second, slot by slot."""
    rng = np.random.default_rng(seed)
    times = np.arange(slots)
    day = 300.0 - 200.0 * np.cos(2.0 * np.pi * times / DAY)
    yield "daily", Trace(np.maximum(0.0, day + 2.0 * np.sqrt(day) * rng.standard_normal(slots)), SLOT_S)
    yield "regimes", mmpp([80.0, 250.0, 600.0], 40.0, slots, seed, SLOT_S)
    yield "spikes", spike(100.0, 700.0, slots, 400, 20, seed, SLOT_S)
    bursts = np.full(slots, 120.0)
    for begin in np.flatnonzero(rng.random(slots) < 1.0 / 300.0):
        bursts[begin : begin + rng.integers(10, 30)] = rng.uniform(200.0, 600.0)
    yield "bursts", Trace(np.maximum(0.0, bursts + rng.normal(0.0, 5.0, slots)), SLOT_S)
    steps = np.repeat(rng.uniform(50.0, 800.0, slots // 240), 240)
    yield "steps", Trace(np.maximum(0.0, steps + rng.normal(0.0, 10.0, steps.size)), SLOT_S)
    walk = np.exp(np.cumsum(rng.normal(0.0, 0.03, slots)))
    yield "walk", Trace(np.clip(200.0 * walk / np.median(walk), 10.0, 900.0), SLOT_S)


def list_other_loads(slots: int, seed: int) -> Iterator[tuple[str, Trace]]:
    """Loads of other kinds, which no constant of the planner was chosen by."""
    rng = np.random.default_rng(1000 + seed)
    times = np.arange(slots)
    week = generate("diurnal", low=60.0, high=550.0, slots=slots, seed=seed, weekend=0.5, noise=400.0)
    yield "week", Trace(week.rates, SLOT_S)
    hourly = 150.0 + 250.0 * (times % 60 < 8) + 60.0 * np.sin(2.0 * np.pi * times / DAY)
    yield "hourly", Trace(np.maximum(0.0, hourly + rng.normal(0.0, 12.0, slots)), SLOT_S)
    yield "chain", mmpp([50.0, 150.0, 400.0, 900.0], 120.0, slots, seed, SLOT_S)
    gusts = np.zeros(slots)
    for t in range(1, slots):
        gusts[t] = 0.9 * gusts[t - 1] + rng.normal(0.0, 0.12)
    yield "gusts", Trace(np.clip(250.0 * np.exp(gusts), 5.0, 1000.0), SLOT_S)
    ramps = np.concatenate(
        [np.linspace(80.0, rng.uniform(150.0, 850.0), rng.integers(40, 300)) for _ in range(slots // 40)]
    )
    yield "ramps", Trace(np.maximum(0.0, ramps[:slots] + rng.normal(0.0, 8.0, slots)), SLOT_S)
    queues = np.full(slots, 160.0)
    for begin in np.flatnonzero(rng.random(slots) < 1.0 / 500.0):
        queues[begin : begin + rng.geometric(1.0 / 90.0)] *= min(5.0, 1.2 + rng.pareto(2.0))
    yield "plateaus", Trace(np.clip(queues + rng.normal(0.0, 10.0, slots), 0.0, 1000.0), SLOT_S)


def make_setting(policy: str, trace: Trace) -> Setting:
    world = Infrastructure("three", NODES, NODES[-1].price)
    inertia = Inertia(SLOT_S, 5.0, SLOT_S)
    return Setting(
        Application((COUNT,)), world, trace, policy, BOUND, plant="batches", inertia=inertia, quantile=QUANTILE
    )


def show_policy(policy: str, runs: list[tuple[float, Run]], best: int) -> str:
    multiples = [run.cost / floor for floor, run in runs]
    mean = math.exp(float(np.mean(np.log(multiples))))
    late, changes, price = (
        float(np.mean([getattr(run, name) for _, run in runs]))
        for name in ("violations", "reconfigurations", "resources")
    )
    figures = f"{mean:8.2f} {max(multiples):8.2f} {late:9.2%} {changes:9.2%} {price:8.2f}"
    return f"{policy:14} {figures} {best:6} of {len(runs)}"


def show_load(name: str, runs: list[tuple[float, Run]]) -> str:
    """A load's multiple of the floor, the floor, and what the policy's cost is made of, in thousandths a slot."""
    multiple = math.exp(float(np.mean([math.log(run.cost / floor) for floor, run in runs])))
    w, dearest = Weights(), COUNT.k_max * NODES[-1].price
    late, changes, price = (
        1e3 * weight * float(np.mean([getattr(run, measure) for _, run in runs]))
        for measure, weight in (
            ("violations", w.performance), ("reconfigurations", w.reconfiguration),
            ("resources", w.resources / dearest),
        )
    )  # fmt: skip
    floor = 1e3 * float(np.mean([floor for floor, _ in runs]))
    return f"{name:14} {multiple:8.2f} {floor:8.2f} {late:9.2f} {changes:9.2f} {price:8.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--days", type=int, default=6)
    parser.add_argument("--other", action="store_true")
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    asked = parser.parse_args()
    runs: dict[str, list[tuple[float, Run]]] = {policy: [] for policy in asked.policies}
    best = dict.fromkeys(asked.policies, 0)
    loads: dict[str, list[tuple[float, Run]]] = {}
    list_all = list_other_loads if asked.other else list_loads
    for seed in range(1, asked.seeds + 1):
        for name, trace in list_all(asked.days * DAY, seed):
            found = {policy: simulate(make_setting(policy, trace), seed) for policy in asked.policies}
            floor = find_floor(make_setting(asked.policies[0], trace))
            if floor is None:
                raise RuntimeError("no floor is known here")
            for policy, run in found.items():
                runs[policy].append((floor.lower, run))
            kept = {policy: run.cost for policy, run in found.items() if run.violations <= LATE}
            if kept:
                best[min(kept, key=lambda policy: kept[policy])] += 1
            loads.setdefault(name, []).append((floor.lower, found[asked.policies[0]]))
    print(f"{'policy':14} {'x floor':>8} {'worst':>8} {'late':>9} {'changes':>9} {'price':>8} {'cheapest':>9}")
    for policy in asked.policies:
        print(show_policy(policy, runs[policy], best[policy]))
    print(f"\n{'1/1000 a slot':14} {'x floor':>8} {'floor':>8} {'late':>9} {'changes':>9} {'price':>8}")
    for name, some in loads.items():
        print(show_load(name, some))


if __name__ == "__main__":
    main()
