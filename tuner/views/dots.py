"""Values by row and by policy in, a chart of dots out: a row per setting, dots of one colour per policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from tuner.simulation.comparison import Figure
from tuner.views.charts import COLOURS, wrap
from tuner.views.scale import Scale, Ticks, say_value
from tuner.views.svg import WIDE, draw_bottom_axis, draw_left_axis, draw_plot, place

EACH, AROUND = 8, 10  # pixels a dot, and around the dots of a row
PER_LETTER = 6.6  # pixels
FAR_APART = 4.0  # from the least to the greatest value; beyond it, a scale by factors
FEW, MANY = (1.0, 2.0, 5.0), (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0)  # what ticks are, times a power of ten
WIDELY = 20.0  # from the least to the greatest value, for few ticks
CLOSEST = 0.05  # of the width, between two ticks

STYLE = """
.roomy { overflow-x: auto; } .roomy > figure { min-width: 560px; } .roomy .marks { overflow: visible; }
.dot { fill: none; stroke-width: 9; stroke-linecap: round; vector-effect: non-scaling-stroke; }
""" + "".join(f".dot.c{i}{{stroke:var(--c{i})}}" for i in range(COLOURS))


class DotRow(NamedTuple):
    """A setting and one value per policy, None where there is none."""

    name: str
    values: tuple[Figure | None, ...]


def draw_dots(rows: Sequence[DotRow], policies: Sequence[str], title: str, least: float) -> str:
    """The chart with its legend; `least` is what no value is below, and where the scale begins."""
    known = [f.mean for row in rows for f in row.values if f is not None and math.isfinite(f.mean)]
    scale, ticks = scale_values(least, max(known, default=least))
    each = AROUND + EACH * len(policies)
    height = each * len(rows)
    marks = [f'<path class="line floor" d="M0 0V{height}"/>']
    for i, row in enumerate(rows):
        for j, figure in enumerate(row.values):
            if figure is not None and math.isfinite(figure.mean):
                y = 1.0 - (each * i + AROUND / 2 + EACH * (j + 0.5)) / height
                marks.append(draw_dot(scale, figure, y, height, j, f"{row.name}, {policies[j]}"))
    names = [(1.0 - (i + 0.5) / len(rows), row.name) for i, row in enumerate(rows)]
    plot = draw_plot(height, marks, [draw_left_axis(names, ""), draw_bottom_axis(ticks)], title)
    room = round(24 + PER_LETTER * max(len(row.name) for row in rows))
    roomy = plot.replace('style="', f'style="margin-left:{room}px;width:calc(100% - {room + 30}px);', 1)
    legend = [(f"area c{j % COLOURS}", name) for j, name in enumerate(policies)]
    return f'<div class="roomy">{wrap(roomy, legend)}</div>'


def draw_dot(scale: Scale, figure: Figure, y: float, height: int, colour: int, name: str) -> str:
    """A dot, a stroke one standard error to either side, and what a longer look says."""
    style = f"c{colour % COLOURS}"
    x, down = WIDE * share(scale, figure.mean), place(y, height)
    said = f"<title>{escape(name)}: {figure.mean:.4g}</title>"
    marks = f'<path class="dot {style}" d="M{x:.1f} {down}h.01"/>'
    if math.isfinite(figure.error) and figure.error > 0.0:
        ends = [WIDE * share(scale, figure.mean + sign * figure.error) for sign in (-1.0, 1.0)]
        marks = f'<path class="line {style}" d="M{ends[0]:.1f} {down}H{ends[1]:.1f}"/>{marks}'
    return f"<g>{said}{marks}</g>"


def share(scale: Scale, value: float) -> float:
    return min(1.0, max(0.0, float(scale.share(np.array(value)))))


def scale_values(least: float, greatest: float) -> tuple[Scale, Ticks]:
    """From the least value on: evenly, or by factors where values lie far apart."""
    if least <= 0.0 or greatest <= FAR_APART * least:
        scale = Scale(least, greatest + 0.05 * (greatest - least) if greatest > least else least + 1.0)
        return scale, scale.ticks()
    scale = Scale(least, 1.05 * greatest, True)
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(scale.high)) + 1)
    steps = FEW if greatest > WIDELY * least else MANY
    values = [step * 10.0**power for power in powers for step in steps if least <= step * 10.0**power <= scale.high]
    ticks: Ticks = []
    for value in values:
        if not ticks or share(scale, value) - ticks[-1][0] >= CLOSEST:
            ticks.append((share(scale, value), say_value(value)))
    return scale, ticks
