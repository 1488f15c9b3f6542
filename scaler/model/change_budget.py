"""Budget of an application's changes, and its operators' shares in the price of a pause (see joint_changes.py)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.task import Task, Weights

DEPTH_SLOTS = 480.0  # of filling that a bucket holds: with fewer, returns from bursts waited within eta_R (bench_calm)
LEAST_DEPTH = 2.0  # tokens: a change and its way back
LOWER_PRICE = 0.75  # of a pause in each operator's own plan, over the number of operators (the spec's best of a grid)


@dataclass(frozen=True, slots=True)
class ChangeBudget:
    """Token bucket of reconfigured slots, of a whole application."""

    per_slot: float  # tokens: eta_R
    depth: float  # tokens, all there at the start

    def __post_init__(self) -> None:
        if not (0.0 <= self.per_slot <= 1.0 and 0.0 <= self.depth < math.inf):
            raise BadInput(f"the budget of changes is {self.per_slot} a slot up to {self.depth}; give 0 to 1 a slot")

    def to_json(self) -> dict[str, float]:
        return {"per_slot": self.per_slot, "depth": self.depth}


def make_budget(eta_r: float) -> ChangeBudget:
    """The budget that keeps eta_R, the share of slots that may reconfigure."""
    return ChangeBudget(eta_r, max(LEAST_DEPTH, DEPTH_SLOTS * eta_r) if eta_r > 0.0 else 0.0)


def parse_budget(document: Mapping[str, Any]) -> ChangeBudget:
    return ChangeBudget(float(document["per_slot"]), float(document["depth"]))


def share_pause(task: Task, operators: int) -> Task:
    """The task by which one of several operators plans alone: with a part of the pause's price, all else as it was."""
    share, w = LOWER_PRICE / operators, task.weights
    total = w.performance + w.reconfiguration * share + w.resources
    weights = Weights(w.performance / total, w.reconfiguration * share / total, w.resources / total)
    return replace(task, weights=weights, pause_share=share)
