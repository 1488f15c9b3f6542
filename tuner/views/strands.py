"""Draw all trials as parallel coordinates: a row per share, weight and figure, a strand per trial.

The axes lie, one below the other, so that every name stands level beside its own, however many operators there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from markupsafe import Markup

from tuner.views.chart import Scale, format_tick
from tuner.views.html_document import render
from tuner.views.search_charts import Pick, list_named, pick_share, pick_weight, scale_costs, thin
from tuner.views.tuning import WEIGHTS, Point, Tuning, is_searched
from tuner.views.words import shorten

WIDE = 1000  # units of the drawing, which stretches to the page's width
EACH = 30  # pixels from axis to axis
MAX_STRANDS = 300  # strands
LETTER = 6.7  # pixels
MAX_LETTERS = 28  # letters of a name


class ParallelAxis(NamedTuple):
    """One row: what it shows, of a trial, and from where to where."""

    name: str
    pick: Pick
    scale: Scale
    unit: str = ""  # of the labels
    limit: float | None = None


def draw_strands(tuning: Tuning) -> Markup | str:
    """The recommended one on top, the feasible ones in colour, the others pale."""
    searched = [p for p in thin(tuning.points, MAX_STRANDS) if is_searched(p) and p.kind != "failed"]
    axes = list_rows(tuning, searched)
    if not axes or not searched:
        return ""
    strands: list[tuple[str, str]] = []  # style and path
    legend = []
    for style, label, feasible in (("pale", "breaks a limit, or pruned", False), ("feasible", "feasible", True)):
        if some := [p for p in searched if (p.kind == "feasible") is feasible]:
            strands += [(style, trace(p, axes)) for p in some]  # a stroke each: many together look denser than one
            legend.append((style, label))
    limits = [
        ("limit", f"M{WIDE * axis.scale.within(axis.limit):.1f} {EACH * i + 5}v{EACH - 10}")
        for i, axis in enumerate(axes)
        if axis.limit is not None
    ]
    strands += limits
    for point, style, label in list_named(tuning):
        strands += [(each, trace(point, axes)) for each in ("halo", style)]
        legend.append((style, label))
    if limits:
        legend.append(("limit", "limit"))
    room = round(70 + LETTER * min(MAX_LETTERS, max(len(axis.name) for axis in axes)))
    rows = [
        {
            "name": axis.name,
            "short": shorten(axis.name, MAX_LETTERS),
            "y": f"{100.0 * (i + 0.5) / len(axes):.2f}%",
            "low": format_end(axis, axis.scale.low),
            "high": format_end(axis, axis.scale.high),
            "over": any(axis.pick(p) > axis.scale.high * (1.0 + 1e-9) for p in searched),
        }
        for i, axis in enumerate(axes)
    ]
    height = EACH * len(axes)
    return render("strands.html", wide=WIDE, height=height, room=room, rows=rows, strands=strands, legend=legend)


def list_rows(tuning: Tuning, points: Sequence[Point]) -> list[ParallelAxis]:
    """All shares to one scale, all weights to one, and the figures each to its own."""
    shares = [share for p in points for share in p.shares.values()]
    least, greatest = (min(shares), max(shares)) if shares else (0.0, 1.0)
    even = Scale(0.0 if least < 0.3 * greatest else 0.9 * least, 1.02 * greatest or 1.0)
    axes = [ParallelAxis(name, pick_share(name), even, " %") for name in tuning.operators]
    axes += [ParallelAxis(label, pick_weight(key), Scale(0.0, 1.0)) for key, label in WEIGHTS.items()]
    axes.append(ParallelAxis("price per hour", attrgetter("price"), scale_costs(tuning)))
    limits = tuning.limits
    for name, limit in (("violations", limits.eta_v), ("reconfigurations", limits.eta_r)):
        pick = attrgetter(name)
        values = [v for v in map(pick, points) if math.isfinite(v)]
        most = max(values, default=0.0)
        high = most if limit is None else max(1.2 * limit, min(most, 4.0 * limit))
        axes.append(ParallelAxis(name, pick, Scale(0.0, high or 1.0), " %", limit))
    return [axis for axis in axes if any(math.isfinite(axis.pick(p)) for p in points)]


def format_end(axis: ParallelAxis, value: float) -> str:
    """Three digits."""
    return f"{format_tick(float(f'{100.0 * value if axis.unit else value:.3g}'))}{axis.unit}"


def trace(point: Point, axes: Sequence[ParallelAxis]) -> str:
    """From row to row; a row that the trial says nothing of breaks the strand."""
    parts = []
    pen = "M"
    for i, axis in enumerate(axes):
        value = axis.pick(point)
        if not math.isfinite(value):
            pen = "M"
            continue
        parts.append(f"{pen}{WIDE * axis.scale.within(value):.0f} {EACH * i + EACH // 2}")
        pen = "L"
    return "".join(parts)
