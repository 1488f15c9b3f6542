"""Changes at equal violations: the planner within its budget of changes against Flink's rule, on the same traces.

python -m tests.bench.bench_calm [--seeds 3] [--days 6] [--eta-r 0.02]

The world and the loads are those of bench_spark_world. Flink's rule is tried with 24 settings for each trace; of those
late no more often than the planner the one with the fewest changes is taken, and its price is printed beside it. In a
cell marked "none" no setting is late so seldom.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from scaler.model.change_budget import make_budget
from sim.setting import Setting
from sim.simulate import Run, simulate
from sim.trace import Trace
from tests.bench.bench_spark_world import DAY, list_loads, make_setting

GRID = product((0.3, 0.45, 0.6, 0.7), (1, 5, 15), (10, 60))  # target, window, delay of a scale-in


def list_options() -> list[Mapping[str, Any]]:
    """Flink's defaults have a target of .7, a window of 15 slots and a delay of 60."""
    return [
        {"target": target, "boundary": min(0.3, target - 0.1), "window": window, "scale_down_delay": delay}
        for target, window, delay in GRID
    ]


def find_calmest(setting: Setting, options: list[Mapping[str, Any]], late: float, seed: int) -> Run | None:
    """Flink's rule with the fewest changes among those late in at most this share of slots."""
    runs = [simulate(replace(setting, options=one), seed) for one in options]
    return min((run for run in runs if run.violations <= late), key=lambda run: run.reconfigurations, default=None)


def compare(trace: Trace, seed: int, eta_r: float, options: list[Mapping[str, Any]]) -> tuple[Run, Run, Run | None]:
    """The planner without and with a budget, and Flink's rule."""
    setting = make_setting("planner", trace)
    free = simulate(setting, seed)
    kept = simulate(replace(setting, change_budget=make_budget(eta_r)), seed)
    return free, kept, find_calmest(make_setting("flink-p", trace), options, kept.violations, seed)


def show(run: Run | None) -> str:
    if run is None:
        return f"{'none':>24}"
    return f"{run.reconfigurations:8.2%}{run.violations:8.2%}{run.resources:8.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--days", type=int, default=6)
    parser.add_argument("--eta-r", type=float, default=0.02)
    asked = parser.parse_args()
    calmer = cells = 0
    options = list_options()
    print(f"{'changes, late slots, price:':18}{'planner':>18}{'with a budget':>24}{'Flink':>24}")
    for seed in range(1, asked.seeds + 1):
        for name, trace in list_loads(asked.days * DAY, seed):
            free, kept, flink = compare(trace, seed, asked.eta_r, options)
            cells += 1
            calmer += flink is None or kept.reconfigurations < flink.reconfigurations
            print(f"{name:10}seed {seed:<3}{show(free)}{show(kept)}{show(flink)}", flush=True)
    print(f"fewer changes than Flink's rule, or none of its settings late so seldom: {calmer} of {cells}")


if __name__ == "__main__":
    main()
