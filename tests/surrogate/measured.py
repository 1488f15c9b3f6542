"""Moments of each operator and node type of some samples, folded or fine, as the surrogate measures them."""

from __future__ import annotations

from collections.abc import Iterable

from scaler.model.sample import Sample
from tuner.surrogate.observed_windows import BY_TYPE, list_known
from tuner.surrogate.service_moments import ServiceMoments, measure_columns


def measure_samples(samples: Iterable[Sample]) -> dict[tuple[str, str | None], ServiceMoments]:
    """By operator and node type."""
    groups: dict[tuple[str, str | None], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.operator, sample.node_type), []).append(sample)
    found = {
        place: measure_columns({name: list_known(group, name) for name in BY_TYPE}) for place, group in groups.items()
    }
    return {place: one for place, one in found.items() if one is not None}
