"""What a history is worth: the last two thirds of a trace, with its first third as history and without.

python -m tests.bench.bench_history [--seeds 3] [--days 9] [--traces FOLDER] [--slots 60000]

Printed are the planner's cost as a multiple of the floor of its world without and with a history, by kind of load and
as geometric means over all, the third figure being with the history where its own second half says that it pays (what
the tuner sends): in the memoryless world, one replica a slot, on three types of infrastructure A and ten
replicas; and in micro-batches. Traces are read from a folder, where there is one; what is left out is said.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.task import Moments
from sim.application import Application, Operator
from sim.infrastructure import find_infrastructure
from sim.learned_history import weigh_history
from sim.setting import Setting
from sim.simulate import simulate
from sim.trace import Trace
from sim.trace_file import read_trace
from tests.bench.bench_spark_world import COUNT, DAY, list_loads, make_setting
from tuner.simulation.comparison import find_floor

K_MAX, FULL_AT = 10, 4.0  # replicas of type 1 that the highest rate keeps busy
BOUND_IN_SERVICE_TIMES = 9.0
BATCHES_AT_PEAK = 8.0  # replicas of the reference node that the highest rate of a recorded trace keeps busy
MIN_SLOTS = 3 * DAY
Worlds = dict[str, list[tuple[float, float, float]]]  # by load: without, with, and with where that paid in the history


def make_memoryless(trace: Trace) -> Setting:
    """The published world, scaled to the trace."""
    mean = FULL_AT / float(trace.rates.max())
    operator = Operator("count", Moments(mean, 0.5 * mean**2), K_MAX)
    nodes = find_infrastructure("A", 3)
    return Setting(Application((operator,)), nodes, trace, "planner", BOUND_IN_SERVICE_TIMES * mean)


def make_batched(trace: Trace) -> Setting:
    """The Spark world of bench_spark_world, where recorded rates are scaled to it."""
    setting = make_setting("planner", trace)
    if trace.name:
        mean = BATCHES_AT_PEAK / float(trace.rates.max())
        operator = replace(COUNT, moments=Moments(mean, 0.5 * mean**2))
        setting = replace(setting, application=Application((operator,)))
    return setting


def read_folder(folder: Path | None, most: int) -> Iterator[tuple[str, Trace]]:
    """Recorded traces, the first so many slots of each."""
    if folder is None or not folder.is_dir():
        print(f"no recorded traces: there is no folder {folder}" if folder else "no recorded traces: none are named")
        return
    for path in sorted(folder.iterdir()):
        try:
            trace = read_trace(str(path))
        except BadInput as error:
            print(f"{path.name} is left out: {error}")
            continue
        if trace.rates.size < MIN_SLOTS:
            print(f"{path.name} is left out: {trace.rates.size} slots, and {MIN_SLOTS} are needed")
            continue
        yield path.name.partition(".")[0], replace(trace, rates=trace.rates[:most], name=path.name)


def measure(setting: Setting, seed: int) -> tuple[float, float, float]:
    """Multiples of the floor, without and with the first third as history, and with it where it is sent."""
    rates, top = setting.trace.rates, float(setting.trace.rates.max())
    first = rates.size // 3
    rest = replace(setting, trace=replace(setting.trace, rates=rates[first:]), highest_rate=top)
    floor = find_floor(rest)
    if floor is None:
        raise RuntimeError("no floor is known here")
    known = replace(rest, options={"history": rates[:first]})
    without, has = simulate(rest, seed).cost / floor.lower, simulate(known, seed).cost / floor.lower
    history = replace(setting, trace=replace(setting.trace, rates=rates[:first]), highest_rate=top)
    return without, has, has if weigh_history(history, seed) <= 1.0 else without


def mean_of(values: list[float]) -> float:
    return math.exp(float(np.mean(np.log(values))))


def show(world: str, found: Worlds) -> None:
    heads = ("without", "with", "if it pays")
    print(f"{world:34}" + "".join(f"{head:>12}" for head in heads) + "   worst of each")
    every = [one for some in found.values() for one in some]
    for name, some in [*found.items(), ("all", every)]:
        columns = list(zip(*some, strict=True))
        means, worst = [mean_of(list(one)) for one in columns], [max(one) for one in columns]
        print(
            f"  {name:32}" + "".join(f"{one:12.3f}" for one in means) + "   " + "".join(f"{one:8.3f}" for one in worst)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--days", type=int, default=9)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--slots", type=int, default=60_000)
    asked = parser.parse_args()
    loads = [
        (name, trace, seed) for seed in range(1, asked.seeds + 1) for name, trace in list_loads(asked.days * DAY, seed)
    ]
    loads += [(name, trace, 1) for name, trace in read_folder(asked.traces, asked.slots)]
    worlds = {"memoryless, one replica a slot": make_memoryless, "micro-batches, any change": make_batched}
    for world, make in worlds.items():
        found: Worlds = {}
        for name, trace, seed in loads:
            found.setdefault(name, []).append(measure(make(trace), seed))
        show(world, found)


if __name__ == "__main__":
    main()
