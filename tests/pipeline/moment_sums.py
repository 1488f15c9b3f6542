"""Moments of each operator and node type of some samples, as the surrogate sums them up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from scaler.model.sample import Sample
from tuner.pipeline.moments import (
    PRODUCTS,
    TASKS,
    TIMED,
    MomentEstimate,
    MomentSums,
    Place,
    estimate_moments_from_sums,
)


def estimate_moments_of(samples: Iterable[Sample]) -> list[MomentEstimate]:
    groups: dict[Place, list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.application, sample.operator, sample.node_type), []).append(sample)
    ordered = sorted(groups, key=lambda place: (place[0], place[1], place[2] or ""))
    found = [estimate_moments_from_sums(place, sum_up(groups[place])) for place in ordered]
    return [one for one in found if one is not None]


def sum_up(samples: Sequence[Sample]) -> MomentSums:
    timed = [sample for sample in samples if sample.service_n is not None]
    tasks = [sample for sample in samples if sample.task_n is not None]
    sums = [math.fsum(getattr(sample, column) or 0.0 for sample in timed) for column in TIMED]
    return MomentSums(
        windows=len(timed) if sums[0] > 0.0 else len(tasks),
        timed=sums,
        products=[math.fsum((getattr(s, a) or 0.0) * (getattr(s, b) or 0.0) for s in timed) for a, b in PRODUCTS],
        tasks=[math.fsum(getattr(sample, column) or 0.0 for sample in tasks) for column in TASKS],
    )
