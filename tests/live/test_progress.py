"""Parser of Spark's progress: drivers, event logs and files of progress read the same numbers from one document."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model.spark_progress import QueryEvent, Trigger, read_progress, read_query_event
from scaler.sensing.query_history import QueryListener
from tests.live.streams import BEGAN, offsets, progress, recorded, sign
from tests.pipeline import logs
from tests.pipeline.test_event_log import mutate
from tuner.pipeline.sources.log_file import FilePiece, read_piece
from tuner.pipeline.sources.progress_documents import read_file


def read(document: object) -> Trigger:
    trigger = read_progress(document)
    assert trigger is not None
    return trigger


def documents() -> list[dict[str, Any]]:
    told = [e["document"] for name in ("files", "rate", "limited") for e in recorded(name) if e["event"] == "progress"]
    kafka = [progress("r", i, BEGAN + i, 0.5, 50 * i, 50 * i + 50, 80 * i + 80)["document"] for i in range(3)]
    as_text = json.loads(json.dumps(kafka[1]))
    for place in ("startOffset", "endOffset", "latestOffset"):
        as_text["sources"][0][place] = json.dumps(as_text["sources"][0][place])
    return [*told, *kafka, as_text, logs.progress(4, "2023-11-15T00:00:00.000Z", 100)]


def refuse(kind: str, sign: QueryEvent) -> None:
    raise AssertionError(kind)


def hear(document: object) -> list[Trigger]:
    """A document by way of the driver."""
    kept: list[Trigger] = []
    text = json.dumps(document)
    inner = SimpleNamespace(json=lambda: text)
    QueryListener(kept.append, refuse).onQueryProgress(SimpleNamespace(progress=lambda: inner))
    return kept


def read_log(document: object, folder: Path) -> list[dict[str, Any]]:
    """The same by way of an event log, and of a file of progress."""
    event = {"Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent", "progress": document}
    log, file = folder / "log", folder / "progress.json"
    log.write_text(json.dumps(event, separators=(",", ":")) + "\n")
    file.write_text(json.dumps(document) + "\n")
    of_log = [row for batch in read_piece(FilePiece("log", str(log))) for row in batch.to_pylist()]
    of_file = [row for batch in read_file(FilePiece("log", str(file))) for row in batch.to_pylist()]
    assert of_log == of_file
    return [row for row in of_log if row["kind"] == "progress"]


def check_same(document: dict[str, Any], folder: Path) -> None:
    triggers, events = hear(document), read_log(document, folder)
    assert len(triggers) == len(events) == 1
    trigger, event = triggers[0], events[0]
    assert (trigger.query, trigger.run, trigger.batch) == (event["query"], event["run"], event["batch"])
    assert (trigger.name, trigger.rows, trigger.written) == (event["name"], event["records"], event["written"])
    assert round(trigger.time * 1000) == event["time"]
    assert trigger.duration == (None if event["run_ms"] is None else event["run_ms"] / 1000)
    assert trigger.executed == event["executed"]
    assert (trigger.latest, trigger.backlog) == (event["latest"], event["backlog"])


@pytest.mark.parametrize("document", documents())
def test_driver_and_logs_read_recorded_progress_alike(document: dict[str, Any], tmp_path: Path) -> None:
    check_same(document, tmp_path)


numbers = st.none() | st.integers(-1, 50) | st.integers(0, 50).map(float) | st.integers(0, 50).map(str) | st.booleans()
positions = st.one_of(
    numbers,
    st.dictionaries(st.sampled_from(["logOffset", "line"]), st.integers(-1, 50), max_size=2),
    st.dictionaries(st.just("words"), st.dictionaries(st.sampled_from("01"), st.integers(0, 50)), max_size=1),
)
positions = positions | positions.map(json.dumps)
places = st.sampled_from(["KafkaV2[Subscribe[words]]", "FileStreamSource[file:/in]", "RateStreamV2[1]", "", None])
one_source = st.fixed_dictionaries(
    {"description": places, "startOffset": positions, "endOffset": positions, "numInputRows": numbers},
    optional={
        "latestOffset": positions,
        "metrics": st.dictionaries(
            st.sampled_from(["avgOffsetsBehindLatest", "maxOffsetsBehindLatest"]),
            st.sampled_from(["3", "1.5", "NaN", ""]),
        ),
    },
)


@settings(max_examples=200)
@given(
    st.lists(one_source, max_size=3),
    st.dictionaries(st.sampled_from(["addBatch", "triggerExecution"]), numbers),
    numbers,
    st.integers(0, 10**9),
)
def test_driver_and_logs_read_any_progress_alike(
    sources: list[dict[str, Any]], durations: dict[str, Any], written: Any, ms: int
) -> None:
    document = {**sign("run-1", BEGAN + ms / 1000.0), "batchId": 3, "sources": sources, "durationMs": durations}
    with TemporaryDirectory() as folder:
        check_same(document | {"sink": {"description": "FileSink[/out]", "numOutputRows": written}}, Path(folder))


def test_offsets_of_a_real_limited_source_are_its_backlog() -> None:
    triggers = [read(e["document"]) for e in recorded("limited") if e["event"] == "progress"]
    assert [t.rows for t in triggers] == [60] * len(triggers)
    assert triggers[0].backlog is None  # that it began at zero is not said
    assert all(t.latest is not None and t.backlog == t.latest - (t.ended or 0) for t in triggers[1:])
    grown = [(b.latest or 0) - (a.latest or 0) for a, b in pairwise(triggers[1:])]
    seconds = [b.time - a.time for a, b in pairwise(triggers[1:])]
    assert sum(grown) == pytest.approx(40.0 * sum(seconds), abs=2.0)  # the source makes 40 a second


def test_seconds_of_a_rate_source_and_numbers_of_logs_count_no_tuples() -> None:
    triggers = [read(e["document"]) for n in ("rate", "files") for e in recorded(n) if e["event"] == "progress"]
    assert {(t.latest, t.ended, t.backlog) for t in triggers} == {(None, None, None)}
    still = {"startOffset": 7, "endOffset": 7, "latestOffset": 9, "numInputRows": 0}
    assert read(logs.progress(0, "2023-11-15T00:00:00Z", 0, sources=[still])).latest is None


def test_a_file_source_says_which_entry_of_its_log_its_batch_took() -> None:
    documents = [e["document"] for e in recorded("files") if e["event"] == "progress"]
    assert [read(document).entry for document in documents] == [document["batchId"] for document in documents]
    source = documents[1]["sources"][0]
    for before, after in (({"logOffset": 3}, {"logOffset": 3}), (None, None), (None, "{"), (None, {"logOffset": -1})):
        again = {**documents[1], "sources": [{**source, "startOffset": before, "endOffset": after}]}
        assert read(again).entry is None
    again = {**documents[1], "sources": [{**source, "startOffset": None, "endOffset": '{"logOffset":0}'}]}
    assert read(again).entry == 0
    assert all(read(e["document"]).entry is None for e in recorded("rate") if e["event"] == "progress")


def test_a_lag_that_kafka_measures_is_the_backlog_where_latest_offsets_are_missing() -> None:
    source = {"startOffset": offsets(0), "endOffset": offsets(4), "numInputRows": 4, "latestOffset": None}
    source["metrics"] = {"avgOffsetsBehindLatest": "12.5", "maxOffsetsBehindLatest": "20"}
    assert read(logs.progress(0, "2023-11-15T00:00:00Z", 4, sources=[source])).backlog == 25
    del source["metrics"]["avgOffsetsBehindLatest"]
    assert read(logs.progress(0, "2023-11-15T00:00:00Z", 4, sources=[source])).backlog == 20
    source["metrics"] = {"maxOffsetsBehindLatest": "NaN"}
    assert read(logs.progress(0, "2023-11-15T00:00:00Z", 4, sources=[source])).backlog is None


def test_signs_are_read_and_time_is_taken_where_they_tell_none() -> None:
    events = {e["event"]: e for e in reversed(recorded("files"))}
    started, idle, ended = (read_query_event(events[kind]["document"], 5.0) for kind in ("started", "idle", "ended"))
    assert started is not None
    assert idle is not None
    assert ended is not None
    assert (started.name, idle.name, ended.time, ended.failed) == ("files", None, 5.0, False)
    assert started.time < idle.time
    failed = read_query_event(sign("r", 1.0, exception="java.lang.IllegalStateException: no"), 5.0)
    assert failed is not None
    assert failed.failed


def test_no_document_raises() -> None:
    odd: list[Any] = [None, [], {}, "", "x", -1, 1.5, 10**30, 1e400, True, [None], {"a": None}, {"t": {"0": []}}]
    whole = progress("r", 1, BEGAN, 0.5, 0, 5, 9)["document"]
    whole["sources"][0]["metrics"] = {"avgOffsetsBehindLatest": "1"}
    found = [(read_progress(document), read_query_event(document, 0.0)) for document in mutate(whole, odd)]
    assert sum(trigger is not None for trigger, _ in found) > 100
    assert read_progress([]) is read_progress(None) is read_query_event("x", 0.0) is None
