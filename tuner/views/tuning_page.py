"""Write a tuning run as one self-contained HTML page: what it searched for, what it found, and all its trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from markupsafe import Markup

from scaler.model.units import NONE, format_duration, format_fixed, format_money, format_percentage, format_share
from sim.toml_table import format_document
from tuner.views.graph import Bar, Box, draw_graph
from tuner.views.html_document import render, write_columns, write_document
from tuner.views.model_report import draw_models
from tuner.views.search_charts import COLOURS, Named, draw_front, draw_search, draw_slices, list_named
from tuner.views.strands import draw_strands
from tuner.views.tuning import MEASURES, Figures, Point, Tuning, number, rank
from tuner.views.tuning_summary import (
    NO_ERROR,
    describe_run,
    format_error,
    list_constraints,
    list_measures,
    summarise,
    write_title,
)
from tuner.views.words import Column, format_ordinal, make_columns

BEST = 20  # trials listed


class Tile(NamedTuple):
    """A figure that counts, and how far it fills its limit where it has one."""

    figure: str
    label: str
    filled: float | None = None


def write_tuning(tuning: Tuning) -> str:
    """The whole page; a part without figures is left out."""
    best = rank(tuning.points)[:BEST]
    body = render(
        "tuning.html",
        **describe_headline(tuning),
        parts=draw_parts(tuning),
        best=list_best(tuning, best) if best else [],
        chosen=[point is tuning.chosen for point in best],
        document=format_document(tuning.document) if tuning.document else "",
    )
    return write_document(write_title(tuning), body)


def describe_headline(tuning: Tuning) -> dict[str, Any]:
    """The figures that count, the sentences, and the facts of the run: the values of headline.html."""
    return {"tiles": list(list_tiles(tuning)), "sentences": summarise(tuning), "facts": describe_run(tuning)}


def draw_parts(tuning: Tuning) -> dict[str, str]:
    """All tables and charts by their headings."""
    return {**draw_result(tuning), **draw_exploration(tuning)}


def draw_result(tuning: Tuning) -> dict[str, str]:
    """What was found, by headings; the service's page of a run has it too, as it has the next."""
    parts = {
        "Tuned beside equal shares": write_comparison(tuning),
        "Bounds on the graph": draw_shares(tuning),
        "Bounds and replicas by operator": write_operators(tuning),
        "The best so far": draw_search(tuning),
        "Price against violations": draw_front(tuning),
    }
    return {head: part for head, part in parts.items() if part}


def draw_exploration(tuning: Tuning) -> dict[str, str]:
    """What was tried, and what it depends on."""
    parts = {
        "What price and violations depend on": draw_models(tuning),
        "All trials": draw_strands(tuning),
        "Price against each share and weight": draw_slices(tuning),
    }
    return {head: part for head, part in parts.items() if part}


def list_tiles(tuning: Tuning) -> Iterator[Tile]:
    tuned, (before, after) = tuning.tuned, tuning.compared
    if tuned is None or tuned.cost is None:
        return
    error = tuned.cost_error or 0.0
    yield Tile(
        format_money(tuned.cost),
        "per hour" + (f", ± {format_error(error)}" if error > NO_ERROR * tuned.cost else ""),
    )
    if before is not None and before.cost and after is not None and after.cost is not None:
        saved = before.cost - after.cost
        less = "less" if saved >= 0.0 else "more"
        share = format_share(abs(saved) / before.cost)
        yield Tile(format_money(abs(saved)), f"per hour {less} than equal shares on the same slots, {share}")
    for what, value, limit in list_constraints(tuning, tuned):
        if value is not None:
            filled = value / limit if limit else None
            yield Tile(format_share(value), f"{what}{describe_slack(value, limit)}", filled)
    confidence = None if tuning.objective is None else number(tuning.objective.evidence, "confidence")
    if confidence is not None:
        yield Tile(format_share(confidence).replace("more than", ">"), "confidence that both limits are kept")


def describe_slack(value: float, limit: float | None) -> str:
    if not limit:
        return ""
    side = "below" if value <= limit else "above"
    return f", {format_share(abs(1.0 - value / limit))} {side} the {format_share(limit)} allowed"


def write_comparison(tuning: Tuning) -> Markup | str:
    """A row per measure, with both as bars."""
    before, after = tuning.compared
    if before is None or after is None:
        return ""
    known = [name for name in MEASURES if before.measure(name) is not None or after.measure(name) is not None]
    bars = tuple(draw_bars(before.measure(name), after.measure(name)) for name in known)
    return write_columns([*list_measures(tuning, known), Column("", bars, "", "bar")])


def draw_bars(before: float | None, after: float | None) -> Markup:
    most = max(before or 0.0, after or 0.0) or 1.0
    return Markup("").join(
        Markup('<i class="{}" style="width:{:.1f}%"></i>').format(style, 100.0 * value / most)
        for value, style in ((before, "equal"), (after, "tuned"))
        if value is not None
    )


def draw_shares(tuning: Tuning) -> Markup | str:
    """The application's graph with each operator's bound, of what was chosen or came nearest above equal shares."""
    if not tuning.operators:
        return ""
    sides = [named for named in reversed(list_named(tuning)) if named.point.shares]
    greatest = max((share for side in sides for share in side.point.shares.values()), default=1.0) or 1.0
    r_max = tuning.limits.shared

    def draw_side(name: str, side: Named) -> Bar | None:
        share = side.point.shares.get(name)
        if share is None:
            return None
        bound = "" if r_max is None else format_duration(r_max * share)
        return Bar(share / greatest, COLOURS[side.style], bound, f"{100.0 * share:.1f} %")

    boxes = {name: Box(name, [draw_side(name, side) for side in sides]) for name in tuning.operators}
    legend = [(f"area {COLOURS[side.style]}", side.label) for side in sides]
    note = f"Each operator's bound, and its share of all bounds. A full bar is {100.0 * greatest:.1f} %."
    label = "Latency bounds on the application graph"
    return draw_graph(boxes, tuning.edges, label, legend, note if sides else "")


def write_operators(tuning: Tuning) -> Markup | str:
    """Bounds and mean replicas by node type, before and after, an operator a line."""
    sides = [figures for figures in (tuning.baseline, tuning.tuned) if figures is not None]
    types = list(dict.fromkeys(t for f in sides for by in f.replicas.values() for t in by))
    r_max = tuning.limits.shared
    groups: dict[str, str | None] = {"bound": None} if r_max is not None and any(f.shares for f in sides) else {}
    groups |= {f"replicas on {name}": name for name in types}
    if not groups:
        return ""
    return render(
        "operators.html",
        groups=groups,
        sides=["equal" if f is tuning.baseline else "tuned" for f in sides],
        rows={
            name: [format_cell(f, name, kind, r_max) for kind in groups.values() for f in sides]
            for name in tuning.operators
        },
    )


def format_cell(figures: Figures, operator: str, node_type: str | None, r_max: float | None) -> str:
    if node_type is None:
        share = figures.shares.get(operator)
        return NONE if share is None or r_max is None else format_duration(r_max * share)
    return format_fixed(figures.replicas.get(operator, {}).get(node_type), 2)


def list_best(tuning: Tuning, best: Sequence[Point]) -> list[Column]:
    """A column per figure, weight and share; none where all are unknown."""
    weights = (("perf", "of violations"), ("rcf", "of reconfigurations"), ("res", "of resources"))
    columns = make_columns(best, [
        ("trial", lambda p: format_ordinal(p.trial), "as `tuner trial` takes it"),
        ("limits", lambda p: "kept" if p.kind == "feasible" else "broken", "whether both were kept"),
        ("price", lambda p: format_fixed(p.trial.price), "price per hour of the replicas, mean over the slots"),
        ("±", lambda p: format_fixed(p.trial.price_error), "its standard error"),
        ("violated %", lambda p: format_percentage(p.trial.violations), "slots whose response time is over the bound"),
        ("reconf. %", lambda p: format_percentage(p.trial.reconfigurations), "slots in which replicas change"),
        ("slack", lambda p: format_fixed(p.trial.slack), "the lesser of what both limits leave, 1: all of it"),
        ("slots", lambda p: format_fixed(p.trial.slots, 0), "replayed"),
        *((f"w {key}", lambda p, key=key: format_fixed(p.weights.get(key)), says) for key, says in weights),
        *((f"{name} %", partial(format_part, name), f"share of the bound of {name}") for name in tuning.operators),
    ])  # fmt: skip
    return [column for column in columns if any(cell != NONE for cell in column.cells)]


def format_part(operator: str, point: Point) -> str:
    share = point.shares.get(operator)
    return format_fixed(None if share is None else 100.0 * share, 1)
