"""What an attached scaler costs its stream: throughput, the driver's work, the driver's memory.

python -m tests.bench.bench_overhead [--folder FOLDER]

On a real standalone cluster on loopback: one stream, with a scaler attached and without in turn, so that a noisy
machine disturbs both alike. Slots are of five seconds, where a minute is usual: a scaler works twelve times as often.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scaler.model.task import Moments
from tests.live.proof_bed import await_state, make_objective, read_lines, running
from tests.live.proof_scene import BOUND, CONSTANT, LEVELS, WEIGHTS, run_bench
from tests.live.proof_stream import APP, Setup

TURNS = 12


def find_overhead(setup: Setup, folder: Path) -> None:
    """A stream that never has to wait for records, with and without a scaler in turn."""
    busy = replace(
        setup, levels=((1.0, 2_000_000.0), (1e6, 0.0)), mean=0.002, first={"small": 2}, k_max=2, most=1200, piece=300,
        trigger_s=0.0, toggles=TURNS + 1, restful=0.0,
    )  # fmt: skip
    folder = folder / "run"
    folder.mkdir(parents=True)
    objective = make_objective(busy, BOUND, CONSTANT, WEIGHTS, "planner", Moments(busy.mean, 0.5 * busy.mean**2))
    pinned = {"": {"pin": {}}}  # it decides whatever it would, and takes nothing away
    orders = {"application": APP, "revision": 1, "slot_s": busy.slot_s, "objective": objective, "guards": pinned}
    (folder / "objective.json").write_text(json.dumps(orders))
    with running(busy, folder) as driver:
        await_state(driver, folder, "streaming", 120.0)
        await_state(driver, folder, "done", (TURNS + 2) * (2 * busy.toggle_s + 30.0))
    toggles = read_lines(folder / "toggles.jsonl")
    print(
        f"slots of {busy.slot_s:g} s, {TURNS} pairs of {busy.toggle_s:g} s, 95 % intervals; records are timed in both"
    )
    tell_work([one for one in toggles if one["turn"] > 0], read_lines(folder / "batches.jsonl"))  # the first warms up
    tell_memory(toggles)


def tell_work(toggles: list[dict[str, Any]], batches: list[dict[str, Any]]) -> None:
    pace, work = pair(toggles, lambda one: find_pace(batches, one)), pair(toggles, lambda one: float(one["cores"]))
    mean, low, high = (float(np.exp(x)) for x in find_interval([np.log(a / b) for a, b in pace]))
    print(f"throughput with a scaler to that without: {mean:.4f} ({low:.4f} to {high:.4f}); wanted 0.98 or more")
    mean, low, high = find_interval([a - b for a, b in work])
    before = statistics.mean(without for _, without in work)
    print(f"the driver, Python and Java, takes {before:.3f} cores, and with a scaler {mean:+.4f} ({low:+.4f} to "
          f"{high:+.4f})")  # fmt: skip


def tell_memory(toggles: list[dict[str, Any]]) -> None:
    start = next(one["mib"] for one in toggles if not one["attached"])
    most = max(one["mib"] for one in toggles if one["attached"])
    print(f"memory of the driver's Python: {start:.0f} MiB before a scaler was ever attached, {most:.0f} MiB at most "
          f"with one ({most / start:.3f} times, {most - start:+.0f} MiB); wanted under 50 MiB more")  # fmt: skip


def pair(toggles: list[dict[str, Any]], ask: Callable[[dict[str, Any]], float]) -> list[tuple[float, float]]:
    """With a scaler and without, turn by turn."""
    told = {(one["turn"], one["attached"]): ask(one) for one in toggles}
    return [(told[turn, True], told[turn, False]) for turn in sorted({turn for turn, _ in told})]


def find_interval(values: list[float]) -> tuple[float, float, float]:
    """Mean, and the 95 % interval of it by Student's t."""
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1)) * statistics.stdev(values) / len(values) ** 0.5
    mean = statistics.mean(values)
    return mean, mean - half, mean + half


def find_pace(batches: list[dict[str, Any]], during: Mapping[str, Any]) -> float:
    """Records a second; a batch that ran only partly in this time counts in part."""
    times, ends = [one["time"] for one in batches], [one["end"] for one in batches]
    first, last = np.interp([during["began"], during["ended"]], times, ends)
    return float((last - first) / (during["ended"] - during["began"]))


if __name__ == "__main__":
    run_bench(__doc__, LEVELS, find_overhead)
