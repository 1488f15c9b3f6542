"""Marks in, SVG text out: a plot that stretches to the page's width while its text and its lines keep their size.

What stretches is drawn in an inner drawing, WIDE units across and as many units high as the plot has pixels; what must
not (labels, ticks) stands around it at percentages of the plot. Horizontal places are shares of the width, 0 to 1;
vertical ones shares of the height, 0 at the bottom.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from scaler.model.kernel import Floats

WIDE = 1000
Pairs = Sequence[tuple[float, str]]


def draw_plot(height: int, marks: Sequence[str], around: Sequence[str], name: str) -> str:
    """A whole plot of so many pixels in height; `name` is what a screen reader says."""
    inner = f'<svg class="marks" viewBox="0 0 {WIDE} {height}" preserveAspectRatio="none">{"".join(marks)}</svg>'
    said = f'role="img" aria-label="{escape(name)}"'
    return f'<svg class="plot" style="height:{height}px" {said}>{"".join(around)}{inner}</svg>'


def draw_line(xs: Floats, ys: Floats, height: int, style: str) -> str:
    """A line through the points; a NaN breaks it."""
    return f'<path class="line {style}" d="{trace_path(xs, ys, height)}"/>'


def draw_band(xs: Floats, low: Floats, high: Floats, height: int, style: str) -> str:
    """The area between two lines, piece by piece where a NaN breaks them."""
    paths = []
    for first, last in whole_pieces(low, high):
        there = trace_path(xs[first:last], high[first:last], height)
        back = trace_path(xs[first:last][::-1], low[first:last][::-1], height)
        paths.append(f"{there}L{back[1:]}Z")
    return f'<path class="area {style}" d="{"".join(paths)}"/>'


def draw_level(y: float, height: int, style: str) -> str:
    """A horizontal line across the plot."""
    return f'<path class="line {style}" d="M0 {place(y, height)}H{WIDE}"/>'


def draw_rug(xs: Floats, style: str) -> str:
    """A strip along the top where the columns with these middles [C], or NaN, hold values beyond the plot."""
    half = 0.5 / len(xs)
    pieces = [(xs[first] - half, xs[last - 1] + half) for first, last in whole_pieces(xs)]
    boxes = "".join(f"M{WIDE * left:.1f} 0H{WIDE * right:.1f}V7H{WIDE * left:.1f}Z" for left, right in pieces)
    return f'<path class="area {style}" d="{boxes}"/>'


def draw_left_axis(ticks: Pairs, title: str) -> str:
    """A grid line and a label for each tick, and what the axis shows above them."""
    lines = [f'<line class="grid" x1="0" x2="100%" y1="{down(y)}" y2="{down(y)}"/>' for y, _ in ticks]
    return "".join(lines) + draw_labels(ticks, 'x="-8" text-anchor="end"') + draw_title(title, 'x="0" dx="-44"')


def draw_right_axis(ticks: Pairs, title: str) -> str:
    """Labels of a second scale, without grid lines."""
    return draw_labels(ticks, 'x="100%" dx="8"') + draw_title(title, 'x="100%" dx="44" text-anchor="end"')


def draw_labels(ticks: Pairs, where: str) -> str:
    return "".join(f'<text {where} y="{down(y)}" dy=".35em">{escape(label)}</text>' for y, label in ticks)


def draw_title(title: str, where: str) -> str:
    return f'<text class="axis" {where} y="-10">{escape(title)}</text>'


def draw_bottom_axis(ticks: Pairs) -> str:
    """Labels below the plot, each at its place."""
    marks = []
    for x, label in ticks:
        at = f"{100 * x:.2f}%"
        marks.append(f'<line class="grid" x1="{at}" x2="{at}" y1="0" y2="100%"/>')
        marks.append(f'<text x="{at}" y="100%" dy="1.4em" text-anchor="middle">{escape(label)}</text>')
    return "".join(marks)


def trace_path(xs: Floats, ys: Floats, height: int) -> str:
    """Path data; points in a row at the same height are joined in one stroke."""
    parts: list[str] = []
    pen = False
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if not math.isfinite(y):
            pen = False
            continue
        flat = pen and 0 < i < len(ys) - 1 and ys[i - 1] == y == ys[i + 1]
        if not flat:
            parts.append(f"{'L' if pen else 'M'}{round(x * WIDE, 1):g} {place(y, height)}")
        pen = True
    return "".join(parts)


def whole_pieces(*lines: Floats) -> Iterable[tuple[int, int]]:
    """Where all lines are finite: first and past-the-last index of every piece."""
    first = None
    for i, values in enumerate([*zip(*lines, strict=True), (math.nan,)]):
        if all(math.isfinite(v) for v in values):
            first = i if first is None else first
        elif first is not None:
            yield first, i
            first = None


def place(y: float, height: int) -> str:
    """A share of the height, counted from the bottom, as a coordinate; what lies beyond the plot stays at its edge."""
    return f"{round((1.0 - min(1.0, max(0.0, y))) * height, 1):g}"


def down(y: float) -> str:
    return f"{100.0 * (1.0 - y):.2f}%"
