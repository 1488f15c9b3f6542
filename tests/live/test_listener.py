"""The listener of queries raises nothing, and reads a real stream of known arrivals."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from scaler.model.spark_progress import add_offsets
from scaler.sensing.driver import StreamOperator, find_operators
from scaler.sensing.query_history import QueryListener
from scaler.sensing.spark_sensor import SparkSensor
from scaler.timing import ServiceTimer
from tests.live.source import Ticks

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession
from tests.live.fake_driver import steady


def test_nothing_is_raised_into_the_listener_bus() -> None:
    def add_trigger(trigger: object) -> None:
        raise MemoryError("full")

    def add_event(kind: str, sign: object) -> None:
        raise KeyError(kind)

    def fail() -> Any:
        raise ConnectionError("the JVM is gone")

    listener = QueryListener(add_trigger, add_event)
    good = json.dumps(steady()[1]["document"])
    for text in (good, "{", "[]", "null", '{"id": 1}', "\ud800", "[" * 5000):
        inner = SimpleNamespace(json=lambda text=text: text)
        listener.onQueryProgress(SimpleNamespace(progress=lambda inner=inner: inner))
        listener.onQueryStarted(inner)
        listener.onQueryIdle(inner)
        listener.onQueryTerminated(inner)
    for method in (listener.onQueryProgress, listener.onQueryStarted, listener.onQueryIdle, listener.onQueryTerminated):
        method(None)
        method(SimpleNamespace(progress=fail, json=fail))
    assert listener.unread == 7 * 4 + 8


def serve(timer: ServiceTimer, seconds: float) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    def work(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            for _ in timer.each(batch.itertuples(), arrived=lambda row: row.arrived):
                time.sleep(seconds)
            yield batch

    return work


def count_small(sensor: SparkSensor, operator: StreamOperator) -> int:
    """Batches in a row, lately, that no more gathered for than for a usual one."""
    history = sensor.histories.get(operator.query)
    rows = [trigger.rows or 0 for trigger in history.triggers] if history else []
    return next((i for i, number in enumerate(reversed(rows)) if number > 60), len(rows) - 1)


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_a_real_stream_gives_back_its_arrivals_and_its_times(spark: SparkSession, tmp_path: Path) -> None:
    """Forty a second, each 5 ms of work."""
    spark.dataSource.register(Ticks)
    sensor = SparkSensor(spark)
    began = time.time() + 2.0
    options = {"rate": "40", "began": repr(began)}
    ticks = spark.readStream.format("ticks").options(**options).load()
    timer = ServiceTimer(spark, "shop", "ticks", tmp_path / "timings", period=3600.0)
    worked = ticks.mapInPandas(serve(timer, 0.005), "id long, arrived double")
    writer = worked.writeStream.queryName("ticks").format("noop").trigger(processingTime="1 second")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        (operator,) = [found for found in find_operators(spark) if found.name == "ticks"]
        sensor.watch(operator)
        sensor.subscribe("ticks", timer)
        limit = time.time() + 60.0
        while count_small(sensor, operator) < 3 and time.time() < limit:  # what gathered at the start is done
            time.sleep(0.05)
        start, end = time.time(), time.time() + 4.0
        planned = []
        while time.time() < end + 0.5:
            planned.append(sensor.driver.request_planned_batch(operator.query))
            time.sleep(0.005)
        seen = sensor.read("ticks", start, end)
        flight, last = (
            sensor.driver.request_planned_batch(operator.query),
            sensor.histories[operator.query].triggers[-1],
        )
    finally:
        query.stop()
        timer.close()
        sensor.close()
    ended = {trigger.batch: trigger.ended for trigger in sensor.histories[operator.query].triggers}
    told = [(add_offsets(one.ended[0]), ended[one.batch]) for one in planned if one and one.batch in ended]
    assert len(told) > 100
    assert [pair for pair in told if pair[0] != pair[1]] == []  # nor while the next batch is planned
    assert flight is not None
    assert flight.batch >= last.batch
    assert flight.time >= last.time - 0.5
    assert (add_offsets(flight.latest[0]) or 0) >= (add_offsets(flight.ended[0]) or 0) >= (last.ended or 0) > 0
    assert seen.arrival_rate == pytest.approx(40.0, rel=0.05)
    assert seen.completeness >= 0.9
    assert seen.notes == ()
    assert seen.service_n is not None
    timed, spent = seen.service_n, seen.service_sum
    assert timed == pytest.approx(seen.tuples_in, rel=0.25)
    assert 0.005 <= spent / timed < 0.02
    assert seen.replicas == {"": pytest.approx(2.0)}  # the two cores of the local session
    assert seen.utilisation == pytest.approx(spent / 8.0, rel=0.3, abs=0.1)
    assert seen.response is not None
    assert 0.5 < seen.response < 3.0  # half a second for the trigger, and the batch
