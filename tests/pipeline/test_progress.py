"""StreamingQueryProgress in every form that it is kept in, against what came and was done."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scaler.model.errors import BadInput
from scaler.model.sketch import Sketch, add_span, find_quantile
from scaler.sensing.evaluate import evaluate
from scaler.sensing.evidence import Evidence
from scaler.sensing.observation import make_samples
from tests.live.streams import tell
from tests.pipeline import logs
from tests.pipeline.engines import examine_both
from tests.pipeline.test_event_log import mutate
from tuner.pipeline import sources
from tuner.pipeline.sources.event_lines import find_places, read_trigger
from tuner.pipeline.sources.log_file import FilePiece
from tuner.pipeline.sources.progress_documents import parse_text, read_documents
from tuner.pipeline.sources.task_lines import DamagedLine
from tuner.pipeline.windows import read_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
MIDNIGHT = 1_700_006_400.0
Document = dict[str, Any]


def at(second: int) -> str:
    return f"2023-11-15T00:{second // 60:02d}:{second % 60:02d}.000Z"


def examine(spark: SparkSession, path: Path | str) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    rows, notes = examine_both(spark, sources.detect(path), "shop")
    return sorted(rows, key=lambda row: (row["start"], row["key"])), notes


def write(path: Path, documents: list[Document]) -> Path:
    return logs.write(path, [json.dumps(document) for document in documents])


def test_state_comes_from_the_batch_that_left_it(spark: SparkSession, tmp_path: Path) -> None:
    operators = [
        {"numRowsTotal": 10, "memoryUsedBytes": 900, "commitTimeMs": 40, "numShufflePartitions": 8}
        | {"customMetrics": {"rocksdbSstFileSize": 700, "rocksdbNumLoadedFromDfs": 2, "rocksdbLoadLatencyMs": 1500}},
        {"numRowsTotal": 5, "memoryUsedBytes": 300, "commitTimeMs": 10, "numShufflePartitions": 4}
        | {"customMetrics": {"rocksdbNumLoadedFromDfs": 1, "rocksdbLoadLatencyMs": 500}},
    ]
    stateful = logs.progress(1, at(10), 60, duration=1000, stateOperators=operators)
    samples, _ = examine(spark, write(tmp_path / "p.jsonl", [logs.progress(0, at(0), 100), stateful]))
    (done,) = [row for row in samples if "state_rows" in row]
    assert (done["start"], done["state_rows"], done["state_bytes"]) == (MIDNIGHT + 10, 15.0, 1000.0)
    assert (done["state_partitions"], done["commit_time"]) == (8.0, 0.05)
    assert (done["store_loads"], done["store_load_time"]) == (3.0, 2.0)


@pytest.mark.parametrize("listed", [None, {}, [1], [{"numRowsTotal": -1, "customMetrics": 7, "commitTimeMs": True}]])
def test_odd_state_is_not_known(listed: Any) -> None:
    told = read_trigger(logs.progress(0, at(0), 1, stateOperators=listed))
    assert {told[name] for name in ("state_rows", "state_bytes", "state_partitions", "store_loads")} == {None}


def test_a_batch_tells_what_came_before_it_and_what_it_did(spark: SparkSession, tmp_path: Path) -> None:
    sink = {"description": "ForeachBatchSink", "numOutputRows": 7}
    first = logs.progress(4, at(0), 100, duration=2000, sink=sink)
    second = logs.progress(5, at(10), 60, duration=1000)
    samples, notes = examine(spark, write(tmp_path / "p.jsonl", [first, second, second]))
    assert notes == ()
    common = {"application": "shop", "operator": "words", "evidence": "progress", "completeness": 1.0}
    key = logs.RUN
    done = {"start": MIDNIGHT, "end": MIDNIGHT + 2, "key": f"{key}/4", "tuples_in": 100.0, "tuples_out": 7.0}
    came = {"start": MIDNIGHT, "end": MIDNIGHT + 10, "key": f"{key}/5/arrivals/{int(MIDNIGHT + 10)}000"}
    last = {"start": MIDNIGHT + 10, "end": MIDNIGHT + 11, "key": f"{key}/5", "tuples_in": 60.0}
    sketch: Sketch = {}
    add_span(sketch, 1.0, 11.0, 60.0)
    assert json.loads(samples[-1].pop("responses")) == pytest.approx(sketch)
    assert samples == [
        common | done | {"batches": 1.0, "batch_time": 2.0},
        common | came | {"arrived": 60.0, "batch_interval": 10.0},
        common | last | {"batches": 1.0, "batch_time": 1.0, "response_n": 60.0, "response_sum": 60 * (5.0 + 1.0)},
    ]


def test_a_window_has_the_sketch_that_the_driver_reports(spark: SparkSession, tmp_path: Path) -> None:
    """Batches every 10 s, their durations and rows in turn; some run over the edges of windows."""
    from tuner.pipeline.fold import check_samples, fold, select_sound

    documents = [logs.progress(i, at(10 * i), 60 + 25 * (i % 4), duration=500 + 3000 * (i % 3)) for i in range(30)]
    reading = sources.examine(spark, sources.detect(write(tmp_path / "p.jsonl", documents)), "shop")
    folded = {row["start"]: row.asDict() for row in fold(select_sound(check_samples(reading.samples, 2e9))).collect()}
    past = tell([{"event": "progress", "document": document} for document in documents])
    for start in (MIDNIGHT + 60.0, MIDNIGHT + 120.0, MIDNIGHT + 180.0):
        (own,) = make_samples(evaluate(Evidence("words", start, start + 60.0, past)))
        assert read_row(folded[start]).responses == own["responses"]
        assert sum(own["responses"].values()) == pytest.approx(own["tuples_in"], rel=1e-3)
        assert find_quantile(own["responses"], 0.95) > own["response_sum"]


def kafka(start: int, end: int, latest: int | None, text: bool = False, **metrics: str) -> Document:
    def offsets(number: int | None) -> Any:
        found = None if number is None else {"t": {"0": number, "1": 1000}}
        return json.dumps(found) if text and found else found

    ends = {"startOffset": offsets(start), "endOffset": offsets(end), "latestOffset": offsets(latest)}
    return {"description": "KafkaV2[Subscribe[t]]", **ends, "numInputRows": end - start, "metrics": metrics}


@pytest.mark.parametrize("text", [False, True])
def test_offsets_show_what_came_and_what_waits(text: bool, spark: SparkSession, tmp_path: Path) -> None:
    """A limit of 50 a batch, 80 more each time: the rows of a batch are not what came."""
    documents = [
        logs.progress(i, at(10 * i), 50, sources=[kafka(50 * i, 50 * (i + 1), 80 * (i + 1), text)]) for i in range(3)
    ]
    samples, _ = examine(spark, write(tmp_path / "p.jsonl", documents))
    assert [row["arrived"] for row in samples if "arrived" in row] == [80.0, 80.0]
    assert [row["backlog"] for row in samples if "backlog" in row] == [30.0, 60.0, 90.0]
    assert [row for row in samples if "response_n" in row] == []  # what waited longer is not known


def test_without_latest_offsets_the_lag_that_a_source_measures_is_the_backlog() -> None:
    lag = {"avgOffsetsBehindLatest": "12.5", "maxOffsetsBehindLatest": "20"}
    assert read_trigger(logs.progress(0, at(0), 1, sources=[kafka(0, 1, None, **lag)]))["backlog"] == 25
    del lag["avgOffsetsBehindLatest"]
    assert read_trigger(logs.progress(0, at(0), 1, sources=[kafka(0, 1, None, **lag)]))["backlog"] == 20
    assert read_trigger(logs.progress(0, at(0), 1))["backlog"] is None
    known, unknown = kafka(0, 1, 9), {"description": "rate", "numInputRows": 1, "endOffset": 5, "latestOffset": 6}
    assert read_trigger(logs.progress(0, at(0), 2, sources=[known, unknown]))["backlog"] is None


def test_offsets_count_tuples_where_a_batch_took_as_many_as_they_grew() -> None:
    def latest(start: Any, end: Any, newest: Any, rows: int) -> Any:
        source = {"startOffset": start, "endOffset": end, "latestOffset": newest, "numInputRows": rows}
        trigger = read_trigger(logs.progress(0, at(0), rows, sources=[source]))
        return trigger["latest"], trigger["backlog"]

    assert latest({"line": 10}, {"line": 15}, {"line": 18}, 5) == (18, 3)
    assert latest('{"line": 10}', '{"line": 15}', '{"line": 18}', 5) == (18, 3)
    assert latest(10, 15, 18, 50) == (None, None)
    assert latest(None, {"line": 15}, {"line": 18}, 15) == (None, None)
    assert latest(7, 7, 9, 0) == (None, None)  # an idle rate source, whose offsets are seconds
    assert latest({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1}}}, 7, 0) == (None, None)


def test_idle_triggers_say_that_nothing_came_and_restarts_say_nothing(spark: SparkSession, tmp_path: Path) -> None:
    documents = [
        logs.progress(0, at(0), 10),
        logs.progress(1, at(10), 0, executed=False),
        logs.progress(1, at(20), 0, executed=False),
        logs.progress(1, at(30), 30),
        logs.progress(2, at(300), 500) | {"runId": "11111111-31a5-4a9b-9a37-9d1d1f3f7a02"},
        logs.progress(3, at(310), 20) | {"runId": "11111111-31a5-4a9b-9a37-9d1d1f3f7a02"},
    ]
    samples, _ = examine(spark, write(tmp_path / "p.jsonl", documents[::-1]))
    came = [(row["start"] - MIDNIGHT, row["end"] - MIDNIGHT, row["arrived"]) for row in samples if "arrived" in row]
    assert came == [(0, 10, 0.0), (10, 20, 0.0), (20, 30, 30.0), (300, 310, 20.0)]
    assert [row["batch_interval"] for row in samples if "batch_interval" in row] == [30.0, 10.0]
    assert sum(row.get("batches", 0.0) for row in samples) == 4
    assert len({row["key"] for row in samples}) == len(samples)


def pretty(documents: list[Document]) -> str:
    return "\n".join(json.dumps(document, indent=2) for document in documents)


FORMS: dict[str, Callable[[list[Document]], str]] = {
    "lines": lambda documents: "\n".join(map(json.dumps, documents)),
    "windows": lambda documents: "\ufeff" + "\r\n".join(map(json.dumps, documents)),
    "array": json.dumps,
    "printed array": lambda documents: json.dumps(documents, indent=1),
    "printed": pretty,
    "events": lambda documents: "\n".join(json.dumps({"progress": document}) for document in documents),
    "a torn end": lambda documents: pretty([*documents, documents[0]])[:-40],
    "rubbish between": lambda documents: "\n".join(["{", *map(json.dumps, documents[:1]), "}", pretty(documents[1:])]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same(form: str, tmp_path: Path) -> None:
    documents = [logs.progress(i, at(10 * i), i) for i in range(4)]
    path = tmp_path / "p.json"
    path.write_text(FORMS[form](documents))
    assert sources.detect(path)[0].kind == "progress"
    found = [row for row in read_documents(FilePiece("p", str(path))) if row["kind"] == "progress"]
    assert [row["batch"] for row in found] == [0, 1, 2, 3]


def test_no_document_raises_but_to_say_that_it_is_damaged() -> None:
    odd: list[Any] = [None, [], {}, "", "x", -1, 1.5, 10**30, True, [None], {"a": None}, {"t": {"0": []}}]
    whole = logs.progress(0, at(0), 5, sources=[kafka(0, 5, 9, avgOffsetsBehindLatest="1")])
    read = 0
    for document in mutate(whole, odd):
        try:
            read_trigger(document)
            read += 1
        except DamagedLine:
            pass
    assert read > 100
    for text in (
        "",
        "[",
        "]",
        "nonsense",
        "[[[",
        "{}",
        "{" * 5000,
        '{"a":' * 900 + "1" + "}" * 900,
        '{"id":1}',
        "NaN",
        '"\\ud800"',
    ):
        assert all(row["kind"] == "corrupt" for row in parse_text(text, "p"))


def test_files_without_progress_or_application_get_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    path = logs.write(tmp_path / "p.json", ['{"runId": "r"}', "{"])
    with pytest.raises(BadInput, match=r"p\.json: no progress of a streaming query is in it"):
        examine(spark, path)
    with pytest.raises(BadInput, match=r"does not say which application"):
        sources.examine(spark, sources.detect(path))


@pytest.fixture
def answers() -> Iterator[tuple[str, list[bytes]]]:
    """A server on loopback that answers what it is told."""
    told: list[bytes] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if told else 404)
            self.end_headers()
            self.wfile.write(b"".join(told))

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/progress", told
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_address_is_read_like_a_file(answers: tuple[str, list[bytes]], spark: SparkSession) -> None:
    address, told = answers
    with pytest.raises(BadInput, match=r"^http://127.0.0.1:\d+/progress does not answer \(.*404"):
        examine(spark, address)
    told.append(json.dumps([logs.progress(0, at(0), 5), logs.progress(1, at(10), 6)]).encode())
    samples, _ = examine(spark, address)
    assert [row["tuples_in"] for row in samples if "tuples_in" in row] == [5.0, 6.0]


@pytest.mark.parametrize(
    ("description", "places"),
    [
        ("FileStreamSource[file:/tmp/x]", ["path:/tmp/x"]),
        ("FileSink[/tmp/x/]", ["path:/tmp/x"]),
        ("FileSink[file:///tmp/x y]", ["path:/tmp/x y"]),
        ("FileSink[s3a://b/x]", ["path:s3a://b/x"]),
        ("DeltaSource[s3a://b/x]", ["path:s3a://b/x"]),
        ("KafkaV2[Subscribe[a, b]]", ["kafka:a", "kafka:b"]),
        ("KafkaV2[SubscribePattern[a.*]]", ["kafka:a.*"]),
        ("org.apache.spark.sql.execution.streaming.ConsoleTable$@13b8bba3", []),
        ("ForeachBatchSink", []),
        ("MemoryStream[value#1]", []),
        ("", []),
        (None, []),
    ],
)
def test_where_a_source_or_a_sink_is(description: str | None, places: list[str]) -> None:
    assert find_places(description) == places
