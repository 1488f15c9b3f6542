"""What waits in a folder of files, against what a real query has taken of it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scaler.sensing.driver import find_operators
from scaler.sensing.source_files import MAX_LOG_BYTES, WaitingFiles, read_source_folder
from scaler.sensing.spark_sensor import SparkSensor
from tests.live.record import drop_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_700_006_400.0


def put(folder: Path, name: str, age: float) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("x\n")
    os.utime(path, (NOW - age, NOW - age))
    return path


def log(folder: Path, number: int, files: list[tuple[Path, float]], compact: bool = False) -> Path:
    """As Spark writes it."""
    source = folder / "sources" / "0"
    source.mkdir(parents=True, exist_ok=True)
    at = [{"path": p.as_uri(), "timestamp": round((NOW - age) * 1000), "batchId": number} for p, age in files]
    path = source / (f"{number}.compact" if compact else str(number))
    path.write_text("\n".join(["v1", *map(json.dumps, at)]))
    return path


def find_waiting(folder: str, checkpoint: str, moment: float) -> WaitingFiles | None:
    found = read_source_folder(folder, checkpoint)
    return None if found is None else found.find_waiting(0.0, moment)


def test_what_came_and_was_not_taken_waits(tmp_path: Path) -> None:
    ages = (("a b", 50), ("b", 40), ("c", 30), ("d", 9))
    files = {name: (put(tmp_path / "in", name, age), age) for name, age in ages}
    put(tmp_path / "in", ".hidden", 20)
    put(tmp_path / "in", "_meta", 20)
    log(tmp_path, 8, [files["a b"]])
    log(tmp_path, 9, [files["b"]], compact=True)
    (tmp_path / "sources" / "0" / ".9.crc").write_text("")
    place = (tmp_path / "in").as_uri(), tmp_path.as_uri()
    seen = find_waiting(*place, NOW - 10)
    assert seen is not None
    assert (seen.files, seen.oldest) == (1, NOW - 30)
    later = find_waiting(str(tmp_path / "in"), str(tmp_path), NOW)
    assert later is not None
    assert later.files == 2
    log(tmp_path, 10, [files["c"], files["d"]])
    done = find_waiting(*place, NOW)
    assert done is not None
    assert (done.files, done.oldest) == (0, None)


def test_of_another_querys_output_only_what_is_committed_waits(tmp_path: Path) -> None:
    files = [put(tmp_path / "in", name, age) for name, age in (("a", 50), ("b", 40), ("c", 30))]
    log(tmp_path, 0, [(files[0], 50)])
    commits = tmp_path / "in" / "_spark_metadata"
    commits.mkdir()
    for i, path in enumerate(files[:2]):
        line = {"path": path.as_uri(), "modificationTime": round(path.stat().st_mtime * 1000), "action": "add"}
        (commits / str(i)).write_text("v1\n" + json.dumps(line))
        os.utime(commits / str(i), (NOW - 35, NOW - 35))
    seen = find_waiting(str(tmp_path / "in"), str(tmp_path), NOW)
    assert seen is not None
    assert (seen.files, seen.oldest) == (1, NOW - 35)  # it came when it was committed


def test_what_cannot_be_told_is_not_guessed(tmp_path: Path) -> None:
    path = put(tmp_path / "in", "a", 50)
    folder, checkpoint = str(tmp_path / "in"), str(tmp_path)
    assert find_waiting(folder, checkpoint, NOW) is None  # no log
    entry = log(tmp_path, 0, [(path, 50)])
    assert find_waiting(folder, checkpoint, NOW) is not None
    for other in ("s3a://bucket/in", f"{folder}/*.txt", "in", str(tmp_path / "none")):
        assert find_waiting(other, checkpoint, NOW) is None
    assert find_waiting(folder, "hdfs://name/checkpoint", NOW) is None
    for text in ("", "v1", "v1\n{", "v1\n[]", 'v1\n{"path": 1}', "v1\n" + " " * MAX_LOG_BYTES):
        entry.write_text(text)
        assert find_waiting(folder, checkpoint, NOW) is None


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_files_that_a_real_query_leaves_behind_are_its_backlog(spark: SparkSession, tmp_path: Path) -> None:
    """Ten files of twenty lines are there, and one is taken every two seconds."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(10):
        drop_file(folder, number)
        time.sleep(0.01)  # so that each has a time of its own
    there = time.time()
    sensor = SparkSensor(spark)
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    writer = lines.writeStream.queryName("lines").format("noop").trigger(processingTime="2 seconds")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        (operator,) = [found for found in find_operators(spark) if found.name == "lines"]
        sensor.watch(operator)
        limit, known = time.time() + 60.0, 0
        while known < 3 and time.time() < limit:
            time.sleep(0.05)
            history = sensor.histories.get(operator.query)
            known = len(history.triggers) if history else 0
        end = time.time()
        seen = sensor.read("lines", end - 4.0, end)
        taken = len(sensor.histories[operator.query].triggers)
    finally:
        query.stop()
        sensor.close()
    assert seen.backlog is not None
    assert (10 - taken - 1) * 20 <= seen.backlog <= (10 - known) * 20  # the next batch may have begun
    assert seen.response is not None
    assert seen.response == pytest.approx(end - there, abs=0.5)
