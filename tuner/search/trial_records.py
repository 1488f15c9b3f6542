"""Convert evaluations and verifications to trials of the store and back, and a trial to its scenario."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scaler.model.errors import BadInput
from scaler.policies import find_policy
from tuner.scenario.description import tables_of
from tuner.scenario.document import Document, thaw
from tuner.scenario.scenario import lay_over
from tuner.search.evaluation import Evaluation, describe_replicas
from tuner.search.recommendation import Verification
from tuner.search.search_plan import SearchPlan
from tuner.search.space.space import FIGURES, EvaluationOutcome, measure_slack, meets, to_document
from tuner.search.warm_start import read_outcome
from tuner.store.records import Trial, TrialDetail, TuningRun


def write_trial(
    plan: SearchPlan,
    run: TuningRun,
    trials: Sequence[Trial],
    result: Evaluation,
    began: float,
    ended: float,
    detail: TrialDetail,
) -> Trial:
    """A result as the database keeps it; `detail` says what it was for."""
    outcome, failed = result.outcome, result.failure is not None
    about = replace(
        detail,
        policy=plan.verification.setting.policy,
        seeds=result.seeds,
        slots_saved=result.saved,
        replicas={} if failed else describe_replicas(plan.verification.setting, result.replicas),
    )
    return Trial(
        run_id=number_of(run),
        number=len(trials),
        parameters=to_document(plan.problem.space.operators, outcome.parameters),
        state="failed" if failed else "complete" if outcome.whole else "pruned",
        seed=result.seeds[0] if result.seeds else plan.seed,
        started=began,
        ended=ended,
        **{name: getattr(outcome, name) for name in FIGURES},
        feasible=None if failed else outcome.whole and meets(outcome, plan.problem.qos),
        slack=measure_slack(outcome, plan.problem.qos),
        slots=result.slots,
        seconds=result.seconds,
        surrogate_id=plan.surrogate_id,
        trace=plan.verification.setting.trace.name,
        failure=result.failure,
        detail=about.to_json(),
    )


def of_purpose(trials: Sequence[Trial], purpose: str) -> list[Trial]:
    return [trial for trial in trials if trial.about.purpose == purpose]


def to_outcome(plan: SearchPlan, trial: Trial) -> EvaluationOutcome:
    return read_outcome(plan.problem.space.operators, trial)


def to_verification(plan: SearchPlan, trial: Trial) -> Verification:
    whole = to_outcome(plan, trial)
    about = trial.about
    if about.held_out is None or about.confidence is None:
        raise ValueError(f"trial {trial.number} of run {trial.run_id} is no verification")
    seen = about.held_out
    price, late, moved = (math.nan if x is None else x for x in (seen.price, seen.violations, seen.reconfigurations))
    held_out = replace(whole, price=price, violations=late, reconfigurations=moved)
    return Verification(whole, held_out, about.confidence)


def number_of(run: TuningRun) -> int:
    if run.id is None:
        raise ValueError("the run has not been saved")
    return run.id


def restate(trial: Trial, run: TuningRun, described: Mapping[str, Any]) -> Document:
    """What the run was asked, with the trial's bounds, weights, policy and seeds; `described` where it says nothing."""
    document = run.settings.get("document") or described
    if "shares" not in trial.parameters or "weights" not in trial.parameters:
        raise BadInput(f"trial {trial.ordinal} has no shares and weights to replay; it is of an older program")
    tables = tables_of(document)
    qos = {key: value for key, value in {**tables["qos"], **run.settings.get("qos", {})}.items() if value != {}}
    bounds = {name: share * qos["r_max"] for name, share in trial.parameters["shares"].items()}
    stated = lay_over(
        thaw(document),
        {
            "qos": {**qos, "bounds": bounds},
            "weights": dict(trial.parameters["weights"]),
            "run": {"seeds": list(trial.about.seeds or run.settings.get("seeds") or [trial.seed])},
        },
    )
    return {**stated, "policy": choose_policy(trial, run, tables["policy"])}


def choose_policy(trial: Trial, run: TuningRun, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The one policy that was replayed, with those of the stated options that are its own."""
    first = stated.get("name") or stated["names"][0]
    name = trial.about.policy or run.settings.get("policy") or first
    known = find_policy(name).options
    options = {key: value for key, value in stated.get("options", {}).items() if key in known}
    return {"name": name, **({"options": options} if options else {})}
