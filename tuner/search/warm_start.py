"""Choose outcomes of earlier runs, of this and similar applications, to start a search with.

An outcome ages with the distance between the workload that it was seen under and the present one, and counts for the
less the older it is. What a run keeps is which trials it began with, and their ages, so that it can be resumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.setting import Setting
from tuner.scenario.layout import QoS
from tuner.search.space.space import (
    FIGURES,
    EvaluationOutcome,
    Parameters,
    SearchSpace,
    from_document,
    project_to_limits,
)
from tuner.store.connection import Session
from tuner.store.records import SEARCH, Trial
from tuner.store.runs import list_runs
from tuner.store.trials import load_history, load_trial

YOUNGEST = 0.05  # no outcome of another run counts as much as one of its own
STRANGER = 0.5  # the age that another application's outcomes have from the start
OLDEST = 1.5
RUNS, EACH, MOST = 20, 12, 48  # runs looked at, trials of each, trials in all
Age = float


def describe_workload(setting: Setting, qos: QoS) -> dict[str, Any]:
    """What an age is measured by."""
    application, rates = setting.application, setting.trace.rates
    index = {operator.name: i for i, operator in enumerate(application.operators)}
    return {
        "policy": setting.policy,
        "types": [[node.speedup, node.price] for node in setting.infrastructure.types],
        "edges": [[index[edge.upstream], index[edge.downstream]] for edge in application.edges],
        "service": [operator.moments.mean for operator in application.operators],
        "mean": float(rates.mean()),
        "high": float(np.quantile(rates, 0.95)),
        "r_max": qos.r_max,
    }


def measure_age(then: Mapping[str, Any], now: Mapping[str, Any], stranger: bool) -> Age | None:
    """How far two workloads are apart, in logarithms; None where nothing carries over."""
    same = all(then.get(key) == now[key] for key in ("policy", "types", "edges"))
    if not same or len(then["service"]) != len(now["service"]):
        return None
    age = YOUNGEST + (STRANGER if stranger else 0.0)
    for key in ("mean", "high", "r_max"):
        age += abs(math.log(max(now[key], 1e-9) / max(then[key], 1e-9)))
    ratios = np.log(np.array(now["service"]) / np.array(then["service"]))
    return float(age + np.abs(ratios).mean())


def list_earlier(session: Session, app: str, setting: Setting, qos: QoS) -> list[dict[str, float]]:
    """The trials to begin with: by run the newest first, of each its cheapest feasible ones and a few of the others."""
    now = describe_workload(setting, qos)
    own = [(run, False) for run in list_runs(session, app, limit=RUNS)]
    known = {run.id for run, _ in own}
    others = [(run, True) for run in list_runs(session, limit=RUNS) if run.id not in known]
    chosen: list[dict[str, float]] = []
    for run, stranger in own + others:
        then = run.settings.get("workload")
        age = None if then is None else measure_age(then, now, stranger)
        if then is None or age is None or age > OLDEST or run.id is None:
            continue
        scale = now["mean"] / max(then["mean"], 1e-9)
        for trial in pick(load_history(session, run.id), qos):
            chosen.append({"trial": trial.id or 0, "age": age, "scale": scale})
    return chosen[:MOST]


def pick(trials: Sequence[Trial], qos: QoS) -> list[Trial]:
    """The cheapest that would be feasible now, then others evenly."""
    usable = [t for t in trials if t.state == "complete" and t.about.purpose == SEARCH and t.price]
    met = [t for t in usable if (t.violations or 0.0) <= qos.eta_v and (t.reconfigurations or 0.0) <= qos.eta_r]
    feasible = sorted(met, key=lambda t: t.price or math.inf)
    best = feasible[: EACH // 2]
    rest = [t for t in usable if t not in best]
    step = max(1, len(rest) // (EACH - len(best)))
    return best + rest[::step][: EACH - len(best)]


def load_earlier(
    session: Session, space: SearchSpace, chosen: Sequence[Mapping[str, float]]
) -> tuple[EvaluationOutcome, ...]:
    """The outcomes of those trials, with shares that fit this space."""
    return tuple(age_outcome(space, load_trial(session, int(one["trial"])), one["age"], one["scale"]) for one in chosen)


def age_outcome(space: SearchSpace, trial: Trial, age: Age, scale: float) -> EvaluationOutcome:
    was = read_outcome(tuple(trial.parameters["shares"]), trial)  # another application's operators: in the same order
    shares = project_to_limits(space, np.array([was.parameters.shares]))[0]
    parameters = Parameters(tuple(map(float, shares)), was.parameters.weights)
    figures = was.price * scale, was.violations, was.reconfigurations
    return EvaluationOutcome(parameters, *figures, math.nan, math.nan, math.nan, age=age)


def read_outcome(operators: Sequence[str], trial: Trial) -> EvaluationOutcome:
    """A trial as engines see it."""
    return EvaluationOutcome(
        parameters=from_document(operators, trial.parameters),
        **{name: math.nan if (value := getattr(trial, name)) is None else value for name in FIGURES},
        whole=trial.state == "complete",
        note=trial.about.note,
    )
