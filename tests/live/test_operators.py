"""Operators of real queries, with their resource profiles, found from the queries' plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from scaler.acting.profiles import Pinned
from scaler.model.errors import BadInput
from scaler.sensing.driver import (
    MISSES_TO_WARN,
    PinnedOperators,
    StreamOperator,
    find_operators,
    find_profiles,
    name_operators,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.xdist_group("spark")


def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def profile(node_type: str) -> Any:
    from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder, TaskResourceRequests

    executor = ExecutorResourceRequests().cores(1).resource(f"node_{node_type}", 1)
    return ResourceProfileBuilder().require(executor).require(TaskResourceRequests().cpus(1)).build


def start(frame: DataFrame, name: str | None, folder: Path) -> StreamingQuery:
    """From an empty folder, so that no batch is tried: a local session has no executors of other profiles."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint" / str(name)))
    return (writer if name is None else writer.queryName(name)).start()


@pytest.fixture
def lines(spark: SparkSession, tmp_path: Path) -> Iterator[DataFrame]:
    (tmp_path / "in").mkdir()
    yield spark.readStream.text(str(tmp_path / "in"))
    for query in spark.streams.active:
        query.stop()


def test_a_query_is_an_operator_with_the_profile_of_its_stage(
    spark: SparkSession, lines: DataFrame, tmp_path: Path
) -> None:
    heavy = profile("fast")
    plain = start(lines, "plain", tmp_path)
    nameless = start(lines, None, tmp_path)
    own = start(lines.mapInPandas(pass_on, "value string", profile=heavy), "own", tmp_path)
    found = {operator.name: operator for operator in find_operators(spark)}
    assert found == {
        "plain": StreamOperator("plain", str(plain.id), str(plain.runId)),
        "own": StreamOperator("own", str(own.id), str(own.runId), (heavy.id,)),
        str(nameless.id)[:8]: StreamOperator(str(nameless.id)[:8], str(nameless.id), str(nameless.runId)),
    }


def test_stages_with_profiles_of_their_own_are_operators_in_the_order_of_work(
    spark: SparkSession, lines: DataFrame, tmp_path: Path
) -> None:
    first, second = profile("small"), profile("large")
    parsed = lines.mapInPandas(pass_on, "value string", profile=first)
    counted = parsed.groupBy("value").count().mapInArrow(pass_on, "value string, count long", profile=second)
    again = counted.mapInPandas(pass_on, "value string, count long", profile=second)
    writer = again.writeStream.outputMode("update").format("noop").queryName("words")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    identity = str(query.id), str(query.runId)
    assert tuple(found for found in find_operators(spark) if found.query == identity[0]) == (
        StreamOperator(f"words/profile{first.id}", *identity, (first.id,), leaving=False),
        StreamOperator(f"words/profile{second.id}", *identity, (second.id,), entry=False),
    )
    assert not query.exception()


def test_three_stages_have_one_that_is_neither_first_nor_last() -> None:
    found = name_operators("words", "q", "r", [4, 2, 7])
    assert [operator.name for operator in found] == ["words/profile4", "words/profile2", "words/profile7"]
    assert [(operator.entry, operator.leaving) for operator in found] == [(True, False), (False, False), (False, True)]


def test_a_plan_that_cannot_be_read_has_no_profiles() -> None:
    assert find_profiles(SimpleNamespace()) == []


PARSE, COUNT = Pinned("parse", 3, {"small": 3, "large": 4}), Pinned("count", 5, {"small": 5})


def test_stages_of_one_query_get_the_names_and_executors_that_they_were_pinned_with(
    spark: SparkSession, lines: DataFrame, tmp_path: Path
) -> None:
    first, second, other = profile("small"), profile("large"), profile("fast")
    parsed = lines.mapInPandas(pass_on, "value string", profile=first)
    cleaned = parsed.mapInPandas(pass_on, "value string", profile=other)  # nobody's
    counted = cleaned.mapInArrow(pass_on, "value string", profile=second)
    query = start(counted, "shop", tmp_path)
    pinned = [Pinned("count", second.id, {"large": second.id}), Pinned("parse", first.id, {"small": first.id, "x": 99})]
    identity = str(query.id), str(query.runId)
    assert PinnedOperators(pinned).find(find_operators(spark)) == [
        StreamOperator("count", *identity, (second.id,), entry=False),
        StreamOperator("parse", *identity, (first.id, 99), leaving=False),
    ]


def test_a_pinned_operator_is_found_whatever_its_query_is_called() -> None:
    shop = StreamOperator("shop", "q", "r", (3,))
    assert PinnedOperators([PARSE]).find([StreamOperator("parse", "p", "r"), shop]) == [
        StreamOperator("parse", "q", "r", (3, 4))
    ]


def test_names_decide_where_profiles_are_not_known() -> None:
    assert PinnedOperators([PARSE, COUNT]).find(
        [StreamOperator("parse", "q", "r"), StreamOperator("count", "p", "r", (9,))]
    ) == [StreamOperator("parse", "q", "r", (3, 4))]


def test_a_pinned_operator_that_no_query_has_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    roll, shop = PinnedOperators([PARSE, COUNT]), StreamOperator("shop", "q", "r", (3,))
    for _ in range(MISSES_TO_WARN):
        assert roll.find([]) == []  # no query has started yet
    for look in range(3 * MISSES_TO_WARN):
        assert ("'count'" in caplog.text) == (look >= MISSES_TO_WARN)
        roll.find([shop])
    for _ in range(MISSES_TO_WARN):
        roll.find([StreamOperator("other", "p", "r", (8,))])  # the query of `parse` has ended
    assert [one.getMessage() for one in caplog.records] == [
        "operator 'count' is pinned and not scaled: no streaming query has a stage with its profile, number 5 "
        "(found: shop); give the stage profile=, or the query its name"
    ]


def test_a_session_without_a_driver_is_refused() -> None:
    with pytest.raises(BadInput, match=r"needs a Spark session in its own driver, and SimpleNamespace has none"):
        find_operators(SimpleNamespace())
