"""A surrogate in, one self-contained HTML page out: its figures, its checks, predicted against observed."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape

from tuner.surrogate.response import MODELS
from tuner.surrogate.surrogate import Check, OperatorSurrogate, Surrogate, is_fit_for_tuning
from tuner.views.html_page import count, write_style
from tuner.views.surrogate_plot import STYLE, draw_agreement, draw_course
from tuner.views.surrogate_rows import list_columns, say_parameters

VERDICTS = """
body { max-width: 1240px; } .wide th, .wide td { padding: 4px 10px; font-size: 13px; }
.checks td { text-align: left; white-space: normal; vertical-align: top; }
.verdict { display: inline-block; min-width: 3.6em; text-align: center; border-radius: 9px; border: 1px solid; }
.checks .verdict { font-size: 12px; }
.pass { color: var(--c2); } .warn { color: var(--c1); } .fail { color: var(--alarm); }
.pair { display: grid; grid-template-columns: 1fr 1fr; }
@media (max-width: 900px) { .pair { grid-template-columns: 1fr; } }
"""


def write_page(surrogate: Surrogate) -> str:
    name = escape(surrogate.application)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Surrogate of {name}</title><style>{write_style()}{STYLE}{VERDICTS}</style></head><body>\n"
        f"<h1>Surrogate of {name}</h1>\n<p>{escape(say_summary(surrogate))}</p>"
        f"{write_table(surrogate)}\n"
        f"{''.join(write_operator(surrogate, operator) for operator in surrogate.operators)}</body></html>\n"
    )


def say_summary(surrogate: Surrogate) -> str:
    """One line: of what, from when, whether to tune on it."""
    start, end = (f"{datetime.fromtimestamp(t, UTC):%Y-%m-%d %H:%M}" for t in (surrogate.start, surrogate.end))
    verdicts = [check.verdict for check in surrogate.checks]
    asked = ", ".join(f"{verdicts.count(v)} {v}" for v in ("pass", "warn", "fail"))
    use = "fit for tuning" if is_fit_for_tuning(surrogate.checks) else "not fit for tuning"
    return (
        f"{count(len(surrogate.operators), 'operator', 'operators')}, {start} to {end} UTC in windows of "
        f"{surrogate.window_s:g} s, {surrogate.holdout:.0%} held out: {use} ({asked})."
    )


def write_table(surrogate: Surrogate) -> str:
    columns = list_columns(surrogate)
    heads = "".join(f'<th title="{escape(c.reading)}">{escape(c.head)}</th>' for c in columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(column.cells[i])}</td>' for column in columns)}</tr>"
        for i in range(len(surrogate.operators))
    )
    readings = "".join(f"<li>{escape(c.head)}: {escape(c.reading)}</li>" for c in columns[1:])
    return (
        f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"<details><summary>How to read the columns</summary><ul>{readings}</ul></details>"
    )


def write_operator(surrogate: Surrogate, operator: OperatorSurrogate) -> str:
    checks = "".join(write_check(check) for check in surrogate.checks if check.operator == operator.operator)
    model = MODELS[operator.response.model].says if operator.response else ""
    return (
        f"<h2>{escape(operator.operator)}</h2><p>{escape(say_parameters(operator))}"
        f"{f' <span class=faint>({escape(model)})</span>' if model else ''}</p>"
        f'<div class="pair">{draw_agreement(operator.points)}{draw_course(operator.points)}</div>'
        f'<table class="checks"><tbody>{checks}</tbody></table>'
    )


def write_check(check: Check) -> str:
    verdict = f'<span class="verdict {check.verdict}">{check.verdict}</span>'
    return f"<tr><td>{verdict}</td><td>{escape(check.name)}</td><td>{escape(check.says)}</td></tr>"
