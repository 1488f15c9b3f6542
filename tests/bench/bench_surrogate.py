"""Relative error of predicted response times on windows of a test bed that were not fitted on.

python -m tests.bench.bench_surrogate FOLDER --window 15

True response times, timed records and the progress of the queries become windows; every window is predicted by a model
chosen and fitted on other stretches of time, and windows of about the same utilisation are compared together.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from scaler.model.sample import Sample
from tuner.surrogate.calibrate import FOLDS, choose_model, deal
from tuner.surrogate.checks import NEAR_ONE
from tuner.surrogate.fit import find_known, fit, make_load
from tuner.surrogate.observed_windows import Windows, build_windows, find_backlog, find_changes
from tuner.surrogate.response_models import fit_model, predict_model, select_windows
from tuner.surrogate.service_moments import find_speedups, list_services

WARM_UP = 14.0  # seconds
EDGES = (0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
FEWEST = 3  # windows of about the same utilisation
Rows = dict[tuple[str, int, str | None], dict[str, float]]


def read_bed(folder: Path, window: float) -> list[Sample]:
    rows: Rows = defaultdict(lambda: defaultdict(float))
    for operator, moment, node_type, values in (*read_truth(folder), *read_timings(folder), *read_progress(folder)):
        row = rows[operator, int(moment // window), node_type]
        for name, value in values.items():
            row[name] += value
        if node_type is not None:
            row["replicas"] = 1.0
    begin = float((folder / "truth" / "began").read_text()) + WARM_UP
    return [
        Sample("bed", operator, i * window, (i + 1) * window, "records", node_type=node_type, **values)
        for (operator, i, node_type), values in rows.items()
        if i * window > begin
    ]


Piece = tuple[str, float, str | None, dict[str, float]]


def read_truth(folder: Path) -> Iterator[Piece]:
    with (folder / "truth" / "records.csv").open() as file:
        for record in csv.DictReader(file):
            arrived, answered = float(record["arrived"]), float(record["committed"])
            yield record["operator"], arrived, None, {"arrived": 1, "response_n": 1, "response_sum": answered - arrived}
            yield record["operator"], answered, None, {"tuples_in": 1}


def read_timings(folder: Path) -> Iterator[Piece]:
    for path in sorted((folder / "timings").glob("*.jsonl")):
        for line in map(json.loads, path.read_text().splitlines()):
            values = {name: line[name] for name in line if name.startswith(("service_", "task_"))}
            yield line["operator"], line["start"], line["node_type"], values


def read_progress(folder: Path) -> Iterator[Piece]:
    for path in sorted((folder / "progress").glob("*.jsonl")):
        lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
        starts = [datetime.fromisoformat(line["timestamp"].replace("Z", "+00:00")).timestamp() for line in lines]
        for line, start, following in zip(lines, starts, starts[1:], strict=False):
            if line["numInputRows"]:
                lasted = line["batchDuration"] / 1e3
                values = {"batches": 1, "batch_time": lasted, "batch_interval": following - start}
                yield path.stem, start + lasted, None, values


def print_operator(windows: Windows) -> None:
    """One line per load."""
    services, reference = list_services(windows)
    speedups = find_speedups(services, [*services], (), reference)
    load = make_load(windows, services[reference], speedups, 1.0)
    sound = find_known(windows) & (windows.response > 0.0) & (load.utilisation < NEAR_ONE)
    sound &= ~find_backlog(windows) & ~find_changes(windows)
    load, observed = select_windows(load, sound), windows.response[sound]
    predicted, names = np.empty(observed.size), set()
    fold = deal(observed.size)
    for i in range(FOLDS):
        out = fold == i
        name, memory = choose_model(select_windows(load, ~out), observed[~out])
        parameters = fit_model(name, select_windows(load, ~out), observed[~out], memory)
        predicted[out] = predict_model(name, select_windows(load, out), parameters)
        names.add(name)
    errors = []
    print(f"{windows.operator}: {observed.size} of {windows.start.size} windows, {', '.join(sorted(names))}")
    for low, high in pairwise(EDGES):
        which = (load.utilisation >= low) & (load.utilisation < high)
        if which.sum() >= FEWEST:
            seen, said = float(observed[which].mean()), float(predicted[which].mean())
            errors.append(abs(said / seen - 1.0))
            print(f"  {low:.2f} to {high:.2f}: {which.sum():3d} windows, {seen:.2f} s seen, {said:.2f} s predicted, "
                  f"{said / seen - 1.0:+.0%}")  # fmt: skip
    print(f"  off by {np.mean(errors):.1%} in the mean over loads")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--window", type=float, default=15.0, help="seconds")
    told = parser.parse_args()
    samples = read_bed(told.folder, told.window)
    for windows in build_windows(samples).values():
        print_operator(windows)
    for operator in fit(samples, "bed").operators:
        if operator.response and operator.response.accuracy:
            e = operator.response.accuracy.error
            print(f"{operator.operator}: fit states {e.value:.1%} [{e.low:.1%}, {e.high:.1%}] on 30 % held out")


if __name__ == "__main__":
    main()
