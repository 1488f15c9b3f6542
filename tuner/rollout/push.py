"""An objective and a stage in; the objective in that stage, what its scalers are told and a line in the books out.

Stages are proposed, shadow, canary, full. Daemons go through all of them; people may skip some, which is recorded. One
objective at a time is on its way in: another is refused until that one has ended or was rolled back. Every function
here is to be called in one writing transaction, which it shares with the orders that follow from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sqlalchemy import update

from scaler.model.errors import BadInput
from scaler.model.task import Weights
from tuner.rollout.issue_orders import CANDIDATES, find_slot, issue_orders
from tuner.rollout.objective_model import MODEL, model_of
from tuner.scenario.description import shape_of
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.events import add_event
from tuner.store.faults import StaleState
from tuner.store.models import ObjectiveRow
from tuner.store.objectives import add_objective, find_full_objective, list_objectives, load_objective, move_objective
from tuner.store.records import EventRecord, ObjectiveRecord
from tuner.store.rows import lock_turn

DAEMON = "the daemon"  # who does what no person did
STAGES = ("proposed", "shadow", "canary", "full")
CANARY_SLOTS = 120  # that a canary leads for, where no daemon's settings say otherwise


def push(
    session: Session, app: str, version: int, stage: str, who: str, why: str, now: float,
    canary_slots: int = CANARY_SLOTS, figures: Mapping[str, Any] | None = None,
) -> ObjectiveRecord:  # fmt: skip
    """Let an objective into a stage; as it was where it is there already, so that a repeated push changes nothing.

    `figures` are what the stage before ended by, and are kept under its name.
    """

    if stage not in STAGES[1:]:
        raise BadInput(f"the stage is {stage!r:.99}, and must be one of {', '.join(STAGES[1:])}")
    lock_turn(session, f"objectives of {app}")
    there = load_objective(session, app, version)
    if there.state == stage:
        return there
    skipped = check_step(session, there, stage, who)
    told = {**there.evidence, MODEL: model_of(session, there)}
    stated: dict[str, Any] = {"since": now, "who": who, "why": why}
    if skipped:
        stated["skipped"] = skipped
    if stage == "canary":
        stated |= choose_canary(session, there, canary_slots)
    before = {there.state: {**_table(told.get(there.state)), "ended": now, **(figures or {})}} if figures else {}
    evidence = {MODEL: told[MODEL], **before, stage: stated}
    if stage == "full":
        evidence["settled"] = None
        evidence["replaces"] = find_standing_version(session, app)
    moved = move_objective(session, app, version, there.state, stage, now, evidence)
    says = f"{who} pushed objective {version} to {stage}" + (f", past {' and '.join(skipped)}" if skipped else "")
    detail = {"version": version, "stage": stage, "from": there.state, "skipped": skipped}
    add_event(session, EventRecord(app, now, who, "pushed", f"{says}: {why}" if why else says, detail))
    issue_orders(session, app, now)
    return moved


def check_step(session: Session, there: ObjectiveRecord, stage: str, who: str) -> list[str]:
    """The stages that this skips; refused where it may not be."""
    named = f"objective {there.version} of {there.application!r}"
    if there.state == "reverted":
        why = _table(there.evidence.get("reverted")).get("why", "")
        raise StaleState(f"{named} was rolled back ({why}); propose its bounds and weights anew to try them again")
    before = "proposed" if there.state == "retired" else there.state
    if STAGES.index(stage) < STAGES.index(before):
        raise StaleState(f"{named} is in {there.state} already, which comes after {stage}; roll it back instead")
    for other in list_objectives(session, there.application, CANDIDATES):
        if other.version != there.version:
            raise StaleState(
                f"objective {other.version} of {there.application!r} is in {other.state}, and one at a time is on its "
                "way in; let it end, or roll it back first"
            )
    skipped = list(STAGES[STAGES.index(before) + 1 : STAGES.index(stage)])
    if skipped and who == DAEMON:
        raise ValueError(f"{named}: a daemon cannot skip {' and '.join(skipped)}")
    return skipped


def choose_canary(session: Session, candidate: ObjectiveRecord, slots: int) -> dict[str, Any]:
    """Who pursues it first: the operator whose bound changes least; of a single operator, half of the time.

    A single operator leads for one long stretch, for each turn costs it changes of deployment.
    """

    names = list(candidate.bounds)
    slot_s = find_slot(load_application(session, candidate.application).document)
    if len(names) < 2:
        share = {"operators": names, "share": 0.5, "period_s": slot_s * 2 * slots}
        return {**share, "chosen": "half of the time, as there is one operator"}
    standing = find_full_objective(session, candidate.application)
    if standing is None or not any(name in standing.bounds for name in names):
        return {"operators": names[:1], "share": 1.0, "chosen": "the first operator, as none pursues anything yet"}
    shifts = {name: shift(standing.bounds.get(name), bound) for name, bound in candidate.bounds.items()}
    least = min(names, key=lambda name: shifts[name])
    chosen = f"the operator whose bound changes least, by {shifts[least]:.0%}"
    return {"operators": [least], "share": 1.0, "chosen": chosen}


def shift(before: float | None, after: float) -> float:
    """By how much a bound changes, as a part of the larger."""
    return 1.0 if before is None else abs(after - before) / max(after, before)


def roll_back(
    session: Session, app: str, who: str, why: str, now: float, figures: Mapping[str, Any] | None = None,
    version: int | None = None,
) -> ObjectiveRecord:  # fmt: skip
    """Take back what is on its way in, or else what is in full use for the one before it; what was taken back.

    With a version only that one; refused where it is neither of these any more.
    """

    load_application(session, app)
    lock_turn(session, f"objectives of {app}")
    bad = next(iter(list_objectives(session, app, CANDIDATES) or list_objectives(session, app, ("full",))), None)
    if bad is None or bad.version is None:
        raise StaleState(f"no objective of {app!r} is in use or on its way in, so that there is nothing to roll back")
    if version is not None and bad.version != version:
        raise StaleState(f"objective {version} of {app!r} is not what would be rolled back by now; look again")
    reverted = {"why": why, "when": now, "who": who, "stage": bad.state, "figures": dict(figures or {})}
    moved = move_objective(session, app, bad.version, bad.state, "reverted", now, {"reverted": reverted})
    back = None
    if bad.state == "full":
        back = find_before(list_objectives(session, app, ("retired",)), bad)
        if back is not None and back.version is not None:
            again = {"full": {**_table(back.evidence.get("full")), "again": now}, "settled": now}
            move_objective(session, app, back.version, "retired", "full", now, again)
    to = "" if bad.state != "full" else f" to objective {back.version}" if back else ", and nothing is pursued now"
    says = f"{who} rolled back objective {bad.version} from {bad.state}{to}: {why}"
    detail = {"version": bad.version, "stage": bad.state, "to": None if back is None else back.version, "why": why}
    add_event(session, EventRecord(app, now, who, "rolled back", says, {**detail, "figures": dict(figures or {})}))
    issue_orders(session, app, now)
    return moved


def find_before(retired: list[ObjectiveRecord], bad: ObjectiveRecord) -> ObjectiveRecord | None:
    """The one that the bad one replaced, else the one that retired last."""
    replaced = bad.evidence.get("replaces")
    named = next((one for one in retired if one.version == replaced), None)
    return named or max(retired, key=lambda one: (one.changed or 0.0, one.version or 0), default=None)


def propose_objective(
    session: Session, app: str, weights: Weights, bounds: Mapping[str, float], who: str, now: float, why: str = ""
) -> ObjectiveRecord:
    """An objective of a person's own; bounds are on the queueing part of the response time, like those of a search."""
    operators = [operator.name for operator in shape_of(load_application(session, app).document).operators]
    for name, bound in bounds.items():
        if name not in operators:
            raise BadInput(f"bounds: {app!r} has no operator {name!r:.99}; it has {', '.join(operators[:20])}")
        if not 0.0 < bound < math.inf:
            raise BadInput(f"bounds: that of {name!r} is {bound}, and must be a positive number of seconds")
    for name in operators:
        if name not in bounds:
            raise BadInput(f"bounds: operator {name!r} has none; give every operator one, in seconds")
    evidence = {"why": why} if why else {}
    made = add_objective(session, ObjectiveRecord(app, weights, bounds, now, provenance=f"by {who}", evidence=evidence))
    says = f"{who} proposed objective {made.version} by hand" + (f": {why}" if why else "")
    add_event(session, EventRecord(app, now, who, "proposed", says, {"version": made.version}))
    return made


def add_evidence(session: Session, objective: ObjectiveRecord, **more: Any) -> ObjectiveRecord:
    """The same with more evidence, in the state that it has and since when it has it."""
    from dataclasses import replace

    there = load_objective(session, objective.application, objective.version or 0)
    evidence = {**there.evidence, **more}
    session.execute(update(ObjectiveRow).where(ObjectiveRow.id == there.id).values(evidence=evidence))
    return replace(there, evidence=evidence)


def find_standing_version(session: Session, app: str) -> int | None:
    standing = find_full_objective(session, app)
    return None if standing is None else standing.version


def _table(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
