"""Parse the lines of ended tasks to a dozen numbers, by a short way and one that is sure.

A line has some 4 KB, of which accumulables take most. The short way reads the first half KB up to them and the last KB
behind them, in the layout that Spark has kept since 2.1; where a line looks otherwise, and for every task that did not
succeed, the whole line is read as JSON. Both give the same numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

parse_quickly: Callable[[bytes], Any]
try:
    import orjson
except ModuleNotFoundError:  # a few lines in a hundred come here, so that a log takes little longer without it
    parse_quickly = json.loads
else:
    parse_quickly = orjson.loads

PREFIX = b'{"Event":"SparkListenerTaskEnd"'
HEAD = re.compile(
    rb'\{"Event":"SparkListenerTaskEnd","Stage ID":(\d{1,18}),"Stage Attempt ID":(\d{1,18}),"Task Type":"\w+",'
    rb'"Task End Reason":\{"Reason":"Success"\},"Task Info":\{"Task ID":(\d{1,18}),"Index":\d+,"Attempt":\d+,'
    rb'(?:"Partition ID":-?\d+,)?"Launch Time":(\d{1,18}),"Executor ID":"([\w.:-]+)","Host":"[^"\\]*","Locality":"\w+",'
    rb'"Speculative":\w+,"Getting Result Time":\d+,"Finish Time":(\d{1,18}),"Failed":false,'
)
METRICS = b'"Task Metrics":{'
NUMBER = re.compile(rb"\d{1,18}(?!\d)")
IN_METRICS = (  # in the order of the line; with its quote no name is the end of another
    ("run_ms", b'"Executor Run Time":'),
    ("shuffled", b'"Total Records Read":'),
    ("shuffle_written", b'"Shuffle Records Written":'),
    ("records", b'"Records Read":'),
    ("written", b'"Records Written":'),
)
NAMES = tuple(name for _, name in IN_METRICS)
OF_HEAD = ("stage", "attempt", "task", "time", "executor", "end")
COLUMNS = (*OF_HEAD, *(column for column, _ in IN_METRICS))


class DamagedLine(ValueError):
    """The line is no event."""


def cut(text: bytes, start: int, end: int) -> tuple[bytes, ...] | None:
    """The values of `COLUMNS` as they stand in the line at [start, end); None where it is not laid out as expected."""
    head = HEAD.match(text, start, end)
    if head is None or text[end - 2 : end] != b"}}":
        return None
    values = [*head.groups()]
    place = text.rfind(METRICS, start, end)
    if place < 0:
        return None
    for name in NAMES:
        place = text.find(name, place, end)
        found = NUMBER.match(text, place + len(name), end) if place > 0 else None
        if found is None:
            return None
        values.append(found.group())
    return tuple(values)


def read_task(event: dict[str, Any]) -> dict[str, Any]:
    """Any task's end."""
    info, metrics = part(event, "Task Info"), part(event, "Task Metrics")
    reads = (part(metrics, "Input Metrics").get("Records Read"), part(metrics, "Shuffle Read Metrics"))
    reason = part(event, "Task End Reason").get("Reason")
    values = {
        "stage": whole(event.get("Stage ID")),
        "attempt": whole(event.get("Stage Attempt ID")) or 0,
        "task": whole(info.get("Task ID")),
        "time": whole(info.get("Launch Time")),
        "executor": str(info.get("Executor ID")),
        "end": whole(info.get("Finish Time")),
    }
    if any(value is None for value in values.values()):
        raise DamagedLine("a number is missing")
    return values | {
        "kind": "lost" if reason == "Resubmitted" else "task",
        "success": reason == "Success",
        "run_ms": whole(metrics.get("Executor Run Time")),
        "records": whole(reads[0]),
        "shuffled": whole(reads[1].get("Total Records Read")),
        "written": whole(part(metrics, "Output Metrics").get("Records Written")),
        "shuffle_written": whole(part(metrics, "Shuffle Write Metrics").get("Shuffle Records Written")),
    }


def load(line: bytes) -> dict[str, Any]:
    """The line as an object of JSON."""
    try:
        try:
            event = parse_quickly(line)
        except ValueError:  # Java writes NaN, and numbers of any length
            event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DamagedLine("no JSON") from error
    if not isinstance(event, dict):
        raise DamagedLine("no object")
    return event


def part(of: dict[str, Any], name: str) -> dict[str, Any]:
    """Get an object inside; an empty one where there is none."""
    inner = of.get(name)
    return inner if isinstance(inner, dict) else {}


def whole(value: object) -> int | None:
    """A whole number that fits 64 bits, also where it stands as text; None for anything else."""
    if isinstance(value, str) and value.lstrip("-").isascii() and value.lstrip("-").isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        return None
    return value


def pack_tasks(rows: list[tuple[bytes, ...]], log: str, shape: pa.Schema) -> pa.RecordBatch:
    """Successful tasks as one batch of events; the digits become numbers here, all at once."""
    columns: dict[str, Any] = {
        name: pa.array(values, pa.binary()).cast(pa.string())
        for name, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)
    }
    n = len(rows)
    columns |= {"log": pa.repeat(log, n), "kind": pa.repeat("task", n), "success": pa.repeat(True, n)}
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(n, field.type) for field in shape
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=shape)
