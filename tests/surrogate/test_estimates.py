"""Intervals hold the truth as often as they claim: binomial tests over many made-up applications."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from scaler.model.sample import Sample
from tests.surrogate.worlds import LAWS
from tuner.surrogate.estimate import CONFIDENCE, Estimate, student
from tuner.surrogate.fit import find_selectivity
from tuner.surrogate.observed_windows import TASKS, build_windows
from tuner.surrogate.service_moments import find_speedups, list_services

WORLDS, WINDOWS, MEAN, OVERHEAD, SPEED, SELECTIVITY = 200, 40, 0.01, 0.05, 1.4, 1.5
SLACK = 0.01  # heavy tails need more windows for the interval of a variance to be exact


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 20, 500])
@pytest.mark.parametrize("share", [0.9, 0.975, 0.995])
def test_quantiles_are_those_of_student(share: float, freedom: int) -> None:
    assert student(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), rel=1e-9)


def timed(rng: np.random.Generator, law: str, node_type: str, speed: float) -> list[Sample]:
    samples = []
    for w in range(WINDOWS):
        times = LAWS[law][0](rng, rng.poisson(150)) * MEAN / speed
        samples.append(
            Sample(
                "shop", "count", 60.0 * w, 60.0 * w + 60.0, "records", node_type=node_type,
                tuples_in=float(times.size), tuples_out=float(rng.poisson(SELECTIVITY * times.size)),
                service_n=float(times.size), service_sum=float(times.sum()), service_squares=float((times**2).sum()),
            )
        )  # fmt: skip
    return samples


def in_tasks(rng: np.random.Generator, law: str) -> list[Sample]:
    samples = []
    for w in range(WINDOWS):
        sizes = rng.integers(5, 60, 12)
        times = np.array([OVERHEAD + LAWS[law][0](rng, n).sum() * MEAN for n in sizes])
        sums = (12.0, sizes.sum(), times.sum(), (1 / sizes).sum(), (times / sizes).sum(), (times**2 / sizes).sum())
        columns = dict(zip(TASKS, map(float, sums), strict=True))
        samples.append(Sample("shop", "count", 60.0 * w, 60.0 * w + 60.0, "tasks", **columns))
    return samples


def measure_records(rng: np.random.Generator, law: str) -> dict[str, tuple[Estimate | None, float]]:
    windows = build_windows([*timed(rng, law, "plain", 1.0), *timed(rng, law, "fast", SPEED)])["count"]
    services = {name: list_services(windows)[0].get(name) for name in ("plain", "fast")}
    plain = services["plain"]
    assert plain is not None
    speeds = find_speedups({n: s for n, s in services.items() if s}, ("fast", "plain"), (), "plain")
    return {
        "mean": (plain.mean, MEAN),
        "variance": (plain.variance, LAWS[law][1] * MEAN**2),
        "speed": (speeds[0].speed, SPEED),
        "selectivity": (find_selectivity(windows), SELECTIVITY),
    }


def measure_tasks(rng: np.random.Generator, law: str) -> dict[str, tuple[Estimate | None, float]]:
    service = list_services(build_windows(in_tasks(rng, law))["count"])[0].get("")
    assert service is not None
    truth = LAWS[law][1] * MEAN**2
    return {
        "mean": (service.mean, MEAN),
        "variance": (service.variance, truth),
        "overhead": (service.overhead, OVERHEAD),
    }


@pytest.mark.parametrize("law", ["gamma", "exponential", "hyperexponential"])
@pytest.mark.parametrize("how", [measure_records, measure_tasks])
def test_intervals_hold_the_truth_as_often_as_they_claim(how: object, law: str) -> None:
    assert callable(how)
    hits: dict[str, int] = {}
    for seed in range(WORLDS):
        for name, (found, truth) in how(np.random.default_rng(seed), law).items():
            assert found is not None
            assert found.low <= found.value <= found.high
            hits[name] = hits.get(name, 0) + (found.low <= truth <= found.high)
    for name, count in hits.items():
        short = stats.binomtest(count, WORLDS, CONFIDENCE - SLACK, alternative="less")
        wide = stats.binomtest(count, WORLDS, CONFIDENCE + SLACK, alternative="greater")
        assert min(short.pvalue, wide.pvalue) > 1e-3, f"{name}: {count} of {WORLDS}"


def test_one_window_alone_claims_nothing() -> None:
    windows = build_windows(timed(np.random.default_rng(0), "gamma", "plain", 1.0)[:1])["count"]
    service = list_services(windows)[0].get("plain")
    assert service is not None
    assert (service.mean.low, service.mean.high) == (0.0, pytest.approx(math.inf)) or service.mean.high > 1e9


@pytest.mark.parametrize(("types", "evidence"), [(("plain",), "records"), (("plain", "fast"), "tasks")])
def test_records_of_unnamed_nodes_tell_of_the_only_type(types: tuple[str, ...], evidence: str) -> None:
    """Timers name no type where only executors know it; of several types together they tell nothing of each."""
    rng = np.random.default_rng(0)
    records = [replace(sample, node_type=None) for sample in timed(rng, "gamma", "", 1.0)]
    tasks = [replace(sample, node_type=name) for name in types for sample in in_tasks(rng, "gamma")]
    found, reference = list_services(build_windows([*records, *tasks])["count"])
    assert set(found) == set(types)
    assert found[reference].evidence == evidence
