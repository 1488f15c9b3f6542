"""Report a comparison of policies: the columns of its table, one self-contained HTML page, JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from scaler.model.units import format_bytes, format_count, format_percentage, format_rate
from sim.floor import Bound
from sim.simulate import MEASURES
from sim.toml_table import format_document
from sim.trace import EPOCH
from tuner.scenario.scenario import Scenario
from tuner.simulation.comparison import ComparisonRow, Figure, PolicyComparison, is_hold_modelled
from tuner.simulation.course import ReplayCourse
from tuner.views.course_charts import Frame, chart_costs, draw_policy, limit_columns
from tuner.views.html_document import render, write_document, write_readings
from tuner.views.words import Column, make_columns, to_finite


def list_columns(comparison: PolicyComparison) -> list[Column]:
    """All columns of the table but the policies' names."""
    bound = comparison.bound
    types = [node.name for node in comparison.scenario.settings[0].infrastructure.types]
    floors: list[tuple[str, Callable[[ComparisonRow], str], str]] = []
    if bound is not None:
        least = "the optimum" if bound.exact else "below which none gets"
        reading = f"cost over {bound.lower:.4f}, {least} with the whole trace known beforehand"
        floors.append(("x floor", lambda row: f"{bound.multiple(row.cost.mean):.2f}", reading))
    holds: list[tuple[str, Callable[[ComparisonRow], str], str]] = []
    if is_hold_modelled(comparison.scenario):
        holds = [
            (
                "held s", lambda r: f"{r.holds['held_seconds']:.1f}",
                "seconds in all for which reconfigurations held arrivals, each by the share that it held",
            ),
            ("moved", lambda r: format_bytes(round(r.holds["moved_bytes"])), "state that changes moved in all"),
            (
                "extra memory", lambda r: format_bytes(round(r.holds["peak_extra_bytes"])),
                "the most memory that a reconfiguration of an operator took beside the usual",
            ),
        ]  # fmt: skip
    operators = [one.name for one in comparison.scenario.settings[0].application.operators]
    refused: list[tuple[str, Callable[[ComparisonRow], str], str]] = []
    if any(row.refused is not None for row in comparison.rows):
        reading = "mean replicas that a slot asked for and the supply did not have, by operator"
        refused = [("refused", partial(format_refused, operators), reading)]
    return make_columns(comparison.rows, [
        ("cost", lambda r: format_figure(r.cost), "what a slot costs by the three weights, 0 to 1; less is better"),
        *floors,
        (
            "violated %", lambda r: format_percentage(r.violations.mean),
            "share of the slots that answer later than R_max",
        ),
        (
            "reconf. %", lambda r: format_percentage(r.reconfigurations.mean),
            "share of the slots in which a replica is added or removed",
        ),
        *holds,
        *refused,
        ("resources", lambda r: f"{r.resources.mean:.2f}", "mean price per hour of the replicas that run"),
        *((name, partial(format_replicas, i), f"mean replicas on {name}") for i, name in enumerate(types)),
        ("memory", lambda r: format_bytes(r.policy_bytes), "what the policy holds in its tables at the end"),
        ("slots/s", lambda r: format_rate(r.slots_per_second), "slots simulated per second, all operators"),
    ])  # fmt: skip


def format_replicas(node_type: int, row: ComparisonRow) -> str:
    """Mean replicas on a node type, over all operators."""
    return f"{row.replicas.sum(axis=0)[node_type]:.2f}"


def format_refused(operators: Sequence[str], row: ComparisonRow) -> str:
    """Replicas a slot, by operator where there are several."""
    if row.refused is None:
        return "-"
    if len(operators) == 1:
        return f"{row.refused[0]:.2f}"
    return ", ".join(f"{name} {count:.2f}" for name, count in zip(operators, row.refused, strict=True))


def explain_supply(comparison: PolicyComparison) -> str:
    """How many replicas there are, and who gets the last of them; empty where they have no end."""
    setting, best = comparison.scenario.settings[0], comparison.best
    names = [operator.name for operator in setting.application.operators]
    types = setting.infrastructure.types
    finite = [f"{node.supply.capacity} {node.name}" for node in types if node.supply.capacity is not None]
    if not finite or best.refused is None:
        return ""
    there = f"There are {' and '.join(finite)}"
    if len(names) == 1:
        return f"{there}; what is asked for beyond is refused."
    rule = (
        "the last replicas of a slot go to the operator that gains most by its first one, as its policy values it, or "
        "that is latest against its bound under a policy that values none"
    )
    ranked = sorted(zip(best.refused.tolist(), names, strict=True))
    (least, first), (most, last) = ranked[0], ranked[-1]
    if most == 0.0:
        told = "nobody was refused any"
    elif least == most:
        told = f"all were refused {most:.2f} alike"
    else:
        told = f"{first} was refused least ({least:.2f} a slot) and {last} most ({most:.2f})"
    return f"{there}; {rule}. Under {best.policy} {told}."


def format_figure(figure: Figure) -> str:
    """A mean and its standard error, where there is one."""
    error = f"{figure.error:.4f}" if math.isfinite(figure.error) else "     -"
    return f"{figure.mean:.4f} ± {error}"


def explain_standard_error(seeds: Sequence[int]) -> str:
    """What the figure after the ± is."""
    if len(seeds) == 1:
        return f"± is one standard error, from the means of blocks of slots; seed {seeds[0]}."
    return f"Means over {len(seeds)} seeds; ± is one standard error over them (0: nothing is left to chance)."


def choose_columns(scenario: Scenario) -> int:
    """How many columns each chart of the page has."""
    setting = scenario.settings[0]
    operators, types = len(setting.application.operators), len(setting.infrastructure.types)
    charts = operators + 1 if operators > 1 else 1
    return limit_columns(len(scenario.settings) * (4 + charts * (3 + 3 + types)))


def write_comparison(comparison: PolicyComparison, courses: Sequence[ReplayCourse]) -> str:
    """The whole page; the rows of its table stand in the order asked for, and the cheapest stands out."""
    setting, best, columns = comparison.scenario.settings[0], comparison.best, list_columns(comparison)
    frame = Frame(
        start=None if setting.trace.start == EPOCH else setting.trace.start.timestamp(),
        seconds=setting.trace.rates.size * setting.trace.step_s,
        node_types=tuple(node.name for node in setting.infrastructure.types),
    )
    named = [(row.title, course) for row, course in zip(comparison.rows, courses, strict=True)]
    floor = comparison.bound.lower if comparison.bound else None
    policies = tuple(f"{row.title} ({row.policy})" for row in comparison.rows)
    body = render(
        "comparison.html",
        scenario=comparison.scenario,
        setting=setting,
        best=best,
        names=Column("policy", policies, "as --policy names it"),
        measures=columns,
        readings=write_readings(columns),
        chosen=[row is best for row in comparison.rows],
        errors=explain_standard_error(comparison.scenario.seeds),
        supply=explain_supply(comparison),
        costs=chart_costs(frame, named, floor).render() if len(named) > 1 else "",
        policies=[(title, draw_policy(frame, course, setting.r_max)) for title, course in named],
        document=format_document(comparison.scenario.document),
    )
    title = f"{comparison.scenario.name}: {format_count(len(comparison.rows), 'policy', 'policies')} compared"
    return write_document(title, body)


def describe_comparison(comparison: PolicyComparison) -> dict[str, Any]:
    """The comparison as plain values for JSON; what is not finite is None."""
    setting = comparison.scenario.settings[0]
    return to_finite(
        {
            "scenario": comparison.scenario.document,
            "slots": setting.trace.rates.size,
            "seeds": comparison.scenario.seeds,
            "node_types": [node.to_json() for node in setting.infrastructure.types],
            "operators": [operator.name for operator in setting.application.operators],
            "supply": explain_supply(comparison) or None,
            "floor": None if comparison.bound is None else describe_floor(comparison.bound),
            "policies": [
                describe_row(row, comparison.bound) | (row.holds if is_hold_modelled(comparison.scenario) else {})
                for row in comparison.rows
            ],
        }
    )


def describe_floor(bound: Bound) -> dict[str, Any]:
    return {"cost": bound.lower, "exact": bound.exact}


def describe_row(row: ComparisonRow, bound: Bound | None) -> dict[str, Any]:
    return {
        "policy": row.policy,
        "title": row.title,
        **{name: asdict(getattr(row, name)) for name in MEASURES},
        "times_floor": None if bound is None else bound.multiple(row.cost.mean),
        "replicas": row.replicas.tolist(),
        "refused": None if row.refused is None else row.refused.tolist(),
        "policy_bytes": row.policy_bytes,
        "slots_per_second": row.slots_per_second,
        "runs": [{name: getattr(run, name) for name in ("seed", *MEASURES, "errors", "seconds")} for run in row.runs],
    }
