"""A tuning run's trials in; parallel coordinates out: a row per share, weight and figure, a strand per trial.

The axes lie, one below the other, so that every name stands level beside its own, however many operators there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from tuner.views.charts import wrap
from tuner.views.scale import Scale, say_value
from tuner.views.svg import WIDE, down, draw_plot
from tuner.views.trial_dots import cost_of, list_named, scale_costs, thin, violations_of, within
from tuner.views.tuning import WEIGHTS, Point, Tuning, is_searched
from tuner.views.tuning_words import shorten

EACH = 30  # pixels from axis to axis
MOST = 300  # strands
LETTER = 6.7  # pixels
LONGEST = 28  # letters of a name
STYLE = """
.strand { fill: none; stroke-width: 1; stroke-linejoin: round; vector-effect: non-scaling-stroke; }
.strand.pale { stroke: var(--faint); opacity: .16; } .strand.feasible { stroke: var(--c0); opacity: .3; }
.strand.halo { stroke: var(--paper); stroke-width: 5.5; } .strand.chosen { stroke: var(--c2); stroke-width: 3; }
.strand.nearest { stroke: var(--c1); stroke-width: 3; }
.strand.naive { stroke: var(--c3); stroke-width: 2; stroke-dasharray: 6 3; }
.strand.limit { stroke: var(--alarm); stroke-width: 2; }
.legend i.pale { border-color: var(--faint); opacity: .5; } .legend i.chosen { border-top: 3px solid var(--c2); }
.legend i.nearest { border-top: 3px solid var(--c1); }
.legend i.naive { border-top: 2px dashed var(--c3); } .legend i.feasible { border-color: var(--c0); }
.legend i.limit { width: 0; height: 13px; border: 0; border-left: 2px solid var(--alarm); margin-left: 6px; }
.level .legend { margin-top: 8px; } .level figure { margin-top: 0; }
.plot text.name { fill: var(--ink); font-size: 13px; }
"""


class Axis(NamedTuple):
    """One row: what it shows, of a trial, and from where to where."""

    name: str
    pick: Callable[[Point], float]
    scale: Scale
    unit: str = ""  # of the labels
    limit: float | None = None


def draw_strands(tuning: Tuning) -> str:
    """The recommended one on top, the feasible ones in colour, the others pale."""
    searched = [p for p in thin(tuning, MOST) if is_searched(p) and p.kind != "failed"]
    axes = list_axes(tuning, searched)
    if not axes or not searched:
        return ""
    height = EACH * len(axes)
    marks, legend = [], []
    for style, says, feasible in (("pale", "breaks a limit or given up early", False), ("feasible", "feasible", True)):
        if some := [p for p in searched if (p.kind == "feasible") is feasible]:
            marks.append(draw_many(some, axes, style))
            legend.append((style, says))
    marks += [draw_limit(axis, i) for i, axis in enumerate(axes) if axis.limit is not None]
    for point, style, says in list_named(tuning):
        marks += [draw_many([point], axes, "halo"), draw_many([point], axes, style)]
        legend.append((style, says))
    if any(axis.limit is not None for axis in axes):
        legend.append(("limit", "limit"))
    plot = draw_plot(height, marks, draw_axes(axes, searched), "Parallel coordinates of all trials")
    room = round(70 + LETTER * min(LONGEST, max(len(axis.name) for axis in axes)))
    roomy = plot.replace('style="', f'style="margin:10px 0 0 {room}px;width:calc(100% - {room + 60}px);', 1)
    return f'<div class="roomy level">{wrap(roomy, legend)}</div>'


def list_axes(tuning: Tuning, points: Sequence[Point]) -> list[Axis]:
    """All shares to one scale, all weights to one, and the figures each to its own."""
    shares = [share for p in points for share in p.shares.values()]
    least, greatest = (min(shares), max(shares)) if shares else (0.0, 1.0)
    even = Scale(0.0 if least < 0.3 * greatest else 0.9 * least, 1.02 * greatest or 1.0)
    axes = [
        Axis(name, lambda p, name=name: p.shares.get(name, math.nan), even, " %")  # type: ignore[misc]
        for name in tuning.operators
    ]
    axes += [
        Axis(says, lambda p, key=key: p.weights.get(key, math.nan), Scale(0.0, 1.0))  # type: ignore[misc]
        for key, says in WEIGHTS.items()
    ]
    axes.append(Axis("cost per hour", cost_of, scale_costs(tuning)))
    limits = tuning.limits
    for name, pick, limit in (
        ("violations", violations_of, limits.eta_v),
        ("reconfigurations", reconfigurations_of, limits.eta_r),
    ):
        values = [v for v in map(pick, points) if math.isfinite(v)]
        most = max(values, default=0.0)
        high = most if limit is None else max(1.2 * limit, min(most, 4.0 * limit))
        axes.append(Axis(name, pick, Scale(0.0, high or 1.0), " %", limit))
    return [axis for axis in axes if any(math.isfinite(axis.pick(p)) for p in points)]


def reconfigurations_of(point: Point) -> float:
    return math.nan if point.trial.reconfigurations is None else point.trial.reconfigurations


def draw_axes(axes: Sequence[Axis], points: Sequence[Point]) -> list[str]:
    """A line, a name, and what its ends stand for."""
    marks = []
    for i, axis in enumerate(axes):
        y = down(1.0 - (i + 0.5) / len(axes))
        low, high = (say_end(axis, v) for v in (axis.scale.low, axis.scale.high))
        over = "≥ " if any(axis.pick(p) > axis.scale.high * (1.0 + 1e-9) for p in points) else ""
        marks.append(
            f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
            f'<text class="name" x="-56" text-anchor="end" y="{y}" dy=".35em">{escape(shorten(axis.name, LONGEST))}'
            f"<title>{escape(axis.name)}</title></text>"
            f'<text x="-10" text-anchor="end" y="{y}" dy=".35em">{low}</text>'
            f'<text x="100%" dx="10" y="{y}" dy=".35em">{over}{high}</text>'
        )
    return marks


def say_end(axis: Axis, value: float) -> str:
    """Three digits."""
    return f"{say_value(float(f'{100.0 * value if axis.unit else value:.3g}'))}{axis.unit}"


def draw_many(points: Sequence[Point], axes: Sequence[Axis], style: str) -> str:
    """A stroke each, so that many together look denser than one."""
    return "".join(f'<path class="strand {style}" d="{trace(p, axes)}"/>' for p in points)


def trace(point: Point, axes: Sequence[Axis]) -> str:
    """From row to row; a row that the trial says nothing of breaks the strand."""
    parts = []
    pen = "M"
    for i, axis in enumerate(axes):
        value = axis.pick(point)
        if not math.isfinite(value):
            pen = "M"
            continue
        parts.append(f"{pen}{WIDE * within(axis.scale, value):.0f} {EACH * i + EACH // 2}")
        pen = "L"
    return "".join(parts)


def draw_limit(axis: Axis, row: int) -> str:
    x = WIDE * float(axis.scale.share(np.array(axis.limit)))
    return f'<path class="strand limit" d="M{x:.1f} {EACH * row + 5}v{EACH - 10}"/>'
