"""Trials in; their marks on a chart out: dots, squares and strokes by how they ended, on top what one speaks of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from tuner.views.scale import Scale
from tuner.views.svg import WIDE, place
from tuner.views.tuning import KINDS, Point, Tuning, rank
from tuner.views.tuning_words import money, percent

COMMON, BEYOND = 0.8, 1.6  # quantile of the costs, and how far beyond it from the least on a cost is drawn in place
STROKES = {"feasible": "h.01", "infeasible": "h.01", "pruned": "m0 -4v8", "failed": "v8"}
SAYS = {"feasible": "feasible", "infeasible": "breaks a limit", "pruned": "given up early", "failed": "failed"}
Legend = list[tuple[str, str]]
STYLE = """
.marks { overflow: visible; }
.dot { fill: none; stroke-width: 7; stroke-linecap: round; vector-effect: non-scaling-stroke; }
.dot.feasible { stroke: var(--c0); opacity: .8; } .dot.infeasible { stroke: var(--c1); stroke-width: 5; opacity: .65; }
.dot.infeasible, .dot.pruned, .dot.failed { stroke-linecap: square; }
.dot.pruned { stroke: var(--c8); stroke-width: 1; } .dot.failed { stroke: var(--alarm); stroke-width: 2; }
.dot.rim { stroke: var(--ink); stroke-width: 12; } .dot.gap { stroke: var(--paper); stroke-width: 9; }
.dot.halo { stroke: var(--paper); stroke-width: 15; } .dot.verify { stroke: var(--c2); stroke-width: 6; }
.dot.chosen { stroke: var(--c2); stroke-width: 12; } .dot.naive { stroke: var(--c3); stroke-width: 12; }
.dot.nearest { stroke: var(--c1); stroke-width: 12; }
.legend i.key { width: 10px; height: 10px; border: 0; border-radius: 50%; }
.legend i.key.feasible { background: var(--c0); } .legend i.key.infeasible { background: var(--c1); border-radius: 0; }
.legend i.key.pruned { width: 0; border-left: 2px solid var(--c8); border-radius: 0; margin-left: 5px; }
.legend i.key.failed { width: 0; border-left: 2px solid var(--alarm); border-radius: 0; margin-left: 5px; }
.legend i.key.verify {
  width: 8px; height: 8px; margin-left: 2px; background: var(--c2);
  border: 2px solid var(--paper); box-shadow: 0 0 0 2px var(--ink);
}
.legend i.key.chosen, .legend i.key.naive, .legend i.key.nearest { width: 12px; height: 12px; }
.legend i.key.chosen { background: var(--c2); } .legend i.key.naive { background: var(--c3); }
.legend i.key.nearest { background: var(--c1); }
"""


class Named(NamedTuple):
    """A trial that the report speaks of, how it is drawn and called."""

    point: Point
    style: str
    says: str


def list_named(tuning: Tuning) -> list[Named]:
    """Equal shares, then what was chosen, or what came nearest where nothing was."""
    named = []
    if tuning.chosen is not None:
        says = "recommended" if tuning.objective is not None else "best so far"
        named.append(Named(tuning.chosen, "chosen", says))
    elif nearest := next(iter(rank(tuning.points)), None):
        named.append(Named(nearest, "nearest", "came nearest"))
    if tuning.naive is not None and all(tuning.naive is not each.point for each in named):
        named.insert(0, Named(tuning.naive, "naive", "equal shares and weights"))
    return [each for each in named if each.point.kind != "failed"]


def draw_each(
    points: Sequence[Point],
    pick: Callable[[Point], float],
    across: Scale,
    costs: Scale,
    height: int,
    titled: bool,
) -> list[str]:
    """Dots by kind: the pruned below, the feasible on top; one stroke of many dots where none has a title."""
    marks = []
    for kind in reversed(KINDS):
        spots = [
            (p, f"M{WIDE * within(across, pick(p)):.1f} {where(p, costs, height)}{STROKES[kind]}")
            for p in points
            if p.kind == kind and math.isfinite(pick(p))
        ]
        if titled:
            marks += [f'<g><title>{title(p)}</title><path class="dot {kind}" d="{d}"/></g>' for p, d in spots]
        elif spots:
            marks.append(f'<path class="dot {kind}" d="{"".join(d for _, d in spots)}"/>')
    return marks


def draw_special(
    tuning: Tuning,
    pick: Callable[[Point], float],
    across: Scale,
    costs: Scale,
    height: int,
    verified: bool = True,
) -> list[str]:
    """Those that the report speaks of, on top of the others."""
    special: list[tuple[Point, tuple[str, ...]]] = [
        (p, ("rim", "gap", "verify")) for p in tuning.points if verified and p.verifies is not None
    ]
    special += [(each.point, ("halo", each.style)) for each in list_named(tuning)]
    marks = []
    for point, styles in special:
        if point.kind != "failed" and math.isfinite(pick(point)):
            spot = f"M{WIDE * within(across, pick(point)):.1f} {where(point, costs, height)}h.01"
            strokes = "".join(f'<path class="dot {style}" d="{spot}"/>' for style in styles)
            marks.append(f"<g><title>{title(point)}</title>{strokes}</g>")
    return marks


def list_keys(tuning: Tuning, points: Sequence[Point], verified: bool = True) -> Legend:
    """What the marks of these points stand for."""
    there = {p.kind for p in points}
    keys = [(f"key {kind}", SAYS[kind]) for kind in KINDS if kind in there]
    if verified and any(p.verifies is not None for p in tuning.points):
        keys.append(("key verify", "repeated on fresh seeds"))
    return [*keys, *((f"key {style}", says) for _, style, says in list_named(tuning))]


def title(point: Point) -> str:
    trial = point.trial
    if point.kind == "failed":
        return escape(f"trial {trial.number} failed: {trial.failure or 'no reason was kept'}")
    parts = [f"trial {trial.number}, {SAYS[point.kind]}: {money(cost_of(point))} per hour"]
    parts += [] if trial.violations is None else [f"violations {percent(trial.violations)}"]
    parts += [] if trial.reconfigurations is None else [f"reconfigurations {percent(trial.reconfigurations)}"]
    parts += [] if point.verifies is None else [f"repeats trial {point.verifies}"]
    return escape(", ".join(parts))


def thin(tuning: Tuning, most: int) -> list[Point]:
    """All points, or so many of them evenly."""
    points = tuning.points
    if len(points) <= most:
        return list(points)
    return [points[i * len(points) // most] for i in range(most)]


def scale_costs(tuning: Tuning) -> Scale:
    """From a little below the least cost to a little above the greatest that is no outlier.

    Where the good ones lie is what one looks for, so trials that were given up for being dear have no say.
    """
    there = [p for p in tuning.points if p.kind != "failed"]
    whole = np.array([cost_of(p) for p in there if p.kind != "pruned"] or [cost_of(p) for p in there] or [0.0])
    named = [cost_of(p) for p in (tuning.chosen, tuning.naive) if p is not None and p.kind != "failed"]
    low = float(whole.min())
    common = low + BEYOND * (float(np.quantile(whole, COMMON)) - low)
    high = max([min(float(whole.max()), common), *named])
    room = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    return Scale(max(0.0, low - room), high + room)


def cost_of(point: Point) -> float:
    return math.nan if point.trial.cost is None else point.trial.cost


def violations_of(point: Point) -> float:
    return math.nan if point.trial.violations is None else point.trial.violations


def where(point: Point, costs: Scale, height: int) -> str:
    """How far down; what failed stands at the bottom."""
    if point.kind == "failed":
        return f"{height - 9}"
    return place(float(costs.share(np.array(cost_of(point)))), height)


def within(scale: Scale, value: float) -> float:
    return min(1.0, max(0.0, float(scale.share(np.array(value)))))
