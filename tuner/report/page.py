"""A comparison and the courses of its policies in, one self-contained HTML page out."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from sim.trace import EPOCH
from tuner.comparison import Comparison, Row
from tuner.report.charts import COLOURS, Frame, draw_costs, draw_policy
from tuner.report.course import Course
from tuner.report.scale import time_ticks
from tuner.report.words import format_bytes, format_figure, format_pace, say_errors, say_floor
from tuner.toml_table import format_document

WIDE, NARROW = 720, 160
MOST_CHART_BYTES = 700_000
BYTES_PER_COLUMN = 14  # of one line or edge of an area, path data being about this long per point


def choose_columns(policies: int, operators: int, types: int) -> int:
    """As many columns as a page has pixels, fewer where many charts would make it too long a file."""
    charts = operators + 1 if operators > 1 else 1
    lines = policies * (3 + charts * (3 + 3 + 2 * types))
    return max(NARROW, min(WIDE, MOST_CHART_BYTES // (BYTES_PER_COLUMN * lines)))


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
    sheet = files("tuner.report").joinpath("style.css").read_text(encoding="utf-8")
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
    least = f" Least cost: {best.title}, {best.cost.mean:.4f} per slot." if len(comparison.rows) > 1 else ""
    return f"<p>{escape(said + least)}</p>"


def write_table(comparison: Comparison) -> str:
    """The rows, in the order asked for; the cheapest stands out."""
    types = [node.name for node in comparison.scenario.settings[0].infrastructure.types]
    heads = ["policy", "cost per slot", "violated %", "reconfigured %", "resources /h"]
    heads = [*heads[:2], *(["× floor"] if comparison.bound else []), *heads[2:], *types, "memory", "slots/s"]
    rows = "".join(write_row(row, comparison) for row in comparison.rows)
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    notes = escape(f"{say_errors(comparison)} {say_floor(comparison)} Under each node type, its mean replicas.")
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div><p class="faint">{notes}</p>'


def write_row(row: Row, comparison: Comparison) -> str:
    bound = comparison.bound
    cells = [row.title, format_figure(row.cost)]
    cells += [f"{bound.multiple(row.cost.mean):.2f}"] if bound else []
    cells += [format_figure(row.violations, 100.0, 2), format_figure(row.reconfigurations, 100.0, 2)]
    cells += [format_figure(row.resources, 1.0, 2), *(f"{mean:.2f}" for mean in row.replicas.sum(axis=0))]
    cells += [format_bytes(row.policy_bytes), format_pace(row.slots_per_second)]
    best = ' class="best"' if row is comparison.best and len(comparison.rows) > 1 else ""
    return f"<tr{best}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


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
        f"<h3>To do it again</h3><p>Keep this as <code>again.toml</code>, then <code>tuner simulate again.toml</code>.</p>"
        f"<pre>{document}</pre>"
    )
