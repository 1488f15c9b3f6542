"""Report what a run's figures depend on: importances of parameters, and how well left-out trials are predicted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from scaler.model.kernel import Floats
from scaler.model.units import format_count, format_number, format_share
from tuner.search.model_check import MIN_TRIALS, ModelCheck, check_model
from tuner.views.chart import MIDDLE, Axis, Chart, Series
from tuner.views.html_document import render
from tuner.views.tuning import Point, Tuning, is_searched

LEAST_WEIGHT = 1e-6
GOOD, FAIR = 0.7, 0.3  # of the variance of left-out trials that a model explains
SMALLEST = 0.01  # effect that is put in figures
MAX_LISTED = 12  # parameters, the most important
FIGURES: dict[str, tuple[str, Callable[[Point], float], float]] = {  # what is modelled: unit, value, factor of the unit
    "Price per hour": ("price per hour", lambda point: point.price, 1.0),
    "Violations": ("violations, % of slots", lambda point: point.violations, 100.0),
}


@dataclass(frozen=True, slots=True)
class Importance:
    parameter: str
    effect: str  # as a percentage
    filled: float  # share of the greatest


def draw_models(tuning: Tuning) -> Markup | str:
    """A part for each figure; "" where nothing was searched."""
    points = [p for p in tuning.points if is_searched(p) and p.kind in ("feasible", "infeasible")]
    if not points:
        return ""
    parts = []
    for title, (label, pick, factor) in FIGURES.items():
        known = [p for p in points if math.isfinite(pick(p))]
        names, x = lay_out_parameters(tuning, known)
        check = check_model(names, x, factor * np.array([pick(p) for p in known]))
        parts.append({
            "title": title,
            "sentence": explain_check(check, len(known)),
            "rows": [] if check is None else list_importances(check.importances),
            "chart": None if check is None else chart_left_out(title, label, check),
        })  # fmt: skip
    return render("model.html", parts=parts)


def lay_out_parameters(tuning: Tuning, points: list[Point]) -> tuple[list[str], Floats]:
    """Names, and the values [n, d] of trials: shares of R_max, and weights as logarithms of their ratios."""
    columns: dict[str, list[float]] = {
        f"share of {name}": [p.shares.get(name, 0.0) for p in points] for name in tuning.operators
    }
    for key, label in (("perf", "violations"), ("rcf", "reconfigurations")):
        columns[f"weight of {label} over resources"] = [find_ratio(p.weights, key) for p in points]
    return list(columns), np.array(list(columns.values())).T.reshape(len(points), len(columns))


def find_ratio(weights: Mapping[str, float], key: str) -> float:
    over, under = (max(LEAST_WEIGHT, weights.get(name, LEAST_WEIGHT)) for name in (key, "res"))
    return math.log(over / under)


def list_importances(importances: Mapping[str, float]) -> Iterator[Importance]:
    most = max(importances.values(), default=0.0) or 1.0
    for name, effect in list(importances.items())[:MAX_LISTED]:
        yield Importance(name, "< 1 %" if effect < SMALLEST else f"{100.0 * effect:.0f} %", effect / most)


def explain_check(check: ModelCheck | None, trials: int) -> str:
    """How far the importances can be trusted."""
    if check is None:
        return f"No model: {format_count(trials, 'whole trial', 'whole trials')}, {MIN_TRIALS} are needed that differ."
    said = (
        f"Each of {len(check.observed)} trials was left out in turn and predicted by the others: "
        f"R² {format_number(check.explained, 2)}, and {format_share(check.covered)} lay in their 95 % interval."
    )
    if check.explained < FAIR:
        return f"{said} The model explains little, so its importances say little."
    return said if check.explained >= GOOD else f"{said} Take the importances as a rough order."


def chart_left_out(title: str, label: str, check: ModelCheck) -> Chart:
    """Observed against predicted without the trial; on the line they are equal."""
    order = np.argsort(check.predicted)
    across, up = check.predicted[order], check.observed[order]
    low, high = float(min(across.min(), up.min())), float(max(across.max(), up.max()))
    room = 0.05 * (high - low) or 1.0
    low, high = low - room, high + room
    x = np.concatenate([[low], across, [high]])
    seen = np.concatenate([[math.nan], up, [math.nan]])
    series = [Series("observed", seen, "c0", "dot", width=7.0), Series("equal", x, "faint", dashed=True)]
    return Chart(
        f"{title}: observed against predicted without the trial", x, Axis("predicted", low=low, high=high),
        Axis(f"{label}: observed; predicted without the trial across", low=low, high=high), series, height=MIDDLE,
    )  # fmt: skip
