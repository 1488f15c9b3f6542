"""The parameters that a search chooses (shares of R_max by operator, three weights), and what came of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scaler.model.task import Weights, parse_weights
from tuner.scenario.layout import QoS


@dataclass(frozen=True, slots=True)
class Parameters:
    """A point of a `Space`: `shares` in the order of its operators, as parts of R_max."""

    shares: tuple[float, ...]
    weights: Weights


def to_document(operators: Sequence[str], parameters: Parameters) -> dict[str, Any]:
    """As the database keeps it."""
    return {
        "shares": dict(zip(operators, parameters.shares, strict=True)),
        "weights": parameters.weights.to_json(),
    }


def from_document(operators: Sequence[str], document: Mapping[str, Any]) -> Parameters:
    shares = tuple(float(document["shares"][name]) for name in operators)
    return Parameters(shares, parse_weights(document["weights"]))


def to_bounds(operators: Sequence[str], parameters: Parameters, r_max: float) -> dict[str, float]:
    """The latency bound of every operator, in seconds."""
    return {name: r_max * share for name, share in zip(operators, parameters.shares, strict=True)}


@dataclass(frozen=True, slots=True)
class EvaluationOutcome:
    """One evaluation. Violations and reconfigurations are shares of the slots, price is per hour."""

    parameters: Parameters
    price: float  # NaN, like the others, where the evaluation failed
    violations: float
    reconfigurations: float
    price_error: float = 0.0  # standard errors
    violations_error: float = 0.0
    reconfigurations_error: float = 0.0
    whole: bool = True  # False where it was given up early: its figures are those of the slots replayed
    note: Mapping[str, Any] = field(default_factory=dict)  # what the engine wrote down with its suggestion
    age: float = 0.0  # how far the workload has moved since, for outcomes of earlier runs; 0: of this run


History = Sequence[EvaluationOutcome]


def meets(outcome: EvaluationOutcome, qos: QoS) -> bool:
    """Whether both constraints were met, taken at face value."""
    return outcome.violations <= qos.eta_v and outcome.reconfigurations <= qos.eta_r


def measure_slack(outcome: EvaluationOutcome, qos: QoS) -> float:
    """The lesser of both constraints' slacks, as a part of what is allowed; negative where one is broken."""
    if math.isnan(outcome.price):
        return math.nan
    return min(1.0 - outcome.violations / qos.eta_v, 1.0 - outcome.reconfigurations / qos.eta_r)
