"""Corrections of decisions: the report that stood becomes a row of the history, and the newer one stands.

The decisions' own table has what stands, so that reading it costs no more than before; how often a decision was
corrected is a column of it. An agent corrects what it wrote itself, by its instance. What was reported before is never
lost, and what is evidence for a roll-out stays as it was reported first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from sqlalchemy import update
from sqlalchemy.orm import Session
from sqlalchemy.sql.operators import eq, ge, in_op, lt

from tuner.store.records import DecisionRecord, SupersededDecision
from tuner.store.rows import given
from tuner.store.tables import DECISIONS, SUPERSEDED

MAX_CORRECTIONS = 20  # of one decision
ROW, EARLIER = DECISIONS.c, SUPERSEDED.c
KEPT_APART = (*DECISIONS.keys, "corrections")  # from the document of an earlier report
Outcome = Literal["corrected", "repeated", "refused"]


def correct_decision(session: Session, sent: DecisionRecord, who: str, now: float) -> Outcome:
    """Let a report stand in the place of its agent's own earlier one of the same slot.

    Refused is another writer's, and what was corrected too often. An agent that got no answer sends its reports again,
    by another way perhaps than the one on which an earlier sending still is: what has no higher sequence than what
    stands is such an old one. Of reports without a sequence what says the same as any before is taken for one.
    """
    same = [ROW[name] == getattr(sent, name) for name in DECISIONS.keys]
    row = session.execute(DECISIONS.select(*same).with_for_update()).first()  # so that of two corrections one waits
    stands = None if row is None else DecisionRecord(*row)
    if stands is None or sent.instance is None or sent.instance != stands.instance:
        return "refused"
    if is_repeated(session, sent, stands):
        if is_later(sent, stands):  # what is older than this repetition shall not stand in its place
            session.execute(update(DECISIONS.table).where(*same).values(sequence=sent.sequence))
        return "repeated"
    number = (stands.corrections or 0) + 1
    if number > MAX_CORRECTIONS:
        return "refused"
    document = {key: of for key, of in DECISIONS.to_columns(stands).items() if key not in KEPT_APART}
    before = SupersededDecision(sent.application, sent.operator, sent.time, number, now, who, document)
    session.execute(SUPERSEDED.insert(session).values(SUPERSEDED.to_columns(before)))
    stated = DECISIONS.to_columns(replace(sent, corrections=number))
    session.execute(update(DECISIONS.table).where(*same).values(stated))
    return "corrected"


def is_repeated(session: Session, sent: DecisionRecord, stands: DecisionRecord) -> bool:
    if sent.sequence is not None and stands.sequence is not None:
        return not is_later(sent, stands) or says_the_same(sent, stands)
    earlier = (one.record for one in list_earlier(session, stands))
    return any(says_the_same(sent, before) for before in (stands, *earlier))


def is_later(sent: DecisionRecord, stands: DecisionRecord) -> bool:
    """Whether both have a sequence, and this one the higher."""
    return sent.sequence is not None and stands.sequence is not None and sent.sequence > stands.sequence


def says_the_same(sent: DecisionRecord, stored: DecisionRecord) -> bool:
    """Whether a report is as the database gives one back, whoever wrote it."""
    loaded = DecisionRecord(**DECISIONS.to_columns(sent))
    sender: dict[str, Any] = dict.fromkeys(("instance", "sequence", "corrections"))
    return replace(loaded, **sender) == replace(stored, **sender)


def list_earlier(session: Session, stands: DecisionRecord) -> list[SupersededDecision]:
    """What was reported before of the same slot, the last first; nothing is read where there is nothing."""
    if stands.corrections is None:
        return []
    same = (EARLIER[name] == getattr(stands, name) for name in DECISIONS.keys)
    return SUPERSEDED.load(session, SUPERSEDED.select(*same).order_by(EARLIER.number.desc()))


def list_superseded(session: Session, application: str, *chosen: Any, **more: Any) -> list[SupersededDecision]:
    """The reports that `stream_superseded` chooses and orders."""
    return list(stream_superseded(session, application, *chosen, **more))


def stream_superseded(
    session: Session, application: str, operators: Sequence[str] | None = None, since: float | None = None,
    until: float | None = None, limit: int | None = None,
) -> Iterator[SupersededDecision]:  # fmt: skip
    """Earlier reports of slots in [since, until): the newest slot first, of each the last report first."""
    times = ((EARLIER.time, ge, since), (EARLIER.time, lt, until))
    chosen = given((EARLIER.application, eq, application), (EARLIER.operator, in_op, operators), *times)
    order = (EARLIER.time.desc(), EARLIER.operator, EARLIER.number.desc())
    return SUPERSEDED.stream(session, SUPERSEDED.select(*chosen).order_by(*order).limit(limit))


def find_first_reports(
    session: Session, application: str, since: float | None = None, until: float | None = None
) -> dict[tuple[str, float], DecisionRecord]:
    """Of every corrected decision in [since, until) what was reported first, by operator and time."""
    first = (EARLIER.application == application, EARLIER.number == 1)
    query = SUPERSEDED.select(*first, *given((EARLIER.time, ge, since), (EARLIER.time, lt, until)))
    return {(one.operator, one.time): one.record for one in SUPERSEDED.load(session, query)}
