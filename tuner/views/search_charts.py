"""A tuning run's trials in; the best so far, the slices and the front of cost against violations out, as charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from tuner.views.charts import stairs, wrap
from tuner.views.html_page import count
from tuner.views.scale import Scale, Ticks, fit, rounds
from tuner.views.svg import WIDE, draw_band, draw_bottom_axis, draw_left_axis, draw_line, draw_plot
from tuner.views.trial_dots import (
    Legend,
    cost_of,
    draw_each,
    draw_special,
    list_keys,
    scale_costs,
    thin,
    violations_of,
)
from tuner.views.tuning import WEIGHTS, Point, Tuning, is_searched
from tuner.views.tuning_words import money, percent

HIGH, SMALL = 260, 130  # pixels
MOST, MOST_TITLED = 1500, 400  # dots that a chart shows, and those of them that say on a longer look what they are
OVER = 3.0  # times the limit, beyond which violations are drawn at the edge
STYLE = """
.note { color: var(--faint); font-size: 13px; margin: -22px 52px 0; }
.slices { display: grid; grid-template-columns: repeat(auto-fill, minmax(230px, 1fr)); }
.slices { gap: 34px 20px; margin-top: 30px; }
.slices > div { min-width: 0; }
.slices .head { margin-bottom: 10px; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
@media (max-width: 600px) { .note { margin-left: 40px; margin-right: 12px; } }
.slices .plot { margin: 0 8px 0 44px; width: calc(100% - 52px); }
.slices .dot.chosen, .slices .dot.naive { stroke-width: 9; } .slices .dot.halo { stroke-width: 12; }
.slices .dot.feasible { stroke-width: 5; } .slices .dot.infeasible { stroke-width: 4; }
.slices + .legend { margin: 44px 0 34px; }
"""


def draw_search(tuning: Tuning) -> str:
    """Every trial's cost in the order of their numbers, and the cheapest feasible one so far with its uncertainty."""
    costs = scale_costs(tuning)
    last = max(p.trial.number for p in tuning.points)
    across = Scale(-0.5, last + 0.5)
    marks = draw_best(tuning, across, costs)
    shown = thin(tuning, MOST_TITLED)
    marks += draw_each(shown, lambda p: float(p.trial.number), across, costs, HIGH, titled=True)
    marks += draw_special(tuning, lambda p: float(p.trial.number), across, costs, HIGH)
    ticks = [
        (float(across.share(np.array(v))), f"{v:,.0f}") for v in rounds(0.0, max(1.0, last)) if v == int(v) <= last
    ]
    around = [draw_left_axis(costs.ticks(), "cost per hour; trials by number below"), draw_bottom_axis(ticks)]
    legend: Legend = []
    if any(p.kind == "feasible" for p in tuning.points):
        legend = [("c0", "best so far"), ("area soft c0", "± 2 standard errors")]
    plot = draw_plot(HIGH, marks, around, "Cost of every trial and the best so far")
    return wrap(plot, [*legend, *list_keys(tuning, shown)]) + say_thinned(tuning, shown, costs)


def draw_best(tuning: Tuning, across: Scale, costs: Scale) -> list[str]:
    """The cost of the cheapest feasible trial up to each, held to the next better one."""
    best: list[Point] = []
    for point in tuning.points:
        if point.kind == "feasible" and is_searched(point) and (not best or cost_of(point) < cost_of(best[-1])):
            best.append(point)
    if not best:
        return []
    at = across.share(np.array([*(float(p.trial.number) for p in best), across.high]))
    means = np.array([cost_of(p) for p in best])
    spread = 2.0 * np.array([p.trial.cost_error or 0.0 for p in best])
    edges, line = stairs(at, costs.share(means))
    low, high = (stairs(at, costs.share(means + sign * spread))[1] for sign in (-1.0, 1.0))
    return [draw_band(edges, low, high, HIGH, "soft c0"), draw_line(edges, line, HIGH, "strong c0")]


def draw_front(tuning: Tuning) -> str:
    """Cost against violations of whole trials, the limit, and the front: what no trial beats in both."""
    whole = [p for p in thin(tuning, MOST) if p.trial.violations is not None and p.kind != "failed"]
    if not whole:
        return ""
    limit, costs = tuning.limits.eta_v, scale_costs(tuning)
    most = max(p.trial.violations or 0.0 for p in whole)
    across = fit(most if limit is None else max(1.25 * limit, min(most, OVER * limit)))
    marks = draw_each([p for p in whole if is_searched(p)], violations_of, across, costs, HIGH, titled=False)
    front = find_front([p for p in tuning.points if p.kind in ("feasible", "infeasible") and is_searched(p)])
    legend: Legend = []
    if front:
        at = np.minimum(across.share(np.array([*(violations_of(p) for p in front), across.high])), 1.0)
        edges, steps = stairs(at, costs.share(np.array([cost_of(p) for p in front])))
        marks.append(draw_line(edges, steps, HIGH, "strong ink"))
        legend.append(("ink", "front: no trial is better in both"))
    if limit is not None:
        x = WIDE * float(across.share(np.array(limit)))
        marks.append(f'<path class="line bound" d="M{x:.1f} 0V{HIGH}"/>')
        legend.append(("bound", f"eta_v, {percent(limit)}"))
    marks += draw_special(tuning, violations_of, across, costs, HIGH)
    around = [draw_left_axis(costs.ticks(), "cost per hour; violations, % of slots, below")]
    around.append(draw_bottom_axis(across.ticks(100.0)))
    plot = draw_plot(HIGH, marks, around, "Cost against violations")
    edge = sum(violations_of(p) > across.high for p in tuning.points if p.kind != "failed")
    note = (
        f'<p class="note">At the right edge: {count(edge, "trial", "trials")} with more violations.</p>' if edge else ""
    )
    return wrap(plot, [*legend, *list_keys(tuning, whole)]) + note


def find_front(points: Sequence[Point]) -> list[Point]:
    """Fewest violations first; each costs less than all before it."""
    known = [p for p in points if p.trial.violations is not None]
    front: list[Point] = []
    for point in sorted(known, key=lambda p: (violations_of(p), cost_of(p))):
        if not front or cost_of(point) < cost_of(front[-1]):
            front.append(point)
    return front


def draw_slices(tuning: Tuning) -> str:
    """Cost against every share and weight, one small chart each."""
    sides: list[tuple[str, Callable[[Point], float]]] = [
        (f"share %, {name}", lambda p, name=name: 100.0 * p.shares.get(name, math.nan))  # type: ignore[misc]
        for name in tuning.operators
    ]
    sides += [(says, lambda p, key=key: p.weights.get(key, math.nan)) for key, says in WEIGHTS.items()]  # type: ignore[misc]
    shown = [p for p in thin(tuning, max(150, 6 * MOST // len(sides))) if is_searched(p) and p.kind != "failed"]
    panels = [draw_slice(tuning, shown, title, pick) for title, pick in sides]
    if not any(panels):
        return ""
    keys = "".join(
        f'<span><i class="{style}"></i>{label}</span>' for style, label in list_keys(tuning, shown, verified=False)
    )
    return f'<div class="slices">{"".join(panels)}</div><div class="legend">{keys}</div>'


def draw_slice(tuning: Tuning, shown: Sequence[Point], title: str, pick: Callable[[Point], float]) -> str:
    known = [p for p in shown if math.isfinite(pick(p))]
    if not known:
        return ""
    values, costs = np.array([pick(p) for p in known]), scale_costs(tuning)
    low, high = float(values.min()), float(values.max())
    room = 0.06 * (high - low) or 0.1 * high or 0.1
    across = Scale(max(0.0, low - room), high + room)
    marks = draw_each(known, pick, across, costs, SMALL, titled=False)
    marks += draw_special(tuning, pick, across, costs, SMALL, verified=False)
    around = [draw_left_axis(costs.ticks()[::2], ""), draw_bottom_axis(spare(across.ticks()))]
    plot = draw_plot(SMALL, marks, around, f"Cost against the {title}")
    return f'<div><div class="faint head" title="{escape(title)}">{escape(title)}</div>{plot}</div>'


def spare(ticks: Ticks) -> Ticks:
    """Few enough labels for a small chart."""
    return ticks if len(ticks) <= 4 else ticks[::2] if len(ticks) <= 8 else ticks[::3]


def say_thinned(tuning: Tuning, shown: Sequence[Point], costs: Scale) -> str:
    said = []
    if len(shown) < len(tuning.points):
        said.append(f"{len(shown):,} of {len(tuning.points):,} trials are drawn, evenly chosen.")
    over = sum(p.kind != "failed" and cost_of(p) > costs.high for p in tuning.points)
    if over:
        said.append(f"At the upper edge: {count(over, 'trial', 'trials')} that cost more than {money(costs.high)}.")
    return f'<p class="note">{" ".join(said)}</p>' if said else ""
