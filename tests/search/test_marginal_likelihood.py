"""The closed form of the marginal likelihood's gradient against GPyTorch's, and a fit by it against torch's Adam."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from scaler.model.kernel import Floats

gpytorch = pytest.importorskip("gpytorch")

from tuner.search.engines import gaussian  # noqa: E402
from tuner.search.engines.gaussian import LEAST_NOISE, Processes, alone, climb, save  # noqa: E402


def draw(points: int, coordinates: int) -> tuple[Floats, Floats, Floats]:
    """Points, three standardised figures there, and the variance of their noise."""
    rng = np.random.default_rng(points)
    x = rng.random((points, coordinates))
    y = np.array([np.sin(3.0 * x[:, 0]) + x[:, 1], x[:, 1] ** 2 - x[:, 0], x.sum(axis=1)])
    y = (y - y.mean(axis=1, keepdims=True)) / y.std(axis=1, keepdims=True)
    return x, y, rng.uniform(LEAST_NOISE, 0.05, y.shape)


def make(points: int, coordinates: int) -> Processes:
    return Processes(*map(torch.from_numpy, draw(points, coordinates))).double()


def climb_by_autograd(model: Processes, steps: int) -> None:
    """The same ascent by GPyTorch's likelihood and torch's optimiser."""
    model.train()
    likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1, betas=(0.8, 0.95))
    for _ in range(steps):
        optimiser.zero_grad()
        (-likelihood(model(model.train_inputs[0]), model.train_targets).sum()).backward()
        optimiser.step()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("points", "coordinates"), [(2, 2), (12, 5), (61, 5), (110, 10)])
@pytest.mark.parametrize("steps", [1, 15])
def test_an_ascent_is_that_by_autograd(points: int, coordinates: int, steps: int) -> None:
    ours, theirs = make(points, coordinates), make(points, coordinates)
    before = save(ours)
    with alone():
        climb_by_autograd(theirs, 4)  # to where no parameter is as it began
        gaussian.load(ours, save(theirs))
        climb(ours, steps)
        again = make(points, coordinates)
        gaussian.load(again, save(theirs))
        climb_by_autograd(again, steps)
    assert save(ours) == pytest.approx(save(again), rel=1e-6, abs=1e-7)
    assert np.abs(np.subtract(save(ours), before)).min() > 1e-3


def test_a_point_that_was_tried_twice_does_not_break_the_fit() -> None:
    x, y, noise = draw(12, 3)
    x[5], y[:, 5] = x[4], y[:, 4]
    with alone():
        mean, deviation = gaussian.recall(gaussian.fit(x, y, np.zeros_like(noise)))
    assert np.isfinite(mean).all()
    assert (deviation > 0.0).all()
