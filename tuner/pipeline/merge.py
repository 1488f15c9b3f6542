"""Folded samples of single node types and of whole operators flow in; one sample per operator and window flows out.

A row without a node type and those with one may tell of the same tuples, so they are never added up: each block comes
either from the row without a type or from the sum over the types. `whole` does it in Spark, `merge_types` in Python for
what was read from the database; a test holds them equal.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scaler.model.sample import EVIDENCE, Sample
from tuner.pipeline.sources.column_rules import BLOCKS, MEASURED, ColumnBlock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def merge_types_in_spark(folded: DataFrame) -> DataFrame:
    """The same windows with one row each."""
    from pyspark.sql import functions as F  # noqa: N812

    from tuner.pipeline.fold import pick_blocks, rank_evidence

    rank = rank_evidence()
    typed = F.col("node_type").isNotNull()
    window = ("application", "operator", "start", "end")
    sides = folded.groupBy(*window, typed.alias("typed")).agg(
        *(F.sum(column).alias(column) for column in MEASURED),
        F.min_by("evidence", rank).alias("evidence"),
        F.max("completeness").alias("completeness"),
    )
    order = rank * 2 + F.col("typed").cast("int")
    merged = sides.groupBy(*window).agg(
        *pick_blocks(lambda _: order, F.col("completeness")),
        F.min_by("evidence", order).alias("evidence"),
        F.max("completeness").alias("completeness"),
    )
    nothing = F.lit(None).cast("string")
    return merged.withColumns({"key": nothing, "node_type": nothing}).select(*folded.columns)


def merge_types(samples: Iterable[Sample]) -> list[Sample]:
    """The same in Python, in order of operator and time."""
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
    best = min(samples, key=lambda sample: EVIDENCE.index(sample.evidence))
    return replace(best, **sums, node_type=None, key=None, completeness=max(s.completeness for s in samples))
