"""Compare a proposed objective with the one in full use: is it better beyond the noise, and why.

Both are replayed over the same slots with the same seeds (common random numbers), so that the difference is compared
seed by seed. Before there is one in full use, equal shares and weights stand for it.

Agents that pursue the objective in full use assume the moments that came with it. Up to its bound b they let a replica
take x = rate within b of these old moments; the simulator's agents know the true moments, and let it take the same x at
the bound R(x) of these. So the objective in full use is replayed with that bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.queue_quantiles import replica_rate_within, replica_response_time
from scaler.model.units import format_share
from tuner.search.engines.naive import suggest
from tuner.search.evaluation import MEASURES, average_last
from tuner.search.recommendation import Verification, verify
from tuner.search.search_plan import SearchPlan
from tuner.search.space.space import Parameters
from tuner.store.objectives import Improvement, ObjectiveEvidence
from tuner.store.records import ObjectiveRecord
from tuner.surrogate.estimate import student

CONFIDENCE = 0.95
MAX_BOUND = 100.0  # times R_max: stands for the bound of a replica that takes more than it can serve
SIMILAR_BOUND, SIMILAR_WEIGHT = 0.05, 0.02  # relative and absolute difference of objectives that are nearly the same


def compare(plan: SearchPlan, found: ObjectiveRecord, standing: ObjectiveRecord | None, gain: float) -> Improvement:
    """Compare the proposed objective with the one in full use, or with equal shares."""
    known = standing if standing is not None and set(standing.bounds) == set(found.bounds) else None
    if known is None:
        name, other = "equal shares", suggest(plan.problem, (), plan.seed)[0].parameters
    else:
        name, other = f"objective {known.version}", to_parameters(plan, translate(plan, known))
    (mine, ours), (theirs, its) = (replay(plan, parameters) for parameters in (to_parameters(plan, found), other))
    figures = Improvement(
        against=None if known is None else known.version,
        seeds=len(ours["resources"]),
        cost=mine.whole.price,
        other_cost=theirs.whole.price,
        violations=mine.whole.violations,
        other_violations=theirs.whole.violations,
        reconfigurations=mine.whole.reconfigurations,
        other_reconfigurations=theirs.whole.reconfigurations,
        confidence=mine.confidence,
    )
    qos = plan.problem.qos
    if not mine.passes(qos):
        confidence = format_share(mine.confidence)
        why = f"replayed beside {name}, it keeps the constraints with a confidence of {confidence} only"
        return replace(figures, why=why)
    for measure, limit, verb in (
        ("violations", qos.eta_v, "breaks R_max"),
        ("reconfigurations", qos.eta_r, "changes the deployment"),
    ):
        over = its[measure] - limit
        if is_positive(over):
            why = f"{name} by now {verb} in {format_share(over.mean() + limit)} of the slots"
            why += f", where {format_share(limit)} is allowed, and the new one does not"
            return replace(figures, why=why, by=measure)
    if known is None:
        if theirs.passes(qos) and is_positive(ours["resources"] - its["resources"]):
            return replace(figures, why="nothing is pursued yet, but equal shares would cost less, beyond the noise")
        why = "nothing is pursued yet, it keeps the constraints, and equal shares would cost no less"
        return replace(figures, why=why, by="first")
    saves = 1.0 - mine.whole.price / theirs.whole.price if theirs.whole.price > 0.0 else 0.0
    if is_positive((1.0 - gain) * its["resources"] - ours["resources"]):
        prices = f"{mine.whole.price:.4g} against {theirs.whole.price:.4g} per hour"
        return replace(
            figures, why=f"it costs {format_share(saves)} less than {name} ({prices})", by="cost", saves=saves
        )
    why = (
        f"it would save {format_share(saves)} of what {name} costs, and {format_share(gain)} beyond the noise is wanted"
    )
    return replace(figures, why=why, saves=saves)


def replay(plan: SearchPlan, parameters: Parameters) -> tuple[Verification, dict[str, Floats]]:
    """Verify the parameters over the plan's slots; each measure by seed besides."""
    done, runs = verify(plan.verification, parameters, plan.held_out)
    return done, dict(zip(MEASURES, np.array([average_last(run, 0) for run in runs]).T, strict=True))


def is_positive(differences: Floats) -> bool:
    """Whether the mean is above zero, by Student's one-sided test."""
    mean, count = float(differences.mean()), differences.size
    error = float(differences.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    return mean > 0.0 and mean > student(CONFIDENCE, max(1, count - 1)) * error


def to_parameters(plan: SearchPlan, objective: ObjectiveRecord) -> Parameters:
    """The objective as a point of the search's space."""
    space = plan.problem.space
    return Parameters(tuple(objective.bounds[name] / space.r_max for name in space.operators), objective.weights)


def translate(plan: SearchPlan, standing: ObjectiveRecord) -> ObjectiveRecord:
    """Bounds that lead agents with the true moments to do what the old bounds lead to with the old moments."""
    model = ObjectiveEvidence.from_json(standing.evidence).model
    bounds, quantile = dict(standing.bounds), plan.verification.setting.quantile
    for operator in plan.verification.setting.application.operators:
        was, true = None if model is None else model.operators.get(operator.name), operator.moments
        if was is not None and (was.moments.mean, was.moments.variance) != (true.mean, true.variance):
            each = replica_rate_within(bounds[operator.name], was.moments.mean, was.moments.variance, 1.0, quantile)
            reached = replica_response_time(each, true.mean, true.variance, 1.0, quantile)
            bounds[operator.name] = min(max(reached, 1e-9), MAX_BOUND * plan.problem.space.r_max)
    return replace(standing, bounds=bounds)


def find_similar(found: ObjectiveRecord, reverted: Sequence[ObjectiveRecord]) -> ObjectiveRecord | None:
    """A reverted objective from the same surrogate, or with nearly the same bounds and weights."""
    return next((one for one in reverted if are_similar(found, one)), None)


def are_similar(a: ObjectiveRecord, b: ObjectiveRecord) -> bool:
    if a.surrogate_id is not None and a.surrogate_id == b.surrogate_id:
        return True
    if set(a.bounds) != set(b.bounds):
        return False
    bounds = max(abs(a.bounds[name] / b.bounds[name] - 1.0) for name in a.bounds)
    weights = max(abs(a.weights.to_json()[name] - weight) for name, weight in b.weights.to_json().items())
    return bounds <= SIMILAR_BOUND and weights <= SIMILAR_WEIGHT
