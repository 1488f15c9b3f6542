"""Values in, shares of a plot's height or width and their labelled ticks out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from scaler.model.kernel import Floats

HOUR = 3600
DAY = 24 * HOUR
STRIDES = (
    60,
    300,
    900,
    HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    *(n * DAY for n in (1, 2, 3, 7, 14, 30, 60, 91, 182, 365)),
)
MOST_TICKS = 6
Ticks = list[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Scale:
    """From `low`, the plot's floor, to `high`, its ceiling; evenly, or evenly by factors."""

    low: float
    high: float
    by_factors: bool = False

    def share(self, values: Floats) -> Floats:
        """Where values lie, 0 at the floor; a NaN stays one."""
        if self.by_factors:
            lowest = np.log(self.low)
            return (np.log(np.maximum(values, self.low)) - lowest) / (np.log(self.high) - lowest)
        return (values - self.low) / (self.high - self.low)

    def ticks(self, factor: float = 1.0) -> Ticks:
        """Round values with labels; values times `factor` are what the labels say."""
        values = powers(self.low, self.high) if self.by_factors else rounds(self.low, self.high)
        return [(float(y), say_value(v * factor)) for y, v in zip(self.share(np.array(values)), values, strict=True)]


def say_value(value: float) -> str:
    """A tick's label: short, whatever its size."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= 10.0 * size:
            return f"{value / size:.6g}{unit}"
    return f"{value:.6g}"


def fit(highest: float, room: float = 1.05) -> Scale:
    """An even scale from zero that leaves a little room at the top."""
    return Scale(0.0, highest * room if highest > 0.0 else 1.0)


def fit_factors(lowest: float, highest: float) -> Scale:
    """A scale by factors, from one round value to another."""
    low = 10.0 ** math.floor(math.log10(lowest))
    high = 10.0 ** math.ceil(math.log10(highest))
    return Scale(low, high if high > low else 10.0 * low, True)


def rounds(low: float, high: float) -> list[float]:
    """About five values that are 1, 2 or 5 times a power of ten apart."""
    size = 10.0 ** math.floor(math.log10((high - low) / 5.0))
    step = min((m * size for m in (1.0, 2.0, 5.0, 10.0)), key=lambda s: abs((high - low) / s - 5.0))
    first = math.ceil(low / step)
    return [n * step for n in range(first, math.floor(high / step * (1.0 + 1e-9)) + 1)]


def powers(low: float, high: float) -> list[float]:
    """Powers of ten, thinned out to at most six."""
    first, last = round(math.log10(low)), round(math.log10(high))
    stride = math.ceil((last - first + 1) / MOST_TICKS)
    return [10.0**n for n in range(first, last + 1, stride)]


def time_ticks(start: datetime | None, seconds: float) -> Ticks:
    """Dates or times where the trace says when it began, else days or hours since then."""
    stride = next((s for s in STRIDES if seconds / s < MOST_TICKS), STRIDES[-1] * math.ceil(seconds / STRIDES[-1] / 5))
    if start is None:
        return [(t / seconds, say_how_long(t, stride)) for t in upto(seconds, stride)]
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    lead = -(start - midnight).total_seconds() % min(stride, DAY)
    times = [lead + t for t in upto(seconds - lead, stride)]
    return [(t / seconds, say_when(start + timedelta(seconds=t), stride)) for t in times]


def upto(seconds: float, stride: int) -> list[float]:
    return [float(t) for t in range(0, max(0, math.floor(seconds)) + 1, stride)]


def say_how_long(seconds: float, stride: int) -> str:
    if stride >= DAY:
        return f"{seconds / DAY:g} d"
    return f"{seconds / HOUR:.10g} h" if stride >= HOUR else f"{seconds / 60:g} min"


def say_when(moment: datetime, stride: int) -> str:
    """As much of a date as tells ticks apart."""
    if stride < DAY:
        return f"{moment:%H:%M}" if moment.hour or moment.minute else f"{moment.day} {moment:%b}"
    return f"{moment.day} {moment:%b}" if stride < 30 * DAY else f"{moment:%b %Y}"
