"""Applications as described, with a version for each change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Select, func, insert, select
from sqlalchemy.orm import Session

from tuner.store.faults import NotFound
from tuner.store.json_fields import as_stored
from tuner.store.models import ApplicationRow, ApplicationVersionRow
from tuner.store.records import ApplicationVersion
from tuner.store.rows import lock_turn

VERSIONS = select(
    ApplicationRow.name.label("application"),
    ApplicationVersionRow.number,
    ApplicationVersionRow.document,
    ApplicationVersionRow.created,
    ApplicationVersionRow.id,
).join_from(ApplicationRow, ApplicationVersionRow)


def add_application(session: Session, name: str, document: Mapping[str, Any], now: float) -> ApplicationVersion:
    """The application's next version, or its newest one where that says the same already."""
    lock_turn(session, f"versions of {name}")
    stated = as_stored(document)
    newest = session.execute(newest_of(name)).first()
    if newest is not None and newest.document == stated:
        return ApplicationVersion(**newest._mapping)
    number = 1 if newest is None else newest.number + 1
    parent = session.scalar(select(ApplicationRow.id).where(ApplicationRow.name == name))
    if parent is None:
        parent = session.scalar(insert(ApplicationRow).values(name=name, created=now).returning(ApplicationRow.id))
    values = {"application_id": parent, "number": number, "document": stated, "created": now}
    made = session.scalar(insert(ApplicationVersionRow).values(values).returning(ApplicationVersionRow.id))
    return ApplicationVersion(name, number, stated, now, made)


def newest_of(name: str) -> Select[Any]:
    return VERSIONS.where(ApplicationRow.name == name).order_by(ApplicationVersionRow.number.desc()).limit(1)


def load_application(session: Session, name: str, number: int | None = None) -> ApplicationVersion:
    """The version of this number, or the newest."""
    query = newest_of(name) if number is None else newest_of(name).where(ApplicationVersionRow.number == number)
    row = session.execute(query).first()
    if row is None:
        raise NotFound(explain_missing(session, name, number))
    return ApplicationVersion(**row._mapping)


def list_names(session: Session) -> list[str]:
    """The names of all applications, in alphabetical order."""
    return list(session.scalars(select(ApplicationRow.name).order_by(ApplicationRow.name)))


def explain_missing(session: Session, name: str, number: int | None) -> str:
    newest = session.execute(newest_of(name)).first()
    if newest is not None:
        return f"application {name!r} has no version {number}; its newest is {newest.number}"
    known = ", ".join(session.scalars(select(ApplicationRow.name).order_by(ApplicationRow.name).limit(20)))
    return f"there is no application {name!r}; " + (f"there are {known}" if known else "add it with: tuner app add")


def load_version(session: Session, version_id: int) -> ApplicationVersion:
    """The version that a tuning run names."""
    row = session.execute(VERSIONS.where(ApplicationVersionRow.id == version_id)).one()
    return ApplicationVersion(**row._mapping)


def list_applications(session: Session) -> list[ApplicationVersion]:
    """The newest version of every application, by name."""
    of_same = func.max(ApplicationVersionRow.number).label("number")
    newest = select(ApplicationVersionRow.application_id, of_same).group_by(ApplicationVersionRow.application_id)
    chosen = newest.subquery()
    query = VERSIONS.join(
        chosen,
        (ApplicationVersionRow.application_id == chosen.c.application_id)
        & (ApplicationVersionRow.number == chosen.c.number),
    )
    return [ApplicationVersion(**row._mapping) for row in session.execute(query.order_by(ApplicationRow.name))]


def list_versions(session: Session, name: str) -> list[ApplicationVersion]:
    """Every version of one application, the oldest first."""
    query = VERSIONS.where(ApplicationRow.name == name).order_by(ApplicationVersionRow.number)
    return [ApplicationVersion(**row._mapping) for row in session.execute(query)]
