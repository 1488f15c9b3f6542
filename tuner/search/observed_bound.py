"""Compare the demanded R_max with the response times that were observed: one in a wrong unit is far from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.model.units import format_duration
from sim.application import name_path, paths
from tuner.scenario.document import shape_of
from tuner.store.connection import Session
from tuner.store.samples import load_samples

FAR = 20.0  # times the observed mean, above or below
NEWEST = 2_000  # samples looked at


def doubt_bound(session: Session, app: str, settings: Mapping[str, Any]) -> str | None:
    """The sentence of a bound that is far from what was observed; None where it is near, or nothing was observed."""
    shape, r_max = shape_of(settings["document"]), settings["qos"]["r_max"]
    means = observe_means(session, app)
    known = [path for path in paths(shape) if all(shape.operators[i].name in means for i in path)]
    if not known:
        return None
    slowest = max(known, key=lambda path: sum(means[shape.operators[i].name] for i in path))
    seen = sum(means[shape.operators[i].name] for i in slowest)
    if not seen > 0.0 or 1.0 / FAR <= r_max / seen <= FAR:
        return None
    return (
        f"R_max is {format_duration(r_max)}, and the responses of {name_path(shape, slowest)} took "
        f"{format_duration(seen)} on average; state its unit if another was meant, as in --r-max 60ms"
    )


def observe_means(session: Session, app: str) -> dict[str, float]:
    """Mean response time by operator, over the newest samples that know it."""
    sums: dict[str, tuple[float, float]] = {}
    for sample in load_samples(session, app, limit=NEWEST, newest=True):
        if sample.response_n and sample.response_sum is not None:
            count, total = sums.get(sample.operator, (0.0, 0.0))
            sums[sample.operator] = (count + sample.response_n, total + sample.response_sum)
    return {name: total / count for name, (count, total) in sums.items()}
