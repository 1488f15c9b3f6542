"""What a daemon works with, and the watch that it holds: every write of it names the fence that it was given."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scaler.model.backoff import find_pause
from tuner.rollout.push import DAEMON
from tuner.rollout.retuning_settings import RetuningSettings, read_retuning
from tuner.store.connection import Session, Store
from tuner.store.events import add_event
from tuner.store.records import EventRecord, RetuningRecord
from tuner.store.retunings import find_retuning, update_retuning

Clock = Callable[[], float]
MOST_PAUSE_S = 7 * 86_400.0


def never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Hand:
    """`clock` tells the time of applications; leases run by the wall clock."""

    store: Store
    owner: str
    clock: Clock = time.time
    ended: Callable[[], bool] = never


class Interrupted(Exception):
    """Something more urgent than the search came up; it stays to be resumed."""


def settings_of(watch: RetuningRecord) -> RetuningSettings:
    return read_retuning(watch.settings)


def note(
    hand: Hand,
    watch: RetuningRecord,
    phase: str | None = None,
    due: float | None = None,
    event: tuple[str, str, Mapping[str, Any]] | None = None,
    also: Callable[[Session], None] | None = None,
    **detail: Any,
) -> RetuningRecord:
    """Commit where the holder stands, with an event (what, says, detail) and whatever goes along, or nothing of it."""
    now = hand.clock()
    values: dict[str, Any] = {}
    if phase is not None:
        values["phase"] = phase
    if due is not None:
        values["due"] = due
    with hand.store.begin() as session:
        there = find_retuning(session, watch.application) or watch  # a step may hold an older one
        values["detail"] = {k: v for k, v in {**there.detail, **detail}.items() if v is not None}
        written = update_retuning(session, watch, **values)
        if also is not None:
            also(session)
        if event is not None:
            add_event(session, EventRecord(watch.application, now, DAEMON, *event))
    return written


def give_up(hand: Hand, watch: RetuningRecord, why: str) -> RetuningRecord:
    """Back to idle without an objective; the next try waits the longer the more have failed in a row."""
    settings, fails, now = settings_of(watch), int(watch.detail.get("fails", 0)) + 1, hand.clock()
    later = now + find_pause(fails, settings.check_s, max(settings.period_s, settings.check_s))
    event = ("not tuned", f"{watch.application} was not tuned: {why}", {"why": why, "again": later})
    return note(
        hand, watch, "idle", later, event, fails=fails, not_before=later, says=why, run=None, version=None, wish=None
    )
