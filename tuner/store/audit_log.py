"""Audit log: events chained by hashes, so that a row that is changed, removed, inserted or moved is found.

Every row has a number, the hash of the row before, and its own: SHA-256 of its canonical JSON (`compute_hash`). An
event is inserted by the transaction of the act that it records, and sealed as the last thing before the commit. One
transaction at a time seals: the lock is held for the commit alone and taken after all others, so that nobody waits for
the act, and no two wait for each other. A unique index on the numbers refuses a fork whatever else goes wrong.

Rows without a number, which a program of an older schema wrote or anybody by hand, are sealed with the next event, and
a row after them says which these were: their seal shows that they stayed as they were found, not who wrote them.

Nothing deletes or changes a sealed row; who may write to the database can compute the chain anew from some row on, or
cut off its end, and is found out by a hash that was noted elsewhere (`tuner audit verify --head`).
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, Text, cast, func, select, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.operators import eq, ge, in_op, lt

from scaler.model.wire import read_json, spell
from tuner.store.records import EventRecord
from tuner.store.rows import given, lock_turn
from tuner.store.tables import BATCH, EVENTS

ROW = EVENTS.c
GENESIS = "0" * 64  # what the first row has for the hash of the one before
HASHED = ("number", "previous", "id", "application", "time", "who", "what", "message", "detail")
UNSEALED = "events to seal"  # in the session's own notes
DAEMON, SERVICE, LOG = PROGRAMS = ("the daemon", "the service", "the audit log")  # who acts where nobody asked
FOUND = "sealed as found"
SEALING = "0010"  # schema from which on programs seal what they write
MAX_SHOWN = 1_000  # ids in a row


def add_event(session: Session, event: EventRecord) -> EventRecord:
    """Insert it, to be sealed when the transaction is committed; the same with its id."""
    added = EVENTS.add(session, event)
    session.info.setdefault(UNSEALED, []).append(added.id)
    return added


def seal_events(session: Session) -> None:
    """Chain the transaction's events to the log, after rows that were found without a number and what says so."""
    own: list[int] = session.info.pop(UNSEALED, [])
    if not own:
        return
    lock_turn(session, "audit log")
    found, last = seal_all(session, ROW.id.not_in(own), find_head(session))
    if found:
        now = session.scalar(select(ROW.time).where(ROW.id == own[-1])) or 0.0
        stated = EventRecord("", now, LOG, FOUND, describe_found(found), {"ids": found[:MAX_SHOWN]})
        own.insert(0, EVENTS.add(session, stated).id or 0)
    for event_id in own:
        _, last = seal_all(session, ROW.id == event_id, last)


def seal_all(
    session: Session, which: ColumnElement[bool], last: EventRecord | None
) -> tuple[list[int], EventRecord | None]:
    """Seal the rows without a number for which this holds, as they are; their ids, and the last row of the chain."""
    found: list[int] = []
    unsealed = EVENTS.select(ROW.number.is_(None), which).order_by(ROW.id).limit(BATCH)
    while rows := EVENTS.load(session, unsealed):
        for event in rows:
            last = chain(event, last)
            sealed = {name: getattr(last, name) for name in ("number", "previous", "hash")}
            session.execute(update(EVENTS.table).where(ROW.id == event.id).values(sealed))
        found += [event.id for event in rows if event.id is not None]
    return found, last


def describe_found(ids: Sequence[int]) -> str:
    which = f"{len(ids):,} rows (ids {ids[0]} to {ids[-1]})" if len(ids) > 1 else f"row {ids[0]}"
    return (
        f"{which} had no place in the log: written by a program older than schema {SEALING}, or by hand. Sealed as "
        "found; who wrote them is what they say themselves"
    )


def chain(event: EventRecord, last: EventRecord | None) -> EventRecord:
    """The event as the row that follows the last one."""
    number, previous = (1, GENESIS) if last is None else ((last.number or 0) + 1, last.hash)
    placed = replace(event, number=number, previous=previous)
    return replace(placed, hash=compute_hash(placed))


def compute_hash(event: EventRecord) -> str:
    """SHA-256 of all fields but the hash as JSON: keys sorted, no space, ASCII alone, infinities as texts."""
    stated = spell({name: getattr(event, name) for name in HASHED})
    return sha256(json.dumps(stated, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


def find_head(session: Session) -> EventRecord | None:
    """The last row of the chain."""
    return EVENTS.find(session, ROW.number == select(func.max(ROW.number)).scalar_subquery())


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """What a check of the chain found."""

    rows: int  # that are as they were written, counted from the first
    head: str  # hash of the last of these
    time: float | None  # of it
    unsealed: int  # rows of an older program, which the next event seals
    fault: str | None  # of the first row that is not
    found: int | None  # number of the row that has the hash which was asked for


def check_chain(session: Session, head: str | None = None) -> ChainCheck:
    """Check every row from the first on, and that a hash noted earlier is that of one of them."""
    rows, previous = 0, GENESIS
    time: float | None = None
    fault: str | None = None
    found: int | None = None
    with closing(read_chain(session)) as chained:
        for event in chained:
            fault = find_fault(event, rows + 1, previous)
            if fault is not None:
                break
            rows, previous, time = rows + 1, str(event.hash), event.time
            if previous == head:
                found = rows
    unsealed = session.scalar(select(func.count()).where(ROW.number.is_(None))) or 0
    if fault is None and head is not None and found is None:
        fault = f"none of the {rows:,} rows has the hash {head}: the end was cut off, or rows were replaced"
    return ChainCheck(rows, previous, time, unsealed, fault, found)


def read_chain(session: Session) -> Generator[EventRecord]:
    """Rows by number; their documents are parsed one by one, for somebody may have written anything there."""
    names = [name for name in (*HASHED, "hash") if name != "detail"]
    query: Any = select(*(ROW[name] for name in names), cast(ROW.detail, Text)).where(ROW.number.is_not(None))
    with session.execute(query.order_by(ROW.number).execution_options(yield_per=BATCH)) as found:
        for *values, detail in found:
            yield EventRecord(**dict(zip(names, values, strict=True)), detail=parse_detail(detail))


def parse_detail(text: str) -> Any:
    """The document; of what is none, the text itself, which no row was sealed with."""
    try:
        return read_json(text)
    except (ValueError, TypeError):
        return text


def find_fault(event: EventRecord, number: int, previous: str) -> str | None:
    """What is wrong with the row that should have this number and follow the row of this hash; None if nothing is."""
    if event.number != number:
        return f"row {number} is missing: row {event.number} comes after row {number - 1}"
    try:
        unchanged = compute_hash(event) == event.hash
    except (TypeError, ValueError):  # of a type that no column has
        unchanged = False
    if not unchanged:
        return f"row {number} was changed: its hash is not that of what it says"
    if event.previous != previous:
        return f"row {number} does not follow row {number - 1}: one of the two was replaced"
    return None


def continues_log(session: Session, earlier: Session) -> bool:
    """Whether the log has all rows of another database's as they are there, which need not be sealed there yet."""
    with earlier.execute(EVENTS.select().order_by(ROW.id).execution_options(yield_per=BATCH)) as theirs:
        for rows in theirs.partitions():
            events = [EventRecord(*row) for row in rows]
            within = ROW.id.between(events[0].id, events[-1].id)
            ours = {event.id: event for event in EVENTS.load(session, EVENTS.select(within))}
            if not all(event.id in ours and is_same(event, ours[event.id]) for event in events):
                return False
    return True


def is_same(earlier: EventRecord, event: EventRecord) -> bool:
    if earlier.number is None:
        event = replace(event, number=None, previous=None, hash=None)
    return (compute_hash(earlier), earlier.hash) == (compute_hash(event), event.hash)


def list_events(
    session: Session,
    application: str | None = None,
    what: Sequence[str] | None = None,
    since: float | None = None,
    until: float | None = None,
    limit: int | None = 100,
    before: int | None = None,
    who: str | None = None,
) -> list[EventRecord]:
    """The newest first; the next page is the one `before` the id of the last of this one."""
    chosen = given(
        (ROW.application, eq, application),
        (ROW.what, in_op, what),
        (ROW.time, ge, since),
        (ROW.time, lt, until),
        (ROW.id, lt, before),
        (ROW.who, eq, who),
    )
    return EVENTS.load(session, EVENTS.select(*chosen).order_by(ROW.id.desc()).limit(limit))
