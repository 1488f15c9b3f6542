"""Describe charts as data that static/timelines.js draws with uPlot, a table without scripts; scales with ticks.

Notation: X places along the horizontal axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from scaler.model.kernel import Floats
from tuner.simulation.comparison import Figure
from tuner.views.html_document import render

TIMES = ("utc", "elapsed")
TOLERANCE, EXACT = 5e-4, 1e-9  # of the width: half a pixel, for columns of nearly even length, and none
DIGITS = 5  # significant, of the values that a chart holds
TALL, MIDDLE, SMALL = 240, 180, 150  # pixels
COLOURS = 10  # c0 to c9 of static/style.css


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows; `low` and `high` fix it, else it reaches from 0 to the greatest value in sight."""

    label: str = ""
    kind: str = ""  # of the horizontal one "utc" (seconds since 1970) or "elapsed" (seconds), else a plain number
    logarithmic: bool = False
    low: float | None = None
    high: float | None = None
    whole: bool = False  # whether it counts, so that its ticks are whole numbers


@dataclass(frozen=True, slots=True)
class Series:
    """One value for each place, or one for all; NaN where it is not known."""

    label: str
    values: Floats  # [X], or [] of a level
    colour: str = "c0"  # a CSS variable of static/style.css
    look: str = "line"  # line, steps, area, band, strip (along the upper edge), dot, square or tick
    low: Floats | None = None  # [X] lower edge of a band
    stack: str = ""  # series of the same name stand upon each other
    right: bool = False  # on the axis at the right
    width: float = 1.5  # pixels of a line, or across a dot
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that was done at a time: a vertical line with a few words, which tell all under the cursor."""

    at: float
    label: str
    colour: str = "c0"
    message: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure; charts of one `group` share their cursor and their zoom."""

    title: str  # for screen readers
    x: Floats  # [X] in ascending order
    across: Axis
    left: Axis
    series: Sequence[Series]
    right: Axis | None = None
    height: int = MIDDLE
    group: str = ""
    uprights: Sequence[tuple[float, str]] = ()  # vertical lines: where, and what they mean
    legend: bool = True
    marks: Sequence[Mark] = ()
    note: str = field(default="", kw_only=True)

    def render(self) -> Markup:
        """The HTML of the figure, whole without scripts."""
        return render("chart.html", chart=self, data=self.describe(), rows=list(self.tabulate()))

    def describe(self) -> dict[str, Any]:
        """The plain values that the script reads."""
        marks = {"marks": [{**describe(mark), "at": mark.at} for mark in self.marks]} if self.marks else {}
        return {**describe(self), **marks, "x": compress(self.x, TOLERANCE if self.across.kind in TIMES else EXACT)}

    def tabulate(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Label, least, mean and greatest value of every series."""
        for each in self.series:
            lows = each.values if each.low is None else each.low
            known, below = each.values[np.isfinite(each.values)], lows[np.isfinite(lows)]
            if known.size and below.size:
                yield each.label, (float(below.min()), float(known.mean()), float(known.max()))


def describe(value: Any) -> Any:
    """Records by those of their fields that are not empty, numbers in a few digits."""
    if is_dataclass(value):
        described = {each.name: describe(getattr(value, each.name)) for each in fields(value)}
        return {name: item for name, item in described.items() if item is not False and item not in (None, "", [])}
    if isinstance(value, np.ndarray):
        return [shorten_number(each) if np.isfinite(each) else None for each in value.tolist()]
    if isinstance(value, list | tuple):
        return [describe(each) for each in value]
    return shorten_number(value) if isinstance(value, float) else value


def compress(x: Floats, tolerance: float) -> Any:
    """Places at even distances as the first, the distance and how many; `tolerance` is a share of the whole width."""
    width = float(np.ptp(x))
    if len(x) > 2 and np.abs(x - np.linspace(x[0], x[-1], len(x))).max() <= tolerance * width:
        return {"first": float(x[0]), "step": width / (len(x) - 1), "count": len(x)}
    return [float(f"{value:.12g}") for value in x]


def shorten_number(value: float) -> float | int:
    """As many digits as a chart can show; whole numbers without a point."""
    rounded = float(f"{value:.{DIGITS}g}")
    if not np.isfinite(rounded):  # rounded up beyond the greatest float
        return value
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def level(label: str, value: float, colour: str) -> Series:
    """A dashed horizontal line."""
    return Series(label, np.array([value]), colour, dashed=True)


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

    def within(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high one; what lies beyond an end stays at it."""
        low, high = self.low, self.high
        if self.by_factors:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low))
        return min(1.0, max(0.0, (value - low) / (high - low)))

    def axis(self, label: str, factor: float = 1.0) -> Axis:
        """An axis over this scale, in a unit so many times smaller."""
        return Axis(label, logarithmic=self.by_factors, low=factor * self.low, high=factor * self.high)

    def ticks(self) -> list[tuple[float, str]]:
        """Round values with labels, not too near to each other."""
        values = (list_factors if self.by_factors else list_rounds)(self.low, self.high)
        ticks: list[tuple[float, str]] = []
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


DOT_HEIGHT, ROW_MARGIN = 8, 10  # pixels a dot, and around the dots of a row
MAX_EVEN_RATIO = 4.0  # from the least to the greatest value; beyond it, a scale by factors


Dots = Sequence[Figure | None]  # one value per policy, None where there is none


def draw_dots(rows: Mapping[str, Dots], policies: Sequence[str], title: str, least: float) -> Markup:
    """The chart of settings with its legend; `least` is what no value is below, and where the scale begins."""
    known = [f.mean for row in rows.values() for f in row if f is not None and math.isfinite(f.mean)]
    scale = choose_scale(least, max(known, default=least))
    lines = [(name, list(place_dots(scale, row, policies))) for name, row in rows.items()]
    height = ROW_MARGIN + DOT_HEIGHT * len(policies)
    legend = [(f"area c{j % COLOURS}", policy) for j, policy in enumerate(policies)]
    return render("dots.html", title=title, lines=lines, height=height, ticks=scale.ticks(), legend=legend)


def place_dots(scale: Scale, row: Dots, policies: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A dot for each known figure with its place, and a stroke one standard error to either side."""
    for j, figure in enumerate(row):
        if figure is not None and math.isfinite(figure.mean):
            error = figure.error if math.isfinite(figure.error) else 0.0
            start, left, end = (scale.within(figure.mean + sign * error) for sign in (-1.0, 0.0, 1.0))
            top = ROW_MARGIN // 2 + DOT_HEIGHT * j + DOT_HEIGHT // 2
            yield {
                "start": start, "left": left, "width": end - start, "top": top, "colour": f"c{j % COLOURS}",
                "mean": figure.mean, "error": error > 0.0, "policy": policies[j],
            }  # fmt: skip


def choose_scale(least: float, greatest: float) -> Scale:
    """From the least value on: evenly, or by factors where values lie far apart."""
    if least <= 0.0 or greatest <= MAX_EVEN_RATIO * least:
        return Scale(least, greatest + 0.05 * (greatest - least) if greatest > least else least + 1.0)
    return Scale(least, 1.05 * greatest, True)
