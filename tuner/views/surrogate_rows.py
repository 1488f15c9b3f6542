"""List the columns of a surrogate's table as text, each with how to read it."""

from __future__ import annotations

from collections.abc import Callable

from tuner.surrogate.estimate import Estimate, format_estimate
from tuner.surrogate.surrogate import Calibration, OperatorSurrogate, Speedup, Surrogate
from tuner.views.html_document import Column

Show = Callable[[OperatorSurrogate], str]
COLUMNS: dict[str, tuple[Show, str]] = {
    "mean ms": (
        lambda o: format_estimate(o.mean, 1000.0, 4),
        "service time of one tuple at speed 1, with the interval that holds it at 95 % confidence",
    ),
    "variance ms²": (lambda o: format_unless_unknown(o.variance, 1e6), "of that time, with its interval"),
    "tuples": (lambda o: f"{o.tuples:,.0f}", "that the moments were seen on"),
    "from": (lambda o: o.evidence, "records timed one by one, whole tasks, or replicas' working time (busy)"),
    "selectivity": (lambda o: format_unless_unknown(o.selectivity), "tuples out per tuple in"),
    "model": (lambda o: o.response.model if o.response else "none", "of response times, chosen on other windows"),
    "error": (lambda o: format_error(o.response), "mean relative error on held-out windows of about the same load"),
    "replayed": (lambda o: format_error(o.replayed), "the same error of what the simulator replays"),
    "speed": (
        lambda o: "; ".join(map(format_speed, o.speedups)),
        "of each node type, with its interval; declared where it was not seen at work",
    ),
}


def list_columns(surrogate: Surrogate) -> list[Column]:
    """One line per operator; the operators' names come first."""
    names = Column("operator", tuple(o.operator for o in surrogate.operators), "")
    shown = [Column(head, tuple(map(show, surrogate.operators)), how) for head, (show, how) in COLUMNS.items()]
    return [names, *shown]


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
    shown = (f"{name} {format_parameter(name, value)}" for name, value in operator.response.parameters.items() if value)
    return f"{operator.response.model}: {', '.join(shown)}"


def format_parameter(name: str, value: float) -> str:
    if name in ("work", "part", "memory"):
        return f"{value:.3g}"
    return f"{1e6 * value:.4g} ms²" if name == "variance" else f"{1000 * value:.4g} ms"
