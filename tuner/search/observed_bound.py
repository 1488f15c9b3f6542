"""Compare the demanded R_max with the response times that were observed: one in a wrong unit is far from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.application import name_path, paths
from tuner.scenario.description import scenario_of
from tuner.scenario.document import shape_of
from tuner.scenario.doubtful_bound import doubt_bound, doubt_possible
from tuner.store.connection import Session
from tuner.store.samples import load_samples

NEWEST = 2_000  # samples looked at


def doubt_described(session: Session, app: str, document: Mapping[str, Any]) -> str | None:
    """The sentence of a description's bound; by what was observed, and where nothing was by what is possible."""
    setting = scenario_of(document, name=app).settings[0]
    if observe_means(session, app):
        return doubt_observed(session, app, document, setting.r_max)
    return doubt_possible(setting)


def doubt_observed(session: Session, app: str, document: Mapping[str, Any], r_max: float) -> str | None:
    """The sentence of a bound that is far from what was observed; None where it is near, or nothing was observed."""
    shape, means = shape_of(document), observe_means(session, app)
    known = [path for path in paths(shape) if all(shape.operators[i].name in means for i in path)]
    if not known:
        return None
    slowest = max(known, key=lambda path: sum(means[shape.operators[i].name] for i in path))
    return doubt_bound(r_max, sum(means[shape.operators[i].name] for i in slowest), name_path(shape, slowest))


def observe_means(session: Session, app: str) -> dict[str, float]:
    """Mean response time by operator, over the newest samples that know it."""
    sums: dict[str, tuple[float, float]] = {}
    for sample in load_samples(session, app, limit=NEWEST, newest=True):
        if sample.response_n and sample.response_sum is not None:
            count, total = sums.get(sample.operator, (0.0, 0.0))
            sums[sample.operator] = (count + sample.response_n, total + sample.response_sum)
    return {name: total / count for name, (count, total) in sums.items()}
