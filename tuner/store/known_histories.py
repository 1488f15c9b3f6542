"""What policies learned from applications' histories, by the objective with which it is sent to agents."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tuner.store.records import KnownHistory
from tuner.store.tables import KNOWN_HISTORIES

KEPT_VERSIONS = 10  # of objectives, the newest
ROW = KNOWN_HISTORIES.c


def save_history(session: Session, history: KnownHistory) -> None:
    """Write it over what was there of the same objective; those of objectives long before go."""
    KNOWN_HISTORIES.save(session, [history])
    old = (ROW.application == history.application, ROW.version <= history.version - KEPT_VERSIONS)
    session.execute(delete(KNOWN_HISTORIES.table).where(*old))


def find_history(session: Session, application: str, versions: Iterable[int | None]) -> KnownHistory | None:
    """That of the first of these objectives that has one which is not empty."""
    for version in versions:
        found = KNOWN_HISTORIES.find(session, ROW.application == application, ROW.version == version)
        if version is not None and found is not None and found.document:
            return found
    return None


def list_histories(session: Session, application: str) -> dict[int, float]:
    """Seconds of history by version of the objective; 0 where there is none."""
    query = select(ROW.version, ROW.slots, ROW.slot_s).where(ROW.application == application)
    return {version: slots * slot_s for version, slots, slot_s in session.execute(query)}
