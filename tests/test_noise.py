"""The random numbers of exploration: a pure function, uniform, and unrelated between steps and seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from scaler.model.jit import uniform


def draw(seed: int, steps: range) -> np.ndarray:
    return np.array([uniform(seed, step) for step in steps])


@pytest.mark.parametrize("seed", [0, 1, 2**31, -5])
def test_uniform_within_the_unit_interval(seed: int) -> None:
    values = draw(seed, range(20_000))
    assert values.min() >= 0.0
    assert values.max() < 1.0
    assert stats.kstest(values, "uniform").pvalue > 1e-4
    lagged = np.corrcoef(values[:-1], values[1:])[0, 1]
    assert abs(lagged) < 4.0 / np.sqrt(len(values))


def test_seeds_and_late_steps_differ() -> None:
    a, b = draw(1, range(5000)), draw(2, range(5000))
    assert abs(np.corrcoef(a, b)[0, 1]) < 4.0 / np.sqrt(5000)
    assert uniform(1, 7) != uniform(1, 7 + 2**32)
    assert uniform(1, 7) == uniform(1, 7)
