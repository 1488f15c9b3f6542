"""What is timed in a task reaches the file as it was; on a real Spark session and with clocks that tests turn."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from scaler.timing import NODE_TYPE, ServiceTally, ServiceTimer, Stopwatch
from scaler.timing.stopwatch import find_host, find_node_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Context:
    """A driver without Spark: an accumulator whose tasks run in this process."""

    def accumulator(self, value: Any, param: Any) -> Any:
        return SimpleNamespace(add=lambda term: param.addInPlace(value, term))


class Hand:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.moment = 0.0

    def __call__(self) -> float:
        return self.moment


@pytest.fixture
def tallies() -> list[ServiceTally]:
    return []


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def watch(tallies: list[ServiceTally], hand: Hand) -> Stopwatch:
    return Stopwatch(SimpleNamespace(add=tallies.append), clock=hand, now=hand)


def make_timer(folder: Path, operator: str = "count") -> ServiceTimer:
    return ServiceTimer(Context(), "orders", operator, folder, period=3600.0)


def read_lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]


def test_each_times_the_loop_and_not_the_supply(watch: Stopwatch, hand: Hand, tallies: list[ServiceTally]) -> None:
    def supply() -> Iterator[int]:
        for row in (1, 2, 3):
            hand.moment += 100.0
            yield row

    for row in watch.each(supply(), arrived=lambda row: None if row == 2 else 50.0):
        hand.moment += row
    (tally,) = tallies
    assert (tally.service_n, tally.service_sum, tally.service_squares) == (3.0, 6.0, 14.0)
    assert (tally.response_n, tally.response_sum) == (2.0, 101.0 + 306.0 - 2 * 50.0)
    assert (tally.start, tally.end) == (0.0, 306.0)


def test_a_loop_that_is_left_counts_what_it_finished(watch: Stopwatch, hand: Hand, tallies: list[ServiceTally]) -> None:
    for row in watch.each([1, 2, 3]):
        hand.moment += row
        if row == 2:
            break
    assert [(tally.service_n, tally.service_sum) for tally in tallies] == [(1.0, 1.0)]

    def fail() -> None:
        for row in watch.each([1, 2]):
            hand.moment += 1 / (2 - row)

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [tally.service_n for tally in tallies] == [1.0, 1.0]
    assert list(watch.each([])) == []
    assert len(tallies) == 2


def test_whole_times_the_function_and_nothing_else(watch: Stopwatch, hand: Hand, tallies: list[ServiceTally]) -> None:
    def supply() -> Iterator[list[int]]:
        for size in (4, 0, 1):
            hand.moment += 1000.0
            yield [1] * size

    def work(batches: Iterator[list[int]]) -> Iterator[int]:
        hand.moment += 5.0  # setting up: counts to the first
        for batch in batches:
            hand.moment += 2.0 * len(batch) + 1.0
            yield len(batch)
            yield 0
        hand.moment += 7.0  # clearing up: counts to the last

    results = []
    for result in watch.whole(work)(supply()):
        hand.moment += 300.0  # downstream
        results.append(result)
    assert results == [4, 0, 0, 0, 1, 0]
    (tally,) = tallies
    first, last = 5.0 + 9.0, 1.0 + 3.0 + 7.0  # what the empty batch took is the overhead of the next one
    assert (tally.task_n, tally.task_records, tally.task_time) == (2.0, 5.0, first + last)
    assert (tally.task_inverse, tally.task_rates) == (1.25, first / 4 + last)
    assert tally.task_squares == first**2 / 4 + last**2


def test_whole_takes_a_function_that_returns_all_or_fails(
    watch: Stopwatch, hand: Hand, tallies: list[ServiceTally]
) -> None:
    def collect(batches: Iterator[list[int]]) -> list[int]:
        sizes = []
        for batch in batches:
            hand.moment += len(batch)
            sizes.append(len(batch))
        return sizes

    assert list(watch.whole(collect)(iter([[1], [1, 1]]))) == [1, 2]
    assert (tallies[0].task_n, tallies[0].task_time) == (2.0, 3.0)

    def fail(batches: Iterator[list[int]]) -> Iterator[int]:
        raise ValueError("no")
        yield 1

    with pytest.raises(ValueError, match="no"):
        list(watch.whole(fail)(iter([[1]])))
    assert len(tallies) == 1


@pytest.mark.parametrize(
    ("returned", "records", "expected"),
    [(None, None, 0.0), (7, None, 7.0), (None, len, 3.0), (True, None, 0.0)],
)
def test_foreach_batch_counts_what_it_is_told(
    returned: Any, records: Callable[[Any], int] | None, expected: float,
    watch: Stopwatch, hand: Hand, tallies: list[ServiceTally],
) -> None:  # fmt: skip
    def write(frame: list[int], batch: int) -> Any:
        hand.moment += 4.0
        return returned

    watch.each_batch(write, records)([1, 1, 1], 0)
    (tally,) = tallies
    assert (tally.batches, tally.batch_time, tally.task_records) == (1.0, 4.0, expected)
    assert tally.node_type is None


def test_lines_are_samples_and_say_nothing_of_what_was_not_timed(tmp_path: Path) -> None:
    timer = make_timer(tmp_path)
    for _ in timer.each([1, 2]):
        pass
    list(timer.whole(lambda batches: (len(batch) for batch in batches))(iter([[1, 2, 3]])))
    assert timer.flush()
    for _ in timer.each([1]):
        pass
    timer.close()
    first, second = read_lines(tmp_path)
    known = {field.name for field in fields(Sample)} | {"host"}
    assert set(first) <= known
    assert (first["service_n"], first["task_n"], first["evidence"]) == (2.0, 1.0, "records")
    assert set(second) == {
        "application", "operator", "evidence", "key", "start", "end", "host", "service_n", "service_sum",
        "service_squares",
    }  # fmt: skip
    assert first["key"] != second["key"]
    assert first["start"] <= first["end"] <= second["end"]


def test_two_timers_of_one_operator_share_neither_file_nor_keys(tmp_path: Path) -> None:
    for _ in range(2):
        with make_timer(tmp_path, "a/b c") as timer:
            list(timer.each([1]))
    assert len(list(tmp_path.iterdir())) == 2
    assert len({line["key"] for line in read_lines(tmp_path)}) == 2
    assert {line["operator"] for line in read_lines(tmp_path)} == {"a/b c"}


def test_what_cannot_be_written_is_kept_without_growing_and_written_later(tmp_path: Path) -> None:
    folder = tmp_path / "timings"
    folder.write_text("in the way")
    timer = make_timer(folder)
    for _ in range(50):
        list(timer.each([1]))
        assert not timer.flush()
    assert len(timer.unwritten) + len(timer.pending) <= 2
    folder.unlink()
    timer.close()
    assert sum(line["service_n"] for line in read_lines(folder)) == 50.0


def test_a_torn_line_is_ended_and_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timer = make_timer(tmp_path)
    list(timer.each([1]))
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, data: write(file, data[:10]))
        assert not timer.flush()
    timer.close()
    (path,) = tmp_path.iterdir()
    torn, whole = path.read_text().splitlines()
    assert len(torn) == 10
    assert json.loads(whole)["service_n"] == 1.0


def test_the_thread_flushes_until_it_is_told_to_stop(tmp_path: Path) -> None:
    pauses: list[float] = []

    def wait(period: float) -> bool:
        pauses.append(period)
        return len(pauses) == 3

    timer = ServiceTimer(Context(), "orders", "count", tmp_path, period=7.0, wait=wait)
    timer.thread.join(10.0)
    assert pauses == [7.0, 7.0, 7.0]
    timer.close()
    timer.close()
    assert list(tmp_path.iterdir()) == []  # nothing was timed, so there is nothing to say


def test_where_a_node_is_named() -> None:
    assert find_node_type({NODE_TYPE: "small"}, ["gpu", "node_", "node_large"]) == "large"
    assert find_node_type({NODE_TYPE: "small"}, ["gpu"]) == "small"
    assert find_node_type({NODE_TYPE: ""}, ["node_"]) is None
    assert find_host({"SPARK_LOCAL_IP": "10.0.0.7"}) == "10.0.0.7"


def test_a_session_without_a_context_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="needs a Spark session with a SparkContext"):
        ServiceTimer(object(), "orders", "count", tmp_path)


def test_only_the_stopwatch_travels(tmp_path: Path) -> None:
    timer = make_timer(tmp_path)
    timer.stopwatch.sums = ServiceTally()  # type: ignore[assignment]
    assert type(pickle.loads(pickle.dumps(timer))) is Stopwatch
    timer.close()


@pytest.mark.xdist_group("spark")
def test_a_task_sends_its_sums_once(spark: SparkSession, tmp_path: Path) -> None:
    timer = ServiceTimer(spark, "orders", "count", tmp_path, period=3600.0)

    def work(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            for _ in timer.each(batch.itertuples(), arrived=lambda _: 0.0):
                time.sleep(0.0005)
            yield batch

    frame = spark.range(0, 1000, numPartitions=4).mapInPandas(timer.whole(work), "id long")
    assert frame.count() == 1000
    timer.close()
    (line,) = read_lines(tmp_path)
    counts = ("service_n", "response_n", "task_n", "task_records")
    assert [line[name] for name in counts] == [1000.0, 1000.0, 4.0, 1000.0]
    assert line["service_sum"] >= 1000 * 0.0005
    assert line["service_squares"] >= line["service_sum"] ** 2 / 1000
    assert line["task_time"] >= line["service_sum"]
    assert line["response_sum"] / 1000 > line["start"]
    assert line["task_inverse"] == pytest.approx(4 / 250)


@pytest.mark.xdist_group("spark")
def test_arrow_and_foreach_batch_of_a_stream_are_timed(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.csv").write_text("1\n2\n3\n")
    timer = ServiceTimer(spark, "orders", "copy", tmp_path / "timings", period=3600.0)
    sink = ServiceTimer(spark, "orders", "sink", tmp_path / "timings", period=3600.0)

    def copy(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    def write(frame: DataFrame, batch: int) -> int:
        return int(frame.count())

    lines = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).csv(str(tmp_path / "in"))
    copied = lines.mapInArrow(timer.whole(copy), "n long")
    query = copied.writeStream.foreachBatch(sink.each_batch(write)).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    timer.close()
    sink.close()
    told = {line["operator"]: line for line in read_lines(tmp_path / "timings")}
    assert (told["copy"]["task_records"], told["copy"]["evidence"]) == (6.0, "tasks")
    assert (told["sink"]["task_records"], told["sink"]["batches"]) == (6.0, 2.0)
    assert "service_n" not in told["copy"]


@pytest.mark.xdist_group("spark")
def test_a_failed_attempt_adds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    timer = ServiceTimer(spark, "orders", "count", tmp_path, period=3600.0)

    def work(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            for row in timer.each(batch.itertuples()):
                if row.id == 7:
                    raise ValueError("seven")
            yield batch

    from pyspark.errors import PythonException

    with pytest.raises(PythonException, match="seven"):
        spark.range(0, 10, numPartitions=1).mapInPandas(work, "id long").count()
    timer.close()
    assert list(tmp_path.iterdir()) == []
