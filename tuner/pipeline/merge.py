"""Merge folded samples of single node types into one sample per operator and window.

A row without a node type and those with one may hold the same tuples, so they are never added up: each block of columns
comes either from the row without a type or from the sum over the types.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from scaler.model.sample import EVIDENCE, Sample
from tuner.pipeline.sources.sample_schema import BLOCKS, MEASURED, ColumnBlock


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
    best = min(samples, key=lambda sample: EVIDENCE.index(sample.evidence))
    return replace(best, **sums, node_type=None, key=None, completeness=max(s.completeness for s in samples))
