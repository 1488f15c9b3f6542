"""Gather an objective with its roll-out, its evidence and its difference from the one before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaler.model.wire import read_table
from tuner.store.connection import Session
from tuner.store.objectives import STAGES, list_objectives, load_objective
from tuner.store.orders import list_events
from tuner.store.records import ObjectiveRecord
from tuner.store.trials import load_trial

EVENTS = 500  # of the application, searched for those of the objective
SHOWN = ("reverted", "model", *STAGES)  # keys of the evidence with a place of their own


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One stage of a roll-out, with the figures that it showed."""

    word: str
    place: str  # "past", "now" or "next"
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rollout:
    objective: ObjectiveRecord
    steps: tuple[RolloutStep, ...]
    reverted: Mapping[str, Any]

    @property
    def figures_then(self) -> dict[str, Any]:
        """When it was rolled back; why stands above."""
        return {key: value for key, value in self.reverted.items() if key != "why"}


def make_rollout(objective: ObjectiveRecord) -> Rollout:
    reached = STAGES.index(objective.state) if objective.state in STAGES else None
    steps = []
    for i, word in enumerate(STAGES):
        figures = read_table(objective.evidence.get(word))
        past = bool(figures) if reached is None else i < reached
        steps.append(RolloutStep(word, "now" if i == reached else "past" if past or i == 0 else "next", figures))
    return Rollout(objective, tuple(steps), read_table(objective.evidence.get("reverted")))


def gather_objective(session: Session, app: str, version: int) -> dict[str, Any]:
    """The values of the template."""
    found = load_objective(session, app, version)
    earlier = (o for o in list_objectives(session, app) if o.version is not None and o.version < version)
    before = next((o for o in earlier if o.state in ("full", "retired")), None)
    bounds = {} if before is None else before.bounds
    return {
        "objective": found,
        "before": before,
        "bounds": [(name, bound, bounds.get(name)) for name, bound in found.bounds.items()],
        "rollout": make_rollout(found),
        "events": [e for e in list_events(session, app, limit=EVENTS) if e.detail.get("version") == version],
        "run_id": None if found.trial_id is None else load_trial(session, found.trial_id).run_id,
        "evidence": {key: value for key, value in found.evidence.items() if key not in SHOWN},
        "model": found.evidence.get("model"),
    }
