"""Batch durations that `tuner what-if` predicts from a log of two executors, beside those of runs on 1, 2, 4 and 6.

python -m tests.bench.bench_what_if_cluster [--runs 3] [--batches 20] [--trigger 6] [--folder FOLDER]

On a real standalone cluster on loopback: a stateless query whose equal records are served by sleeping, so that two
cores suffice. Each round runs every number once, so that what else the machine does meets all; each round's log of two
executors predicts all numbers. About 30 minutes, and 5 GB of memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.bench.sleeping_stream import COST_MS, RATE, TASKS
from tuner.demo.cluster import ROOT, Worker, make_environment, start_cluster
from tuner.demo.process_guard import guarded
from tuner.what_if.recorded_batches import read_queries
from tuner.what_if.recorded_query import RecordedQuery
from tuner.what_if.what_if import ask

RECORDED = 2
NUMBERS = (2, 1, 4, 6)
SKIPPED = 8  # batches, in which a measured run warms up
WANTED = 0.15


def run_query(master: str, folder: Path, executors: int, batches: int, trigger_s: float) -> RecordedQuery:
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "tests.bench.sleeping_stream", master, str(folder), str(executors)]
    log = folder / "driver.log"
    with guarded([*command, str(batches), str(trigger_s)], make_environment("127.0.0.1"), log, ROOT) as driver:
        if driver.wait() != 0:
            raise RuntimeError(f"the driver failed:\n{log.read_text(errors='replace')[-3000:]}")
    return read_queries(folder / "log", lambda share: None)[0][0]


def measure(query: RecordedQuery) -> float:
    return median(batch.duration_s for batch in query.batches[SKIPPED:])


def predict(query: RecordedQuery) -> dict[int, float]:
    answer = ask(query, NUMBERS, 1e6, 0.5, 1.0)
    return {one.executors: one.batch_p50_s for one in answer.predictions}


def describe(values: Sequence[float]) -> str:
    return f"{median(values):6.3f} s ({min(values):.3f} to {max(values):.3f})"


def show(measured: dict[int, list[float]], predicted: dict[int, list[float]]) -> None:
    print(f"{'executors':>9}  {'measured p50':>26}  {'predicted p50':>26}  {'error':>7}  runs' errors")
    worst = 0.0
    for k in sorted(measured):
        error = median(predicted[k]) / median(measured[k]) - 1.0
        worst = max(worst, abs(error))
        each = [f"{one / run - 1.0:+.1%}" for one, run in zip(predicted[k], measured[k], strict=True)]
        shown = f"{describe(measured[k]):>26}  {describe(predicted[k]):>26}"
        print(f"{k:9}  {shown}  {error:+7.1%}  {', '.join(each)}")
    print(f"largest error of the medians {worst:.1%}; wanted: within {WANTED:.0%}")


def main(runs: int, batches: int, trigger_s: float, folder: Path) -> None:
    measured: dict[int, list[float]] = defaultdict(list)
    predicted: dict[int, list[float]] = defaultdict(list)
    most = max(NUMBERS)
    print(f"{RATE} records a second, {TASKS} tasks a batch, {COST_MS} ms a record, a trigger of {trigger_s:g} s")
    with start_cluster(folder / "cluster", [Worker("127.0.0.2", "small", 1.0, most, f"{650 * most}m")]) as master:
        for number in range(runs):
            for k in NUMBERS:
                query = run_query(master, folder / f"round-{number}" / f"executors-{k}", k, batches, trigger_s)
                measured[k].append(measure(query))
                if k == RECORDED:
                    for one, seconds in predict(query).items():
                        predicted[one].append(seconds)
                line = {"round": number, "executors": k, "measured": measured[k][-1], "predicted": predicted[k][-1]}
                print(json.dumps(line), flush=True)
    show(measured, predicted)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--trigger", type=float, default=6.0)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        main(asked.runs, asked.batches, asked.trigger, asked.folder or Path(made))
