"""Orders that the tuner sends to the agents of an application: objective, candidate and guards, with their codec.

    {"application": "shop", "revision": 7, "slot_s": 60.0,
     "objective": {"version": 3, "weights": {"perf": .6, "rcf": .2, "res": .2}, "policy": "planner", "options": {},
                   "levels": 30, "gamma": 0.99, "quantile": 0.95, "provenance": "trial 12 of run 4",
                   "nodes": [{"name": "small", "speedup": 1.0, "price": 1.0}],
                   "operators": {"parse": {"bound": 0.04, "constant": 0.002, "mean": 0.001, "variance": 1e-6,
                                           "k_min": 1, "k_max": 10, "highest_rate": 4000.0,
                                           "normaliser": 20.0}}},
     "candidate": {"objective": {...}, "stage": "canary", "operators": ["parse"], "share": 0.5, "period_s": 3600.0},
     "change_budget": {"per_slot": 0.05, "depth": 6.0},
     "guards": {"": {"pin": {}}, "parse": {"direction_lock": {"only": "out"}}},
     "experience": {"parse": {"format": 1, "policy": "planner", "slots": 20160, ...}}}

An operator that runs in micro-batches has their constants under `batches`, as `MicroBatches` names them; its bound is
on the whole response time. What its reconfigurations hold is under `hold` by direction, where it was measured, with the
`slot_s` that late seconds are weighed against. Without an objective (null) an agent has nothing to pursue and keeps its
deployment. `change_budget` keeps eta_R, and with the objective's `together` operators make changes that do not pay
alone (joint_changes.py). `experience` is what policies begin with that have learned less themselves (experience.py);
it is read where one begins, so that a damaged one stops no orders. Unknown keys are passed over, for the tuner may be
newer than the agent; a document nested deeper than any is refused. This is the only place that writes or reads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scaler.model.change_budget import ChangeBudget, parse_budget, share_pause
from scaler.model.errors import BadInput
from scaler.model.hold import HoldTimes, parse_hold_times
from scaler.model.micro_batches import MicroBatches, parse_batches
from scaler.model.nodes import NodeType, parse_node_type
from scaler.model.task import Moments, Task, Weights, check_quantile, parse_weights
from scaler.model.wire import check_depth, read_table, write_fields

SHADOW, CANARY = "shadow", "canary"
LEVELS, GAMMA = 30, 0.99
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OperatorModel:
    """What is known of one operator, whatever is demanded of it."""

    moments: Moments
    k_max: int
    highest_rate: float
    constant: float = 0.0  # seconds of response time besides queueing: triggers, scheduling
    normaliser: float | None = None  # price of the dearest deployment
    batches: MicroBatches | None = None  # None: a queue
    k_min: int = 1
    hold: HoldTimes | None = None  # of reconfigurations, as measured
    slot_s: float = 60.0  # against which it is weighed

    def to_json(self) -> dict[str, Any]:
        moments = {"mean": self.moments.mean, "variance": self.moments.variance}
        unknown = {"batches"} if self.batches is None else set()
        unknown |= {"hold", "slot_s"} if self.hold is None else set()
        return moments | write_fields(self, {"moments", *unknown})


@dataclass(frozen=True, slots=True)
class ObjectiveModel:
    """The part of an objective that states no demands: policy, node types and service models."""

    policy: str
    nodes: tuple[NodeType, ...]
    operators: Mapping[str, OperatorModel]
    options: Mapping[str, Any] = field(default_factory=dict)
    levels: int = LEVELS
    gamma: float = GAMMA
    quantile: float | None = None  # of response times that bounds are about; None: their mean
    together: bool = False  # whether operators make changes together that do not pay alone

    def to_json(self) -> dict[str, Any]:
        return write_fields(self, () if self.together else ("together",))


@dataclass(frozen=True, slots=True)
class Objective:
    """What the agents pursue, and with which policy."""

    version: int
    weights: Weights
    bounds: Mapping[str, float]  # seconds by operator, on the queueing part of the response time
    model: ObjectiveModel
    provenance: str = ""

    @property
    def policy(self) -> str:
        return self.model.policy

    @property
    def nodes(self) -> tuple[NodeType, ...]:
        return self.model.nodes

    def to_json(self) -> dict[str, Any]:
        document = {
            "version": self.version,
            "weights": self.weights.to_json(),
            "provenance": self.provenance,
            **self.model.to_json(),
        }
        operators = document["operators"]
        return document | {"operators": {name: {"bound": b, **operators[name]} for name, b in self.bounds.items()}}


@dataclass(frozen=True, slots=True)
class Candidate:
    """An objective being rolled out: computed beside the real one (shadow), or pursued in part (canary)."""

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

    def to_json(self) -> dict[str, Any]:
        document = {"objective": self.objective.to_json(), "stage": self.stage}
        if self.stage != CANARY:
            return document
        operators = {"operators": list(self.operators)} if self.operators else {}
        return document | operators | {"share": self.share, "period_s": self.period_s}


@dataclass(frozen=True, slots=True)
class Orders:
    application: str
    revision: int
    slot_s: float
    objective: Objective | None
    candidate: Candidate | None = None
    guards: Mapping[str, Document] = field(default_factory=dict)  # by operator, "" for all; for `parse_guards`
    change_budget: ChangeBudget | None = None  # of the whole application
    experience: Mapping[str, Document] = field(default_factory=dict)  # by operator; for `parse_experience`

    @property
    def quantile(self) -> float | None:
        """Of response times that the objective's bounds are about; None: their mean."""
        return None if self.objective is None else self.objective.model.quantile

    def find_led(self, operator: str, time: float) -> Objective | None:
        """The objective that an operator is to pursue now."""
        leads = self.candidate is not None and self.candidate.leads(operator, time)
        return self.candidate.objective if leads and self.candidate is not None else self.objective

    def to_json(self) -> dict[str, Any]:
        unstated = {"change_budget": self.change_budget, "experience": self.experience}
        return write_fields(self, [name for name, value in unstated.items() if not value])


def parse_orders(document: Any) -> Orders:
    """The orders, or one sentence on what is wrong with them."""
    try:
        check_depth(document)
        candidate, budget = document.get("candidate"), document.get("change_budget")
        return Orders(
            application=str(document["application"]),
            revision=int(document["revision"]),
            slot_s=read_positive(document, "slot_s"),
            objective=None if document["objective"] is None else parse_objective(document["objective"]),
            candidate=None if candidate is None else parse_candidate(candidate),
            guards={str(name): dict(table) for name, table in document.get("guards", {}).items()},
            change_budget=None if budget is None else parse_budget(budget),
            experience=read_table(document.get("experience")),
        )
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise BadInput(f"the orders cannot be read ({error!r}); is the manager older than the scaler?") from error


def parse_objective(document: Document) -> Objective:
    return Objective(
        version=int(document["version"]),
        weights=parse_weights(document["weights"]),
        bounds={str(name): read_positive(table, "bound") for name, table in document["operators"].items()},
        model=parse_objective_model(document),
        provenance=str(document.get("provenance", "")),
    )


def parse_objective_model(document: Document) -> ObjectiveModel:
    return ObjectiveModel(
        policy=str(document["policy"]),
        nodes=tuple(parse_node_type(n) for n in document["nodes"]),
        operators={str(name): parse_operator_model(table) for name, table in document["operators"].items()},
        options=dict(document.get("options", {})),
        levels=int(document.get("levels", LEVELS)),
        gamma=float(document.get("gamma", GAMMA)),
        quantile=parse_quantile(document.get("quantile")),
        together=bool(document.get("together", False)),
    )


def parse_quantile(value: Any) -> float | None:
    quantile = None if value is None else float(value)
    check_quantile(quantile)
    return quantile


def parse_operator_model(table: Document) -> OperatorModel:
    normaliser, batches = table.get("normaliser"), table.get("batches")
    return OperatorModel(
        moments=Moments(float(table["mean"]), float(table["variance"])),
        k_max=int(table["k_max"]),
        highest_rate=read_positive(table, "highest_rate"),
        constant=float(table.get("constant", 0.0)),
        normaliser=None if normaliser is None else float(normaliser),
        batches=None if batches is None else parse_batches(batches),
        hold=None if table.get("hold") is None else parse_hold_times(table["hold"]),
        slot_s=read_positive({"slot_s": 60.0, **table}, "slot_s"),
        k_min=int(table.get("k_min", 1)),
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
        period_s=read_positive({"period_s": 3600.0, **document}, "period_s"),
    )


def read_positive(table: Document, key: str) -> float:
    value = float(table[key])
    if not 0.0 < value < math.inf:
        raise ValueError(f"{key} is {value}, and must be positive")
    return value


def to_task(objective: Objective, operator: str) -> Task:
    """The operator's scaling problem under this objective."""
    if operator not in objective.bounds:
        known = ", ".join(objective.bounds)
        raise BadInput(f"objective {objective.version} says nothing of operator {operator!r}; it is of {known}")
    model = objective.model.operators[operator]
    task = Task(
        types=objective.nodes,
        k_min=model.k_min,
        k_max=model.k_max,
        moments=model.moments,
        bound=objective.bounds[operator],
        weights=objective.weights,
        highest_rate=model.highest_rate,
        levels=objective.model.levels,
        gamma=objective.model.gamma,
        normaliser=model.normaliser,
        batches=model.batches,
        quantile=objective.model.quantile,
        hold=model.hold,
        slot_s=model.slot_s,
    )
    operators = len(objective.bounds)
    return share_pause(task, operators) if objective.model.together and operators > 1 else task
