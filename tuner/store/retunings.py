"""Retunings of applications, each leased to at most one daemon.

As with tuning runs, who claims a watch raises its fence, and every write of a holder names the fence that it was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from tuner.store.faults import NotFound
from tuner.store.models import RetuningRow
from tuner.store.records import RetuningRecord
from tuner.store.rows import RecordTable, lock_turn, to_columns
from tuner.store.runs import LeaseLost, claim

RETUNINGS = RecordTable(RetuningRow, RetuningRecord)
LEASE_S = 45.0  # a holder that dies is followed within a minute


def save_retuning(session: Session, application: str, settings: Mapping[str, Any], due: float) -> RetuningRecord:
    """Watch an application, or go on with other settings; what is in hand stays in hand."""
    lock_turn(session, f"watch of {application}")
    before = find_retuning(session, application)
    if before is None:
        watch = RetuningRecord(application, settings, due=due)
        session.execute(insert(RetuningRow).values(to_columns(watch)))
        return watch
    changed = {"settings": dict(settings), "due": due}  # its holder writes the others, and takes no turns
    session.execute(update(RetuningRow).where(RetuningRow.application == application).values(changed))
    return replace(before, settings=settings, due=due)


def find_retuning(session: Session, application: str) -> RetuningRecord | None:
    return RETUNINGS.find(session, RetuningRow.application == application)


def list_retunings(session: Session) -> list[RetuningRecord]:
    """Those due the longest first."""
    return RETUNINGS.load(session, RETUNINGS.select().order_by(RetuningRow.due, RetuningRow.application))


def add_request(session: Session, application: str, wish: Mapping[str, Any]) -> RetuningRecord:
    """Lay a person's wish before the daemons, over earlier ones of the same words; they look at it at once."""
    lock_turn(session, f"watch of {application}")
    watch = find_retuning(session, application)
    if watch is None:
        raise NotFound(f"application {application!r} is not watched; register it first")
    asked = {**watch.asked, **wish}
    session.execute(update(RetuningRow).where(RetuningRow.application == application).values(asked=asked))
    return replace(watch, asked=asked)


def claim_retuning(
    session: Session, application: str, owner: str, now: float, lease_s: float = LEASE_S
) -> RetuningRecord | None:
    """Take an application in hand that no living daemon has; None where one does."""
    lock_turn(session, f"watch of {application}")
    return claim(session, RETUNINGS, RetuningRow.application == application, owner, now, lease_s)


def renew_retuning(session: Session, watch: RetuningRecord, now: float, lease_s: float = LEASE_S) -> RetuningRecord:
    return update_retuning(session, watch, heartbeat=now, lease_until=now + lease_s)


def release_retuning(session: Session, watch: RetuningRecord, **values: Any) -> RetuningRecord:
    """Let go of it, for anybody to claim."""
    return update_retuning(session, watch, owner=None, lease_until=None, **values)


def remove_requests(session: Session, watch: RetuningRecord, words: tuple[str, ...]) -> RetuningRecord:
    """The watch without these wishes, which its holder is about to fulfil; others laid before it meanwhile stay."""
    lock_turn(session, f"watch of {watch.application}")
    there = find_retuning(session, watch.application)
    asked = {} if there is None else {key: wish for key, wish in there.asked.items() if key not in words}
    return update_retuning(session, watch, asked=asked)


def update_retuning(session: Session, watch: RetuningRecord, **values: Any) -> RetuningRecord:
    """Change what the holder may; `LeaseLost` where it is not the holder any more."""
    mine = (
        RetuningRow.application == watch.application,
        RetuningRow.fence == watch.fence,
        RetuningRow.owner == watch.owner,
    )
    written = RETUNINGS.update(session, values, *mine)
    if written is None:
        raise LeaseLost(f"application {watch.application!r} was taken in hand by another daemon; this one lets go")
    return written
