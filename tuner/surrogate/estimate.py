"""Estimates with 95 % confidence intervals, from each window's influence on the figure.

Notation: psi_w influence of window w, so that (figure - truth) is about the sum of psi_w. Windows are taken as
independent and nothing else is: the interval holds however the tuples within a window hang together (the sandwich
estimator of clustered data).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.units import format_number

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, the interval that holds the truth at 95 % confidence, and the standard error."""

    value: float
    low: float
    high: float
    error: float


def estimate(value: float, influence: Floats) -> Estimate:
    """An interval to both sides alike; without end where fewer than two windows speak."""
    error, reach = spread(influence)
    return Estimate(value, value - reach * error, value + reach * error, error)


def estimate_positive(value: float, influence: Floats) -> Estimate:
    """An interval alike in factors, for what cannot be negative."""
    error, reach = spread(influence)
    if not value > 0.0:
        return Estimate(value, 0.0, math.inf if math.isinf(error) else max(0.0, value + reach * error), error)
    factor = math.exp(min(700.0, reach * error / value))
    return Estimate(value, value / factor, value * factor, error)


def scale(figure: Estimate, factor: float) -> Estimate:
    """The same in a unit so many times smaller."""
    return Estimate(factor * figure.value, factor * figure.low, factor * figure.high, factor * figure.error)


def exact(value: float) -> Estimate:
    return Estimate(value, value, value, 0.0)


def spread(influence: Floats) -> tuple[float, float]:
    """The standard error, and how many of them the interval reaches to either side."""
    count = influence.size
    if count < 2:
        return math.inf, 1.0
    error = math.sqrt(count / (count - 1) * float(np.sum(influence**2)))
    return error, student(0.5 + CONFIDENCE / 2.0, count - 1)


def student(share: float, freedom: int) -> float:
    """The quantile of Student's t."""
    from scipy.special import stdtrit  # late, for it takes a quarter of a second to load

    return float(stdtrit(freedom, share))


def format_estimate(figure: Estimate, factor: float = 1.0, digits: int = 3) -> str:
    """The figure and its interval in so many digits, each times `factor`."""
    value, low, high = (format_number(factor * x, digits) for x in (figure.value, figure.low, figure.high))
    return f"{value} [{low}, {high}]"
