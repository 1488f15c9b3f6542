"""A tuning run in, one self-contained HTML page out: what was asked, what was found, and the way there."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tuner.scenario.toml_table import format_document
from tuner.views.comparison_table import Column
from tuner.views.dots import STYLE as ROOMY
from tuner.views.html_page import write_columns, write_style
from tuner.views.search_charts import STYLE as SLICES
from tuner.views.search_charts import draw_front, draw_search, draw_slices
from tuner.views.shares_chart import STYLE as GRAPH
from tuner.views.shares_chart import draw_shares
from tuner.views.strands import STYLE as STRANDS
from tuner.views.strands import draw_strands
from tuner.views.trial_dots import STYLE as DOTS
from tuner.views.tuning import Figures, Point, Tuning, number, rank
from tuner.views.tuning_words import (
    NONE,
    list_facts,
    list_measures,
    measure,
    milliseconds,
    money,
    percent,
    say_found,
    say_title,
)

BEST = 20  # trials listed
LOOKS = """
body { max-width: 1240px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(185px, 1fr)); gap: 12px; margin: 18px 0 20px; }
.top { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); }
.top { gap: 10px 44px; align-items: start; } .top td:first-child { padding-left: 0; }
.top table { width: 100%; } .top td { padding: 3px 10px; font-size: 14px; } .top p { margin: 2px 0 10px; }
.tile { background: var(--raised); border: 1px solid var(--rule); border-radius: 8px; padding: 10px 16px 12px; }
.tile { display: flex; flex-direction: column; } .tile .track { margin-top: auto; } .tile small { margin-bottom: 6px; }
.tile b { display: block; font-size: 1.55rem; line-height: 1.3; font-weight: 650; font-variant-numeric: tabular-nums; }
.tile small { color: var(--faint); font-size: 13px; }
.tile i, .bar i { display: block; height: 6px; border-radius: 3px; background: var(--c2); }
.tile .track { background: var(--rule); border-radius: 3px; }
.wide th, .wide td { padding: 4px 10px; font-size: 13px; }
.wide th:first-child, .wide td:first-child { padding-left: 0; }
.bar { min-width: 220px; } .bar i { height: 9px; margin: 3px 0; } .bar .equal { background: var(--c3); opacity: .75; }
.split { border-left: 1px solid var(--rule); } th.group { text-align: center; border-left: 1px solid var(--rule); }
tbody .now { font-weight: 600; }
"""


def write_tuning(tuning: Tuning) -> str:
    """The whole page; a part that nothing is known for is left out."""
    title = escape(say_title(tuning))
    style = "".join((write_style(), ROOMY, DOTS, SLICES, STRANDS, GRAPH, LOOKS))
    parts = (
        *draw_parts(tuning),
        (f"The best {min(BEST, len(rank(tuning.points)))} trials", write_best(tuning)),
        ("What was tuned", write_document(tuning)),
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style></head><body>\n"
        f"<h1>{title}</h1>\n{write_headline(tuning)}"
        f"{''.join(f'<h2>{head}</h2>{part}' for head, part in parts if part)}</body></html>\n"
    )


def draw_parts(tuning: Tuning) -> list[tuple[str, str]]:
    """What is to be looked at, with its heading; the service's page of a run has it too."""
    return [
        ("Tuned beside equal shares", write_comparison(tuning)),
        ("Bounds on the graph", draw_shares(tuning)),
        ("Bounds and replicas by operator", write_operators(tuning)),
        ("The best so far", draw_search(tuning)),
        ("Cost against violations", draw_front(tuning)),
        ("All that was tried", draw_strands(tuning)),
        ("Cost against each share and weight", draw_slices(tuning)),
    ]


def write_headline(tuning: Tuning) -> str:
    """The figures that count, the sentences, and what was asked."""
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in say_found(tuning))
    facts = "".join(f"<tr><td>{key}</td><td>{escape(value)}</td></tr>" for key, value in list_facts(tuning).items())
    table = f'<table class="facts"><tbody>{facts}</tbody></table>'
    return f'{write_tiles(tuning)}<div class="top"><div>{said}</div>{table}</div>'


def write_tiles(tuning: Tuning) -> str:
    tuned, before = tuning.tuned, tuning.baseline
    if tuned is None or tuned.cost is None:
        return ""
    error = f", ± {money(tuned.cost_error)}" if tuned.cost_error else ""
    tiles = [write_tile(money(tuned.cost), f"per hour{error}")]
    if before is not None and before.cost:
        saved = before.cost - tuned.cost
        less = "less" if saved >= 0.0 else "more"
        share = percent(abs(saved) / before.cost)
        tiles.append(write_tile(money(abs(saved)), f"per hour {less} than equal shares, {share}"))
    for what, value, limit in (
        ("late", tuned.violations, tuning.limits.eta_v),
        ("reconfigured", tuned.reconfigurations, tuning.limits.eta_r),
    ):
        if value is not None:
            tiles.append(write_tile(percent(value), f"of slots {what}{say_slack(value, limit)}", fill(value, limit)))
    confidence = None if tuning.objective is None else number(tuning.objective.evidence, "confidence")
    if confidence is not None:
        tiles.append(write_tile(percent(confidence), "confidence that both limits are kept"))
    return f'<div class="tiles">{"".join(tiles)}</div>'


def say_slack(value: float, limit: float | None) -> str:
    if limit is None:
        return ""
    side = "below" if value <= limit else "above"
    return f", {percent(abs(1.0 - value / limit))} {side} the {percent(limit)} allowed"


def fill(value: float, limit: float | None) -> float | None:
    return value / limit if limit else None


def write_tile(figure: str, says: str, filled: float | None = None) -> str:
    bar = ""
    if filled is not None:
        colour = "var(--alarm)" if filled > 1.0 else "var(--c2)"
        width = f"width:{100.0 * min(1.0, filled):.1f}%;background:{colour}"
        bar = f'<div class="track"><i style="{width}"></i></div>'
    return f'<div class="tile"><b>{escape(figure)}</b><small>{escape(says)}</small>{bar}</div>'


def write_comparison(tuning: Tuning) -> str:
    """A row per measure, with both as bars."""
    if tuning.baseline is None or tuning.tuned is None:
        return ""
    columns = list_measures(tuning)
    names = ("cost", "violations", "reconfigurations", "replicas")
    heads = "".join(f"<th>{escape(c.head)}</th>" for c in columns)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(c.cells[i])}</td>' for c in columns)}"
        f'<td class="bar">{draw_bars(tuning, name)}</td></tr>'
        for i, name in enumerate(names)
        if columns[1].cells[i] != NONE or columns[2].cells[i] != NONE
    )
    return f'<div class="wide"><table><thead><tr>{heads}<th></th></tr></thead><tbody>{rows}</tbody></table></div>'


def draw_bars(tuning: Tuning, name: str) -> str:
    before, after = measure(tuning.baseline, name), measure(tuning.tuned, name)
    most = max(before or 0.0, after or 0.0) or 1.0
    return "".join(
        f'<i class="{style}" style="width:{100.0 * value / most:.1f}%"></i>'
        for value, style in ((before, "equal"), (after, "tuned"))
        if value is not None
    )


def write_operators(tuning: Tuning) -> str:
    """Bounds and mean replicas by node type, before and after, an operator a line."""
    sides = [figures for figures in (tuning.baseline, tuning.tuned) if figures is not None]
    types = list(dict.fromkeys(t for f in sides for by in (f.replicas or {}).values() for t in by))
    r_max = tuning.limits.r_max
    known = r_max is not None and any(f.shares for f in sides)
    groups: list[tuple[str, str | None]] = [("bound", None)] if known else []
    groups += [(f"replicas on {name}", name) for name in types]
    if not groups or not sides:
        return ""
    first = "".join(f'<th class="group" colspan="{len(sides)}">{escape(head)}</th>' for head, _ in groups)
    heads = ["equal" if f is tuning.baseline else "tuned" for f in sides]
    splits = [' class="split"' * (i == 0) for i in range(len(sides))]
    second = "".join(f"<th{split}>{head}</th>" for _ in groups for split, head in zip(splits, heads, strict=True))
    looks = [f' class="{"split" * (i == 0)}{" now" * (f is tuning.tuned)}"' for i, f in enumerate(sides)]
    rows = []
    for name in tuning.operators:
        cells = "".join(
            f"<td{looks[i]}>{say_cell(f, name, kind, r_max)}</td>" for _, kind in groups for i, f in enumerate(sides)
        )
        rows.append(f"<tr><td>{escape(name)}</td>{cells}</tr>")
    return (
        f'<div class="wide"><table><thead><tr><th></th>{first}</tr><tr><th>operator</th>{second}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def say_cell(figures: Figures, operator: str, node_type: str | None, r_max: float | None) -> str:
    if node_type is None:
        share = (figures.shares or {}).get(operator)
        return NONE if share is None or r_max is None else milliseconds(float(f"{r_max * share:.3g}"))
    used = (figures.replicas or {}).get(operator, {}).get(node_type)
    return NONE if used is None else f"{used:.2f}"


def write_best(tuning: Tuning) -> str:
    best = rank(tuning.points)[:BEST]
    if not best:
        return ""
    marked = [point is tuning.chosen for point in best]
    return write_columns(list_best(tuning, best), marked)


def list_best(tuning: Tuning, best: Sequence[Point]) -> list[Column]:
    """A column per figure, weight and share."""

    def figures(head: str, values: Sequence[float | None], digits: int, reading: str) -> Column:
        return Column(head, tuple(NONE if v is None else f"{v:.{digits}f}" for v in values), reading)

    def shares(values: Sequence[float | None]) -> list[float | None]:
        return [None if v is None else 100.0 * v for v in values]

    trials = [point.trial for point in best]
    columns = [
        Column("trial", tuple(str(t.number) for t in trials), "its number in the run"),
        Column("limits", tuple("kept" if p.kind == "feasible" else "broken" for p in best), "whether both were kept"),
        figures("cost", [t.cost for t in trials], 3, "price per hour of the replicas, mean over the slots"),
        figures("±", [t.cost_error for t in trials], 3, "its standard error"),
        figures("violated %", shares([t.violations for t in trials]), 2, "slots that answer late"),
        figures("reconf. %", shares([t.reconfigurations for t in trials]), 2, "slots in which replicas change"),
        figures("slack", [t.slack for t in trials], 3, "the lesser of what both limits leave, 1: all of it"),
        Column("slots", tuple(NONE if t.slots is None else f"{t.slots:,}" for t in trials), "replayed"),
        *(
            figures(f"w {key}", [p.weights.get(key) for p in best], 3, says)
            for key, says in (("perf", "of violations"), ("rcf", "of reconfigurations"), ("res", "of resources"))
        ),
    ]
    columns += [
        figures(f"{name} %", shares([p.shares.get(name) for p in best]), 1, f"share of R_max of {name}")
        for name in tuning.operators
    ]
    return [column for column in columns if any(cell != NONE for cell in column.cells)]


def write_document(tuning: Tuning) -> str:
    if not tuning.document:
        return ""
    text = escape(format_document(tuning.document))
    return f"<details><summary>The application's document</summary><pre>{text}</pre></details>"
