"""Spark schema of samples, which columns are one measurement, and samples of single node types merged by these.

A row without a node type and those with one may hold the same tuples, so they are never added up: each block of columns
comes either from the row without a type or from the sum over the types.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from scaler.model.sample import EVIDENCE, Sample
from scaler.model.sketch import merge_sketches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

KINDS = {
    "str": "string",
    "float": "double",
    "int": "bigint",
    "bool": "boolean",
    "list[str]": "array<string>",
    "Mapping[str, float]": "string",  # JSON
}
SKETCH = "responses"
COLUMNS = tuple(field.name for field in fields(Sample))


def ddl(shape: type = Sample) -> str:
    """Columns named and typed as the fields of the dataclass."""
    return ", ".join(f"{field.name} {KINDS[str(field.type).removesuffix(' | None')]}" for field in fields(shape))


def shape_frame(frame: DataFrame, columns: dict[str, Column] | None = None) -> DataFrame:
    """Samples from a frame: `columns` by name, then the frame's own, None for what neither has."""
    from pyspark.sql import functions as f

    given = columns or {}
    chosen = []
    for field in fields(Sample):
        kind = KINDS[str(field.type).removesuffix(" | None")]
        unknown = f.lit(1.0 if field.name == "completeness" else None)
        column = given.get(field.name, f.col(field.name) if field.name in frame.columns else unknown)
        chosen.append(column.cast(kind).alias(field.name))
    return frame.select(*chosen)


def unite(frames: Iterable[DataFrame]) -> DataFrame:
    """Rows of all frames, which have the same columns."""
    return reduce(lambda one, other: one.unionByName(other), frames)


LINKS = "application string, upstream string, downstream string"


@dataclass(frozen=True, slots=True)
class SourceResult:
    samples: DataFrame  # columns of Sample
    links: DataFrame  # columns of LINKS
    notes: tuple[str, ...] = ()


def no_links(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], LINKS)


class ColumnBlock(NamedTuple):
    """Columns that one source measured together; where one of them is known, all are taken from there."""

    columns: tuple[str, ...]
    total: bool  # of everything that happened, so that who saw more of a window knows it better
    guess: str | None = None  # the kind of evidence that only works it out: whoever measured it knows it better


BLOCKS = (
    ColumnBlock(("arrived",), True),
    ColumnBlock(("tuples_in",), True),
    ColumnBlock(("tuples_out",), True),
    ColumnBlock(("backlog",), True),
    ColumnBlock(("service_n", "service_sum", "service_squares"), False),
    ColumnBlock(("task_n", "task_records", "task_time", "task_inverse", "task_rates", "task_squares"), False),
    ColumnBlock(("busy",), True),
    ColumnBlock(("replicas",), True),
    ColumnBlock(("batches", "batch_time", "batch_interval"), True),
    ColumnBlock(("state_rows", "state_bytes", "state_partitions"), True),
    ColumnBlock(("commit_time", "store_loads", "store_load_time"), True),
    ColumnBlock(("response_n", "response_sum"), False, "progress"),
    ColumnBlock((SKETCH,), False, "progress"),
)


STATE_LEVELS = ("state_rows", "state_bytes", "state_partitions")
LEVELS = ("backlog", "replicas", *STATE_LEVELS)  # of a moment or a mean; all others add up
AT_THE_END = (  # count where the sample ends, however long it took
    *("batches", "batch_time", "batch_interval"),
    *("commit_time", "store_loads", "store_load_time"),
)
MEASURED = tuple(column for block in BLOCKS for column in block.columns if column != SKETCH)
SUMS = tuple(column for column in MEASURED if column not in LEVELS)
SPREAD = tuple(column for column in SUMS if column not in AT_THE_END)


def merge_types(samples: Iterable[Sample]) -> list[Sample]:
    """One sample per operator and window, in their order."""
    groups: dict[tuple[str, str, float, float], list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.application, sample.operator, sample.start, sample.end].append(sample)
    return [merge_window(groups[place]) for place in sorted(groups)]


def merge_window(samples: list[Sample]) -> Sample:
    if len(samples) == 1:
        return replace(samples[0], node_type=None, key=None)
    typed = [sample for sample in samples if sample.node_type is not None]
    plain = [sample for sample in samples if sample.node_type is None]
    sides = sorted((add_types(side) for side in (plain, typed) if side), key=lambda side: EVIDENCE.index(side.evidence))
    fullest = sorted(sides, key=lambda side: -tenths(side.completeness))
    picked: dict[str, Any] = {}
    for block in BLOCKS:
        knowing = [side for side in (fullest if block.total else sides) if knows(side, block)]
        picked |= {column: getattr(knowing[0], column) if knowing else None for column in block.columns}
    return replace(sides[0], **picked, completeness=max(side.completeness for side in sides))


def knows(sample: Sample, block: ColumnBlock) -> bool:
    return any(getattr(sample, column) is not None for column in block.columns)


def tenths(share: float) -> int:
    return math.floor(share * 10.0 + 0.5)  # as Spark rounds


def add_types(samples: list[Sample]) -> Sample:
    """The sum over node types of one window; what none of them knows stays unknown."""
    sums: dict[str, Any] = {}
    for column in MEASURED:
        known = [value for sample in samples if (value := getattr(sample, column)) is not None]
        sums[column] = sum(known) if known else None
    sums[SKETCH] = merge_sketches(sample.responses for sample in samples)
    best = min(samples, key=lambda sample: EVIDENCE.index(sample.evidence))
    return replace(best, **sums, node_type=None, key=None, completeness=max(s.completeness for s in samples))
