"""Compare the demanded R_max with the response times that were observed: one in a wrong unit is far from them."""

from __future__ import annotations

from collections.abc import Mapping

from sim.application import Application, name_path, paths
from sim.setting import Setting
from tuner.scenario.doubtful_bound import doubt_bound, doubt_possible
from tuner.store.connection import Session
from tuner.store.samples import load_samples

NEWEST = 2_000  # samples looked at


def doubt_described(session: Session, app: str, setting: Setting) -> str | None:
    """The sentence of a description's bound; by what was observed, and where nothing was by what is possible."""
    means = observe_means(session, app)
    return doubt_means(means, setting.application, setting.r_max) if means else doubt_possible(setting)


def doubt_observed(session: Session, app: str, shape: Application, r_max: float) -> str | None:
    """The sentence of a bound that is far from what was observed; None where it is near, or nothing was observed."""
    return doubt_means(observe_means(session, app), shape, r_max)


def doubt_means(means: Mapping[str, float], shape: Application, r_max: float) -> str | None:
    """The same by the mean response times of operators, on the slowest path of which all are known."""
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
