"""Applications as described, with a version for each change, and the surrogates fitted to their samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Select, func, insert, select
from sqlalchemy.orm import Session

from scaler.model.errors import BadInput
from tuner.store.faults import NotFound, UnknownApplication, require
from tuner.store.json_fields import as_stored
from tuner.store.records import ApplicationVersion, SurrogateRecord
from tuner.store.rows import lock_turn, next_number
from tuner.store.tables import APPLICATIONS, SURROGATES, VERSIONS

MAX_NAME, MAX_SHOWN = 200, 60  # characters of a name: as agents may send them, and in a refusal
DESCRIBED = select(
    APPLICATIONS.c.name.label("application"),
    VERSIONS.c.number,
    VERSIONS.c.document,
    VERSIONS.c.created,
    VERSIONS.c.id,
).join_from(APPLICATIONS, VERSIONS)


def check_application_name(name: str) -> None:
    """Refuse names that no address can hold: a "/" ends a path's part, however it is spelled."""
    if not name.strip() or name != name.strip() or not name.isprintable() or "/" in name or len(name) > MAX_NAME:
        raise BadInput(
            f"{name[:MAX_SHOWN]!r} is no name for an application; write up to {MAX_NAME} printable characters, "
            "without space around them and without /"
        )


def add_application(session: Session, name: str, document: Mapping[str, Any], now: float) -> ApplicationVersion:
    """The application's next version, or its newest one where that says the same already."""
    lock_turn(session, f"versions of {name}")
    stated = as_stored(document)
    newest = session.execute(newest_of(name)).first()
    if newest is not None and newest.document == stated:
        return ApplicationVersion(**newest._mapping)
    number = 1 if newest is None else newest.number + 1
    parent = session.scalar(select(APPLICATIONS.c.id).where(APPLICATIONS.c.name == name))
    if parent is None:
        parent = session.scalar(insert(APPLICATIONS).values(name=name, created=now).returning(APPLICATIONS.c.id))
    values = {"application_id": parent, "number": number, "document": stated, "created": now}
    made = session.scalar(insert(VERSIONS).values(values).returning(VERSIONS.c.id))
    return ApplicationVersion(name, number, stated, now, made)


def newest_of(name: str) -> Select[Any]:
    return DESCRIBED.where(APPLICATIONS.c.name == name).order_by(VERSIONS.c.number.desc()).limit(1)


def load_application(session: Session, name: str, number: int | None = None) -> ApplicationVersion:
    """The version of this number, or the newest."""
    found = find_application(session, name, number)
    if found is not None:
        return found
    newest = find_application(session, name)
    if newest is not None:
        raise NotFound(f"application {name!r} has no version {number}; its newest is {newest.number}")
    raise UnknownApplication(name, list_names(session)[:20])


def find_application(session: Session, name: str, number: int | None = None) -> ApplicationVersion | None:
    """The version of this number, or the newest; None where nobody described it."""
    query = newest_of(name) if number is None else newest_of(name).where(VERSIONS.c.number == number)
    row = session.execute(query).first()
    return None if row is None else ApplicationVersion(**row._mapping)


def list_names(session: Session) -> list[str]:
    """The names of all applications, in alphabetical order."""
    return list(session.scalars(select(APPLICATIONS.c.name).order_by(APPLICATIONS.c.name)))


def load_version(session: Session, version_id: int) -> ApplicationVersion:
    """The version that a tuning run names."""
    row = session.execute(DESCRIBED.where(VERSIONS.c.id == version_id)).one()
    return ApplicationVersion(**row._mapping)


def list_applications(session: Session) -> list[ApplicationVersion]:
    """The newest version of every application, by name."""
    return list(stream_applications(session))


def stream_applications(session: Session) -> Iterator[ApplicationVersion]:
    """The newest version of every application, by name; they may be large, and are read a few at a time."""
    newest = select(func.max(VERSIONS.c.id)).group_by(VERSIONS.c.application_id)
    query = DESCRIBED.where(VERSIONS.c.id.in_(newest)).order_by(APPLICATIONS.c.name)
    with session.execute(query.execution_options(yield_per=2)) as found:
        for row in found:
            yield ApplicationVersion(**row._mapping)


def find_newest_number(session: Session, name: str) -> int | None:
    """The number of the newest version; None where nobody described the application."""
    query = select(func.max(VERSIONS.c.number)).join(APPLICATIONS).where(APPLICATIONS.c.name == name)
    return session.scalar(query)


def list_versions(session: Session, name: str) -> list[ApplicationVersion]:
    """Every version of one application, the oldest first."""
    query = DESCRIBED.where(APPLICATIONS.c.name == name).order_by(VERSIONS.c.number)
    return [ApplicationVersion(**row._mapping) for row in session.execute(query)]


def save_surrogate(session: Session, surrogate: SurrogateRecord) -> SurrogateRecord:
    """Keep it under the application's next number; the same with its number and id."""
    lock_turn(session, f"surrogates of {surrogate.application}")
    mine = select(SURROGATES.c.number).where(SURROGATES.c.application == surrogate.application)
    return SURROGATES.add(session, replace(surrogate, number=next_number(session, mine)))


def load_surrogate(session: Session, application: str, number: int | None = None) -> SurrogateRecord:
    """The one of this number, or the newest."""
    if number is None:
        found = next(iter(list_surrogates(session, application, limit=1)), None)
    else:
        found = SURROGATES.find(session, SURROGATES.c.application == application, SURROGATES.c.number == number)
    which = "no surrogate" if number is None else f"no surrogate number {number}"
    return require(found, f"application {application!r} has {which}; fit one with: tuner surrogate fit {application}")


def find_surrogate(session: Session, surrogate_id: int) -> SurrogateRecord | None:
    """The one of this id, None where it was deleted."""
    return SURROGATES.find(session, SURROGATES.c.id == surrogate_id)


def find_sound_surrogate(session: Session, application: str) -> int | None:
    """Return the id of the newest surrogate whose checks did not fail, None where there is none."""
    sound = (SURROGATES.c.application == application, SURROGATES.c.health != "fail")
    return session.scalar(select(SURROGATES.c.id).where(*sound).order_by(SURROGATES.c.number.desc()).limit(1))


def list_surrogates(session: Session, application: str, limit: int | None = None) -> list[SurrogateRecord]:
    """The newest first."""
    query = SURROGATES.select(SURROGATES.c.application == application)
    return SURROGATES.load(session, query.order_by(SURROGATES.c.number.desc()).limit(limit))
