"""Make samples of the tasks and executors of event logs; the rules are those of `sources.log_samples`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scaler.model.kernel import Floats
from tuner.pipeline.local.columns import Flags, Ints, combine, encode, get_numbers, make_table
from tuner.pipeline.local.log_context import LogFacts, LoggedExecutor, LoggedStage, Place, Row, group, most

MINUTE = 60_000  # ms
TASK_COLUMNS = (
    *("log", "stage", "attempt", "task", "executor", "success", "time", "end", "run_ms"),
    *("records", "shuffled", "written", "shuffle_written"),
)


def make_task_samples(tasks: pa.Table, facts: LogFacts) -> pa.Table:
    """A sample of every task of a query's stage."""
    places = find_places(tasks, "stage")
    stages = [facts.stages.get(place) for place in places.values]
    mine = np.array([stage is not None for stage in stages], np.bool_)[places.of]
    tasks, of = tasks.filter(pa.array(mine)), places.of[mine]
    executors = find_places(tasks, "executor")
    lives = [facts.executors.get(place) for place in executors.values]
    number = {name: get_numbers(tasks, name) for name in TASK_COLUMNS[6:]}
    done = pc.fill_null(tasks["success"], False).to_numpy()
    time, end, run = number["time"], number["end"], number["run_ms"]
    taken = only(done & flags(stages, "entry")[of], more(number["records"], number["shuffled"]))
    out = more(number["written"], number["shuffle_written"])
    n = only((taken > 0.0) & ~np.isnan(run), taken)
    t = only(~np.isnan(n), run / 1000)
    return make_table(
        time.size,
        {
            "application": spread([stage.query.application if stage else None for stage in stages], of),
            "operator": spread([stage.operator if stage else None for stage in stages], of),
            "node_type": spread([life.node_type if life else None for life in lives], executors.of),
            "start": time / 1000,
            "end": np.maximum(end, time + 1) / 1000,
            "evidence": "tasks",
            "key": name_tasks(tasks, spread([stage.query.app if stage else None for stage in stages], of)),
            "tuples_in": taken,
            "tuples_out": only(done & flags(stages, "leaving")[of] & (out > 0.0), out),
            "task_n": only(~np.isnan(t), np.ones(t.size)),
            "task_records": n,
            "task_time": t,
            "task_inverse": 1.0 / n,
            "task_rates": t / n,
            "task_squares": t * t / n,
            "busy": np.where(np.isnan(run), end - time, run) / 1000,
            "completeness": np.ones(time.size),
        },
    )


class Places:
    """The different values of a column, each with its log, and which one a row has."""

    def __init__(self, values: list[Place], of: Ints) -> None:
        self.values, self.of = values, of


def find_places(rows: pa.Table, name: str) -> Places:
    column = rows[name]
    codes = encode(column) if pa.types.is_string(column.type) else column.fill_null(-1).to_numpy()
    _, first, of = np.unique(combine(encode(rows["log"]), codes), return_index=True, return_inverse=True)
    chosen = rows.select(["log", name]).take(first)
    return Places(list(zip(chosen["log"].to_pylist(), chosen[name].to_pylist(), strict=True)), of)


def flags(stages: Iterable[LoggedStage | None], name: str) -> Flags:
    return np.array([stage is not None and getattr(stage, name) for stage in stages], np.bool_)


def spread(texts: list[str | None], of: Ints) -> pa.Array:
    """Texts by row, written once each."""
    return pa.DictionaryArray.from_arrays(pa.array(of), pa.array(texts, pa.string())).cast(pa.string())


def name_tasks(tasks: pa.Table, app: pa.Array) -> Any:
    parts = [tasks[name].cast(pa.string()) for name in ("stage", "attempt", "task")]
    return pc.binary_join_element_wise(app, *parts, "/", null_handling="skip")


def more(first: Floats, second: Floats) -> Floats:
    """The first count unless it is zero or unknown."""
    return np.where(first > 0.0, first, np.where(np.isnan(second), first, second))


def only(kept: Flags, values: Floats) -> Floats:
    return np.where(kept, values, np.nan)


def make_replica_samples(rows: pa.Table, rare: list[Row], facts: LogFacts) -> pa.Table:
    """A sample a minute of every executor, while an operator has jobs in its profile."""
    samples = [
        sample
        for stage, first, final, log, end_of_log, ended in list_jobs(rows, rare, facts)
        for (place, name), life in facts.executors.items()
        if place == log and life.profile == stage.profile
        for sample in cut_life(stage, name, life, first, final, end_of_log, ended)
    ]
    return pa.Table.from_pylist(samples, make_table(0, {}).schema)


def list_jobs(rows: pa.Table, rare: list[Row], facts: LogFacts) -> Iterator[tuple[Any, ...]]:
    """For each operator and profile of a log: a stage, its first and last job, and the log's end."""
    last = find_last(rows)
    ended = {log: most(row["time"] for row in of) for (log,), of in group(pick(rare, "end"), "log").items()}
    used: dict[Any, list[LoggedStage]] = {}
    for (log, _), stage in facts.stages.items():
        used.setdefault((log, stage.operator, stage.profile, stage.query.application), []).append(stage)
    for (log, *_), stages in used.items():
        times = [stage.submitted for stage in stages]
        yield stages[0], most(times, min), most(times), log, last[log], ended.get(log)


def pick(rows: Iterable[Row], kind: str) -> Iterator[Row]:
    return (row for row in rows if row["kind"] == kind)


def find_last(rows: pa.Table) -> dict[str, int | None]:
    """The last moment that each log tells of."""
    found = rows.group_by("log").aggregate([("time", "max"), ("end", "max")])
    return {row["log"]: most((row["time_max"], row["end_max"])) for row in found.to_pylist()}


def cut_life(
    stage: LoggedStage,
    name: str,
    life: LoggedExecutor,
    first: int | None,
    final: int | None,
    last: int | None,
    ended: int | None,
) -> Iterator[dict[str, Any]]:
    begin = most((life.since, first))
    over = None if final is None else (final // MINUTE + 1) * MINUTE
    finish = most((life.until, ended, last, over), min)
    if begin is None or finish is None or begin >= finish:
        return
    for minute in range(begin // MINUTE, finish // MINUTE + 1):
        start, end = max(begin, minute * MINUTE), min(finish, (minute + 1) * MINUTE)
        known = ended is not None or (last is not None and (minute + 1) * MINUTE <= last)
        if known and start < end:
            yield {
                "application": stage.query.application,
                "operator": stage.operator,
                "start": start / 1000,
                "end": end / 1000,
                "evidence": "tasks",
                "key": f"{stage.query.app}/executor/{name}/{minute}",
                "node_type": life.node_type,
                "replicas": float(life.slots),
                "completeness": 1.0,
            }
