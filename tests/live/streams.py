"""Simulate a micro-batch stream: the events that Spark would send, and the truth behind them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.model.spark_progress import QueryEvent, read_progress, read_query_event
from scaler.sensing.query_history import QueryHistory, QueryPast

RECORDED = Path(__file__).parent / "recorded"
QUERY = "5f0c8a6e-7f4e-4f0a-9d0b-2f6f5f1c9f01"
BEGAN = 1_700_006_400.0  # midnight
IDLE_S = 10.0
Event = dict[str, Any]
Floats = NDArray[np.float64]


@dataclass(slots=True)
class Played:
    events: list[Event] = field(default_factory=list)
    arrived: Floats = field(default_factory=lambda: np.zeros(0))
    began: list[float] = field(default_factory=list)  # when each tuple's batch did
    done: list[float] = field(default_factory=list)  # when it was served

    def rate(self, start: float, end: float) -> float:
        return float(np.count_nonzero((self.arrived >= start) & (self.arrived < end))) / (end - start)

    def response(self, start: float, end: float) -> float:
        """Mean over tuples by the share of their batch's time in the slot."""
        began, done = np.array(self.began), np.array(self.done)
        within = np.clip(np.minimum(done, end) - np.maximum(began, start), 0.0, None) / (done - began)
        return float(np.sum(within * (done - self.arrived[: done.size])) / np.sum(within))

    def response_quantile(self, start: float, end: float, quantile: float) -> float:
        """The same share counts of each tuple."""
        began, done = np.array(self.began), np.array(self.done)
        within = np.clip(np.minimum(done, end) - np.maximum(began, start), 0.0, None) / (done - began)
        responses = done - self.arrived[: done.size]
        order = np.argsort(responses)
        place = np.searchsorted(np.cumsum(within[order]), quantile * within.sum())
        return float(responses[order][min(place, responses.size - 1)])


def stamp(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def spread(levels: Iterable[tuple[float, float]], began: float = BEGAN) -> Floats:
    """Evenly at each level: (seconds, rate)."""
    times, at = [], began
    for seconds, rate in levels:
        number = round(seconds * rate)
        times.append(at + (np.arange(number) + 0.5) * seconds / max(number, 1))
        at += seconds
    return np.concatenate(times)


def play(
    arrived: Floats,
    trigger: float,
    serve: Callable[[int], float],
    until: float,
    limit: int | None = None,
    counted: bool = True,
    run: str = "run-1",
) -> Played:
    """Micro-batches as Spark's: each takes all that came, or `limit` of it, and takes `serve(rows)` seconds.

    `counted`: whether the source's offsets count tuples, as Kafka's do, or say nothing, as a file source's.
    """
    played = Played([{"event": "started", "document": sign(run, BEGAN)}], arrived)
    now, batch, taken, heard = BEGAN, 0, 0, BEGAN
    while now < until:
        came = int(np.searchsorted(arrived, now, "right"))
        rows = came - taken if limit is None else min(came - taken, limit)
        if rows == 0 and batch > 0:
            if now - heard >= IDLE_S:
                played.events.append({"event": "idle", "document": sign(run, now)})
                heard = now
            now = following(now, trigger)
            continue
        spent = round(serve(rows), 3)
        played.events.append(progress(run, batch, now, spent, taken, taken + rows, came, counted))
        played.began += [now] * rows
        played.done += [now + spent] * rows
        heard, batch, taken = now + spent, batch + 1, taken + rows
        now = now + spent if spent >= trigger else following(now + spent, trigger)
    return played


def following(now: float, trigger: float) -> float:
    return BEGAN + (math.floor((now - BEGAN) / trigger + 1e-9) + 1) * trigger


def sign(run: str, time: float, name: str = "words", **extra: Any) -> Event:
    return {"id": QUERY, "runId": run, "name": name, "timestamp": stamp(time), **extra}


def progress(
    run: str, batch: int, time: float, spent: float, start: int, end: int, latest: int, counted: bool = True
) -> Event:
    source: Event = {"description": "FileStreamSource[file:/words]", "startOffset": {"logOffset": batch - 1}}
    source |= {"endOffset": {"logOffset": batch}, "latestOffset": None}
    if counted:
        source |= {"description": "KafkaV2[Subscribe[words]]", "startOffset": offsets(start)}
        source |= {"endOffset": offsets(end), "latestOffset": offsets(latest)}
    document = {
        **sign(run, time),
        "batchId": batch,
        "numInputRows": end - start,
        "durationMs": {"addBatch": round(900 * spent), "triggerExecution": round(1000 * spent)},
        "sources": [{**source, "numInputRows": end - start}],
        "sink": {"description": "FileSink[file:/counts]", "numOutputRows": end - start},
    }
    return {"event": "progress", "document": document}


def offsets(number: int) -> Event:
    return {"words": {"0": number // 2, "1": number - number // 2}}


def tell(events: Iterable[Event], heard_by: float = math.inf) -> QueryPast:
    """What a listener would have kept of them; reports of batches that are not done by then have not come."""
    history = QueryHistory()
    for event in events:
        document, now = event["document"], event.get("heard", 0.0)
        if event["event"] == "progress":
            trigger = read_progress(document)
            assert trigger is not None
            if trigger.done <= heard_by:
                history.add_trigger(trigger)
            continue
        told = read_query_event(document, now)
        assert isinstance(told, QueryEvent)
        if told.time <= heard_by:
            history.add_event(event["event"], told)
    return history.copy()


def recorded(name: str) -> list[Event]:
    return [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text().splitlines()]
