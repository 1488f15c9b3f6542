"""Standings in, one self-contained HTML page out: a summary, a chart, a table per workload, and what was replayed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tuner.lab.plan import Cell
from tuner.lab.policy_summary import Row, Standings
from tuner.lab.shifts import SETTLING
from tuner.lab.summary_table import list_rows, list_summaries, say_errors
from tuner.views.dots import STYLE, DotRow, draw_dots
from tuner.views.html_page import count, write_columns, write_style

TIGHT = """
body { max-width: 1240px; }
.wide th, .wide td { padding: 4px 8px; font-size: 13px; } .wide .text { text-align: left; }
"""


def write_standings(standings: Standings) -> str:
    """The whole page."""
    plan = standings.plan
    name, policies = escape(plan.name), count(len(plan.policies), "policy", "policies")
    groups = {cell.group: None for cell in plan.cells}
    tables = "".join(write_group(standings, group) for group in groups)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}: {policies} compared</title><style>{write_style()}{STYLE}{TIGHT}</style></head><body>\n"
        f"<h1>{name}: {policies} compared</h1>\n"
        f"<p>{count(len(plan.cells), 'setting', 'settings')}, {count(len(plan.seeds), 'seed', 'seeds')} each.</p>"
        f"{write_columns(list_summaries(standings))}"
        f'<p class="faint">{escape(say_errors(standings))}</p>\n'
        f"{write_charts(standings)}\n{tables}\n{write_readings(standings)}{write_facts(plan.cells)}</body></html>\n"
    )


def write_group(standings: Standings, group: str) -> str:
    """One workload: every setting with every policy; the cheapest of a setting stands out."""
    rows = [row for row in standings.rows if row.cell.group == group]
    least = {row.cell.size: min(r.cost.mean for r in rows if r.cell.size == row.cell.size) for row in rows}
    best = [len(standings.plan.policies) > 1 and row.cost.mean == least[row.cell.size] for row in rows]
    return f"<h2>{escape(group)}</h2>{write_columns(list_rows(standings, rows), best)}"


def write_charts(standings: Standings) -> str:
    """Multiples of the floor where there is any, else costs; of the last part too where the world changes."""
    if all(row.floor is None for row in standings.rows):
        rows = make_dot_rows(standings, "cost")
        return f"<h2>Cost by policy and setting</h2>{draw_dots(rows, [*standings.plan.policies], 'Cost', 0.0)}"
    title = "Multiple of the floor by policy and setting"
    parts = [f"<h2>{title}</h2>", draw_chart(standings, "multiple", title)]
    if standings.plan.shift is not None:
        title = f"The same from {SETTLING:,} slots after the change on"
        parts += [f"<h2>{title}</h2>", draw_chart(standings, "tail_multiple", title)]
    return "".join(parts)


def draw_chart(standings: Standings, measure: str, title: str) -> str:
    rows = [row for row in make_dot_rows(standings, measure) if any(row.values)]
    return draw_dots(rows, [*standings.plan.policies], title, 1.0)


def make_dot_rows(standings: Standings, measure: str) -> list[DotRow]:
    plan, many = standings.plan, len(standings.plan.policies)
    parts = [standings.rows[i : i + many] for i in range(0, len(standings.rows), many)]
    return [
        DotRow(cell.name, tuple(getattr(row, measure) for row in rows))
        for cell, rows in zip(plan.cells, parts, strict=True)
    ]


def write_readings(standings: Standings) -> str:
    rows: Sequence[Row] = standings.rows[:1]
    said = {c.head: c.reading for c in (*list_summaries(standings), *list_rows(standings, rows))}
    items = "".join(f"<li>{escape(head)}: {escape(reading)}</li>" for head, reading in said.items())
    return f"<details><summary>How to read the columns</summary><ul>{items}</ul></details>"


def write_facts(cells: Sequence[Cell]) -> str:
    """What stands behind each workload's name."""
    facts = {}
    for cell in cells:
        setting = cell.world.setting
        rates, w = setting.trace.rates, setting.weights
        operators = "; ".join(f"{o.name} {1.0 / o.moments.mean:.4g}/s" for o in setting.application.operators)
        facts[cell.group] = (
            f"{rates.size:,} slots of {setting.trace.step_s:g} s, mean rate {rates.mean():.4g}, greatest "
            f"{rates.max():.4g} per second; operators, on speedup 1: {operators}; response time at most "
            f"{1000.0 * setting.r_max:.4g} ms; weights of violations {w.performance:g}, reconfigurations "
            f"{w.reconfiguration:g}, resources {w.resources:g}; plant {setting.plant}"
        )
    rows = "".join(f"<tr><td>{escape(key)}</td><td>{escape(value)}</td></tr>" for key, value in facts.items())
    return f'<h2>What was replayed</h2><table class="facts"><tbody>{rows}</tbody></table>'
