"""What a search found and what stands in; whether it is better beyond the noise, and why, out.

Both are replayed over the same slots with the same seeds (common random numbers), so that what is compared is the
difference seed by seed. Where nothing stands yet, equal shares and weights do.

A scaler that pursues a standing objective believes the moments that came with it. Up to its bound b it lets a replica
take x = rate within b of the old moments; the simulator's scalers know the true ones, and let it take the same at the
bound R(x) of these. So the standing objective is replayed with that bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.queueing import mg1_rate_within, mg1_response
from tuner.rollout.objective_model import MODEL
from tuner.search.engines.naive import suggest
from tuner.search.evaluation import MEASURES, average_last
from tuner.search.recommendation import verify
from tuner.search.search_plan import SearchPlan
from tuner.search.space.parameters import Parameters
from tuner.store.records import ObjectiveRecord

CONFIDENCE = 0.95
MOST = 100.0  # times R_max: the bound of who would let a replica take more than it can
ALIKE_BOUND, ALIKE_WEIGHT = 0.05, 0.02  # within which two objectives are nearly the same: a part, a difference


@dataclass(frozen=True, slots=True)
class Comparison:
    better: bool
    why: str
    figures: Mapping[str, Any]


def compare(plan: SearchPlan, found: ObjectiveRecord, standing: ObjectiveRecord | None, gain: float) -> Comparison:
    """The objective found against the one that stands, or against equal shares."""
    told = standing if standing is not None and set(standing.bounds) == set(found.bounds) else None
    other = ask_equal(plan) if told is None else to_parameters(plan, translate(plan, told))
    name = "equal shares" if told is None else f"objective {told.version}"
    qos = plan.problem.qos
    mine, runs = verify(plan.verification, to_parameters(plan, found), plan.verification_seeds, plan.held_out, qos)
    theirs, other_runs = verify(plan.verification, other, plan.verification_seeds, plan.held_out, qos)
    ours, its = (np.array([average_last(run, 0) for run in group]) for group in (runs, other_runs))  # [seeds, 3]
    column = {measure: i for i, measure in enumerate(MEASURES)}
    figures = {
        "against": None if told is None else told.version,
        "seeds": len(runs),
        "cost": mine.whole.cost,
        "other_cost": theirs.whole.cost,
        "violations": mine.whole.violations,
        "other_violations": theirs.whole.violations,
        "reconfigurations": mine.whole.reconfigurations,
        "other_reconfigurations": theirs.whole.reconfigurations,
        "confidence": mine.confidence,
    }
    if not mine.passes(qos):
        why = f"replayed beside {name}, it keeps the constraints with a confidence of {mine.confidence:.0%} only"
        return Comparison(False, why, figures)
    for measure, limit, says in (
        ("violations", qos.eta_v, "breaks R_max"),
        ("reconfigurations", qos.eta_r, "changes the deployment"),
    ):
        over = its[:, column[measure]] - limit
        if is_positive(over):
            why = f"{name} by now {says} in {over.mean() + limit:.1%} of the slots, where {limit:.1%} is allowed"
            return Comparison(True, f"{why}, and the new one does not", {**figures, "by": measure})
    if told is None:
        return weigh_first(ours, its, column["resources"], theirs.passes(qos), figures)
    saved = (1.0 - gain) * its[:, column["resources"]] - ours[:, column["resources"]]
    part = 1.0 - mine.whole.cost / theirs.whole.cost if theirs.whole.cost > 0.0 else 0.0
    if is_positive(saved):
        why = f"it costs {part:.1%} less than {name} ({mine.whole.cost:.4g} against {theirs.whole.cost:.4g} per hour)"
        return Comparison(True, why, {**figures, "by": "cost", "saves": part})
    why = f"it would save {part:.1%} of what {name} costs, and {gain:.0%} beyond the noise is wanted"
    return Comparison(False, why, {**figures, "saves": part})


def weigh_first(ours: Floats, its: Floats, cost: int, kept: bool, figures: Mapping[str, Any]) -> Comparison:
    """Where scalers pursue nothing yet, what keeps the constraints is better, unless equal shares would cost less."""
    if kept and is_positive(ours[:, cost] - its[:, cost]):
        return Comparison(False, "nothing is pursued yet, but equal shares would cost less, beyond the noise", figures)
    why = "nothing is pursued yet, it keeps the constraints, and equal shares would cost no less"
    return Comparison(True, why, {**figures, "by": "first"})


def is_positive(differences: Floats) -> bool:
    """Whether the mean is above zero, by Student's test of one side."""
    from scipy.special import stdtrit

    mean, count = float(differences.mean()), differences.size
    error = float(differences.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    return mean > 0.0 and mean > float(stdtrit(max(1, count - 1), CONFIDENCE)) * error


def to_parameters(plan: SearchPlan, objective: ObjectiveRecord) -> Parameters:
    """As a search would have written the objective down."""
    space = plan.problem.space
    return Parameters(tuple(objective.bounds[name] / space.r_max for name in space.operators), objective.weights)


def translate(plan: SearchPlan, standing: ObjectiveRecord) -> ObjectiveRecord:
    """The bounds that lead scalers who know what tuples take by now to do what the standing ones lead to."""
    believed = standing.evidence.get(MODEL, {}).get("operators", {})
    bounds = dict(standing.bounds)
    for operator in plan.verification.application.operators:
        was, true = believed.get(operator.name), operator.moments
        if was is not None and (was["mean"], was["variance"]) != (true.mean, true.variance):
            each = mg1_rate_within(bounds[operator.name], was["mean"], was["variance"], 1.0)
            reached = mg1_response(each, true.mean, true.variance, 1.0)
            bounds[operator.name] = min(max(reached, 1e-9), MOST * plan.problem.space.r_max)
    return replace(standing, bounds=bounds)


def ask_equal(plan: SearchPlan) -> Parameters:
    return suggest(plan.problem, (), plan.seed)[0].parameters


def find_alike(found: ObjectiveRecord, reverted: Sequence[ObjectiveRecord]) -> ObjectiveRecord | None:
    """One that was rolled back and stems from the same surrogate, or says nearly the same."""
    for one in reverted:
        same = found.surrogate_id is not None and one.surrogate_id == found.surrogate_id
        if same or are_alike(found, one):
            return one
    return None


def are_alike(a: ObjectiveRecord, b: ObjectiveRecord) -> bool:
    if set(a.bounds) != set(b.bounds):
        return False
    bounds = max(abs(a.bounds[name] / b.bounds[name] - 1.0) for name in a.bounds)
    pairs = (
        (a.weights.performance, b.weights.performance),
        (a.weights.reconfiguration, b.weights.reconfiguration),
        (a.weights.resources, b.weights.resources),
    )
    return bounds <= ALIKE_BOUND and max(abs(x - y) for x, y in pairs) <= ALIKE_WEIGHT
