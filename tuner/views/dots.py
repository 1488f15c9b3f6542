"""Chart values by setting and policy as dots: a row per setting, a colour per policy, strokes of one standard error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from scaler.model.units import format_number
from tuner.simulation.comparison import Figure
from tuner.views.chart import COLOURS, Scale
from tuner.views.html_document import frame_drawing

EACH, AROUND = 8, 10  # pixels a dot, and around the dots of a row
FAR_APART = 4.0  # from the least to the greatest value; beyond it, a scale by factors


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
        draw_dot(scale, figure, AROUND / 2 + EACH * (j + 0.5), j, f"{row.name}, {policies[j]}")
        for j, figure in enumerate(row.values)
        if figure is not None and math.isfinite(figure.mean)
    )
    height = AROUND + EACH * len(policies)
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
    if least <= 0.0 or greatest <= FAR_APART * least:
        return Scale(least, greatest + 0.05 * (greatest - least) if greatest > least else least + 1.0)
    return Scale(least, 1.05 * greatest, True)
