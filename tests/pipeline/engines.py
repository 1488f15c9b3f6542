"""Monitoring read by Spark, by this process, and by both together, which must say the same."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from scaler.model.errors import BadInput
from tuner.pipeline import sources
from tuner.pipeline.local import reading
from tuner.pipeline.sources.found import InputFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]


def examine_both(
    spark: SparkSession, found: Sequence[InputFile], application: str | None = None
) -> tuple[list[Row], tuple[str, ...]]:
    """Samples without what is unknown, and notes; a refusal is the same sentence."""
    from tuner.pipeline.sources.event_log import collect_events  # loads pyspark

    try:
        by_spark = sources.examine(spark, found, application)
    except BadInput as error:
        with pytest.raises(BadInput, match=f"^{re.escape(str(error))}$"):
            reading.examine(found, application)
        raise
    here = reading.examine(found, application)
    read_apart = reading.examine(found, application, scan=lambda files: collect_events(spark, files))
    assert_same_rows(*([drop_unknown(row) for row in one.samples.to_pylist()] for one in (read_apart, here)))
    assert (read_apart.notes, read_apart.links) == (here.notes, here.links)
    rows = [drop_unknown(row.asDict()) for row in by_spark.samples.collect()]
    assert_same_rows([drop_unknown(row) for row in here.samples.to_pylist()], rows)
    links = {(row["upstream"], row["downstream"]) for row in by_spark.links.collect()}
    assert (here.notes, here.links) == (by_spark.notes, links)
    return rows, by_spark.notes


def drop_unknown(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def assert_same_rows(found: Sequence[Row], wanted: Sequence[Row]) -> None:
    """The same samples, to the rounding of sums, however often each one is there."""
    assert len(found) == len(wanted)

    def place(row: Row) -> tuple[Any, ...]:
        return row["operator"], row["evidence"], row.get("key", ""), row["start"], row.get("node_type", "")

    for one, other in zip(sorted(found, key=place), sorted(wanted, key=place), strict=True):
        assert one.keys() == other.keys(), (one, other)
        assert all(is_same(one[name], other[name]) for name in one), (one, other)


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-9)
    if isinstance(one, str) and one.startswith("{"):
        mine, its = json.loads(one), json.loads(other)
        return mine.keys() == its.keys() and all(math.isclose(mine[at], its[at], rel_tol=1e-6) for at in mine)
    return bool(one == other)
