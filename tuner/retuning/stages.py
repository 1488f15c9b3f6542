"""Advance the roll-out of a candidate or a newly full objective, as the check of its stage says."""

from __future__ import annotations

from dataclasses import replace

from scaler.model.errors import find_pause
from tuner.retuning.state import MAX_PAUSE_S, SEARCHING, DaemonContext, DaemonEvent, commit_phase, settings_of, state_of
from tuner.rollout.issued_orders import CANDIDATES, find_slot
from tuner.rollout.push import push, roll_back
from tuner.rollout.stage_checks import BROKEN, GOES_ON, PASSED, UNDECIDED, WAITS, StageVerdict, check_stage
from tuner.store.applications import load_application
from tuner.store.audit_log import DAEMON
from tuner.store.connection import Session
from tuner.store.faults import StaleState
from tuner.store.objectives import ObjectiveEvidence, StageEvidence, list_objectives, merge_evidence
from tuner.store.records import ObjectiveRecord, RetuningRecord

NEXT_STAGE = {"shadow": "canary", "canary": "full"}


def find_moving(session: Session, app: str) -> ObjectiveRecord | None:
    """The candidate, else the objective in full use while its last stage is checked."""
    for candidate in list_objectives(session, app, CANDIDATES, limit=1):
        return candidate
    full = list_objectives(session, app, ("full",), limit=1)
    return next((one for one in full if ObjectiveEvidence.from_json(one.evidence).settled is None), None)


def advance_stage(context: DaemonContext, record: RetuningRecord) -> RetuningRecord | None:
    """Check the stage of the moving objective and commit what follows; None where none is moving."""
    with context.store.read() as session:
        objective = find_moving(session, record.application)
        if objective is None:
            return None
        verdict = check_stage(session, objective, settings_of(record), context.clock())
        slot_s = find_slot(load_application(session, record.application).document)
    try:
        if verdict.outcome == PASSED:
            return pass_stage(context, record, objective, verdict)
        if verdict.outcome in (BROKEN, UNDECIDED):
            return revert(context, record, objective, verdict)
        return wait(context, record, objective, verdict, slot_s)
    except StaleState:  # a person was quicker
        return commit_phase(context, record, due=context.clock())


def pass_stage(
    context: DaemonContext, record: RetuningRecord, objective: ObjectiveRecord, verdict: StageVerdict
) -> RetuningRecord:
    if objective.state not in NEXT_STAGE:
        return confirm(context, record, objective, verdict)
    now, settings, stage = context.clock(), settings_of(record), NEXT_STAGE[objective.state]

    def work(session: Session) -> None:
        push(session, record.application, objective.version or 0, stage, DAEMON, verdict.why, now,
             settings.canary_slots, verdict.figures)  # fmt: skip

    return commit_phase(
        context, record, lambda state: replace(state, message=verdict.why, silent=False),
        phase_after(record, stage), now, work=work,
    )  # fmt: skip


def revert(
    context: DaemonContext, record: RetuningRecord, objective: ObjectiveRecord, verdict: StageVerdict
) -> RetuningRecord:
    """Roll back; each reversion in a row doubles the pause before the next search."""
    now, figures = context.clock(), replace(verdict.figures, outcome=verdict.outcome)
    later = now + find_pause(state_of(record).reverts + 1, settings_of(record).pause_s, MAX_PAUSE_S)

    def work(session: Session) -> None:
        roll_back(session, record.application, DAEMON, verdict.why, now, figures, objective.version)

    phase = phase_after(record, "idle")
    return commit_phase(context, record, lambda state: state.roll_back(verdict.why, now, later), phase, work=work)


def wait(
    context: DaemonContext, record: RetuningRecord, objective: ObjectiveRecord, verdict: StageVerdict, slot_s: float
) -> RetuningRecord:
    """Check again after a slot; report silent agents once."""
    assert verdict.outcome in (GOES_ON, WAITS)
    silent, event = verdict.outcome == WAITS, None
    if silent and not state_of(record).silent:
        about = {"version": objective.version, "stage": objective.state}
        event = DaemonEvent("scaler silent", f"objective {objective.version}: {verdict.why}", about)
    return commit_phase(
        context, record, lambda state: replace(state, message=verdict.why, figures=verdict.figures, silent=silent),
        phase_after(record, objective.state), context.clock() + slot_s, event,
    )  # fmt: skip


def confirm(
    context: DaemonContext, record: RetuningRecord, objective: ObjectiveRecord, verdict: StageVerdict
) -> RetuningRecord:
    """Record that the objective passed its last stage; from now on it is checked like any other."""
    now, evidence = context.clock(), ObjectiveEvidence.from_json(objective.evidence)
    full = replace(evidence.stages.get("full", StageEvidence()), ended=now, figures=verdict.figures)
    settled = replace(evidence, settled=now, stages={**evidence.stages, "full": full})
    message = f"objective {objective.version} is settled in full use: {verdict.why}"
    event = DaemonEvent("settled", message, {"version": objective.version})
    return commit_phase(
        context, record,
        lambda state: replace(state, message=message, since=now, reverts=0, failures=0, silent=False, figures=None),
        phase_after(record, "idle"), now, event,
        lambda session: merge_evidence(session, objective, settled.to_json()),
    )  # fmt: skip


def phase_after(record: RetuningRecord, phase: str) -> str:
    """A search that a person's push interrupted stays in its phase."""
    return record.phase if record.phase in SEARCHING else phase
