"""Write a run of the live demo as one self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from scaler.model.decision import SCALED, Decision
from scaler.model.kernel import Floats
from tuner.history.scene import Moment, Scene
from tuner.simulation.columns import Columns
from tuner.views.course_charts import Frame, chart_replicas, chart_response
from tuner.views.html_document import write_document


def write_page(scene: Scene, totals: Mapping[str, Any], static: Mapping[str, int], price: float) -> str:
    """`static`: replicas of each operator that cost `price` each, to hold the cost against."""
    return write_document(
        "Scalers at work on a real cluster",
        f"{write_summary(scene, totals, static, price)}{write_costs(scene, static, price)}\n"
        f"{''.join(write_operator(scene, operator) for operator in scene.operators)}{write_decisions(scene)}",
    )


def write_summary(scene: Scene, totals: Mapping[str, Any], static: Mapping[str, int], price: float) -> str:
    whole = scene.static_cost(static, price)
    share = f", {scene.cost / whole:.0%} of what static large would have cost" if whole > 0.0 else ""
    exact = "all counted once" if totals.get("exact") else f"but {totals.get('counted', 0):,} counted"
    exact += "" if totals.get("ended", True) else " when time was up"
    return (
        f"<p>{totals.get('lines', 0):,} lines, {totals.get('words', 0):,} words, {exact}, in {scene.seconds:.0f} s; "
        f"{scene.changes} changes of replicas. Cost: <b>{scene.cost:.4f}</b>{share}.</p>"
    )


def write_costs(scene: Scene, static: Mapping[str, int], price: float) -> str:
    rows = []
    for operator in scene.operators:
        late = scene.late_share(operator)
        alone = scene.static_cost({operator: static.get(operator, 0)}, price)
        cells = (
            operator, f"{scene.cost_of(operator):.4f}", f"{alone:.4f}", str(static.get(operator, 0)),
            "not known" if late is None else f"{late:.0%}",
        )  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    heads = ("operator", "cost", "static large", "its replicas", "slots late")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        '<p class="faint">Costs in the money of the node types\' prices per hour. Static large is computed, not run: '
        "as many large replicas as the model of the operator needs at the highest rate, all the time.</p>"
    )


def write_operator(scene: Scene, operator: str) -> str:
    decisions = scene.of(operator)
    if not decisions:
        return f"<h2>{escape(operator)}</h2><p>It decided nothing.</p>"
    at: Floats = (np.arange(len(decisions)) + 0.5) / len(decisions)
    frame = Frame(None, len(decisions) * scene.slot_s, scene.node_types)
    bound = next((d.bound for d in reversed(decisions) if d.bound is not None), None)
    response, rates = lay_out([d.response for d in decisions]), lay_out([d.rate for d in decisions])
    charts = []
    if bound is not None and np.isfinite(response.mean).any():
        charts.append(chart_response(frame, at, response, bound, operator))
    if np.isfinite(rates.mean).any():
        replicas = np.array([[held.get(name, 0) for name in scene.node_types] for held in carry_on(decisions)], float)
        charts.append(chart_replicas(frame, at, replicas, rates, operator))
    return f"<h2>{escape(operator)}</h2>{''.join(chart.render() for chart in charts)}"


def lay_out(values: Sequence[float | None]) -> Columns:
    """A column a slot; what is not known breaks the line, and is no overload."""
    infinite = np.array([value is not None and math.isinf(value) for value in values], dtype=np.int64)
    finite = np.array([math.nan if value is None or math.isinf(value) else value for value in values])
    return Columns(finite, finite, finite, infinite)


def carry_on(decisions: Sequence[Decision]) -> Iterator[Mapping[str, int]]:
    """Replicas of each; where they are not known, those that were last, or first."""
    deployments = [decision.seen.deployment for decision in decisions]
    held: Mapping[str, int] = next(filter(None, deployments), {})
    for deployment in deployments:
        held = deployment or held
        yield held


def write_decisions(scene: Scene) -> str:
    rows = "".join(write_decision(moment, scene.began) for moment in scene.moments)
    heads = "".join(f"<th>{name}</th>" for name in ("at", "operator", "what", "why"))
    return (
        f'<h2>Decisions</h2><div class="wide"><table class="why"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def write_decision(moment: Moment, began: float) -> str:
    decision = moment.decision
    what = f"{decision.kind} {decision.action}" if decision.action else decision.kind
    best = ' class="best"' if decision.kind == SCALED else ""
    cells = (f"{decision.time - began:.0f} s", moment.operator, what, decision.reason)
    return f"<tr{best}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
