"""Moments of drawn times of records and tasks lie within their stated errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from scaler.model.sample import Sample
from tests.surrogate.measured import measure_samples
from tuner.surrogate.service_moments import ServiceMoments, fit_tasks

if TYPE_CHECKING:
    from numpy.random import Generator

    from scaler.model.kernel import Floats

MEAN, OVERHEAD = 0.01, 0.2


def window(i: int, **figures: Any) -> Sample:
    return Sample("shop", "parse", 60.0 * i, 60.0 * i + 60.0, "tasks", None, "fast", **figures)


def timed(times: Floats) -> dict[str, float]:
    return {
        "service_n": float(times.size),
        "service_sum": float(times.sum()),
        "service_squares": float(times @ times),
    }


def tasks(n: Floats, t: Floats) -> dict[str, float]:
    return {
        "task_n": float(n.size),
        "task_records": float(n.sum()),
        "task_time": float(t.sum()),
        "task_inverse": float((1.0 / n).sum()),
        "task_rates": float((t / n).sum()),
        "task_squares": float((t * t / n).sum()),
    }


def draw_tasks(rng: Generator, count: int, least: int = 10, most: int = 400) -> tuple[Floats, Floats]:
    """Tasks of so many records, whose times are gamma with twice as much variance as exponential ones would have."""
    n = rng.integers(least, most + 1, count).astype(np.float64)
    return n, OVERHEAD + rng.gamma(n / 2.0, 2.0 * MEAN)


def only(samples: Iterable[Sample]) -> ServiceMoments:
    found = measure_samples(samples)
    assert list(found) == [("parse", "fast")]
    return found["parse", "fast"]


def test_timed_records_give_their_own_mean_and_variance() -> None:
    rng = np.random.default_rng(0)
    drawn = [rng.exponential(MEAN, rng.integers(50, 150)) for _ in range(40)]
    found = only(window(i, **timed(times)) for i, times in enumerate(drawn))
    together = np.concatenate(drawn)
    assert (found.evidence, found.tuples, found.windows) == ("records", together.size, 40)
    assert found.mean.value == pytest.approx(together.mean(), rel=1e-12)
    assert found.variance is not None
    assert found.variance.value == pytest.approx(together.var(ddof=1), rel=1e-9)
    assert found.mean_trusted
    assert found.variance_trusted
    assert found.overhead is None


def test_records_go_before_tasks() -> None:
    both = window(0, **timed(np.full(200, 0.5)), **tasks(np.arange(1.0, 9.0), np.arange(1.0, 9.0)))
    assert only([both]).evidence == "records"


def test_the_errors_of_timed_records_cover_the_truth() -> None:
    """95 % intervals of 400 worlds; windows whose load sways their times are what independent records would miss."""
    rng = np.random.default_rng(1)
    inside_mean = inside_variance = 0
    for _ in range(400):
        levels = MEAN * rng.uniform(0.8, 1.2, 60)
        found = only(window(i, **timed(rng.exponential(level, 100))) for i, level in enumerate(levels))
        truth = MEAN**2 * (2.0 * (1.0 + 0.4**2 / 12.0) - 1.0)
        assert found.variance is not None
        inside_mean += abs(found.mean.value - MEAN) <= 1.96 * found.mean.error
        inside_variance += abs(found.variance.value - truth) <= 1.96 * found.variance.error
    assert inside_mean >= 400 * 0.90
    assert inside_variance >= 400 * 0.88  # skewed, so that the interval is a little short on one side


def test_least_squares_are_those_of_numpy() -> None:
    n, t = draw_tasks(np.random.default_rng(2), 300)
    fitted = fit_tasks(list(tasks(n, t).values()))
    weight = 1.0 / np.sqrt(n)
    design = np.column_stack([np.ones_like(n), n]) * weight[:, None]
    (overhead, mean), (rest,), *_ = np.linalg.lstsq(design, t * weight, rcond=None)
    covariance = np.linalg.inv(design.T @ design) * rest / (n.size - 2)
    assert (fitted.overhead, fitted.mean) == pytest.approx((overhead, mean), rel=1e-9)
    assert fitted.variance == pytest.approx(rest / (n.size - 2), rel=1e-6)
    assert (fitted.overhead_error, fitted.mean_error) == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-6)


def test_the_errors_of_tasks_cover_the_truth() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(500):
        fitted = fit_tasks(list(tasks(*draw_tasks(rng, 200)).values()))
        assert fitted.mean_error is not None
        inside += abs(fitted.mean - MEAN) <= 1.96 * fitted.mean_error
    assert 500 * 0.92 <= inside <= 500 * 0.98


def test_tasks_tell_mean_and_overhead_and_distrust_their_variance() -> None:
    n, t = draw_tasks(np.random.default_rng(4), 2000)
    found = only(window(i, **tasks(n[i::20], t[i::20])) for i in range(20))
    assert found.overhead is not None
    assert (found.mean.value, found.overhead.value) == pytest.approx((MEAN, OVERHEAD), rel=0.05)
    assert (found.mean_trusted, found.variance_trusted) == (True, False)
    assert found.says == "From the times of 2,000 whole tasks; their spread understates that of single records."


@pytest.mark.parametrize(
    ("n", "t", "mean", "doubt"),
    [
        (np.full(50, 100.0), np.full(50, 1.2), 0.012, "all tasks have about as many records"),
        (np.full(5, 100.0), np.full(5, 1.2), 0.012, "there are fewer than 30 of them"),
        (np.arange(1.0, 11.0), 0.2 + 0.01 * np.arange(1.0, 11.0), 0.01, "there are fewer than 30 of them"),
        (np.arange(1.0, 51.0), 1e-4 * np.arange(1.0, 51.0) ** 2, None, "larger tasks take more time a record"),
        (np.arange(1.0, 51.0), np.full(50, 1.0), None, ""),
        (np.arange(1.0, 51.0), 2.0 - 0.01 * np.arange(1.0, 51.0), None, "does not grow with their records"),
    ],
)
def test_what_tasks_cannot_tell_is_said(n: Floats, t: Floats, mean: float | None, doubt: str) -> None:
    fitted = fit_tasks(list(tasks(n, t).values()))
    assert doubt in fitted.doubt
    assert mean is None or fitted.mean == pytest.approx(mean)


def test_noise_around_no_overhead_at_all_is_no_doubt() -> None:
    rng = np.random.default_rng(5)
    doubts = []
    for _ in range(50):
        n = rng.integers(10, 400, 400).astype(np.float64)
        doubts.append(fit_tasks(list(tasks(n, rng.gamma(n, MEAN)).values())).doubt)
    assert not any(doubts)


@pytest.mark.parametrize(
    ("times", "trusted", "said"),
    [
        (np.full(50, 0.1), False, "50 records were timed one by one, fewer than 100: let more run through."),
        (np.random.default_rng(6).exponential(1.0, 400), False, "their mean is known to within"),
        (np.full(500, 0.1), True, "500 records were timed one by one."),
    ],
)
def test_what_few_records_cannot_tell_is_said(times: Floats, trusted: bool, said: str) -> None:
    found = only([window(0, **timed(times))])
    assert (found.mean_trusted, said in found.says) == (trusted, True)


def test_nothing_known_gives_no_estimate() -> None:
    assert measure_samples([window(0, tuples_in=5.0), window(1, **timed(np.zeros(0)))]) == {}


def test_records_without_measurable_time_give_no_estimate() -> None:
    assert measure_samples([window(0, **timed(np.zeros(500)))]) == {}
