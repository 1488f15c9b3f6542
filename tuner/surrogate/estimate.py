"""Estimates with 95 % confidence intervals, from each window's influence on the figure.

Notation: psi_w influence of window w, so that (figure - truth) is about the sum of psi_w. Windows are taken as
independent and nothing else is: the interval holds however the tuples within a window hang together (the sandwich
estimator of clustered data).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from scaler.model.kernel import Floats

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


def student(share: float, freedom: float) -> float:
    """The quantile of Student's t (Cornish and Fisher's expansion in one over the degrees of freedom)."""
    z = NormalDist().inv_cdf(share)
    if freedom == 1:  # closed forms, where the expansion is no good
        return math.tan(math.pi * (share - 0.5))
    if freedom == 2:
        return (2.0 * share - 1.0) * math.sqrt(2.0 / (1.0 - (2.0 * share - 1.0) ** 2))
    terms = (
        z,
        (z**3 + z) / 4.0,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96.0,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384.0,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160.0,
    )
    return sum(term / freedom**i for i, term in enumerate(terms))


def format_estimate(figure: Estimate, factor: float = 1.0, digits: int = 3) -> str:
    """The figure and its interval in so many digits, each times `factor`."""
    value, low, high = (f"{factor * x:.{digits}g}" for x in (figure.value, figure.low, figure.high))
    return f"{value} [{low}, {high}]"
