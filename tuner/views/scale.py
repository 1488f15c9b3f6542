"""Scale values to shares of a drawing's width, with labelled ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scaler.model.kernel import Floats

Ticks = list[tuple[float, str]]
STEPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0)  # of ticks by factors, times a power of ten
COARSE_STEPS = (1.0, 2.0, 5.0)
WIDE_RATIO = 20.0  # from the least to the greatest value, for coarse steps
MIN_DISTANCE = 0.05  # of the width, between two ticks


@dataclass(frozen=True, slots=True)
class Scale:
    """From `low` to `high`; evenly, or evenly by factors."""

    low: float
    high: float
    by_factors: bool = False

    def share(self, values: Floats) -> Floats:
        """Where values lie, 0 at the low end; a NaN stays one."""
        if self.by_factors:
            lowest = np.log(self.low)
            return (np.log(np.maximum(values, self.low)) - lowest) / (np.log(self.high) - lowest)
        return (values - self.low) / (self.high - self.low)

    def within(self, value: float) -> float:
        """The share of one value; what lies beyond an end stays at it."""
        return min(1.0, max(0.0, float(self.share(np.array(value)))))

    def ticks(self) -> Ticks:
        """Round values with labels, not too near to each other."""
        values = (list_factors if self.by_factors else list_rounds)(self.low, self.high)
        ticks: Ticks = []
        for value in values:
            if not ticks or self.within(value) - ticks[-1][0] >= MIN_DISTANCE:
                ticks.append((self.within(value), format_tick(value)))
        return ticks


def format_tick(value: float) -> str:
    """A tick's label: short, whatever its size."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= 10.0 * size:
            return f"{value / size:.6g}{unit}"
    return f"{value:.6g}"


def list_rounds(low: float, high: float) -> list[float]:
    """About five values that are 1, 2 or 5 times a power of ten apart."""
    size = 10.0 ** math.floor(math.log10((high - low) / 5.0))
    step = min((m * size for m in (1.0, 2.0, 5.0, 10.0)), key=lambda s: abs((high - low) / s - 5.0))
    first = math.ceil(low / step)
    return [n * step for n in range(first, math.floor(high / step * (1.0 + 1e-9)) + 1)]


def list_factors(low: float, high: float) -> list[float]:
    """Round values within the scale."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = COARSE_STEPS if high > WIDE_RATIO * low else STEPS
    return [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
