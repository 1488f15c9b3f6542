"""How far the sum of independent operators' quantiles along a path is from the quantile of the path."""

from __future__ import annotations

import numpy as np
import pytest

from scaler.model.kernel import Floats
from scaler.model.micro_batches import steady_response
from scaler.model.queue_quantiles import replica_response_time

DRAWS = 400_000
LOADS = (0.5, 0.7, 0.8, 0.9)


def draw_queue(rng: np.random.Generator, load: float) -> Floats:
    """Response times of an M/M/1 queue with service times of mean 1."""
    return rng.exponential(1.0 / (1.0 - load), DRAWS)


def draw_batches(rng: np.random.Generator, load: float) -> Floats:
    """Response times of micro-batches with a trigger of 10 s and an overhead of .5 s."""
    return steady_response(10.0, 0.5, 0.0, 1.0, load, 0.0) + 10.0 * rng.random(DRAWS)


def compare(operators: list[Floats], quantile: float) -> float:
    """The sum of quantiles as a multiple of the quantile of the sum."""
    return float(sum(np.quantile(one, quantile) for one in operators) / np.quantile(sum(operators), quantile))


@pytest.mark.parametrize("quantile", [0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("length", [2, 3, 4])
@pytest.mark.parametrize("alike", [True, False])
def test_summed_quantiles_are_on_the_safe_side(quantile: float, length: int, alike: bool) -> None:
    rng = np.random.default_rng(7)
    loads = [0.8] * length if alike else list(LOADS[:length])
    queues, batches = ([draw(rng, load) for load in loads] for draw in (draw_queue, draw_batches))
    mixed = [0.3 * queues[0], *batches[1:]]
    multiples = [compare(path, quantile) for path in (queues, batches, mixed)]
    assert min(multiples) > 1.0
    assert max(multiples) < (1.6 if quantile <= 0.95 else 2.2)


def test_summed_medians_of_queues_are_too_low() -> None:
    rng = np.random.default_rng(7)
    assert 0.7 < compare([draw_queue(rng, 0.8) for _ in range(3)], 0.5) < 0.85


def test_draws_are_those_of_the_models() -> None:
    rng = np.random.default_rng(7)
    queue, batches = np.quantile(draw_queue(rng, 0.8), 0.95), np.quantile(draw_batches(rng, 0.8), 0.95)
    assert queue == pytest.approx(replica_response_time(0.8, 1.0, 1.0, 1.0, 0.95), rel=0.02)
    assert batches == pytest.approx(steady_response(10.0, 0.5, 0.0, 1.0, 0.8, 0.95), rel=0.01)
