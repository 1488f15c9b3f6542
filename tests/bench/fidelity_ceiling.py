"""How often a perfect simulator would hold bench_fidelity's figures, by the simulator alone: no cluster is needed.

python -m tests.bench.fidelity_ceiling [--runs 40] [--seconds 272]

Replays of each load are held against the mean of others, once with the surrogate that they were made with and once with
one that is off (batches 12 % longer, replicas a second later). A figure that runs of one world do not agree in is left
to chance by the load, and tells nothing of the simulator. A few minutes, most of them to compile.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scaler.model.hold import HoldTime, HoldTimes
from scaler.model.micro_batches import MicroBatches
from scaler.model.nodes import Supply
from scaler.model.task import Moments
from sim.application import Application, Operator
from sim.infrastructure import Infrastructure
from sim.replicas import Inertia
from sim.setting import Setting
from sim.trace import Trace
from tests.bench.fidelity_compare import Figures, average, replay_load
from tests.bench.fidelity_fit import POLICY, make_objective
from tests.bench.fidelity_loads import (
    BOUND,
    COST,
    HIGH,
    K_MAX,
    SECONDS,
    SLOT_S,
    SMALL,
    TRIGGER_S,
    WEIGHTS,
    Load,
    list_loads,
)
from tests.live.proof_stream import APP, OPERATOR

SAID = 20  # replays, of which the mean is what the simulator says
LOST = 1  # replicas of a killed worker
STARTS = (3.6, 4.3, 4.5, 6.0)  # seconds from the end of a slot until a replica ordered then serves
HOLDS = HoldTimes(HoldTime(2.7, 2.0, 3), HoldTime(1.9, 0.0, 4), None)
OVERHEAD_S = (1.04, 0.83, 0.76, 0.72)  # by replicas
WORLDS = {"itself": (1.0, 0.18, STARTS), "off": (1.12, 0.27, tuple(one + 1.0 for one in STARTS))}


def make_world(longer: float, noise_s: float, starts: Sequence[float]) -> Setting:
    """A setting such as a calibration on a quiet machine yields, or one whose batches are longer."""
    moments, overhead_s = Moments(COST, 0.5 * COST**2), tuple(longer * one for one in OVERHEAD_S)
    batches = MicroBatches(TRIGGER_S, overhead_s[1], noise_s=noise_s, overhead_curve_s=overhead_s)
    operator = Operator(OPERATOR, moments, K_MAX, stateful=True, batches=batches, hold=HOLDS)
    node = replace(SMALL, supply=Supply(start_s=tuple(starts)))
    return Setting(
        Application((operator,), name=APP), Infrastructure("fidelity", (node,), SMALL.price), Trace([1.0], SLOT_S),
        POLICY, r_max=BOUND, weights=WEIGHTS, highest_rate=HIGH, plant="batches", inertia=Inertia(slot_s=SLOT_S),
    )  # fmt: skip


def say(setting: Setting, objective: Mapping[str, Any], load: Load) -> Figures:
    return average(replay_load(setting, objective, load, LOST, range(SAID)))


def main(runs: int, seconds: float) -> None:
    worlds = {name: make_world(*world) for name, world in WORLDS.items()}
    objective = make_objective(worlds["itself"], {})
    sums = dict.fromkeys(worlds, 0.0)
    for name, load in list_loads(seconds).items():
        said = say(worlds["itself"], objective, load)
        print(f"{name}: {said.replicas:.2f} replicas, {said.over:.1%} of slots late, p50 {said.p50:.2f} s, "
              f"p95 {said.p95:.2f} s, recovery {said.recovery:.0f} s")  # fmt: skip
        for world, setting in worlds.items():
            replays = replay_load(setting, objective, load, LOST, range(SAID, SAID + runs))
            agree = [said.agrees(average([one])) for one in replays]
            every = sum(all(one.values()) for one in agree) / runs
            sums[world] += every
            each = ", ".join(f"{figure} {sum(one[figure] for one in agree) / runs:.0%}" for figure in agree[0])
            print(f"  {world:7} all hold in {every:4.0%}: {each}", flush=True)
    of = len(list_loads(seconds))
    print("; ".join(f"{world}: {15.0 * total / of:.1f} of 15" for world, total in sums.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40, help="replays of each load that are held against the mean")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a run")
    asked = parser.parse_args()
    main(asked.runs, asked.seconds)
