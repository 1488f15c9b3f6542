"""The worst loads that an adversary finds against the planner, which sees every slot what it has deployed.

python -m tests.bench.bench_adversary [--slots 1500] [--tries 120] [--seed 1] [--types 3] [--policies planner ds2-p ...]

In the published slots with changes of any size, where the floor is exact. The adversary's way to play is varied at
random from the worst so far (tests/oracles/adversary.py). Printed are the worst multiple of the floor, and the most
that a load cost beyond twice and three times its floor, in slots that are late. Each policy has its own adversary.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from scaler.model.policy import build_policy
from scaler.model.task import Task
from scaler.policies import find_policy
from sim.compiler import start_compiling
from tests.examples import make_task
from tests.oracles.adversary import Played, Tease, play

STARTS = (Tease(), Tease(excess=4.0, low=0.2), Tease(excess=2.0, kept_up=2, stays_low=30), Tease(low=0.4, stays_low=8))


def make_world(types: int) -> Task:
    return make_task(types=types, k_max=10, one_at_a_time=False, highest_rate=1800.0)


def search(
    task: Task, policy: str, slots: int, tries: int, seed: int, worth: Callable[[Played], float]
) -> tuple[Tease, Played]:
    """The way to play that is worth most, varied from the best so far."""
    rng = np.random.default_rng(seed)
    best: tuple[Tease, Played] | None = None
    for number in range(tries):
        tease = STARTS[number] if number < len(STARTS) or best is None else best[0].vary(rng)
        played = play(task, tease, slots, build_policy(find_policy(policy), task))
        if best is None or worth(played) > worth(best[1]):
            best = tease, played
    assert best is not None
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=1500)
    parser.add_argument("--tries", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--types", type=int, default=3)
    parser.add_argument("--policies", nargs="+", default=["planner"])
    asked = parser.parse_args()
    start_compiling()
    task = make_world(asked.types)
    print(f"{'policy':14} {'sought':16} {'x floor':>8} {'late':>8} {'changes':>8} {'over 2x':>8} {'over 3x':>8}  how")
    for policy in asked.policies:
        sought: dict[str, Callable[[Played], float]] = {
            "multiple": lambda played: played.multiple,
            "over 2x floor": lambda played: played.excess(2.0),
        }
        for name, worth in sought.items():
            tease, worst = search(task, policy, asked.slots, asked.tries, asked.seed, worth)
            over = (worst.excess(multiple) / task.weights.performance for multiple in (2.0, 3.0))
            figures = f"{worst.multiple:8.2f} {worst.late:8.2%} {worst.changes:8.2%}"
            print(f"{policy:14} {name:16} {figures} {' '.join(f'{n:8.1f}' for n in over)}  {tease}", flush=True)


if __name__ == "__main__":
    main()
