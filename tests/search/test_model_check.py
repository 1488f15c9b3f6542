"""The model of a run's trials: left-out trials, importances, what is too little."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.search.model_check import (
    MAX_TRIALS,
    MIN_TRIALS,
    NUGGET,
    check_model,
    correlate,
    find_slope,
    fit_process,
)

NAMES = ("strong", "weak", "none", "same")


def make_trials(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.random((n, 3)), np.full(n, 0.5)])
    return x, 10.0 + 4.0 * x[:, 0] ** 2 + x[:, 1] + 0.1 * rng.standard_normal(n)


def test_left_out_trials_are_predicted_and_parameters_ranked() -> None:
    x, y = make_trials(60)
    check = check_model(NAMES, x, y)
    assert check is not None
    assert list(check.importances)[:2] == ["strong", "weak"]
    assert "same" not in check.importances  # what never varied has no part
    assert check.importances["strong"] > 5.0 * check.importances["weak"] > 20.0 * check.importances["none"]
    assert check.explained > 0.95
    assert 0.85 <= check.covered <= 1.0
    assert np.array_equal(check.observed, y)


def test_a_prediction_without_a_trial_is_that_of_a_model_that_never_had_it() -> None:
    x, y = make_trials(20)
    unit, standard = x[:, :3], (y - y.mean()) / y.std()
    whole = fit_process(unit, standard)
    noise = np.linalg.inv(whole.inverse)[0, 0] - whole.signal
    left = unit[1:]
    covariance = whole.signal * correlate(left, left, whole.scales) + noise * np.eye(19)
    across = whole.signal * correlate(unit[:1], left, whole.scales)
    expected = (across @ np.linalg.solve(covariance, standard[1:])).item()
    assert standard[0] - whole.solved[0] / whole.inverse[0, 0] == pytest.approx(expected, rel=1e-8)


def test_the_slope_is_that_of_the_likelihood() -> None:
    x, y = make_trials(15)
    y = (y - y.mean()) / y.std()
    squares = np.square(x[:, None, :2] - x[None, :, :2]).transpose(2, 0, 1)

    def likelihood(place: np.ndarray) -> float:
        smooth = np.exp(place[2]) * correlate(x[:, :2], x[:, :2], np.exp(place[:2]))
        covariance = smooth + (np.exp(place[3]) + NUGGET) * np.eye(15)
        return float(-0.5 * y @ np.linalg.solve(covariance, y) - 0.5 * np.linalg.slogdet(covariance)[1])

    place, step = np.array([-0.3, 0.2, 0.1, -1.5]), 1e-5
    numeric = [(likelihood(place + step * e) - likelihood(place - step * e)) / (2.0 * step) for e in np.eye(4)]
    assert find_slope(place, squares, y) == pytest.approx(numeric, rel=1e-5)


def test_noise_alone_is_not_explained() -> None:
    rng = np.random.default_rng(1)
    check = check_model(("a", "b", "c"), rng.random((60, 3)), rng.standard_normal(60))
    assert check is not None
    assert check.explained < 0.2


def test_the_same_trials_give_the_same_check() -> None:
    x, y = make_trials(30)
    first, again = check_model(NAMES, x, y), check_model(NAMES, x, y)
    assert first is not None
    assert again is not None
    assert first.importances == again.importances


def test_too_few_trials_or_none_that_differ_have_no_model() -> None:
    x, y = make_trials(MIN_TRIALS)
    assert check_model(NAMES, x, y) is not None
    assert check_model(NAMES, x[1:], y[1:]) is None
    assert check_model(NAMES, x, np.full(MIN_TRIALS, 3.0)) is None
    assert check_model(NAMES, np.ones_like(x), y) is None
    assert check_model(NAMES, np.zeros((0, 4)), np.zeros(0)) is None


def test_of_many_trials_some_evenly_make_the_model() -> None:
    check = check_model(NAMES, *make_trials(3 * MAX_TRIALS))
    assert check is not None
    assert len(check.observed) == MAX_TRIALS
