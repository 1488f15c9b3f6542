"""What a search chooses, and how it is written down: shares of R_max by operator and three weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scaler.model.task import Weights, parse_weights


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
