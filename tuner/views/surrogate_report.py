"""Report a surrogate: the columns of its table, one self-contained HTML page, predicted against observed as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.task import name_quantile
from scaler.model.units import format_bytes, format_count, format_moment, format_share
from tuner.surrogate.estimate import Estimate, format_estimate
from tuner.surrogate.fitted_application import find_hold
from tuner.surrogate.reconfiguration_times import LEAST_EVENTS
from tuner.surrogate.response_models import MODELS, OF_SHARING, SHARED, overhead_by
from tuner.surrogate.supply import estimate_rate
from tuner.surrogate.surrogate import (
    Calibration,
    LearnedSupply,
    OperatorSurrogate,
    PredictedWindow,
    ReconfigurationTime,
    Speedup,
    StateSize,
    Surrogate,
    is_fit_for_tuning,
)
from tuner.views.chart import TALL, Axis, Chart, Scale, Series
from tuner.views.html_document import render, write_document, write_readings
from tuner.views.words import Column, make_columns

ACROSS, DOWN = 56, 14  # characters
MAX_OUTLIER = 4.0  # times the 99 % quantile, above which a point is drawn at the edge


def name_model(calibration: Calibration | None) -> str:
    """The model, and the quantile it was chosen by where that is not the mean."""
    if calibration is None or calibration.chosen_by is None:
        return "none" if calibration is None else calibration.model
    return f"{calibration.model} (by {name_quantile(calibration.chosen_by)})"


def format_quantile_errors(operator: OperatorSurrogate) -> str:
    errors = ((name_quantile(one.quantile), 100.0 * one.accuracy.error.value) for one in operator.quantiles)
    return ", ".join(f"{name} {error:.1f} %" for name, error in errors) or "unknown"


COLUMNS: tuple[tuple[str, Callable[[OperatorSurrogate], str], str], ...] = (
    ("operator", lambda o: o.operator, ""),
    (
        "mean ms",
        lambda o: format_estimate(o.mean, 1000.0, 4),
        "service time of one tuple at speed 1, with the interval that holds it at 95 % confidence",
    ),
    ("variance ms²", lambda o: format_unless_unknown(o.variance, 1e6), "of that time, with its interval"),
    ("tuples", lambda o: f"{o.tuples:,.0f}", "that the moments were seen on"),
    ("from", lambda o: o.evidence, "records timed one by one, whole tasks, or replicas' working time (busy)"),
    ("selectivity", lambda o: format_unless_unknown(o.selectivity), "tuples out per tuple in"),
    ("model", lambda o: name_model(o.response), "of response times, chosen on other windows by means or as said"),
    ("error", lambda o: format_error(o.response), "mean relative error on held-out windows of about the same load"),
    ("replayed", lambda o: format_error(o.replayed), "the same error of what the simulator replays"),
    (
        "quantiles",
        format_quantile_errors,
        "the same error of its p50, p95, p99 and the one asked, where windows tell theirs",
    ),
    (
        "speed",
        lambda o: "; ".join(map(format_speed, o.speedups)),
        "of each node type, with its interval; declared where it was not seen at work",
    ),
)


def list_surrogate_columns(surrogate: Surrogate) -> list[Column]:
    """One line per operator."""
    return make_columns(surrogate.operators, COLUMNS)


def format_unless_unknown(figure: Estimate | None, factor: float = 1.0) -> str:
    return "unknown" if figure is None else format_estimate(figure, factor)


def format_speed(speedup: Speedup) -> str:
    name = speedup.node_type or "any"
    if speedup.assumed:
        return f"{name} {speedup.speed.value:.3g} (declared)"
    return f"{name} {format_estimate(speedup.speed)}" if speedup.speed.error else f"{name} {speedup.speed.value:.3g}"


def format_error(calibration: Calibration | None) -> str:
    if calibration is None or calibration.accuracy is None:
        return "unknown"
    e = calibration.accuracy.error
    return f"{100.0 * e.value:.1f} % [{100.0 * e.low:.1f}, {100.0 * e.high:.1f}]"


def format_model(operator: OperatorSurrogate) -> str:
    """The model with its parameters, times in ms."""
    if operator.response is None:
        return "no model of response times"
    parameters = dict(operator.response.parameters)
    if SHARED in parameters:
        parameters |= {"overhead of one replica": overhead_by(parameters, 1)}
    told = {name: value for name, value in parameters.items() if value and name not in OF_SHARING}
    shown = (f"{name} {format_parameter(name, value)}" for name, value in told.items())
    return f"{operator.response.model}: {', '.join(shown)}"


def list_cost_lines(operator: OperatorSurrogate) -> list[str]:
    """Sentences on the operator's state, and on what reconfigurations in each direction cost."""
    lines = [] if operator.state is None else [describe_state(operator.state)]
    lines += map(describe_reconfigurations, operator.reconfiguration)
    lines = lines or ["No reconfiguration was seen with its batches, so that what one costs is not known."]
    return [*lines, describe_replayed_hold(operator)]


def list_supply_lines(surrogate: Surrogate) -> list[str]:
    """Sentences on the supply of each node type; none where no agent told of any."""
    return [describe_supply(one) for one in surrogate.supply]


def describe_supply(supply: LearnedSupply) -> str:
    """Start-up times, losses, and how many replicas there were."""
    started = format_count(supply.came, "start-up", "start-ups")
    if supply.start:
        quantiles = (f"{name_quantile(one.quantile)} {format_estimate(one.seconds)} s" for one in supply.start)
        said = f"start-up {', '.join(quantiles)}, from {started}"
    else:
        said = f"start-up time not known after {started}; {LEAST_EVENTS} are wanted"
    if supply.given_up:
        said += f", and {supply.given_up} given up, which are not in it"
    most = estimate_rate(supply.lost, supply.replica_hours).high if supply.replica_hours > 0.0 else math.inf
    hours = f"{supply.lost} in {supply.replica_hours:.4g} replica-hours"
    if supply.lost_per_hour is not None:
        lost = f"lost {format_estimate(supply.lost_per_hour)} times an hour each, {hours}"
    else:
        lost = f"loss rate not known after {hours}"
        lost += f", at most {most:.3g} an hour" if math.isfinite(most) else ""
    refused = f"{supply.refused or 'none'} refused for want of room"
    return f"{supply.node_type}: {said}; {lost}; capacity at least {supply.most} ({refused})."


def describe_replayed_hold(operator: OperatorSurrogate) -> str:
    """What a reconfiguration holds in replays."""
    hold = find_hold(operator)
    known = {"out": None, "in": None} if hold is None else {"out": hold.out, "in": hold.into}
    measured = [f"scale-{name}" for name, time in known.items() if time is not None]
    guessed = [f"scale-{name}" for name, time in known.items() if time is None]
    if not guessed:
        return "Replays hold what was measured."
    state = operator.state
    stores = None if state is None or state.bytes is None else state.partitions
    otherwise = f"for the loads of its {stores} stores" if stores else "for pause_s of the run"
    said = f"How long a {' or '.join(guessed)} holds answers was not measured: replays hold them {otherwise}"
    return said + (f", and as measured for a {measured[0]}." if measured else ".")


def describe_state(state: StateSize) -> str:
    said = f"State: {format_bytes(state.bytes)}"
    if state.partitions is not None:
        said += f" in {format_count(state.partitions, 'partition', 'partitions')}"
    if state.growth is not None:
        said += f"; {format_estimate(state.growth)} bytes more per tuple"
    if state.load is not None:
        said += f"; a store is loaded in {format_estimate(state.load)} s"
    return f"{said}."


def describe_reconfigurations(time: ReconfigurationTime) -> str:
    seen = format_count(time.events, "reconfiguration", "reconfigurations")
    name = f"Scale-{time.direction}"
    if time.seconds is None:
        return f"{name}: what it costs is not known after {seen}; {LEAST_EVENTS} are wanted."
    said = f"{name}: {format_estimate(time.seconds)} s of extra batch time, the mean of {seen}"
    if time.each_s:
        said += f"; {time.base_s:.3g} s and {time.each_s:.3g} s a replica"
    sizes = [f"{s.replicas}: {format_estimate(s.seconds)} s" for s in time.sizes if s.seconds is not None]
    return f"{said} (by replicas: {'; '.join(sizes)})." if len(sizes) > 1 else f"{said}."


def format_parameter(name: str, value: float) -> str:
    if name in ("work", "part", "memory"):
        return f"{value:.3g}"
    return f"{1e6 * value:.4g} ms²" if name == "variance" else f"{1000 * value:.4g} ms"


def write_surrogate(surrogate: Surrogate) -> str:
    """The whole page."""
    operators = [
        {
            "name": one.operator,
            "model": format_model(one),
            "says": MODELS[one.response.model].says if one.response else "",
            "costs": list_cost_lines(one),
            "charts": chart_windows(one.points),
            "checks": [check for check in surrogate.checks if check.operator == one.operator],
        }
        for one in surrogate.operators
    ]
    says, table = [summarise_surrogate(surrogate), *list_supply_lines(surrogate)], list_surrogate_columns(surrogate)
    body = render("surrogate.html", says=says, table=table, readings=write_readings(table[1:]), operators=operators)
    return write_document(f"Surrogate of {surrogate.application}", body)


def summarise_surrogate(surrogate: Surrogate) -> str:
    """One line: of which operators, from when, whether to tune on it."""
    start, end = (format_moment(t, "minutes") for t in (surrogate.start, surrogate.end))
    verdicts = [check.verdict for check in surrogate.checks]
    passed = ", ".join(f"{verdicts.count(v)} {v}" for v in ("pass", "warn", "fail"))
    use = "fit for tuning" if is_fit_for_tuning(surrogate.checks) else "not fit for tuning"
    return (
        f"{format_count(len(surrogate.operators), 'operator', 'operators')}, {start} to {end} in windows of "
        f"{surrogate.window_s:g} s, {format_share(surrogate.holdout)} held out: {use} ({passed})."
    )


def list_shown(points: Sequence[PredictedWindow]) -> list[PredictedWindow]:
    """Those with a finite prediction, those fitted on first so that held-out ones lie on top."""
    finite = [point for point in points if math.isfinite(point.predicted) and point.observed > 0.0]
    return sorted(finite, key=lambda point: point.held_out)


def choose_scale(points: Sequence[PredictedWindow]) -> Scale:
    """From a little below the least to a little above the greatest that is no outlier; logarithmic where far apart."""
    values = np.array([[p.observed, p.predicted] for p in points])
    low, high = float(values.min()), min(float(values.max()), MAX_OUTLIER * float(np.quantile(values, 0.99)))
    if low > 0.0 and high > 8.0 * low:
        return Scale(low / 1.1, high * 1.1, True)
    room = 0.06 * (high - low) or 0.05 * high or 1.0
    return Scale(max(0.0, low - room), high + room)


def draw_text(points: Sequence[PredictedWindow], ascii_only: bool = False) -> str:
    """A scatter for a terminal: predicted upwards, observed to the right, the diagonal where both are equal."""
    some = list_shown(points)
    if not some:
        return "  (no window with a response time was predicted)"
    fitted, held, even = (".", "o", "/") if ascii_only else ("·", "●", "-")
    scale = choose_scale(some)
    grid = [[" "] * ACROSS for _ in range(DOWN)]
    for i in range(ACROSS):
        grid[DOWN - 1 - min(DOWN - 1, i * DOWN // ACROSS)][i] = even
    for point in some:
        x, y = scale.within(point.observed), scale.within(point.predicted)
        grid[DOWN - 1 - min(DOWN - 1, int(y * DOWN))][min(ACROSS - 1, int(x * ACROSS))] = (
            held if point.held_out else fitted
        )
    low, high = f"{1000 * scale.low:.4g}", f"{1000 * scale.high:.4g} ms"
    margin = max(len(low), len(high))
    bar = "|" if ascii_only else "│"
    rows = [
        f"  {label:>{margin}} {bar}{''.join(row)}"
        for label, row in zip([high, *[""] * (DOWN - 2), low], grid, strict=True)
    ]
    foot = f"  {'':{margin}}  {low}{high:>{ACROSS - len(low)}}"
    legend = f"  predicted (up) against observed (right); {held} held out, {fitted} fitted on, {even} equal"
    return "\n".join([*rows, foot, legend])


def chart_windows(points: Sequence[PredictedWindow]) -> Iterator[Chart]:
    """Predicted against observed response times, then both over utilisation; in milliseconds, outliers at the edge."""
    some = sorted(list_shown(points), key=lambda point: point.observed)
    if not some:
        return
    scale = choose_scale(some)
    ends, beyond = 1000.0 * np.array([scale.low, scale.high]), np.array([np.nan])
    observed, predicted = clip_response(scale, some)
    x = np.concatenate([ends[:1], observed, ends[1:]])
    dots = mark_windows(some, predicted, "windows fitted on", "held-out windows")
    padded = [replace(each, values=np.concatenate([beyond, each.values, beyond])) for each in dots]
    diagonal = Series("predicted as observed", x, "faint", dashed=True)
    across, left = scale.axis("observed", 1000.0), scale.axis("predicted response time, ms; observed across", 1000.0)
    title = "Predicted against observed response times"
    yield Chart(title, x, across, left, [diagonal, *padded], height=TALL)

    some.sort(key=lambda point: point.utilisation)
    observed, predicted = clip_response(scale, some)
    x = np.array([p.utilisation for p in some])
    dots = mark_windows(some, observed, "observed, fitted on", "observed, held out")
    dots.append(Series("predicted", predicted, "ink", "dot", width=3.0))
    across = Axis("utilisation", low=0.0, high=max(1.0, 1.05 * float(x.max())))
    left = scale.axis("response time, ms; utilisation across", 1000.0)
    yield Chart("Response times over utilisation", x, across, left, dots, height=TALL)


def mark_windows(points: Sequence[PredictedWindow], values: Floats, fitted: str, held_out: str) -> list[Series]:
    """A dot per window, in two colours and with these labels."""
    held = np.array([point.held_out for point in points])
    sides = ((fitted, ~held, "c0"), (held_out, held, "c1"))
    return [Series(label, np.where(side, values, np.nan), colour, "dot", width=6.0) for label, side, colour in sides]


def clip_response(scale: Scale, points: Sequence[PredictedWindow]) -> Floats:
    """Observed and predicted [2, points]."""
    return 1000.0 * np.clip(np.array([(p.observed, p.predicted) for p in points]).T, scale.low, scale.high)
