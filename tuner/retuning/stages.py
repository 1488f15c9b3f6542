"""An objective on its way in; moved on, settled or rolled back as its evidence says, out."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from scaler.model.backoff import find_pause
from tuner.retuning.context import MOST_PAUSE_S, Hand, note, settings_of
from tuner.retuning.requests import SEARCHING
from tuner.rollout.evidence import BROKEN, GOES_ON, PASSED, UNDECIDED, WAITS, Verdict, judge_stage
from tuner.rollout.issue_orders import CANDIDATES, find_slot
from tuner.rollout.push import DAEMON, add_evidence, push, roll_back
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.faults import StaleState
from tuner.store.models import ObjectiveRow
from tuner.store.objectives import list_objectives
from tuner.store.records import ObjectiveRecord, RetuningRecord

NEXT = {"shadow": "canary", "canary": "full"}


def find_moving(session: Session, app: str) -> ObjectiveRecord | None:
    """What is in shadow or canary, else what is in full use and not yet settled."""
    candidates = list_objectives(session, app, CANDIDATES, limit=1)
    unsettled = [
        one
        for one in ([] if candidates else list_objectives(session, app, ("full",), limit=1))
        if one.evidence.get("settled", 0.0) is None
    ]
    return next(iter([*candidates, *unsettled]), None)


def list_moving(session: Session) -> set[str]:
    """Applications with an objective in shadow or canary."""
    return set(session.scalars(select(ObjectiveRow.application).where(ObjectiveRow.state.in_(CANDIDATES)).distinct()))


def watch_stage(hand: Hand, watch: RetuningRecord) -> RetuningRecord | None:
    """One look at what is on its way in, and what follows from it; None where nothing is."""
    with hand.store.read() as session:
        objective = find_moving(session, watch.application)
        if objective is None:
            return None
        verdict = judge_stage(session, objective, settings_of(watch), hand.clock())
        slot_s = find_slot_of(session, watch.application)
    try:
        return act(hand, watch, objective, verdict, slot_s)
    except StaleState:  # a person was quicker
        return note(hand, watch, due=hand.clock())


def act(
    hand: Hand, watch: RetuningRecord, objective: ObjectiveRecord, verdict: Verdict, slot_s: float
) -> RetuningRecord:
    now, settings, stage = hand.clock(), settings_of(watch), objective.state
    app, version = watch.application, objective.version or 0
    figures = dict(verdict.figures)
    if verdict.outcome == PASSED and stage in NEXT:

        def move(session: Session) -> None:
            push(session, app, version, NEXT[stage], DAEMON, verdict.why, now, settings.canary_slots, figures)

        return note(hand, watch, phase_of(watch, NEXT[stage]), now, None, move, says=verdict.why, silent=None)
    if verdict.outcome == PASSED:
        return settle(hand, watch, objective, verdict)
    if verdict.outcome in (BROKEN, UNDECIDED):
        reverts = int(watch.detail.get("reverts", 0)) + 1
        later = now + find_pause(reverts, settings.pause_s, MOST_PAUSE_S)

        def back(session: Session) -> None:
            roll_back(session, app, DAEMON, verdict.why, now, {**figures, "outcome": verdict.outcome}, version)

        return note(
            hand, watch, phase_of(watch, "idle"), now, None, back,
            says=verdict.why, reverts=reverts, not_before=later, since=now, silent=None,
            tuned=watch.detail.get("tuned", now),
        )  # fmt: skip
    silent = verdict.outcome == WAITS
    event = None
    if silent and not watch.detail.get("silent"):
        event = ("scaler silent", f"objective {version}: {verdict.why}", {"version": version, "stage": stage})
    assert verdict.outcome in (GOES_ON, WAITS)
    return note(
        hand, watch, phase_of(watch, stage), now + slot_s, event,
        says=verdict.why, silent=True if silent else None, figures=figures,
    )  # fmt: skip


def settle(hand: Hand, watch: RetuningRecord, objective: ObjectiveRecord, verdict: Verdict) -> RetuningRecord:
    """It has shown what it was to show, and is watched like any other from now on."""
    now = hand.clock()

    def work(session: Session) -> None:
        whole = {**objective.evidence.get("full", {}), "ended": now, **verdict.figures}
        add_evidence(session, objective, settled=now, full=whole)

    says = f"objective {objective.version} is settled in full use: {verdict.why}"
    event = ("settled", says, {"version": objective.version})
    return note(
        hand, watch, phase_of(watch, "idle"), now, event, work,
        says=says, since=now, reverts=None, fails=None, silent=None, figures=None,
    )  # fmt: skip


def phase_of(watch: RetuningRecord, phase: str) -> str:
    """A search that a person's push came in between of stays where it is."""
    return watch.phase if watch.phase in SEARCHING else phase


def find_slot_of(session: Session, app: str) -> float:
    return find_slot(load_application(session, app).document)


def read_moving(hand: Hand, app: str) -> Any:
    with hand.store.read() as session:
        return find_moving(session, app)
