"""Epochs of the database: each restoration begins one, so that no version or revision is given to two things.

A restored database shows an earlier moment. What was numbered after it is gone from the database, and agents know it
all the same: their reports name its versions. An epoch therefore states which numbers are used up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from tuner.store.records import Epoch, WriteCheck
from tuner.store.tables import EPOCHS, OBJECTIVES, ORDERS, WRITE_CHECKS

READINESS, COPY = "readiness", "copy"  # who writes to show that the database takes writes
OTHERS = ""  # applications that an epoch does not name
HIGHEST_VERSIONS: Select[Any] = select(OBJECTIVES.c.application, func.max(OBJECTIVES.c.version)).group_by(
    OBJECTIVES.c.application
)
GIVEN_REVISIONS: Select[Any] = select(ORDERS.c.application, ORDERS.c.revision)


class Floors(NamedTuple):
    """The highest numbers of an application that agents may know."""

    version: int = 0
    revision: int = 0


def find_epoch(session: Session) -> Epoch | None:
    """The newest; None in a database that was never restored."""
    newest = select(func.max(EPOCHS.c.number)).scalar_subquery()
    return EPOCHS.find(session, EPOCHS.c.number == newest)


def find_floors(session: Session, application: str) -> Floors:
    """What was used up before the epoch began."""
    epoch = find_epoch(session)
    return Floors() if epoch is None else floors_of(epoch, application)


def floors_of(epoch: Epoch, application: str) -> Floors:
    return Floors(*(numbers.get(application, numbers.get(OTHERS, 0)) for numbers in (epoch.versions, epoch.revisions)))


def list_used_numbers(session: Session) -> dict[str, Floors]:
    """The highest numbers given so far, before the epoch too, by application, of others as `OTHERS`."""
    epoch = find_epoch(session)
    versions: dict[str, int] = dict(session.execute(HIGHEST_VERSIONS).all())
    revisions: dict[str, int] = dict(session.execute(GIVEN_REVISIONS).all())
    named = set() if epoch is None else {*epoch.versions, *epoch.revisions}
    used = {}
    for name in sorted({OTHERS, *versions, *revisions, *named}):
        before = Floors() if epoch is None else floors_of(epoch, name)
        used[name] = Floors(max(before.version, versions.get(name, 0)), max(before.revision, revisions.get(name, 0)))
    return used


def check_write(session: Session, writer: str, now: float) -> None:
    """Write the moment, which fails where the database takes no writes."""
    WRITE_CHECKS.save(session, [WriteCheck(writer, now)])


def find_write_check(session: Session, writer: str) -> float | None:
    found = WRITE_CHECKS.find(session, WRITE_CHECKS.c.writer == writer)
    return None if found is None else found.time
