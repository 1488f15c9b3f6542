"""State of one application's retuning between two phases, and how phases and people's requests change it.

It is stored as JSON in the record's `detail`, under keys that older versions wrote too. Each commit names the fence of
the lease that the phase was given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from scaler.model.errors import find_pause
from tuner.rollout.retuning_settings import RetuningSettings, read_retuning
from tuner.rollout.steering import TuningRequest
from tuner.store.audit_log import DAEMON, add_event
from tuner.store.connection import Session, Store
from tuner.store.json_fields import keyed, read_fields, renamed, write_fields
from tuner.store.objectives import StageFigures
from tuner.store.records import EventRecord, RetuningRecord
from tuner.store.runs import Clock, claim_run, end_run, find_retuning, remove_requests, update_retuning

Change = Callable[["RetuningState"], "RetuningState"]
MAX_PAUSE_S = 7 * 86_400.0
STEERING = ("pause", "resume", "stop")
TUNE = "tune"
SEARCHING = ("ingest", "fit", "check", "tune", "compare")  # phases between being due and a candidate


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an application is tuned."""

    kind: str = ""  # period, drift, error, qos, asked
    why: str = ""


@dataclass(frozen=True, slots=True)
class RetuningState:
    message: str | None = renamed("says")  # the newest sentence for people
    cause: Cause | None = None  # of the newest search
    request: TuningRequest | None = field(default=None, metadata={"key": "wish"})  # of a person
    run_id: int | None = keyed("run")  # of the search under way
    version: int | None = None  # of the objective that it proposed
    searches: int = 0  # begun so far; the seed of the next
    failures: int = keyed("fails", 0)  # in a row
    tuned: float | None = None  # when the newest search ended
    since: float | None = None  # when the objective in full use was confirmed or rolled back
    not_before: float | None = None  # no search of the daemon's own starts earlier
    reverts: int = 0  # in a row
    paused_by: str | None = keyed("paused")
    silent: bool = False  # the stage waits for agents that report nothing
    figures: StageFigures | None = None  # of the stage under way

    def start_search(self, cause: Cause, request: TuningRequest | None = None) -> Self:
        return replace(self, cause=cause, request=request, message=cause.why, run_id=None, version=None)

    def end_search(self, now: float, message: str | None) -> Self:
        """A search that ended without failure, with or without an objective to push."""
        return self.leave_search(message, tuned=now, failures=0)

    def leave_search(self, message: str | None, **changes: Any) -> Self:
        return replace(self, message=message, run_id=None, version=None, request=None, **changes)

    def roll_back(self, message: str, now: float, not_before: float) -> Self:
        tuned = now if self.tuned is None else self.tuned
        changed = replace(self, message=message, silent=False, reverts=self.reverts + 1, since=now)
        return replace(changed, not_before=not_before, tuned=tuned)


def state_of(record: RetuningRecord) -> RetuningState:
    return read_fields(RetuningState, record.detail)


@dataclass(frozen=True, slots=True)
class DaemonContext:
    """`clock` gives the time of applications; leases run by the wall clock."""

    store: Store
    owner: str
    clock: Clock = time.time
    ending: Callable[[], bool] = lambda: False  # whether the daemon is to end


class Interrupted(Exception):
    """A search made way for something more urgent; it is resumed later."""


class DaemonEvent(NamedTuple):
    what: str
    message: str
    about: Mapping[str, Any]


def settings_of(record: RetuningRecord) -> RetuningSettings:
    return read_retuning(record.settings)


def commit_phase(
    context: DaemonContext,
    record: RetuningRecord,
    change: Change | None = None,
    phase: str | None = None,
    due: float | None = None,
    event: DaemonEvent | None = None,
    work: Callable[[Session], object] | None = None,
    applied: str | None = None,
) -> RetuningRecord:
    """Commit a phase's end in one transaction: changed state, event, removal of the applied request, other work."""
    with context.store.begin() as session:
        stored = find_retuning(session, record.application) or record  # a phase may end with an older record
        state = state_of(stored)
        values: dict[str, Any] = {"detail": write_fields(state if change is None else change(state))}
        values |= {key: value for key, value in (("phase", phase), ("due", due)) if value is not None}
        written = update_retuning(session, record, **values)
        if applied is not None:
            remove_requests(session, record, (applied,))
        if work is not None:
            work(session)
        if event is not None:
            add_event(session, EventRecord(record.application, context.clock(), DAEMON, *event))
    return written


def abandon(context: DaemonContext, record: RetuningRecord, why: str) -> RetuningRecord:
    """Go back to idle without an objective; each failure in a row doubles the time to the next try."""
    settings, now, failures = settings_of(record), context.clock(), state_of(record).failures
    later = now + find_pause(failures + 1, settings.check_s, max(settings.period_s, settings.check_s))
    event = DaemonEvent("not tuned", f"{record.application} was not tuned: {why}", {"why": why, "again": later})

    def fail(state: RetuningState) -> RetuningState:
        return state.leave_search(why, failures=state.failures + 1, not_before=later)

    return commit_phase(context, record, fail, "idle", later, event)


def is_requested(record: RetuningRecord) -> bool:
    """Whether a request can be applied now: one to tune waits for what is under way."""
    return any(word in record.asked for word in STEERING) or (TUNE in record.asked and record.phase == "idle")


def apply_requests(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    """Pause, resume and stop, in the order of the requests."""
    requests = [(word, read_fields(TuningRequest, record.asked[word])) for word in STEERING if word in record.asked]
    for word, request in sorted(requests, key=lambda one: one[1].when):
        record = stop(context, record, request.who) if word == "stop" else set_pause(context, record, word, request.who)
    return reload_requests(context, record) if requests else record


def set_pause(context: DaemonContext, record: RetuningRecord, word: str, who: str) -> RetuningRecord:
    """Pause, or resume: then the application is due."""
    what, paused_by, due = ("paused", who, None) if word == "pause" else ("resumed", None, context.clock())
    event = DaemonEvent(what, f"{who} {what} the retuning of {record.application}", {"who": who})
    return commit_phase(
        context, record, lambda state: replace(state, paused_by=paused_by), due=due, event=event, applied=word
    )


def stop(context: DaemonContext, record: RetuningRecord, who: str) -> RetuningRecord:
    """End the search under way for good."""
    run_id, now = state_of(record).run_id, context.clock()

    def work(session: Session) -> None:
        run = None if run_id is None else claim_run(session, run_id, context.owner, time.time())
        if run is not None:
            end_run(session, run, "stopped", time.time(), f"stopped by {who}")

    if record.phase not in SEARCHING:
        return commit_phase(context, record, work=work, applied="stop")
    message = f"{who} stopped the tuning of {record.application}"
    event, due = DaemonEvent("tuning ended", message, {"who": who}), now + settings_of(record).check_s
    return commit_phase(
        context, record, lambda state: state.leave_search(message, tuned=now), "idle", due, event, work, "stop"
    )


def start_requested(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    """Start the search that a person asked for."""
    request = read_fields(TuningRequest, record.asked[TUNE])
    cause = Cause("asked", f"{request.who} asked for it")
    started = commit_phase(
        context, record, lambda state: state.start_search(cause, request), "ingest", context.clock(), applied=TUNE
    )
    return reload_requests(context, started)


def reload_requests(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    """The record with the requests that are left."""
    with context.store.read() as session:
        stored = find_retuning(session, record.application)
    return record if stored is None else replace(record, asked=stored.asked, settings=stored.settings)
