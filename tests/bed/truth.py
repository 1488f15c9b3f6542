"""What really happened to every record of a finished run, independent of any monitoring.

A record arrives at `split` at the stamp of the replay, and at `count` when the batch of `split` that put it into the
channel was committed. It is answered when the batch that it was in was committed: when the sink's list of that batch's
files appeared.
"""

from __future__ import annotations

import csv
import json
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from tests.bed.plan import Plan, first_word, read_plan


@dataclass(frozen=True, slots=True)
class Served:
    """One record at one operator; moments in seconds since 1970."""

    operator: str
    record: int
    arrived: float
    committed: float
    cost: float  # drawn for it, on the node that it ran on
    spent: float  # what its turn really took, by the operator's own clock
    speed: float  # of that node
    load: float  # of the level in which it came to the application
    level: int  # of the plan
    rest: bool  # whether it is one in which starting up or a backlog passes


def read_truth(folder: Path) -> list[Served]:
    """Every record that was answered, by operator, in the order of work; a batch that was run again counts once."""
    plan, began = read_plan(folder / "plan.json"), float((folder / "truth" / "began").read_text())
    lines = plan.arrivals()
    first_words = np.array([first_word(line) for line in range(len(lines))])
    available: dict[int, float] = {}
    served = []
    for operator, cost in plan.costs().items():
        table = cost.table()
        commits = read_commits(folder, operator)
        for batch, told in read_batches(folder, operator).items():
            for record, spent in zip(told["ids"], told["spent"], strict=True) if batch in commits else ():
                line = record if operator == "split" else int(np.searchsorted(first_words, record, "right")) - 1
                arrived = began + float(lines[line]) if operator == "split" else available[line]
                level = find_level(plan, float(lines[line]))
                where = (told["speed"], plan.levels()[level][2], level, plan.is_rest(level))
                drawn = float(table[record % len(table)]) / told["speed"]
                served.append(Served(operator, record, arrived, commits[batch], drawn, spent, *where))
                if operator == "split":
                    available[record] = commits[batch]
    return served


def count_answered(folder: Path, operator: str) -> int:
    """Records of committed batches; to be asked of a run that goes on, too."""
    commits = read_commits(folder, operator)
    return sum(len(told["ids"]) for batch, told in read_batches(folder, operator).items() if batch in commits)


def find_level(plan: Plan, moment: float) -> int:
    return next(i for i, (_, end, _) in enumerate(plan.levels()) if moment <= end)


def read_batches(folder: Path, operator: str) -> dict[int, dict[str, Any]]:
    """What the operator told of each batch; where it ran twice, the last time, for that one was committed."""
    text = (folder / "truth" / f"{operator}.jsonl").read_text()
    told = [json.loads(line) for line in text.split("\n")[:-1]]  # without one that is being written
    return {line["batch"]: line for line in sorted(told, key=lambda line: line["batch"])}


def read_commits(folder: Path, operator: str) -> dict[int, float]:
    """When the sink's list of each batch was written."""
    listed = (folder / "channel" / operator / "_spark_metadata").iterdir()
    return {int(path.name): path.stat().st_mtime_ns / 1e9 for path in listed if path.name.isdigit()}


def write_truth(folder: Path, window: float = 10.0) -> None:
    """Put it beside the run: a line a record, and a line a window with the columns of a sample."""
    served = read_truth(folder)
    with (folder / "truth" / "records.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(field.name for field in fields(Served))
        table.writerows(astuple(record) for record in served)
    with (folder / "truth" / "responses.csv").open("w", newline="") as file:
        table = csv.writer(file)
        names = ("application", "operator", "start", "end", "evidence", "arrived", "response_n", "response_sum")
        table.writerow((*names, "load", "level", "rest", "speed"))
        ordered = sorted(served, key=lambda record: place(record, window))
        for (operator, slot), group in groupby(ordered, lambda record: place(record, window)):
            records = list(group)
            total = sum(record.committed - record.arrived for record in records)
            start, n, last = slot * window, len(records), records[-1]
            where = (last.load, last.level, last.rest, last.speed)
            table.writerow(("bed", operator, start, start + window, "table", n, n, total, *where))


def place(record: Served, window: float) -> tuple[str, int]:
    """The window in which it arrived at the operator's door."""
    return record.operator, int(record.arrived // window)
