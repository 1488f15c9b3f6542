"""State of one application's retuning between two phases, and how each transition changes it.

It is stored as JSON in the record's `detail`, under keys that older versions wrote too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from scaler.model.errors import find_pause
from tuner.rollout.push import DAEMON
from tuner.rollout.retuning_settings import RetuningSettings, read_retuning
from tuner.rollout.steering import TuningRequest
from tuner.store.connection import Session, Store
from tuner.store.events import add_event
from tuner.store.json_fields import keyed, read_fields, write_fields
from tuner.store.objective_evidence import StageFigures
from tuner.store.records import EventRecord, RetuningRecord
from tuner.store.retunings import find_retuning, update_retuning


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an application is tuned."""

    kind: str = ""  # period, drift, error, qos, asked
    why: str = ""


@dataclass(frozen=True, slots=True)
class RetuningState:
    message: str | None = keyed("says")  # the newest sentence for people
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

    def to_json(self) -> dict[str, Any]:
        return write_fields(
            self,
            cause=None if self.cause is None else write_fields(self.cause),
            request=None if self.request is None else self.request.to_json(),
            figures=None if self.figures is None else write_fields(self.figures),
        )

    @classmethod
    def from_json(cls, document: Any) -> Self:
        cause, request, figures = (document.get(key) for key in ("cause", "wish", "figures"))
        return read_fields(
            cls,
            document,
            cause=None if cause is None else read_fields(Cause, cause),
            request=None if request is None else TuningRequest.from_json(request),
            figures=None if figures is None else read_fields(StageFigures, figures),
        )

    def start_search(self, cause: Cause, request: TuningRequest | None = None) -> Self:
        return replace(self, cause=cause, request=request, message=cause.why, run_id=None, version=None)

    def end_search(self, now: float, message: str | None) -> Self:
        """A search that ended without failure, with or without an objective to push."""
        return replace(self.stop_search(now, message), failures=0)

    def stop_search(self, now: float, message: str | None) -> Self:
        return replace(self.abandon_search(message), tuned=now)

    def abandon_search(self, message: str | None) -> Self:
        return replace(self, message=message, run_id=None, version=None, request=None)

    def fail_search(self, why: str, not_before: float) -> Self:
        return replace(self.abandon_search(why), failures=self.failures + 1, not_before=not_before)

    def enter_stage(self, message: str) -> Self:
        return replace(self, message=message, silent=False)

    def watch_stage(self, message: str, figures: StageFigures, silent: bool) -> Self:
        return replace(self, message=message, figures=figures, silent=silent)

    def roll_back(self, message: str, now: float, not_before: float) -> Self:
        tuned = now if self.tuned is None else self.tuned
        changed = replace(self, message=message, silent=False, reverts=self.reverts + 1, since=now)
        return replace(changed, not_before=not_before, tuned=tuned)

    def confirm(self, message: str, now: float) -> Self:
        """The objective in full use has passed its last stage."""
        return replace(self, message=message, since=now, reverts=0, failures=0, silent=False, figures=None)


Change = Callable[[RetuningState], RetuningState]


def state_of(record: RetuningRecord) -> RetuningState:
    return RetuningState.from_json(record.detail)


Clock = Callable[[], float]
MAX_PAUSE_S = 7 * 86_400.0


def never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class DaemonContext:
    """`clock` gives the time of applications; leases run by the wall clock."""

    store: Store
    owner: str
    clock: Clock = time.time
    ending: Callable[[], bool] = never  # whether the daemon is to end


class Interrupted(Exception):
    """A search made way for something more urgent; it is resumed later."""


class DaemonEvent(NamedTuple):
    what: str
    message: str
    about: Mapping[str, Any]


def settings_of(record: RetuningRecord) -> RetuningSettings:
    return read_retuning(record.settings)


def unchanged(state: RetuningState) -> RetuningState:
    return state


def commit_phase(
    context: DaemonContext,
    record: RetuningRecord,
    change: Change = unchanged,
    phase: str | None = None,
    due: float | None = None,
    event: DaemonEvent | None = None,
    work: Callable[[Session], object] | None = None,
) -> RetuningRecord:
    """Commit a phase's end in one transaction: the changed state, an event and whatever belongs to it, or nothing."""
    with context.store.begin() as session:
        stored = find_retuning(session, record.application) or record  # a phase may end with an older record
        values: dict[str, Any] = {"detail": change(state_of(stored)).to_json()}
        values |= {key: value for key, value in (("phase", phase), ("due", due)) if value is not None}
        written = update_retuning(session, record, **values)
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
    return commit_phase(context, record, lambda state: state.fail_search(why, later), "idle", later, event)
