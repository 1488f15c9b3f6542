"""Write event logs as Spark writes them, of whatever size and version."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUERY = "5f0c8a6e-7f4e-4f0a-9d0b-2f6f5f1c9f01"
RUN = "b1f4c1de-31a5-4a9b-9a37-9d1d1f3f7a02"
START = 1_700_000_000_000  # ms since 1970
DETAILS = "\n".join(f"org.apache.spark.sql.streaming.Frame{i}.call(Frame{i}.scala:{i})" for i in range(24))
METRICS = ("duration", "number of output rows", "peak memory", "time in aggregation build", "shuffle records written")


@dataclass(frozen=True, slots=True)
class Job:
    """What one job line says beyond what is the same in all."""

    number: int = 0
    batch: int = 0
    query: str | None = QUERY
    run: str = RUN
    name: str | None = "words"
    stages: tuple[tuple[int, tuple[int, ...], int], ...] = ((0, (), 0),)  # id, parents, resource profile
    time: int = START


@dataclass(frozen=True, slots=True)
class Task:
    number: int = 0
    stage: int = 0
    attempt: int = 0  # of the stage
    index: int = 0
    executor: str = "1"
    launch: int = START
    run_ms: int = 100
    wall_ms: int = 110
    records: int = 50
    shuffled: int = 0  # records read from a shuffle
    written: int = 0
    shuffle_written: int = 0
    reason: str = "Success"
    speculative: bool = False
    type: str = "ResultTask"
    accumulables: int = 20


def render(event: dict[str, Any]) -> str:
    return json.dumps(event, separators=(",", ":"))


def start(name: str = "tiny", identity: str = "app-1", version: str = "4.3.0", time: int = START) -> list[str]:
    """The opening lines of a log; one executor of two cores on one host."""
    return [
        render({"Event": "SparkListenerLogStart", "Spark Version": version}),
        render(
            {
                "Event": "SparkListenerApplicationStart",
                "App Name": name,
                "App ID": identity,
                "Timestamp": time,
                "User": "u",
            }
        ),
        executor(time=time),
    ]


def executor(
    name: str = "1",
    profile: int | None = 0,
    resources: Iterable[str] = (),
    cores: int = 2,
    time: int = START,
    **extra: Any,
) -> str:
    info: dict[str, Any] = {"Host": "10.0.0.1", "Total Cores": cores, "Log Urls": {}}
    if profile is not None:  # Spark 3.0 and older do not tell it
        info |= {"Attributes": extra, "Resources": {r: {"name": r, "addresses": ["0"]} for r in resources}}
        info |= {"Resource Profile Id": profile}
    event = {"Event": "SparkListenerExecutorAdded", "Timestamp": time, "Executor ID": name, "Executor Info": info}
    return render(event)


def removed(name: str = "1", time: int = START) -> str:
    event = {"Event": "SparkListenerExecutorRemoved", "Timestamp": time, "Executor ID": name, "Removed Reason": "idle"}
    return render(event)


def profile(number: int, resources: Iterable[str] = (), cpus: float = 1.0) -> str:
    requests = {name: {"Resource Name": name, "Amount": 1, "Discovery Script": "", "Vendor": ""} for name in resources}
    return render(
        {
            "Event": "SparkListenerResourceProfileAdded",
            "Resource Profile Id": number,
            "Executor Resource Requests": {"cores": {"Resource Name": "cores", "Amount": 1}, **requests},
            "Task Resource Requests": {"cpus": {"Resource Name": "cpus", "Amount": cpus}},
        }
    )


def job(of: Job) -> str:
    properties = {"spark.app.name": "tiny", "callSite.long": DETAILS, "spark.master": "local[2]"}
    if of.query:
        name = f"{of.name or ''}\n"  # an empty line where there is no name, as Spark 4 has it
        properties |= {
            "sql.streaming.queryId": of.query,
            "streaming.sql.batchId": str(of.batch),
            "spark.jobGroup.id": of.run,
            "spark.job.description": f"{name}id = {of.query}\nrunId = {of.run}\nbatch = {of.batch}",
        }
    event = {
        "Event": "SparkListenerJobStart",
        "Job ID": of.number,
        "Submission Time": of.time,
        "Stage Infos": [stage(*each) for each in of.stages],
        "Stage IDs": [each[0] for each in of.stages],
        "Properties": properties,
    }
    return render(event)


def stage(number: int, parents: tuple[int, ...] = (), profile: int = 0) -> dict[str, Any]:
    rdds = [
        {
            "RDD ID": number * 4 + i,
            "Name": "MapPartitionsRDD",
            "Scope": json.dumps({"id": f"spark_plan_{i}", "name": f"WholeStageCodegen ({i})"}, separators=(",", ":")),
            "Callsite": "start at NativeMethodAccessorImpl.java:0",
            "Parent IDs": [number * 4 + i + 1],
            "Storage Level": {"Use Disk": False, "Use Memory": False, "Deserialized": False, "Replication": 1},
            "Barrier": False,
            "DeterministicLevel": "DETERMINATE",
            "Number of Partitions": 2,
            "Number of Cached Partitions": 0,
            "Memory Size": 0,
            "Disk Size": 0,
        }
        for i in range(4)
    ]
    return {
        "Stage ID": number,
        "Stage Attempt ID": 0,
        "Stage Name": "start at NativeMethodAccessorImpl.java:0",
        "Number of Tasks": 2,
        "RDD Info": rdds,
        "Parent IDs": list(parents),
        "Details": DETAILS,
        "Accumulables": [],
        "Resource Profile Id": profile,
        "Shuffle Push Enabled": False,
        "Shuffle Push Mergers Count": 0,
    }


def accumulable(number: int, value: int) -> dict[str, Any]:
    return {
        "ID": number,
        "Name": METRICS[number % len(METRICS)],
        "Update": str(value),
        "Value": str(value),
        "Internal": True,
        "Count Failed Values": True,
        "Metadata": "sql",
    }


def task_info(of: Task) -> dict[str, Any]:
    return {
        "Task ID": of.number,
        "Index": of.index,
        "Attempt": 0,
        "Partition ID": of.index,
        "Launch Time": of.launch,
        "Executor ID": of.executor,
        "Host": "10.0.0.1",
        "Locality": "PROCESS_LOCAL",
        "Speculative": of.speculative,
        "Getting Result Time": 0,
        "Finish Time": of.launch + of.wall_ms,
        "Failed": of.reason not in ("Success", "TaskKilled"),
        "Killed": of.reason == "TaskKilled",
        "Accumulables": [accumulable(i, of.number + i) for i in range(of.accumulables)],
    }


def task_metrics(of: Task) -> dict[str, Any]:
    return {
        "Executor Deserialize Time": 5,
        "Executor Deserialize CPU Time": 3_847_590,
        "Executor Run Time": of.run_ms,
        "Executor CPU Time": of.run_ms * 900_000,
        "Peak Execution Memory": 524_288,
        "Result Size": 3132,
        "JVM GC Time": 1,
        "Result Serialization Time": 0,
        "Memory Bytes Spilled": 0,
        "Disk Bytes Spilled": 0,
        "Shuffle Read Metrics": {
            "Remote Blocks Fetched": 0,
            "Local Blocks Fetched": 2,
            "Fetch Wait Time": 0,
            "Remote Bytes Read": 0,
            "Remote Bytes Read To Disk": 0,
            "Local Bytes Read": 316,
            "Total Records Read": of.shuffled,
            "Remote Requests Duration": 0,
            "Push Based Shuffle": {"Corrupt Merged Block Chunks": 0, "Merged Fetch Fallback Count": 0},
        },
        "Shuffle Write Metrics": {
            "Shuffle Bytes Written": 158,
            "Shuffle Write Time": 5_250_334,
            "Shuffle Records Written": of.shuffle_written,
        },
        "Input Metrics": {"Bytes Read": of.records * 6, "Records Read": of.records},
        "Output Metrics": {"Bytes Written": of.written * 8, "Records Written": of.written},
        "Updated Blocks": [],
    }


def task_end(of: Task) -> str:
    event = {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": of.stage,
        "Stage Attempt ID": of.attempt,
        "Task Type": of.type,
        "Task End Reason": {"Reason": of.reason},
        "Task Info": task_info(of),
        "Task Executor Metrics": dict.fromkeys(
            ("JVMHeapMemory", "JVMOffHeapMemory", "OnHeapExecutionMemory", "MinorGCCount", "MinorGCTime"), 0
        ),
    }
    if of.reason != "Resubmitted":
        event["Task Metrics"] = task_metrics(of)
    return render(event)


def progress(
    batch: int,
    time: str,
    rows: int,
    duration: int = 400,
    sources: list[dict[str, Any]] | None = None,
    sink: dict[str, Any] | None = None,
    executed: bool = True,
    **extra: Any,
) -> dict[str, Any]:
    """A StreamingQueryProgress document, as `progress.json` in Spark 3 and later has it."""
    source = {"description": "FileStreamSource[file:/words]", "startOffset": None, "endOffset": {"logOffset": batch}}
    source |= {"latestOffset": None, "numInputRows": rows, "metrics": {}}
    return {
        "id": QUERY,
        "runId": RUN,
        "name": "words",
        "timestamp": time,
        "batchId": batch,
        "batchDuration": duration,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": duration, **({"addBatch": duration - 50} if executed else {})},
        "eventTime": {},
        "stateOperators": [],
        "sources": [source] if sources is None else sources,
        "sink": sink or {"description": "FileSink[file:/mid]", "numOutputRows": -1},
        **extra,
    }


def progress_event(document: dict[str, Any]) -> str:
    return render(
        {
            "Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent",
            "progress": document,
        }
    )


def write(path: Path, lines: Iterable[str], end: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(line + end for line in lines)
    return path


def large(megabytes: float, seed: int = 1, tasks: int = 8) -> Iterator[str]:
    """A stream's log of about so many MB: what Spark writes around each micro-batch of `tasks` tasks."""
    draw = random.Random(seed)
    yield from start()
    written = 0.0
    batch = 0
    while written < megabytes * 1e6:
        lines = list(batch_lines(batch, tasks, draw))
        written += sum(map(len, lines)) + len(lines)
        yield from lines
        batch += 1


def batch_lines(batch: int, tasks: int, draw: random.Random) -> Iterator[str]:
    time = START + batch * 1000
    plan = {"nodeName": "WholeStageCodegen (1)", "simpleString": DETAILS * 4, "children": []}
    sql = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
    yield render({"Event": f"{sql}Start", "executionId": batch, "details": DETAILS, "sparkPlanInfo": plan})
    yield job(Job(batch, batch, stages=((batch, (), 0),), time=time))
    info = stage(batch)
    yield render({"Event": "SparkListenerStageSubmitted", "Stage Info": info, "Properties": {"callSite.long": DETAILS}})
    for i in range(tasks):
        rows = draw.randint(20, 80)
        task = Task(
            batch * tasks + i, batch, index=i, launch=time + 20, records=rows, run_ms=20 + 2 * rows, wall_ms=200
        )
        yield render(
            {"Event": "SparkListenerTaskStart", "Stage ID": batch, "Task Info": task_info(Task(accumulables=0))}
        )
        yield task_end(task)
    done = stage(batch) | {"Accumulables": [accumulable(i, i) for i in range(20)], "Completion Time": time + 300}
    yield render({"Event": "SparkListenerStageCompleted", "Stage Info": done})
    yield render({"Event": "SparkListenerJobEnd", "Job ID": batch, "Completion Time": time + 300})
    yield render({"Event": f"{sql}End", "executionId": batch, "time": time + 310})
    stamp = f"2023-11-14T22:{13 + batch // 60 % 40:02d}:{batch % 60:02d}.000Z"
    yield progress_event(progress(batch, stamp, 50 * tasks))
