"""What every phase works with, and how it commits: each write names the fence of the lease that it was given."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from scaler.model.errors import find_pause
from tuner.retuning.state import Change, RetuningState, state_of
from tuner.rollout.push import DAEMON
from tuner.rollout.retuning_settings import RetuningSettings, read_retuning
from tuner.store.connection import Session, Store
from tuner.store.events import add_event
from tuner.store.records import EventRecord, RetuningRecord
from tuner.store.retunings import find_retuning, update_retuning

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
