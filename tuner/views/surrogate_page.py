"""Write a surrogate as one self-contained HTML page: its figures, its checks, predicted against observed."""

from __future__ import annotations

from html import escape

from scaler.model.units import format_count, format_moment, format_share
from tuner.surrogate.response_models import MODELS
from tuner.surrogate.surrogate import Check, OperatorSurrogate, Surrogate, is_fit_for_tuning
from tuner.views.html_document import write_columns, write_document, write_readings
from tuner.views.surrogate_plot import draw_agreement, draw_course
from tuner.views.surrogate_rows import format_model, list_columns


def write_page(surrogate: Surrogate) -> str:
    """The whole page."""
    columns = list_columns(surrogate)
    operators = "".join(write_operator(surrogate, operator) for operator in surrogate.operators)
    table = write_columns(columns) + write_readings(columns[1:])
    return write_document(
        f"Surrogate of {surrogate.application}", f"<p>{escape(summarise(surrogate))}</p>{table}\n{operators}"
    )


def summarise(surrogate: Surrogate) -> str:
    """One line: of which operators, from when, whether to tune on it."""
    start, end = (format_moment(t, "minutes") for t in (surrogate.start, surrogate.end))
    verdicts = [check.verdict for check in surrogate.checks]
    passed = ", ".join(f"{verdicts.count(v)} {v}" for v in ("pass", "warn", "fail"))
    use = "fit for tuning" if is_fit_for_tuning(surrogate.checks) else "not fit for tuning"
    return (
        f"{format_count(len(surrogate.operators), 'operator', 'operators')}, {start} to {end} in windows of "
        f"{surrogate.window_s:g} s, {format_share(surrogate.holdout)} held out: {use} ({passed})."
    )


def write_operator(surrogate: Surrogate, operator: OperatorSurrogate) -> str:
    checks = "".join(write_check(check) for check in surrogate.checks if check.operator == operator.operator)
    model = MODELS[operator.response.model].says if operator.response else ""
    return (
        f"<h2>{escape(operator.operator)}</h2><p>{escape(format_model(operator))}"
        f"{f' <span class=faint>({escape(model)})</span>' if model else ''}</p>"
        f'<div class="pair">{draw_agreement(operator.points)}{draw_course(operator.points)}</div>'
        f'<table class="checks"><tbody>{checks}</tbody></table>'
    )


def write_check(check: Check) -> str:
    verdict = f'<span class="verdict {check.verdict}">{check.verdict}</span>'
    return f"<tr><td>{verdict}</td><td>{escape(check.name)}</td><td>{escape(check.says)}</td></tr>"
