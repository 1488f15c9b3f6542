"""A comparison and the courses of its policies in, one self-contained HTML page out."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from sim.trace import EPOCH
from tuner.scenario.scenario import Scenario
from tuner.scenario.toml_table import format_document
from tuner.simulation.comparison import Comparison, Row
from tuner.simulation.course import Course
from tuner.views.charts import COLOURS, Frame, draw_costs, draw_policy
from tuner.views.comparison_table import Column, list_columns, say_errors
from tuner.views.scale import time_ticks

WIDE, NARROW = 720, 100
MOST_CHART_BYTES = 800_000
BYTES_PER_POINT = 9  # of path data, on average


def choose_columns(scenario: Scenario) -> int:
    """As many columns as a page has pixels, fewer where many charts would make it too long a file."""
    setting = scenario.settings[0]
    operators, types = len(setting.application.operators), len(setting.infrastructure.types)
    charts = operators + 1 if operators > 1 else 1
    lines = len(scenario.settings) * (3 + charts * (3 + 3 + 2 * types))
    return max(NARROW, min(WIDE, MOST_CHART_BYTES // (BYTES_PER_POINT * lines)))


def write_page(comparison: Comparison, courses: Sequence[Course]) -> str:
    """The whole page."""
    name = escape(comparison.scenario.name)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}: policies compared</title><style>{write_style()}</style></head><body>\n"
        f"<h1>{name}: {count(len(comparison.rows), 'policy', 'policies')} compared</h1>\n"
        f"{write_summary(comparison)}{write_table(comparison)}\n"
        f"{write_charts(comparison, courses)}\n{write_facts(comparison)}</body></html>\n"
    )


def write_style() -> str:
    """The style sheet, and each colour for lines, areas and legends."""
    sheet = files("tuner.views").joinpath("style.css").read_text(encoding="utf-8")
    colours = (
        f".line.c{i}{{stroke:var(--c{i})}}.area.c{i}{{fill:var(--c{i});background:var(--c{i})}}"
        f".legend i.c{i}{{border-color:var(--c{i})}}"
        for i in range(COLOURS)
    )
    return sheet + "".join(colours)


def count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def write_summary(comparison: Comparison) -> str:
    setting, best = comparison.scenario.settings[0], comparison.best
    said = (
        f"{count(setting.trace.rates.size, 'slot', 'slots')} of {setting.trace.step_s:g} s of the trace "
        f"{setting.trace.name or 'without a name'}, application {setting.application.name} on "
        f"{count(len(setting.infrastructure.types), 'node type', 'node types')}."
    )
    least = f"Least cost: <b>{escape(best.title)}</b>, {best.cost.mean:.4f} per slot."
    return f"<p>{escape(said)} {least if len(comparison.rows) > 1 else ''}</p>"


def write_table(comparison: Comparison) -> str:
    """The rows, in the order asked for; the cheapest stands out. A head says on a longer look how to read it."""
    columns = list_columns(comparison)
    heads = "".join(f'<th title="{escape(c.reading)}">{escape(c.head)}</th>' for c in columns)
    rows = "".join(
        write_row(row, [column.cells[i] for column in columns], row is comparison.best)
        for i, row in enumerate(comparison.rows)
    )
    readings = "".join(f"<li>{escape(c.head)}: {escape(c.reading)}</li>" for c in columns)
    return (
        f'<div class="wide"><table><thead><tr><th>policy</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        f'<p class="faint">{escape(say_errors(comparison))}</p>'
        f"<details><summary>How to read the columns</summary><ul>{readings}</ul></details>"
    )


def write_row(row: Row, cells: list[str], best: bool) -> str:
    name = f"{escape(row.title)} <small>{escape(row.policy)}</small>"
    return (
        f"<tr{' class=best' if best else ''}>{''.join(f'<td>{cell}</td>' for cell in [name, *map(escape, cells)])}</tr>"
    )


def write_charts(comparison: Comparison, courses: Sequence[Course]) -> str:
    setting = comparison.scenario.settings[0]
    start = None if setting.trace.start == EPOCH else setting.trace.start
    frame = Frame(
        times=time_ticks(start, setting.trace.rates.size * setting.trace.step_s),
        node_types=tuple(node.name for node in setting.infrastructure.types),
    )
    named = [(row.title, course) for row, course in zip(comparison.rows, courses, strict=True)]
    parts = []
    if len(named) > 1:
        floor = comparison.bound.lower if comparison.bound else None
        parts.append(f"<h2>Cost over time</h2>{draw_costs(frame, named, floor)}")
    for title, course in named:
        parts.append(f"<h2>{escape(title)}</h2>{draw_policy(frame, course, setting.r_max)}")
    if len(comparison.scenario.seeds) > 1:
        parts.append(f'<p class="faint">All charts show seed {comparison.scenario.seeds[0]}.</p>')
    return "".join(parts)


def write_facts(comparison: Comparison) -> str:
    """Everything needed to do it again."""
    setting = comparison.scenario.settings[0]
    rates = setting.trace.rates
    nodes = (f"{node.name} (speedup {node.speedup:g}, {node.price:.4g}/h)" for node in setting.infrastructure.types)
    operators = (
        f"{o.name} ({1.0 / o.moments.mean:.4g}/s on speedup 1, service time {1000.0 * o.moments.mean:.4g} ms, "
        f"its variance over its squared mean {o.moments.variance / o.moments.mean**2:.3g}, up to {o.k_max} replicas)"
        for o in setting.application.operators
    )
    facts = {
        "trace": f"{setting.trace.name}, from {setting.trace.start:%Y-%m-%d %H:%M %Z}",
        "arrival rate": f"mean {rates.mean():.4g}, greatest {rates.max():.4g} tuples per second",
        "node types": "; ".join(nodes),
        "operators": "; ".join(operators),
        "response time": f"at most {1000.0 * setting.r_max:.4g} ms on every path",
        "seeds": ", ".join(map(str, comparison.scenario.seeds)),
    }
    rows = "".join(f"<tr><td>{key}</td><td>{escape(value)}</td></tr>" for key, value in facts.items())
    document = escape(format_document(comparison.scenario.document))
    return (
        f'<h2>What was simulated</h2><table class="facts"><tbody>{rows}</tbody></table>'
        "<h3>To do it again</h3>"
        "<p>Keep this as <code>again.toml</code>, then run <code>tuner simulate again.toml</code>.</p>"
        f"<pre>{document}</pre>"
    )


TEXTS = ("setting", "policy", "floor", "floor after")


def write_columns(columns: Sequence[Column], best: Sequence[bool] = ()) -> str:
    """Columns side by side; rows that are best stand out."""
    side = [' class="text"' if c.head in TEXTS else "" for c in columns]
    heads = "".join(
        f'<th{s} title="{escape(c.reading)}">{escape(c.head)}</th>' for s, c in zip(side, columns, strict=True)
    )
    rows = "".join(
        f"<tr{' class=best' if i < len(best) and best[i] else ''}>"
        f"{''.join(f'<td{s}>{escape(cell)}</td>' for s, cell in zip(side, cells, strict=True))}</tr>"
        for i, cells in enumerate(zip(*(column.cells for column in columns), strict=True))
    )
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
