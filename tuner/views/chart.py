"""Describe charts as data that static/timelines.js draws with uPlot, a table without scripts; scales with ticks.

Notation: X places along the horizontal axis.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.units import format_number
from tuner.simulation.comparison import Figure
from tuner.views.html_document import frame_drawing

TIMES = ("utc", "elapsed")
TOLERANCE, EXACT = 5e-4, 1e-9  # of the width: half a pixel, for columns of nearly even length, and none
DIGITS = 5  # significant, of the values that a chart holds
TALL, MIDDLE, SMALL = 240, 180, 150  # pixels
FAR_APART = 30.0  # from the least to the greatest value; beyond it, a logarithmic axis
COLOURS = 10  # c0 to c9 of static/style.css


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows; `low` and `high` fix it, else it reaches from 0 to the greatest value in sight."""

    label: str = ""
    kind: str = "number"  # of the horizontal one also "utc" (seconds since 1970) or "elapsed" (seconds)
    logarithmic: bool = False
    low: float | None = None
    high: float | None = None


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
    note: str = field(default="", kw_only=True)

    def render(self) -> str:
        """The HTML of the figure, whole without scripts."""
        document = json.dumps(self.describe(), separators=(",", ":"), allow_nan=False)
        data = document.replace("&", "&amp;").replace("'", "&#39;").replace("<", "&lt;")
        right = f"<span>{escape(self.right.label)}</span>" if self.right else ""
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        return (
            f'<figure class="chart" role="group" aria-label="{escape(self.title)}" data-chart=\'{data}\'>'
            f'<div class="axes"><span>{escape(self.left.label)}</span>{right}</div><div class="canvas"></div>'
            f"{self.tabulate()}</figure>{note}"
        )

    def describe(self) -> dict[str, Any]:
        """The plain values that the script reads."""
        tolerance = TOLERANCE if self.across.kind in TIMES else EXACT
        described = {
            "x": compress(self.x, tolerance), "across": describe_axis(self.across), "left": describe_axis(self.left),
            "right": describe_axis(self.right), "series": [describe_series(each) for each in self.series],
            "height": self.height, "group": self.group, "uprights": [[x, label] for x, label in self.uprights],
            "legend": self.legend,
        }  # fmt: skip
        return {key: value for key, value in described.items() if value not in (None, "", [])}

    def tabulate(self) -> str:
        """Least, mean and greatest value of every series."""
        rows = []
        for each in self.series:
            lows = each.values if each.low is None else each.low
            known, below = each.values[np.isfinite(each.values)], lows[np.isfinite(lows)]
            if known.size and below.size:
                figures = (below.min(), known.mean(), known.max())
                cells = "".join(f"<td>{format_number(float(value))}</td>" for value in figures)
                rows.append(f'<tr><th scope="row">{escape(each.label)}</th>{cells}</tr>')
        heads = "".join(f'<th scope="col">{name}</th>' for name in ("", "least", "mean", "greatest"))
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def describe_axis(axis: Axis | None) -> dict[str, Any] | None:
    if axis is None:
        return None
    limits = None if axis.low is None or axis.high is None else [shorten_number(axis.low), shorten_number(axis.high)]
    named = {"label": axis.label, "kind": axis.kind, "log": axis.logarithmic, "range": limits}
    return {key: value for key, value in named.items() if value and value != "number"}


def describe_series(series: Series) -> dict[str, Any]:
    described = {
        "label": series.label, "colour": series.colour, "look": series.look, "stack": series.stack,
        "right": series.right, "width": series.width, "dashed": series.dashed, "values": list_values(series.values),
        "low": None if series.low is None else list_values(series.low),
    }  # fmt: skip
    return {key: value for key, value in described.items() if value not in (None, "", False)}


def compress(x: Floats, tolerance: float) -> Any:
    """Places at even distances as the first, the distance and how many; `tolerance` is a share of the whole width."""
    width = float(np.ptp(x))
    if len(x) > 2 and np.abs(x - np.linspace(x[0], x[-1], len(x))).max() <= tolerance * width:
        return {"first": float(x[0]), "step": width / (len(x) - 1), "count": len(x)}
    return [float(f"{value:.12g}") for value in x]


def list_values(values: Floats) -> list[float | int | None]:
    return [shorten_number(value) if np.isfinite(value) else None for value in values.tolist()]


def shorten_number(value: float) -> float | int:
    """As many digits as a chart can show; whole numbers without a point."""
    rounded = float(f"{value:.{DIGITS}g}")
    if not np.isfinite(rounded):  # rounded up beyond the greatest float
        return value
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def level(label: str, value: float, colour: str) -> Series:
    """A dashed horizontal line."""
    return Series(label, np.array([value]), colour, dashed=True)


def is_far_apart(least: float, greatest: float) -> bool:
    """Whether a logarithmic axis shows both better."""
    return least > 0.0 and greatest > FAR_APART * least


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

    def axis(self, label: str, factor: float = 1.0) -> Axis:
        """An axis over this scale, in a unit so many times smaller."""
        return Axis(label, logarithmic=self.by_factors, low=factor * self.low, high=factor * self.high)

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


DOT_HEIGHT, ROW_MARGIN = 8, 10  # pixels a dot, and around the dots of a row
MAX_EVEN_RATIO = 4.0  # from the least to the greatest value; beyond it, a scale by factors


class DotRow(NamedTuple):
    """A setting and one value per policy, None where there is none."""

    name: str
    values: tuple[Figure | None, ...]


def draw_dots(rows: Sequence[DotRow], policies: Sequence[str], title: str, least: float) -> str:
    """The chart with its legend; `least` is what no value is below, and where the scale begins."""
    known = [f.mean for row in rows for f in row.values if f is not None and math.isfinite(f.mean)]
    scale = choose_scale(least, max(known, default=least))
    lines = "".join(draw_row(scale, row, policies) for row in rows)
    ticks = "".join(f'<span style="left:{100.0 * x:.2f}%">{label}</span>' for x, label in scale.ticks())
    drawing = (
        f'<div class="dots" role="group" aria-label="{escape(title)}">{lines}'
        f'<div></div><div class="track axis">{ticks}</div></div>'
    )
    legend = [(f"area c{j % COLOURS}", policy) for j, policy in enumerate(policies)]
    return f'<div class="roomy">{frame_drawing(drawing, legend)}</div>'


def draw_row(scale: Scale, row: DotRow, policies: Sequence[str]) -> str:
    marks = "".join(
        draw_dot(scale, figure, ROW_MARGIN / 2 + DOT_HEIGHT * (j + 0.5), j, f"{row.name}, {policies[j]}")
        for j, figure in enumerate(row.values)
        if figure is not None and math.isfinite(figure.mean)
    )
    height = ROW_MARGIN + DOT_HEIGHT * len(policies)
    return f'<div class="name">{escape(row.name)}</div><div class="track" style="height:{height}px">{marks}</div>'


def draw_dot(scale: Scale, figure: Figure, top: float, colour: int, name: str) -> str:
    """A dot with its value as title, and a stroke one standard error to either side."""
    style, error = f"c{colour % COLOURS}", ""
    if math.isfinite(figure.error) and figure.error > 0.0:
        start, end = (100.0 * scale.within(figure.mean + sign * figure.error) for sign in (-1.0, 1.0))
        error = f'<i class="error {style}" style="left:{start:.2f}%;width:{end - start:.2f}%;top:{top:g}px"></i>'
    title, left = f"{escape(name)}: {format_number(figure.mean)}", 100.0 * scale.within(figure.mean)
    return f'{error}<i class="dot {style}" style="left:{left:.2f}%;top:{top:g}px" title="{title}"></i>'


def choose_scale(least: float, greatest: float) -> Scale:
    """From the least value on: evenly, or by factors where values lie far apart."""
    if least <= 0.0 or greatest <= MAX_EVEN_RATIO * least:
        return Scale(least, greatest + 0.05 * (greatest - least) if greatest > least else least + 1.0)
    return Scale(least, 1.05 * greatest, True)
