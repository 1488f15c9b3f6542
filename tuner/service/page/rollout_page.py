"""Gather how objectives are rolled out: stages with their figures, evidence, what can be pushed and rolled back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scaler.model.wire import read_table
from tuner.rollout.push import find_reversible
from tuner.store.audit_log import list_events
from tuner.store.connection import Session
from tuner.store.known_histories import find_history
from tuner.store.objectives import STAGES, list_objectives, load_objective
from tuner.store.records import ObjectiveRecord
from tuner.store.runs import load_run
from tuner.store.trials import load_trial
from tuner.views.words import describe_history

OBJECTIVES = 10
SEARCHED_EVENTS = 500  # of the application, searched for those of the objective
SHOWN = ("run", "reverted", "model", *STAGES)  # keys of the evidence with a place of their own


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
    trial = None if found.trial_id is None else load_trial(session, found.trial_id)
    return {
        "objective": found,
        "before": before,
        "bounds": [(name, bound, bounds.get(name)) for name, bound in found.bounds.items()],
        "history": describe_history(find_history(session, app, [version])).capitalize(),
        "rollout": make_rollout(found),
        "events": [e for e in list_events(session, app, limit=SEARCHED_EVENTS) if e.detail.get("version") == version],
        "trial": trial,
        "run": None if trial is None else load_run(session, trial.run_id),
        "evidence": {key: value for key, value in found.evidence.items() if key not in SHOWN},
        "model": found.evidence.get("model"),
    }


def gather_rollout(session: Session, app: str) -> dict[str, Any]:
    """The values of the tab: objectives on their way, all objectives, and what can be done with them."""
    objectives = list_objectives(session, app, limit=OBJECTIVES)
    pushable, reversible = [o for o in objectives if o.state in STAGES[:-1]], find_reversible(session, app)
    return {
        "objectives": objectives,
        "pushable": [o.version for o in pushable if o.version is not None],
        "reversible": None if reversible is None else reversible.version,
        "stages": {  # where any of them can go
            stage for o in pushable for stage in STAGES[STAGES.index(o.state) + 1 :]
        },
        "rollouts": [make_rollout(o) for o in choose_rollouts(objectives)],
    }


def choose_rollouts(objectives: Sequence[ObjectiveRecord]) -> list[ObjectiveRecord]:
    """Those on their way, and the one that was rolled back last if nothing came after it; else the one in full use."""
    full = next((o for o in objectives if o.state == "full"), None)
    ahead = [o for o in objectives if full is None or (o.version or 0) > (full.version or 0)]
    shown = [o for o in objectives if o.state in ("shadow", "canary")]
    shown += [o for o in ahead if o.state == "reverted"][:1] + [o for o in ahead if o.state == "proposed"][:2]
    return sorted(shown, key=lambda o: -(o.version or 0)) or ([] if full is None else [full])
