"""What the Application Manager tells the scalers of an application: a document from the wire in; plain values out.

    {"application": "shop", "revision": 7, "slot_s": 60.0,
     "objective": {"version": 3, "weights": {"perf": .6, "rcf": .2, "res": .2}, "policy": "planner", "options": {},
                   "levels": 30, "gamma": 0.99, "provenance": "trial 12 of run 4",
                   "nodes": [{"name": "small", "speedup": 1.0, "price": 1.0}],
                   "operators": {"parse": {"bound": 0.04, "constant": 0.002, "mean": 0.001, "variance": 1e-6,
                                           "k_max": 10, "highest_rate": 4000.0, "normaliser": 20.0}}},
     "candidate": {"objective": {...}, "stage": "canary", "operators": ["parse"], "share": 0.5, "period_s": 3600.0},
     "guards": {"": {"pin": {}}, "parse": {"direction_lock": {"only": "out"}}}}

Without an objective (null) a scaler has nothing to pursue and keeps what it has. Unknown keys are left alone, for the
manager may be newer than the scaler.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.nodes import NodeType
from scaler.model.task import Moments, Task, Weights

SHADOW, CANARY = "shadow", "canary"
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """What one operator is to keep to, and what is known of it."""

    bound: float  # seconds, on the queueing part of the response time
    moments: Moments
    k_max: int
    highest_rate: float
    constant: float = 0.0  # seconds that an answer takes besides: triggers, scheduling
    normaliser: float | None = None  # price of the dearest deployment


@dataclass(frozen=True, slots=True)
class Objective:
    """What the scalers pursue, and with which policy."""

    version: int
    weights: Weights
    policy: str
    nodes: tuple[NodeType, ...]
    operators: Mapping[str, Target]
    options: Mapping[str, Any] = field(default_factory=dict)
    levels: int = 30
    gamma: float = 0.99
    provenance: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An objective on its way in: computed beside the real one (shadow), or pursued in part (canary)."""

    objective: Objective
    stage: str
    operators: tuple[str, ...] = ()  # that pursue it as canaries; none: all do
    share: float = 1.0  # of each period for which canaries pursue it
    period_s: float = 3600.0

    def leads(self, operator: str, time: float) -> bool:
        """Whether the operator is to act under the candidate now."""
        if self.stage != CANARY or (self.operators and operator not in self.operators):
            return False
        return math.fmod(time, self.period_s) < self.share * self.period_s


@dataclass(frozen=True, slots=True)
class Orders:
    application: str
    revision: int
    slot_s: float
    objective: Objective | None
    candidate: Candidate | None = None
    guards: Mapping[str, Document] = field(default_factory=dict)  # by operator, "" for all; for `parse_guards`


def parse_orders(document: Any) -> Orders:
    """The orders, or one sentence on what is wrong with them."""
    try:
        candidate = document.get("candidate")
        return Orders(
            application=str(document["application"]),
            revision=int(document["revision"]),
            slot_s=take_positive(document, "slot_s"),
            objective=None if document["objective"] is None else parse_objective(document["objective"]),
            candidate=None if candidate is None else parse_candidate(candidate),
            guards={str(name): dict(table) for name, table in document.get("guards", {}).items()},
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadInput(f"the orders cannot be read ({error!r}); is the manager older than the scaler?") from error


def parse_objective(document: Document) -> Objective:
    weights = document["weights"]
    return Objective(
        version=int(document["version"]),
        weights=Weights(float(weights["perf"]), float(weights["rcf"]), float(weights["res"])),
        policy=str(document["policy"]),
        nodes=tuple(NodeType(str(n["name"]), float(n["speedup"]), float(n["price"])) for n in document["nodes"]),
        operators={str(name): parse_target(table) for name, table in document["operators"].items()},
        options=dict(document.get("options", {})),
        levels=int(document.get("levels", 30)),
        gamma=float(document.get("gamma", 0.99)),
        provenance=str(document.get("provenance", "")),
    )


def parse_target(table: Document) -> Target:
    normaliser = table.get("normaliser")
    return Target(
        bound=take_positive(table, "bound"),
        moments=Moments(float(table["mean"]), float(table["variance"])),
        k_max=int(table["k_max"]),
        highest_rate=take_positive(table, "highest_rate"),
        constant=float(table.get("constant", 0.0)),
        normaliser=None if normaliser is None else float(normaliser),
    )


def parse_candidate(document: Document) -> Candidate:
    stage = document["stage"]
    if stage not in (SHADOW, CANARY):
        raise ValueError(f"stage {stage!r} is neither {SHADOW} nor {CANARY}")
    return Candidate(
        objective=parse_objective(document["objective"]),
        stage=stage,
        operators=tuple(map(str, document.get("operators", ()))),
        share=float(document.get("share", 1.0)),
        period_s=take_positive({"period_s": 3600.0, **document}, "period_s"),
    )


def take_positive(table: Document, key: str) -> float:
    value = float(table[key])
    if not 0.0 < value < math.inf:
        raise ValueError(f"{key} is {value}, and must be positive")
    return value


def to_task(objective: Objective, operator: str) -> Task:
    """The operator's scaling problem under this objective."""
    if operator not in objective.operators:
        known = ", ".join(objective.operators)
        raise BadInput(f"objective {objective.version} says nothing of operator {operator!r}; it is of {known}")
    target = objective.operators[operator]
    return Task(
        types=objective.nodes,
        k_max=target.k_max,
        moments=target.moments,
        bound=target.bound,
        weights=objective.weights,
        highest_rate=target.highest_rate,
        levels=objective.levels,
        gamma=objective.gamma,
        normaliser=target.normaliser,
    )
