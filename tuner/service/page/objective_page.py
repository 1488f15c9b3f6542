"""Gather an objective with its roll-out, its evidence and its difference from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.service.page.application_page import Rollout, make_rollout
from tuner.store.connection import Session
from tuner.store.events import list_events
from tuner.store.objectives import list_objectives, load_objective
from tuner.store.records import EventRecord, ObjectiveRecord
from tuner.store.trials import load_trial

EVENTS = 500  # of the application, looked through for those of the objective
SHOWN = ("reverted", "model", "proposed", "shadow", "canary", "full")  # keys of the evidence with a place of their own


@dataclass(frozen=True, slots=True)
class ObjectiveView:
    objective: ObjectiveRecord
    before: ObjectiveRecord | None
    bounds: Sequence[tuple[str, float, float | None]]  # operator, seconds, seconds in the version before
    rollout: Rollout
    events: Sequence[EventRecord]
    run_id: int | None

    @property
    def evidence(self) -> dict[str, object]:
        return {key: value for key, value in self.objective.evidence.items() if key not in SHOWN}

    @property
    def model(self) -> object:
        return self.objective.evidence.get("model")


def gather_objective(session: Session, app: str, version: int) -> ObjectiveView:

    found = load_objective(session, app, version)
    earlier = (o for o in list_objectives(session, app) if o.version is not None and o.version < version)
    before = next((o for o in earlier if o.state in ("full", "retired")), None)
    events = [e for e in list_events(session, app, limit=EVENTS) if e.detail.get("version") == version]
    return ObjectiveView(
        found,
        before,
        [(name, bound, None if before is None else before.bounds.get(name)) for name, bound in found.bounds.items()],
        make_rollout(found),
        events,
        None if found.trial_id is None else load_trial(session, found.trial_id).run_id,
    )
