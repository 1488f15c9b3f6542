"""Use cases of an objective's roll-out: propose, push to a stage, roll back.

Stages are proposed, shadow, canary, full. The daemon goes through all of them; people may skip some, which is recorded.
One objective at a time is a candidate: another is refused until that one has ended or was rolled back. Each function
belongs in one writing transaction, which it shares with the orders that follow from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from scaler.model.errors import BadInput, suggest
from scaler.model.task import Weights
from scaler.model.units import format_duration, format_share
from scaler.model.wire import read_table
from tuner.rollout.issued_orders import CANDIDATES, find_slot, issue_orders, model_of
from tuner.scenario.document import shape_of, thaw
from tuner.scenario.layout import DEFAULTS
from tuner.store.applications import load_application
from tuner.store.audit_log import DAEMON, add_event
from tuner.store.connection import Session
from tuner.store.faults import StaleState
from tuner.store.json_fields import write_fields
from tuner.store.objectives import (
    STAGES,
    ObjectiveEvidence,
    Reversion,
    StageEvidence,
    StageFigures,
    add_objective,
    find_full_objective,
    list_objectives,
    load_objective,
    move_objective,
)
from tuner.store.records import EventRecord, ObjectiveRecord
from tuner.store.rows import lock_turn

CANARY_SLOTS = 120  # for which a canary leads, where no retuning settings say otherwise


def push(
    session: Session, app: str, version: int, stage: str, who: str, why: str, now: float,
    canary_slots: int = CANARY_SLOTS, figures: StageFigures | None = None, force: bool = False,
) -> ObjectiveRecord:  # fmt: skip
    """Push an objective to a stage, with the figures that its last stage ended by; repeated, a push changes nothing.

    One that was found for another QoS than the application's is refused, unless it is forced in.
    """
    if stage not in STAGES[1:]:
        raise BadInput(f"the stage is {stage!r:.99}, and must be one of {', '.join(STAGES[1:])}")
    lock_turn(session, f"objectives of {app}")
    record = load_objective(session, app, version)
    if record.state == stage:
        return record
    skipped = find_skipped(session, record, stage, who)
    if record.state in ("proposed", "retired") and not force:
        check_demand(session, record)
    evidence = ObjectiveEvidence.from_json(record.evidence)
    entered = StageEvidence(now, who, why, tuple(skipped))
    if stage == "canary":
        entered = choose_canary(session, record, entered, canary_slots)
    stages = {**evidence.stages, stage: entered}
    if figures is not None:
        stages[record.state] = replace(stages.get(record.state, StageEvidence()), ended=now, figures=figures)
    evidence = replace(evidence, model=model_of(session, record), stages=stages)
    if stage == "full":
        standing = find_full_objective(session, app)
        evidence = replace(evidence, settled=None, replaces=None if standing is None else standing.version)
    moved = move_objective(session, app, version, record.state, stage, now, evidence.to_json())
    message = f"{who} pushed objective {version} to {stage}" + (f", past {' and '.join(skipped)}" if skipped else "")
    about = {"version": version, "stage": stage, "from": record.state, "skipped": skipped}
    add_event(session, EventRecord(app, now, who, "pushed", f"{message}: {why}" if why else message, about))
    issue_orders(session, app, now)
    return moved


def check_demand(session: Session, record: ObjectiveRecord) -> None:
    """Refuse an objective that was found for another QoS than the application is described with."""
    found_for = read_table(record.evidence.get("qos"))
    if not found_for:
        return
    stated = thaw(load_application(session, record.application).document).get("qos", {})
    demanded = {"paths": {}, "quantile": None, **DEFAULTS["qos"], **stated}
    other = [name for name in demanded if name in found_for and found_for[name] != demanded[name]]
    if other:
        told = ", ".join(
            f"{name} {format_demand(name, found_for[name])} instead of {format_demand(name, demanded[name])}"
            for name in other
        )
        raise BadInput(
            f"objective {record.version} of {record.application!r} was found for another QoS than its description "
            f"demands ({told}); tune it for that, describe it anew, or push it all the same with --force"
        )


DEMANDS: dict[str, Callable[[float], str]] = {
    "r_max": format_duration, "eta_v": format_share, "eta_r": format_share, "quantile": format_share,
}  # fmt: skip


def format_demand(name: str, value: Any) -> str:
    """A demand with its unit; without a quantile it is of the mean."""
    if name == "quantile" and value is None:
        return "the mean"
    if name == "paths":
        return ", ".join(f"{path} {format_duration(bound)}" for path, bound in value.items()) or "none"
    return DEMANDS[name](value) if name in DEMANDS and isinstance(value, int | float) else str(value)


def find_skipped(session: Session, record: ObjectiveRecord, stage: str, who: str) -> list[str]:
    """The stages that a push leaves out; refused where they or the push are not allowed."""
    named = f"objective {record.version} of {record.application!r}"
    if record.state == "reverted":
        reverted = ObjectiveEvidence.from_json(record.evidence).reverted or Reversion()
        raise StaleState(
            f"{named} was rolled back ({reverted.why}); propose its bounds and weights anew to "
            f"try them again: tuner propose {record.application} {record.version}"
        )
    before = "proposed" if record.state == "retired" else record.state
    if STAGES.index(stage) < STAGES.index(before):
        raise StaleState(f"{named} is in {record.state} already, which comes after {stage}; roll it back instead")
    for other in list_objectives(session, record.application, CANDIDATES):
        if other.version != record.version:
            raise StaleState(
                f"objective {other.version} of {record.application!r} is in {other.state}, and one at a time is on its "
                "way in; let it end, or roll it back first"
            )
    skipped = list(STAGES[STAGES.index(before) + 1 : STAGES.index(stage)])
    if skipped and who == DAEMON:
        raise ValueError(f"{named}: a daemon cannot skip {' and '.join(skipped)}")
    return skipped


def choose_canary(session: Session, candidate: ObjectiveRecord, entered: StageEvidence, slots: int) -> StageEvidence:
    """Choose the operator whose bound changes least; a single operator leads half of the time.

    It leads for one long stretch, because each turn costs changes of deployment.
    """
    names = list(candidate.bounds)
    slot_s = find_slot(load_application(session, candidate.application).document)
    if len(names) < 2:
        chosen = "half of the time, as there is one operator"
        return replace(entered, operators=tuple(names), share=0.5, period_s=slot_s * 2 * slots, chosen=chosen)
    standing = find_full_objective(session, candidate.application)
    if standing is None or not any(name in standing.bounds for name in names):
        return replace(entered, operators=(names[0],), chosen="the first operator, as none pursues anything yet")
    pairs = {name: (standing.bounds.get(name, 0.0), bound) for name, bound in candidate.bounds.items()}
    shifts = {name: abs(after - before) / max(after, before) for name, (before, after) in pairs.items()}
    least = min(names, key=lambda name: shifts[name])
    chosen = f"the operator whose bound changes least, by {format_share(shifts[least])}"
    return replace(entered, operators=(least,), chosen=chosen)


def roll_back(
    session: Session, app: str, who: str, why: str, now: float, figures: StageFigures | None = None,
    version: int | None = None,
) -> ObjectiveRecord:  # fmt: skip
    """Roll back the candidate, or else the objective in full use to the one before it; return the reverted one.

    With a version only that one; refused where it is neither of these any more.
    """
    load_application(session, app)
    lock_turn(session, f"objectives of {app}")
    bad = find_reversible(session, app)
    if bad is None or bad.version is None:
        raise StaleState(f"no objective of {app!r} is in use or on its way in, so that there is nothing to roll back")
    if version is not None and bad.version != version:
        raise StaleState(f"objective {version} of {app!r} is not what would be rolled back by now; look again")
    reversion = Reversion(why, now, who, bad.state, figures or StageFigures())
    moved = move_objective(session, app, bad.version, bad.state, "reverted", now, {"reverted": write_fields(reversion)})
    back = restore_previous(session, app, bad, now) if bad.state == "full" else None
    to = "" if bad.state != "full" else f" to objective {back.version}" if back else ", and nothing is pursued now"
    message = f"{who} rolled back objective {bad.version} from {bad.state}{to}: {why}"
    about = {"version": bad.version, "stage": bad.state, "to": None if back is None else back.version, "why": why}
    about["figures"] = write_fields(reversion.figures)
    add_event(session, EventRecord(app, now, who, "rolled back", message, about))
    issue_orders(session, app, now)
    return moved


def find_reversible(session: Session, app: str) -> ObjectiveRecord | None:
    """The objective that would be rolled back: the candidate, else the one in full use."""
    return next(iter(list_objectives(session, app, CANDIDATES) or list_objectives(session, app, ("full",))), None)


def restore_previous(session: Session, app: str, bad: ObjectiveRecord, now: float) -> ObjectiveRecord | None:
    """Put the objective that the bad one replaced, else the one that retired last, into full use again."""
    retired = list_objectives(session, app, ("retired",))
    replaced = ObjectiveEvidence.from_json(bad.evidence).replaces
    named = next((one for one in retired if one.version == replaced), None)
    back = named or max(retired, key=lambda one: (one.changed or 0.0, one.version or 0), default=None)
    if back is not None and back.version is not None:
        evidence = ObjectiveEvidence.from_json(back.evidence)
        stages = {**evidence.stages, "full": replace(evidence.stages.get("full", StageEvidence()), again=now)}
        changed = replace(evidence, stages=stages, settled=now).to_json()
        move_objective(session, app, back.version, "retired", "full", now, changed)
    return back


def propose_objective(
    session: Session, app: str, weights: Weights, bounds: Mapping[str, float], who: str, now: float, why: str = ""
) -> ObjectiveRecord:
    """Propose an objective of a person's own; bounds are on the queueing part of the response time, as a search's."""
    operators = [operator.name for operator in shape_of(load_application(session, app).document).operators]
    for name, bound in bounds.items():
        if name not in operators:
            near = suggest(name[:99], operators[:20], "it has {}")
            raise BadInput(f"bounds: {app!r} has no operator {name!r:.99}; {near}")
        if not 0.0 < bound < math.inf:
            raise BadInput(f"bounds: that of {name!r} is {bound}, and must be a positive number of seconds")
    for name in operators:
        if name not in bounds:
            raise BadInput(f"bounds: operator {name!r} has none; give every operator one, in seconds")
    evidence = ObjectiveEvidence(why=why).to_json()
    made = add_objective(session, ObjectiveRecord(app, weights, bounds, now, provenance=f"by {who}", evidence=evidence))
    message = f"{who} proposed objective {made.version} by hand" + (f": {why}" if why else "")
    add_event(session, EventRecord(app, now, who, "proposed", message, {"version": made.version}))
    return made
