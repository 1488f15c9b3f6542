"""Read the batches of a log's streaming queries, each with its tasks, without Spark.

A batch's stages are put into levels: a stage that began after all those of a level had ended comes after it, the others
run beside each other. Where stages run on several resource profiles, those of the profile with most work are placed
anew; the others count as the batch's rest. Batches of which tasks or the progress report are missing are left out and
counted.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scaler.model.errors import BadInput
from scaler.model.kernel import Floats
from tuner.pipeline.sources.damage import note_damage
from tuner.pipeline.sources.found import InputFile, detect, find_gaps
from tuner.pipeline.sources.log_file import FilePiece, arrow_schema, read_piece
from tuner.what_if.recorded_query import (
    ExecutorLife,
    RecordedBatch,
    RecordedQuery,
    count_busy,
    find_levels,
    find_trigger,
)

WANTED = "the event log of a Structured Streaming application (spark.eventLog.enabled=true), a file or its folder"
SHORT_ID = 8  # letters of a query's id, which stays over restarts and names a query without a name, as in samples
Batches = dict[int, dict[int, Floats]]  # batch -> stage -> [n, 3] launch, finish, run time


def read_queries(path: Path, progress: Callable[[float], None]) -> tuple[list[RecordedQuery], list[str]]:
    """Every run of a query in the event logs at a path, and notes on what they lack."""
    files = [file for file in detect(path, wanted=WANTED) if file.kind == "event-log"]
    if not files:
        raise BadInput(f"{path} is no event log; name {WANTED}")
    found, notes, seen = [], find_gaps(files), Counter[str]()
    for log in dict.fromkeys(file.log for file in files):
        events = read_log([file for file in files if file.log == log], progress)
        kinds = count_kinds(events)
        seen.update(kinds)
        notes = [*note_damage({log: kinds}), *notes]
        found += find_runs(events)
    if not found:
        raise BadInput(refuse(path, seen))
    return found, notes


def refuse(path: Path, kinds: Mapping[str, int]) -> str:
    """Why a log says nothing of numbers of executors."""
    if not kinds.keys() - {"corrupt", "cut", "oversized", "unreadable"}:
        return f"{path} holds no event that can be read; name {WANTED}, as Spark wrote it"
    if not {"stage", "progress", "query"} & kinds.keys():
        return f"{path}: the application ran no streaming query; name {WANTED}"
    if not kinds.get("progress"):
        return f"{path} holds no progress report of its streaming query; let it run for some batches"
    return f"{path} holds no batch of a streaming query with its tasks; name the log of one that took records in"


def read_log(files: Sequence[InputFile], progress: Callable[[float], None]) -> pa.Table:
    whole = sum(file.size for file in files) or 1
    batches: list[pa.RecordBatch] = []
    done = 0
    for file in files:
        batches += read_piece(FilePiece(file.log, file.path, file.codec, limits=file.limits))
        done += file.size
        progress(done / whole)
    return pa.Table.from_batches(batches, arrow_schema())


def count_kinds(events: pa.Table) -> dict[str, int]:
    """Events by kind, of damaged lines the lines."""
    counts = {row["values"]: row["counts"] for row in pc.value_counts(events["kind"]).to_pylist()}
    damaged = pc.sum(events.filter(pc.equal(events["kind"], "corrupt"))["number"]).as_py()
    return counts | ({"corrupt": damaged} if damaged else {})


def find_runs(events: pa.Table) -> list[RecordedQuery]:
    """The runs of a log's queries that have batches."""

    def of_kind(kind: str, *columns: str) -> pa.Table:
        return events.filter(pc.equal(events["kind"], kind)).select(columns)

    stages: dict[int, tuple[str, int, int]] = {}  # query's run, batch, profile
    names: dict[str, str] = {}
    for row in of_kind("stage", "stage", "query", "run", "batch", "profile", "name").to_pylist():
        run = row["run"] or row["query"]
        if row["batch"] is not None:
            stages.setdefault(row["stage"], (run, row["batch"], row["profile"] or 0))
        names[run] = row["name"] or row["query"][:SHORT_ID]
    tasks = gather_tasks(of_kind("task", "stage", "time", "end", "run_ms", "success"), stages)
    executors = find_executors(events)
    reports: dict[str, dict[int, Any]] = defaultdict(dict)
    columns = ("run", "query", "batch", "time", "run_ms", "records", "backlog", "name", "executed")
    for row in of_kind("progress", *columns).to_pylist():
        if row["executed"] and row["run_ms"] and row["records"]:
            reports[row["run"]].setdefault(row["batch"], row)
            names[row["run"]] = row["name"] or names.get(row["run"], row["query"][:SHORT_ID])
    found: dict[str, tuple[int, RecordedQuery]] = {}
    for run, rows in reports.items():
        if by_profile := tasks.get(run):
            profile = max(by_profile, key=lambda one: sum_work(by_profile[one]))
            own = [one for one in executors if one.profile == profile] or executors
            if query := assemble(names[run], rows, by_profile[profile], own):
                found[run] = profile, query
    return [replace(query, beside=find_beside(run, found)) for run, (_, query) in found.items()]


def find_beside(run: str, found: Mapping[str, tuple[int, RecordedQuery]]) -> tuple[str, ...]:
    """Other queries that ran on the executors of a run while it did."""
    profile, query = found[run]
    first, last = query.batches[0].start, query.batches[-1].start
    names = [
        other.name
        for name, (its, other) in found.items()
        if name != run and its == profile and other.batches[0].start < last and other.batches[-1].start > first
    ]
    return tuple(dict.fromkeys(names))


def sum_work(batches: Batches) -> float:
    return sum(float((times[:, 1] - times[:, 0]).sum()) for stages in batches.values() for times in stages.values())


def gather_tasks(table: pa.Table, stages: Mapping[int, tuple[str, int, int]]) -> dict[str, dict[int, Batches]]:
    """Successful tasks of streaming stages, by run and profile."""
    table = table.filter(table["success"])
    numbers = table["stage"].to_numpy()
    run_ms = pc.coalesce(table["run_ms"], pc.subtract(table["end"], table["time"]))
    times = np.column_stack([table["time"].to_numpy(), table["end"].to_numpy(), run_ms.to_numpy()]) / 1000.0
    order = np.lexsort((times[:, 0], numbers))
    numbers, times = numbers[order], times[order]
    firsts = [int(place) for place in np.flatnonzero(np.diff(numbers, prepend=-1))]
    found: dict[str, dict[int, Batches]] = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for first, last in pairwise([*firsts, len(numbers)]):
        if (of := stages.get(int(numbers[first]))) is not None:
            run, batch, profile = of
            found[run][profile][batch][int(numbers[first])] = times[first:last]
    return found


def find_executors(events: pa.Table) -> list[ExecutorLife]:
    rows = events.filter(pc.is_in(events["kind"], pa.array(["executor", "removed", "profile"])))
    since: dict[str, tuple[float, int, int]] = {}
    until: dict[str, float] = {}
    cpus = {0: 1}
    for row in rows.select(["kind", "executor", "time", "number", "profile"]).to_pylist():
        if row["kind"] == "profile":
            cpus[row["profile"]] = row["number"] or 1
        elif row["kind"] == "removed":
            until[row["executor"]] = row["time"] / 1000.0
        else:
            since[row["executor"]] = (row["time"] / 1000.0, row["number"] or 1, row["profile"] or 0)
    return [
        ExecutorLife(start, until.get(name, math.inf), max(1, cores // cpus.get(profile, 1)), profile)
        for name, (start, cores, profile) in since.items()
    ]


def assemble(
    name: str, rows: Mapping[int, Any], tasks: Mapping[int, Mapping[int, Floats]], executors: Sequence[ExecutorLife]
) -> RecordedQuery | None:
    """One run from its reports and tasks; None where no batch has both."""
    batches: list[RecordedBatch] = []
    changes = sorted(moment for one in executors for moment in (one.since, one.until))
    before = -math.inf
    for number, row in sorted(rows.items(), key=lambda each: each[1]["time"]):
        start, duration = row["time"] / 1000.0, row["run_ms"] / 1000.0
        if stages := tasks.get(number):
            slots = sum(one.slots for one in executors if one.since <= start < one.until)
            batches.append(
                RecordedBatch(
                    number=number,
                    start=start,
                    duration_s=duration,
                    records=float(row["records"]),
                    slots=slots or count_busy(stages),
                    levels=find_levels([stages[stage] for stage in sorted(stages)]),
                    backlog=row["backlog"],
                    disturbed=not batches or bisect(changes, before) < bisect(changes, start + duration),
                )
            )
            before = start
    if not batches:
        return None
    begin, end = batches[0].start, batches[-1].start + batches[-1].duration_s
    hours = sum(max(0.0, min(end, one.until) - max(begin, one.since)) for one in executors) / 3600.0
    each = [one.slots for one in executors if one.since < end and one.until > begin]
    return RecordedQuery(
        name=name,
        batches=tuple(batches),
        trigger_s=find_trigger(batches),
        slots_each=int(np.median(each)) if each else 1,
        executor_hours=hours or float(np.median([b.slots for b in batches])) * (end - begin) / 3600.0,
        missing=len(rows) - len(batches),
    )
