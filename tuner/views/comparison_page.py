"""Write a comparison of policies and their courses as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from scaler.model.units import format_count, format_duration, format_number
from sim.trace import EPOCH
from tuner.scenario.scenario import Scenario
from tuner.scenario.toml_table import format_document
from tuner.simulation.comparison import PolicyComparison
from tuner.simulation.course import ReplayCourse
from tuner.views.comparison_table import explain_errors, list_columns
from tuner.views.course_charts import Frame, chart_costs, draw_policy, limit_columns
from tuner.views.html_document import Column, write_columns, write_document, write_facts, write_readings


def choose_columns(scenario: Scenario) -> int:
    """How many columns each chart of the page has."""
    setting = scenario.settings[0]
    operators, types = len(setting.application.operators), len(setting.infrastructure.types)
    charts = operators + 1 if operators > 1 else 1
    return limit_columns(len(scenario.settings) * (4 + charts * (3 + 3 + types)))


def write_page(comparison: PolicyComparison, courses: Sequence[ReplayCourse]) -> str:
    """The whole page."""
    policies = format_count(len(comparison.rows), "policy", "policies")
    return write_document(
        f"{comparison.scenario.name}: {policies} compared",
        f"{write_summary(comparison)}{write_table(comparison)}\n"
        f"{write_charts(comparison, courses)}\n{write_settings(comparison)}",
    )


def write_summary(comparison: PolicyComparison) -> str:
    setting, best = comparison.scenario.settings[0], comparison.best
    replayed = (
        f"{format_count(setting.trace.rates.size, 'slot', 'slots')} of {setting.trace.step_s:g} s of the trace "
        f"{setting.trace.name or 'without a name'}, application {setting.application.name} on "
        f"{format_count(len(setting.infrastructure.types), 'node type', 'node types')}."
    )
    least = f"Least cost: <b>{escape(best.title)}</b>, {best.cost.mean:.4f} per slot."
    return f"<p>{escape(replayed)} {least if len(comparison.rows) > 1 else ''}</p>"


def write_table(comparison: PolicyComparison) -> str:
    """The rows, in the order asked for; the cheapest stands out."""
    columns = list_columns(comparison)
    names = Column("policy", tuple(f"{row.title} ({row.policy})" for row in comparison.rows), "as --policy names it")
    return (
        write_columns([names, *columns], [row is comparison.best for row in comparison.rows])
        + f'<p class="faint">{escape(explain_errors(comparison))}</p>{write_readings(columns)}'
    )


def write_charts(comparison: PolicyComparison, courses: Sequence[ReplayCourse]) -> str:
    setting = comparison.scenario.settings[0]
    frame = Frame(
        start=None if setting.trace.start == EPOCH else setting.trace.start.timestamp(),
        seconds=setting.trace.rates.size * setting.trace.step_s,
        node_types=tuple(node.name for node in setting.infrastructure.types),
    )
    named = [(row.title, course) for row, course in zip(comparison.rows, courses, strict=True)]
    parts = []
    if len(named) > 1:
        floor = comparison.bound.lower if comparison.bound else None
        parts.append(f"<h2>Cost over time</h2>{chart_costs(frame, named, floor).render()}")
    for title, course in named:
        parts.append(f"<h2>{escape(title)}</h2>{draw_policy(frame, course, setting.r_max)}")
    if len(comparison.scenario.seeds) > 1:
        parts.append(f'<p class="faint">All charts show seed {comparison.scenario.seeds[0]}.</p>')
    return "".join(parts)


def write_settings(comparison: PolicyComparison) -> str:
    """Everything needed to run it again."""
    setting = comparison.scenario.settings[0]
    rates = setting.trace.rates
    nodes = (f"{node.name} (speedup {node.speedup:g}, {node.price:.4g}/h)" for node in setting.infrastructure.types)
    operators = (
        f"{o.name} ({format_number(1.0 / o.moments.mean)}/s on speedup 1, service time "
        f"{format_duration(o.moments.mean)}, its variance over its squared mean "
        f"{format_number(o.moments.variance / o.moments.mean**2, 3)}, up to {o.k_max} replicas)"
        for o in setting.application.operators
    )
    facts = {
        "trace": f"{setting.trace.name}, from {setting.trace.start:%Y-%m-%d %H:%M %Z}",
        "arrival rate": f"mean {format_number(rates.mean())}, greatest {format_number(rates.max())} tuples per second",
        "node types": "; ".join(nodes),
        "operators": "; ".join(operators),
        "response time": f"at most {format_duration(setting.r_max)} on every path",
        "seeds": ", ".join(map(str, comparison.scenario.seeds)),
    }
    document = escape(format_document(comparison.scenario.document))
    return (
        f"<h2>What was simulated</h2>{write_facts(facts)}<h3>To run it again</h3>"
        "<p>Save this as <code>again.toml</code>, then run <code>tuner simulate again.toml</code>.</p>"
        f"<pre>{document}</pre>"
    )
