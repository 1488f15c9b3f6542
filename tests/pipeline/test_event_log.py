"""Event logs of every form and age, against the samples that their numbers demand."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cramjam
import pytest
import zstandard

from scaler.model.errors import BadInput
from scaler.timing import NODE_RESOURCE
from tests.pipeline import logs
from tests.pipeline.engines import examine_both
from tests.pipeline.logs import START, Job, Task
from tuner.pipeline import sources
from tuner.pipeline.sources import task_lines
from tuner.pipeline.sources.codec import read_chunks
from tuner.pipeline.sources.found import InputFile, detect
from tuner.pipeline.sources.log_file import FilePiece, read_piece
from tuner.pipeline.sources.pieces import cut_pieces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
ROOT = Path(__file__).parents[2]
Samples = list[dict[str, Any]]


def examine(spark: SparkSession, *paths: Path) -> tuple[Samples, tuple[str, ...]]:
    rows, notes = examine_both(spark, sources.detect(*paths))
    return sorted(rows, key=lambda row: (row["operator"], row["key"])), notes


def of_tasks(samples: Samples) -> Samples:
    return [row for row in samples if row["evidence"] == "tasks" and "replicas" not in row]


def events(path: Path, **of: Any) -> Samples:
    """What one Python task makes of a file, without Spark."""
    rows = [row for batch in read_piece(FilePiece("log", str(path), **of)) for row in batch.to_pylist()]
    return [{k: v for k, v in row.items() if v is not None} for row in rows]


def simple(name: str = "tiny", identity: str = "app-1") -> list[str]:
    """One query, one job of one stage, two tasks."""
    return [
        *logs.start(name, identity),
        logs.job(Job()),
        logs.task_end(Task(0, launch=START + 1000, run_ms=200, wall_ms=250, records=50, written=150)),
        logs.task_end(Task(1, index=1, launch=START + 1000, run_ms=100, wall_ms=150, records=20)),
    ]


def test_a_task_is_a_sample_with_the_sums_of_a_fit(spark: SparkSession, tmp_path: Path) -> None:
    samples, notes = examine(spark, logs.write(tmp_path / "app-1", simple()))
    assert notes == ()
    assert samples == [
        {
            "application": "tiny",
            "operator": "words",
            "start": START / 1000 + 1,
            "end": START / 1000 + 1.25,
            "evidence": "tasks",
            "key": "app-1/0/0/0",
            "tuples_in": 50.0,
            "tuples_out": 150.0,
            "task_n": 1.0,
            "task_records": 50.0,
            "task_time": 0.2,
            "task_inverse": 0.02,
            "task_rates": 0.2 / 50,
            "task_squares": pytest.approx(0.2**2 / 50),
            "busy": 0.2,
            "completeness": 1.0,
        },
        samples[1],
    ]
    assert (samples[1]["key"], samples[1]["tuples_in"], "tuples_out" in samples[1]) == ("app-1/0/0/1", 20.0, False)


def test_what_failed_was_killed_or_ran_twice_is_busy_and_not_counted(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        *logs.start(),
        logs.job(Job()),
        logs.task_end(Task(0, reason="ExceptionFailure", run_ms=30)),
        logs.task_end(Task(1, reason="TaskKilled", speculative=True, run_ms=40)),
        logs.task_end(Task(2, speculative=True, run_ms=50)),
        logs.task_end(Task(2, reason="Resubmitted", run_ms=50)),
        logs.task_end(Task(3, records=0, run_ms=60)),
    ]
    samples, _ = examine(spark, logs.write(tmp_path / "app-1", lines))
    assert [row["busy"] for row in samples] == [0.03, 0.04, 0.05, 0.06]
    assert [row.get("tuples_in") for row in samples] == [None, None, 50.0, 0.0]
    assert [row.get("task_n") for row in samples] == [None, None, 1.0, None]


def test_the_profile_of_a_stage_makes_it_the_operators(spark: SparkSession, tmp_path: Path) -> None:
    """A scan, a heavy stage of its own profile behind a shuffle, and a write: the heavy one is the operator."""
    lines = [
        *logs.start(),
        logs.profile(3, [f"{NODE_RESOURCE}fast", "gpu"]),
        logs.executor("7", 3, cores=1, time=START + 90_000),
        logs.job(Job(stages=((0, (), 0), (1, (0,), 3), (2, (1,), 0)), time=START + 100_000)),
        logs.task_end(Task(0, 0, records=90, shuffle_written=30)),
        logs.task_end(Task(1, 1, executor="7", records=0, shuffled=30, shuffle_written=10, launch=START + 130_000)),
        logs.task_end(Task(2, 2, records=0, shuffled=10)),
        logs.removed("7", START + 150_000),
        logs.render({"Event": "SparkListenerApplicationEnd", "Timestamp": START + 160_000}),
    ]
    samples, _ = examine(spark, logs.write(tmp_path / "app-1", lines))
    [task] = of_tasks(samples)
    assert (task["operator"], task["node_type"], task["key"]) == ("words", "fast", "app-1/1/0/1")
    assert (task["tuples_in"], task["tuples_out"], task["task_records"]) == (30.0, 10.0, 30.0)
    replicas = [row for row in samples if "replicas" in row]
    assert {(row["node_type"], row["replicas"]) for row in replicas} == {("fast", 1.0)}
    begun, over = min(row["start"] for row in replicas), max(row["end"] for row in replicas)
    assert begun == START / 1000 + 100  # its first job
    assert over == START / 1000 + 150  # when it went, in the minute of its last
    assert sum(row["end"] - row["start"] for row in replicas) == pytest.approx(over - begun)


def test_two_profiles_in_a_job_are_two_operators(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        *logs.start(),
        logs.executor("7", 1, cores=1),
        logs.executor("8", 2, cores=1, NODE_TYPE="big"),
        logs.job(Job(stages=((0, (), 1), (1, (0,), 2)))),
        logs.task_end(Task(0, 0, executor="7", records=90, shuffle_written=30)),
        logs.task_end(Task(1, 1, executor="8", records=0, shuffled=30)),
        logs.progress_event(logs.progress(0, "2023-11-14T22:13:20.000Z", 90)),
    ]
    path = logs.write(tmp_path / "app-1", lines)
    samples, _ = examine(spark, path)
    found = {(row["operator"], row.get("node_type"), row["evidence"], row.get("tuples_in")) for row in samples}
    first = ("words/profile1", "profile 1", "tasks", 90.0)
    assert found == {first, ("words/profile2", "big", "tasks", 30.0), ("words/profile1", None, "progress", 90.0)}
    links = sources.examine(spark, sources.detect(path)).links.collect()
    assert [tuple(row) for row in links] == [("tiny", "words/profile1", "words/profile2")]


def test_a_query_without_a_name_is_named_by_its_id(spark: SparkSession, tmp_path: Path) -> None:
    lines = [*logs.start(), logs.job(Job(name=None)), logs.task_end(Task())]
    samples, _ = examine(spark, logs.write(tmp_path / "app-1", lines))
    assert [row["operator"] for row in samples] == [logs.QUERY[:8]]


def old_layout(line: str) -> str:
    """As Spark 2.1 wrote it: no partition, no executor metrics, no profiles, accumulables with values as numbers."""
    event = json.loads(line)
    if event["Event"] == "SparkListenerTaskEnd":
        del event["Task Executor Metrics"], event["Task Info"]["Partition ID"]
        for name in ("Remote Bytes Read To Disk", "Remote Requests Duration", "Push Based Shuffle"):
            del event["Task Metrics"]["Shuffle Read Metrics"][name]
    for info in event.get("Stage Infos", []):
        del info["Resource Profile Id"], info["Shuffle Push Enabled"]
    return logs.render(event)


def oldest_layout(line: str) -> str:
    """As Spark 1.2 did: metrics only where there were any, a host among them."""
    event = json.loads(old_layout(line))
    if event["Event"] == "SparkListenerTaskEnd":
        metrics = event["Task Metrics"]
        event["Task Metrics"] = {
            "Host Name": "h",
            "Executor Run Time": metrics["Executor Run Time"],
            "Input Metrics": {"Data Read Method": "Memory", "Bytes Read": 1, **metrics["Input Metrics"]},
        }
    return logs.render(event)


def spaced(line: str) -> str:
    return json.dumps(json.loads(line))


def turned(line: str) -> str:
    """Fields in an order that no Spark writes."""

    def turn(value: Any) -> Any:
        return {k: turn(value[k]) for k in reversed(value)} if isinstance(value, dict) else value

    return logs.render(turn(json.loads(line)))


@pytest.mark.parametrize("layout", [old_layout, oldest_layout, spaced, turned])
def test_every_layout_gives_the_same_numbers(layout: Callable[[str], str], tmp_path: Path) -> None:
    lines = simple()
    told = events(logs.write(tmp_path / "new", lines))
    other = events(logs.write(tmp_path / "old", [layout(line) for line in lines]))
    wanted = ("stage", "task", "time", "end", "executor", "run_ms", "records", "success")

    def tasks(rows: Samples) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in wanted) for row in rows if row["kind"] == "task"]

    assert tasks(told) == tasks(other)
    assert len(tasks(told)) == 2
    assert [row["kind"] for row in told] == ["task", "task", "application", "executor", "stage"]


def test_the_short_way_and_the_sure_way_agree() -> None:
    for number, records in enumerate([0, 1, 10**12]):
        task = Task(number, 5, 1, 3, "driver", records=records, shuffled=7, written=8, shuffle_written=9)
        line = logs.task_end(task).encode()
        values = task_lines.cut(line, 0, len(line))
        assert values is not None
        short = dict(zip(task_lines.COLUMNS, (value.decode() for value in values), strict=True))
        assert short == {name: str(task_lines.read_task(task_lines.load(line))[name]) for name in task_lines.COLUMNS}


def pack_lz4(text: bytes, size: int = 1000) -> bytes:
    blocks = []
    for i in range(0, len(text), size):
        raw = text[i : i + size]
        packed = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        stored = len(packed) >= len(raw)
        body, token = (raw, 0x10) if stored else (packed, 0x20)
        sizes = len(body).to_bytes(4, "little") + len(raw).to_bytes(4, "little")
        blocks.append(b"LZ4Block" + bytes([token | 5]) + sizes + b"\x00\x00\x00\x00" + body)
    return b"".join(blocks) + b"LZ4Block" + bytes([0x15]) + bytes(12)


def pack_snappy(text: bytes, size: int = 1000) -> bytes:
    head = b"\x82SNAPPY\x00" + bytes([0, 0, 0, 1] * 2)
    parts = [bytes(cramjam.snappy.compress_raw(text[i : i + size])) for i in range(0, len(text), size)]
    return head + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def pack_zstd(text: bytes, size: int = 1000) -> bytes:
    """Frame after frame, as Spark flushes them."""
    packer = zstandard.ZstdCompressor()
    return b"".join(packer.compress(text[i : i + size]) for i in range(0, len(text), size))


PACKERS: dict[str, Callable[[bytes], bytes]] = {"zstd": pack_zstd, "lz4": pack_lz4, "snappy": pack_snappy}


@pytest.mark.parametrize("codec", PACKERS)
def test_every_codec_unpacks_and_a_cut_stream_gives_what_was_whole(codec: str, tmp_path: Path) -> None:
    text = "".join(f"{line}\n" for line in simple()).encode()
    packed = PACKERS[codec](text)
    path = tmp_path / f"app.{codec}"
    path.write_bytes(packed * 2)  # streams may follow one another
    assert b"".join(read_chunks(str(path), codec)) == text * 2
    seen = set()
    for length in [*range(0, len(packed), 97), len(packed)]:
        path.write_bytes(packed[:length])
        found = events(path, codec=codec)
        seen.add(len([row for row in found if row["kind"] == "task"]))
    assert seen == {0, 1, 2}
    path.write_bytes(packed[: len(packed) // 2] + b"\xff" * 40 + packed[len(packed) // 2 :])
    assert {row["kind"] for row in events(path, codec=codec)} & {"cut", "corrupt"}


def test_stretches_of_a_file_hold_every_line_once(tmp_path: Path) -> None:
    lines = [logs.task_end(Task(i, accumulables=i % 3)) for i in range(40)]
    path = logs.write(tmp_path / "app-1", lines)
    size = path.stat().st_size
    for stretch in (1, 100, 777, size - 1, size, size + 1):
        found = [
            row["task"] for start in range(0, size, stretch) for row in events(path, start=start, end=start + stretch)
        ]
        assert found == list(range(40)), stretch


def test_files_are_shared_out_in_bundles() -> None:
    small = [InputFile(f"/l/{i}", "event-log", f"/l/{i}", "none", 1000) for i in range(5000)]
    bundles = cut_pieces([*small, InputFile("/l/big", "event-log", "/l/big", "none", 200 << 20)], slots=8)
    assert len(bundles) == 9  # eight stretches of the large one, and all of the small ones together
    assert sum(len(bundle) for bundle in bundles) == 5008
    assert {piece.path for piece in bundles[-1]} == {file.path for file in small}


def rolling(folder: Path, parts: dict[int, Sequence[str]], compact: dict[int, Sequence[str]] | None = None) -> Path:
    home = folder / "eventlog_v2_app-1"
    for number, lines in parts.items():
        logs.write(home / f"events_{number}_app-1", lines)
    for number, lines in (compact or {}).items():
        logs.write(home / f"events_{number}_app-1.compact", lines)
    (home / "appstatus_app-1").write_text("")
    return home


def test_a_rolling_log_reads_as_one_and_lacks_what_it_lacks(spark: SparkSession, tmp_path: Path) -> None:
    head, job, *tasks = simple()[:3], *simple()[3:]
    whole, notes = examine(spark, rolling(tmp_path / "whole", {1: [*head, job], 2: tasks[:1], 3: tasks[1:]}))
    assert notes == ()
    assert [row["key"] for row in whole] == ["app-1/0/0/0", "app-1/0/0/1"]
    gap, notes = examine(spark, rolling(tmp_path / "gap", {1: [*head, job], 3: tasks[1:]}))
    assert gap == whole[1:]
    assert [note.endswith("lacks part 2: what it held is not known") for note in notes] == [True]
    compacted = rolling(tmp_path / "c", {2: tasks[:1], 3: tasks[1:]}, {2: [*head, job, tasks[0]]})
    assert examine(spark, compacted) == (whole, ())


def damaged(lines: list[str]) -> list[str]:
    middle = lines[4]
    return [*lines[:4], middle[: len(middle) // 2], "\x00\x01 garbage", middle, *lines[5:]]


def test_damage_is_left_out_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    whole, _ = examine(spark, logs.write(tmp_path / "a" / "app-1", simple()))
    path = logs.write(tmp_path / "b" / "app-1", damaged(simple()))
    samples, notes = examine(spark, path)
    assert samples == whole
    assert notes == (f"{path}: 2 lines could not be read and had to be left out",)
    path = logs.write(tmp_path / "c" / "app-1.inprogress", simple())
    path.write_bytes(path.read_bytes()[:-700])
    samples, notes = examine(spark, path)
    assert samples == whole[:1]
    assert notes == (f"{path.with_name('app-1')}: 1 line could not be read and had to be left out",)


def test_a_folder_of_many_logs_is_read_at_once(spark: SparkSession, tmp_path: Path) -> None:
    for i in range(30):
        logs.write(tmp_path / "history" / f"app-{i}", simple(f"job {i % 3}", f"app-{i}"))
    logs.write(tmp_path / "history" / "batch-1", logs.start("batch", "batch-1"))
    (tmp_path / "history" / "empty.inprogress").write_text("")
    (tmp_path / "history" / ".hidden").write_text("{}")
    (tmp_path / "history" / "readme.txt").write_text("nothing")
    packed = pack_zstd("".join(f"{line}\n" for line in simple("job 0", "app-30")).encode())
    (tmp_path / "history" / "app-30.zstd").write_bytes(packed)
    logs.write(tmp_path / "history" / "app-30.zstd.inprogress", ["never read"])
    samples, notes = examine(spark, tmp_path / "history")
    assert len(samples) == 62
    assert len({row["key"] for row in samples}) == 62
    assert {row["application"] for row in samples} == {"job 0", "job 1", "job 2"}
    assert notes == ("1 of 32 event logs ran no streaming query and say nothing",)


WRONG: dict[str, Callable[[], Iterable[str]]] = {
    "no streaming query": lambda: [*logs.start(), logs.job(Job(query=None)), logs.task_end(Task())],
    "nothing but the start": lambda: logs.start(),
    "one line cut short": lambda: [logs.task_end(Task())[:300]],
    "no fields": lambda: ['{"Event":"SparkListenerTaskEnd"}', '{"Event":"SparkListenerJobStart"}'],
}


@pytest.mark.parametrize("case", WRONG)
def test_a_log_that_says_nothing_gets_one_sentence(case: str, spark: SparkSession, tmp_path: Path) -> None:
    path = logs.write(tmp_path / "app-1", WRONG[case]())
    with pytest.raises(BadInput) as refused:
        examine(spark, path)
    said = str(refused.value)
    assert said.startswith(str(path))
    assert "\n" not in said
    assert sources.examine(spark, sources.detect(path), strict=False).samples.count() == 0


def test_what_is_no_log_at_all_is_refused_before_spark(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "text").write_text("hello")
    (tmp_path / "app.lzf").write_bytes(b"ZV\x01")
    for path, said in [
        (tmp_path / "empty", "is empty"),
        (tmp_path / "text", "nothing there is known"),
        (tmp_path / "app.lzf", "compressed with lzf, which is not read"),
        (tmp_path / "gone", "does not exist"),
        (Path("hdfs://host/logs"), "is not on this machine|does not exist"),
    ]:
        with pytest.raises(BadInput, match=said):
            detect(path)
    with pytest.raises(BadInput, match="is not on this machine"):
        detect("hdfs://host/logs")


def test_no_garbage_raises(tmp_path: Path) -> None:
    """Every field of every line replaced by what does not belong there."""
    lines = [*simple(), logs.profile(1, [f"{NODE_RESOURCE}x"]), logs.removed()]
    lines.append(logs.progress_event(logs.progress(0, "2023-11-14T22:13:20.000Z", 90)))
    odd: list[Any] = [None, [], {}, "", "x", -1, 1.5, 10**30, True, [None], {"a": None}, "\ud800"]
    path = tmp_path / "odd"
    mutants = [mutant for line in lines for mutant in mutate(json.loads(line), odd)]
    logs.write(path, [json.dumps(mutant, separators=(",", ":")) for mutant in mutants])
    found = events(path)
    assert len(mutants) > 2000
    assert len(found) > 100


def mutate(value: dict[str, Any], odd: list[Any], depth: int = 0) -> Iterable[dict[str, Any]]:
    for name, inner in value.items():
        if name == "Event":
            continue
        yield from ({**value, name: other} for other in odd)
        yield {k: v for k, v in value.items() if k != name}
        if isinstance(inner, dict) and depth < 3:
            yield from ({**value, name: other} for other in mutate(inner, odd, depth + 1))
        if isinstance(inner, list) and inner and isinstance(inner[0], dict) and depth < 2:
            yield from ({**value, name: [other]} for other in mutate(inner[0], odd, depth + 1))


STREAM = """
import sys
from pathlib import Path
from pyspark.sql import functions as F
from tuner.pipeline.session import start_session
out = Path(sys.argv[1])
settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(out / "events"), "spark.app.name": "tiny",
    "spark.sql.shuffle.partitions": "2", "spark.local.dir": str(out)}
spark = start_session("local[2]", settings)
def stream(frame, name):
    writer = frame.writeStream.queryName(name).option("checkpointLocation", str(out / f"c-{name}"))
    return writer.trigger(availableNow=True)
words = spark.readStream.option("maxFilesPerTrigger", 1).text(str(out / "lines"))
words = words.select(F.explode(F.split("value", " ")).alias("word"))
stream(words, "split").format("parquet").start(str(out / "mid")).awaitTermination()
counts = spark.readStream.schema("word string").parquet(str(out / "mid")).groupBy("word").count()
stream(counts, "count").format("noop").outputMode("complete").start().awaitTermination()
spark.stop()
"""


def run_stream(folder: Path) -> Path:
    """A real stream of two queries in a Spark of its own; the folder of its event log."""
    (folder / "lines").mkdir(parents=True)
    (folder / "events").mkdir()
    for i in range(3):
        (folder / "lines" / f"{i}.txt").write_text("a b c\n" * 40)
    environ = os.environ | {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", STREAM, str(folder)]
    answer = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stderr
    return folder / "events"


@pytest.mark.slow
def test_a_real_log_of_this_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    folder = run_stream(tmp_path / "run")
    assert [(file.codec, file.part) for file in detect(folder)] == [("zstd", 1)]
    reading = sources.examine(spark, sources.detect(folder))
    rows = [row.asDict() for row in reading.samples.collect()]
    assert len(examine(spark, folder)[0]) == len(rows)
    assert reading.notes == ()
    assert {(row["application"], row["operator"]) for row in rows} == {("tiny", "split"), ("tiny", "count")}

    def total(operator: str, evidence: str, column: str) -> float:
        return sum(row[column] or 0.0 for row in rows if (row["operator"], row["evidence"]) == (operator, evidence))

    for evidence in ("tasks", "progress"):
        assert total("split", evidence, "tuples_in") == 120
        assert total("count", evidence, "tuples_in") == 360
    assert total("split", "tasks", "tuples_out") == 360
    assert total("split", "progress", "batches") == 3
    assert total("split", "tasks", "task_time") == pytest.approx(total("split", "tasks", "busy"))
    assert {row["replicas"] for row in rows if row["replicas"] is not None} == {2.0}
    assert [tuple(row) for row in reading.links.collect()] == [("tiny", "split", "count")]


def test_gzip_is_no_codec_of_spark(tmp_path: Path) -> None:
    path = tmp_path / "app-1.gz"
    path.write_bytes(gzip.compress(b'{"Event":"SparkListenerLogStart"}\n', mtime=0))
    with pytest.raises(BadInput, match="nothing there is known"):
        detect(path)
