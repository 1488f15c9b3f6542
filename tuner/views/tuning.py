"""Gather a tuning run with its trials for reports; None where old rows hold nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scaler.model.wire import read_number, read_table
from tuner.store.connection import Session
from tuner.store.objectives import list_objectives
from tuner.store.records import VERIFY, ObjectiveRecord, Trial, TuningRun

WEIGHTS = {"perf": "weight of violations", "rcf": "weight of reconfigurations", "res": "weight of resources"}
MEASURES = {
    "cost": "price per hour",
    "violations": "violations, % of slots",
    "reconfigurations": "reconfigurations, % of slots",
    "replicas": "replicas",
}
Replicas = Mapping[str, Mapping[str, float]]  # operator, node type, mean replicas


@dataclass(frozen=True, slots=True)
class Point:
    """A trial as charts need it."""

    trial: Trial
    kind: str  # "feasible", "infeasible", "pruned" or "failed"
    verifies: int | None  # the number of the trial that it repeats on fresh seeds
    price: float  # NaN where unknown, as the next two
    violations: float
    reconfigurations: float
    shares: Mapping[str, float]
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Figures:
    """What a choice of parameters comes to; shares and replicas are empty where they are not known."""

    cost: float | None = None
    cost_error: float | None = None
    violations: float | None = None
    reconfigurations: float | None = None
    replicas: Replicas = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    def measure(self, name: str) -> float | None:
        """One of MEASURES; of replicas the sum."""
        if name == "replicas":
            return sum(sum(by.values()) for by in self.replicas.values()) if self.replicas else None
        value: float | None = getattr(self, name)
        return value


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What was demanded; None where the run does not say."""

    r_max: float | None
    shared: float | None  # of R_max, what operators' bounds are shares of: less triggers and scheduling
    eta_v: float | None
    eta_r: float | None
    paths: Mapping[str, float]
    quantile: float | None  # of response times that R_max is about; their mean where the run does not say, too


@dataclass(frozen=True, slots=True)
class Tuning:
    """A run with what it found."""

    application: str
    run: TuningRun
    document: Mapping[str, Any]
    limits: RunLimits
    operators: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    points: tuple[Point, ...]  # in the order of their numbers
    objective: ObjectiveRecord | None
    chosen: Point | None  # what was recommended, else the cheapest feasible one so far
    naive: Point | None
    tuned: Figures | None  # of what was chosen, the verified ones where there are any
    baseline: Figures | None

    @property
    def compared(self) -> tuple[Figures | None, Figures | None]:
        """Baseline and choice on the same slots and seeds: a verification's are others than the baseline's."""
        naive, chosen = self.naive, self.chosen
        if naive is None or chosen is None or naive.kind == "failed" or naive.trial.slots != chosen.trial.slots:
            return self.baseline, self.tuned
        return to_figures(naive), to_figures(chosen)


def load_tuning(
    session: Session, app: str, run: TuningRun, document: Mapping[str, Any], trials: Sequence[Trial]
) -> Tuning:
    """The run with the newest objective that it proposed."""
    ids = {trial.id for trial in trials}
    objectives = list_objectives(session, app)
    proposed = next((o for o in objectives if o.trial_id in ids or o.evidence.get("run") == run.id), None)
    return gather_tuning(app, run, document, trials, proposed)


def gather_tuning(
    application: str,
    run: TuningRun,
    document: Mapping[str, Any],
    trials: Sequence[Trial],
    objective: ObjectiveRecord | None,
) -> Tuning:
    """Everything in one value; `document` is the application's, where the run's settings have none."""
    stated = table(run.settings, "document") or document
    points = tuple(map(to_point, trials))
    recommended = None if objective is None else find_recommended(points, objective)
    objective = None if recommended is None else objective
    chosen = recommended or find_cheapest(points)
    naive = next((p for p in points if p.trial.about.note.get("engine") == "naive"), None)
    operators, edges = read_graph(stated, points)
    limits = read_limits(run, stated)
    if objective is not None and chosen is not None:
        limits = replace(limits, shared=find_shared(objective, chosen) or limits.shared)
    return Tuning(
        application=application,
        run=run,
        document=stated,
        limits=limits,
        operators=operators,
        edges=edges,
        points=points,
        objective=objective,
        chosen=chosen,
        naive=naive,
        tuned=find_tuned(points, chosen, objective),
        baseline=find_baseline(naive, objective),
    )


def to_point(trial: Trial) -> Point:
    given, about = trial.parameters, trial.about
    verifies = about.of if about.purpose == VERIFY else None
    figures = (trial.price, trial.violations, trial.reconfigurations)
    price, violations, reconfigurations = (math.nan if figure is None else figure for figure in figures)
    shares, weights = numbers(given, "shares"), numbers(given, "weights")
    return Point(trial, kind_of(trial), verifies, price, violations, reconfigurations, shares, weights)


def kind_of(trial: Trial) -> str:
    if trial.state == "failed" or trial.price is None or not math.isfinite(trial.price):
        return "failed"
    if trial.state == "pruned":
        return "pruned"
    return "feasible" if trial.feasible else "infeasible"


def is_searched(point: Point) -> bool:
    return point.verifies is None


def rank(points: Sequence[Point]) -> list[Point]:
    """Searched trials with figures, the best first: feasible ones by cost, then those that break least."""
    whole = [p for p in points if p.kind in ("feasible", "infeasible") and is_searched(p)]

    def worth(point: Point) -> tuple[bool, float]:
        trial = point.trial
        if point.kind == "feasible":
            return False, trial.price or 0.0
        return True, math.inf if trial.slack is None else -trial.slack

    return sorted(whole, key=worth)


def find_recommended(points: Sequence[Point], objective: ObjectiveRecord) -> Point | None:
    """The searched trial that the objective is made of: by its id, and without one by its weights."""
    by_number = {p.trial.number: p for p in points}
    for point in points:
        if point.trial.id is not None and point.trial.id == objective.trial_id:
            return by_number.get(point.trial.number if point.verifies is None else point.verifies, point)
    weights = objective.weights.to_json()
    return next((p for p in points if p.weights == weights and is_searched(p)), None)


def find_cheapest(points: Sequence[Point]) -> Point | None:
    best = next(iter(rank(points)), None)
    return best if best is not None and best.kind == "feasible" else None


def find_tuned(points: Sequence[Point], chosen: Point | None, objective: ObjectiveRecord | None) -> Figures | None:
    """The evidence's figures, else those of its verification, else the trial's own."""
    if chosen is None:
        return None
    verified = [p for p in points if p.verifies == chosen.trial.number and p.kind != "failed"]
    found = replace(to_figures(verified[-1] if verified else chosen), shares=chosen.shares)
    stated = {} if objective is None else read_figures(objective.evidence)
    return replace(found, **{"cost_error": None, **stated}) if stated else found


def find_baseline(naive: Point | None, objective: ObjectiveRecord | None) -> Figures | None:
    if naive is not None and naive.kind != "failed":
        return to_figures(naive)
    stated = {} if objective is None else read_figures(table(objective.evidence, "baseline"))
    return Figures(**stated) if stated else None


def to_figures(point: Point) -> Figures:
    trial, used = point.trial, point.trial.about.replicas
    replicas = {name: numbers(used, name) for name in used}
    return Figures(trial.price, trial.price_error, trial.violations, trial.reconfigurations, replicas, point.shares)


def read_figures(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The figures that a document states; none where it states no cost."""
    found = {key: number(stated, key) for key in ("cost", "cost_error", "violations", "reconfigurations")}
    return {key: value for key, value in found.items() if value is not None and found["cost"] is not None}


def read_limits(run: TuningRun, document: Mapping[str, Any]) -> RunLimits:
    stated = {**table(document, "qos"), **table(run.settings, "qos")}
    r_max, eta_v, eta_r = (number(stated, key) for key in ("r_max", "eta_v", "eta_r"))
    shared = number(run.settings, "shared_r_max") or r_max
    return RunLimits(r_max, shared, eta_v, eta_r, numbers(stated, "paths"), number(stated, "quantile"))


def find_shared(objective: ObjectiveRecord, chosen: Point) -> float | None:
    """What the objective's bounds are shares of, as runs of older programs do not say."""
    of = ((bound, chosen.shares.get(name)) for name, bound in objective.bounds.items())
    return next((bound / share for bound, share in of if share), None)


def read_graph(
    document: Mapping[str, Any], points: Sequence[Point]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Operators and edges by name; without a document, the operators that shares were given to."""
    stated = table(document, "application") or document
    names = tuple(str(each["name"]) for each in tables(stated, "operator") if "name" in each)
    names = names or next((tuple(p.shares) for p in points if p.shares), ())
    pairs = [(str(each.get("from")), str(each.get("to"))) for each in tables(stated, "edge")]
    return names, tuple((a, b) for a, b in pairs if a in names and b in names)


def table(stated: Mapping[str, Any], key: str) -> dict[str, Any]:
    return read_table(stated.get(key))


def tables(stated: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = stated.get(key)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def number(stated: Mapping[str, Any], key: str) -> float | None:
    """A finite number of a table."""
    found = read_number(stated.get(key))
    return found if found is not None and math.isfinite(found) else None


def numbers(stated: Mapping[str, Any], key: str) -> dict[str, float]:
    """Those values of an inner table that are finite numbers."""
    inner = table(stated, key)
    return {name: value for name in inner if (value := number(inner, name)) is not None}
