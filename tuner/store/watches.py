"""What daemons are to do about applications in; an application that exactly one daemon has in hand out.

As with tuning runs, who claims a watch raises its fence, and every write of a holder names the fence that it was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import insert, or_, select, update
from sqlalchemy.orm import Session

from tuner.store.faults import Missing
from tuner.store.models import WatchRow
from tuner.store.records import Watch
from tuner.store.rows import columns_of, take_turns, to_columns
from tuner.store.runs import TakenOver, is_gone

COLUMNS = columns_of(WatchRow, Watch)
LEASE_S = 45.0  # a holder that dies is followed within a minute


def put_watch(session: Session, application: str, settings: Mapping[str, Any], due: float) -> Watch:
    """Watch an application, or go on with other settings; what is in hand stays in hand."""
    take_turns(session, f"watch of {application}")
    before = find_watch(session, application)
    if before is None:
        watch = Watch(application, settings, due=due)
        session.execute(insert(WatchRow).values(to_columns(watch)))
        return watch
    changed = {"settings": dict(settings), "due": due}  # its holder writes the others, and takes no turns
    session.execute(update(WatchRow).where(WatchRow.application == application).values(changed))
    return replace(before, settings=settings, due=due)


def find_watch(session: Session, application: str) -> Watch | None:
    row = session.execute(select(*COLUMNS).where(WatchRow.application == application)).first()
    return None if row is None else Watch(**row._mapping)


def list_watches(session: Session) -> list[Watch]:
    """Those due the longest first."""
    return [Watch(*row) for row in session.execute(select(*COLUMNS).order_by(WatchRow.due, WatchRow.application))]


def ask_watch(session: Session, application: str, wish: Mapping[str, Any]) -> Watch:
    """Lay a person's wish before the daemons, over earlier ones of the same words; they look at it at once."""
    take_turns(session, f"watch of {application}")
    watch = find_watch(session, application)
    if watch is None:
        raise Missing(f"application {application!r} is not watched; register it first")
    asked = {**watch.asked, **wish}
    session.execute(update(WatchRow).where(WatchRow.application == application).values(asked=asked))
    return replace(watch, asked=asked)


def claim_watch(session: Session, application: str, owner: str, now: float, lease_s: float = LEASE_S) -> Watch | None:
    """Take an application in hand that no living daemon has; None where one does."""
    take_turns(session, f"watch of {application}")
    holder = session.scalar(select(WatchRow.owner).where(WatchRow.application == application))
    free = or_(WatchRow.owner.is_(None), WatchRow.lease_until < now)
    if holder is not None and is_gone(holder):
        free = or_(free, WatchRow.owner == holder)
    statement = (
        update(WatchRow)
        .where(WatchRow.application == application, free)
        .values(owner=owner, heartbeat=now, lease_until=now + lease_s, fence=WatchRow.fence + 1)
        .returning(*COLUMNS)
    )
    row = session.execute(statement).first()
    return None if row is None else Watch(**row._mapping)


def renew_watch(session: Session, watch: Watch, now: float, lease_s: float = LEASE_S) -> Watch:
    return write_watch(session, watch, heartbeat=now, lease_until=now + lease_s)


def release_watch(session: Session, watch: Watch, **values: Any) -> Watch:
    """Let go of it, for anybody to claim."""
    return write_watch(session, watch, owner=None, lease_until=None, **values)


def take_up(session: Session, watch: Watch, words: tuple[str, ...]) -> Watch:
    """The watch without these wishes, which its holder is about to fulfil; others laid before it meanwhile stay."""
    take_turns(session, f"watch of {watch.application}")
    there = find_watch(session, watch.application)
    asked = {} if there is None else {key: wish for key, wish in there.asked.items() if key not in words}
    return write_watch(session, watch, asked=asked)


def write_watch(session: Session, watch: Watch, **values: Any) -> Watch:
    """Change what the holder may; `TakenOver` where it is not the holder any more."""
    mine = (WatchRow.application == watch.application, WatchRow.fence == watch.fence, WatchRow.owner == watch.owner)
    row = session.execute(update(WatchRow).where(*mine).values(values).returning(*COLUMNS)).first()
    if row is None:
        raise TakenOver(f"application {watch.application!r} was taken in hand by another daemon; this one lets go")
    return Watch(**row._mapping)
