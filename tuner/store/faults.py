"""Translate errors of the database drivers to errors named by what the caller does next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from scaler.model.errors import BadInput, Retry

__all__ = ["IntegrityError", "NotFound", "PoolTimeout", "StaleState", "TransientFault", "require", "translate_errors"]
T = TypeVar("T")


class NotFound(BadInput):
    """What the input names is not there."""


class StaleState(BadInput):
    """What the input takes for granted was so, and is not any more: look again, then decide anew."""


class TransientFault(Retry):
    """A fault that is likely to be gone in a moment, so that the same transaction is worth running again at once."""


Explained = Mapping[Any, tuple[type[BadInput | Retry], str]]  # code -> the error, and what it says of the place
SQLITE: Explained = {
    sqlite3.SQLITE_NOTADB: (BadInput, "is no SQLite database; name another file, or none for the default one"),
    sqlite3.SQLITE_CORRUPT: (BadInput, "is damaged; put a copy in its place (`tuner db export` makes them)"),
    sqlite3.SQLITE_READONLY: (BadInput, "is not yours to write to; name another file or change its rights"),
    sqlite3.SQLITE_CANTOPEN: (BadInput, "cannot be opened; its folder must be there, and yours to write to"),
    sqlite3.SQLITE_PERM: (BadInput, "is not yours to open; name another file or change its rights"),
    sqlite3.SQLITE_BUSY: (
        Retry,
        "is locked by another process that has not let go in time; try again when it has finished",
    ),
    sqlite3.SQLITE_LOCKED: (Retry, "is locked by another transaction of this process; try again"),
    sqlite3.SQLITE_FULL: (Retry, "is on a disk that is full; make room there, nothing that was committed is lost"),
    sqlite3.SQLITE_IOERR: (Retry, "could not be read or written by the disk; look at the disk, then try again"),
}
POSTGRES: Explained = {  # by how SQLSTATE begins; the first that fits
    "28": (BadInput, "does not let this user in; correct the user or the password in the URL"),
    "3D": (BadInput, "is not there; make it with `createdb` or correct its name in the URL"),
    "42501": (BadInput, "does not give this user the rights that it needs; grant them on its schema"),
    "25006": (BadInput, "takes no writes (a standby, or set so); name the primary"),
    "53100": (Retry, "is on a disk that is full; make room there, nothing that was committed is lost"),
    "53": (Retry, "has no more connections or memory to give; try again when others have finished"),
    "55P03": (Retry, "is locked by another process that has not let go in time; try again"),
    "57014": (Retry, "was too long at one statement and ended it; try again when it has less to do"),
    "40": (TransientFault, "took another process's change first; try again"),
}
REFUSED_WORDS = {
    "authentication failed": "28",
    "no password supplied": "28",
    "no pg_hba.conf entry": "28",
    'role "': "28",
    'database "': "3D",
    "too many clients": "53",
    "connection slots are reserved": "53",
}
LOST = "does not answer; see that it runs and can be reached, then try again"


def require(found: T | None, missing: str) -> T:
    """What was found; `NotFound` with what is missing otherwise."""
    if found is None:
        raise NotFound(missing)
    return found


@contextmanager
def translate_errors(place: str) -> Iterator[None]:
    """Whatever the database raises inside becomes `BadInput` or `Retry` about `place`; other errors go through."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:  # the latter from settings made before SQLAlchemy looks on
        found = explain_sqlite(error, place) if isinstance(error, sqlite3.Error) else explain(error, place)
        if found is None:
            raise
        raise found from error


def explain(error: DBAPIError, place: str) -> BadInput | Retry | None:
    if isinstance(error.orig, sqlite3.Error):
        return explain_sqlite(error.orig, place)
    message = str(error.orig)  # all there is of a refusal to connect, for which the driver knows no code
    guessed = next((state for words, state in REFUSED_WORDS.items() if words in message), "")
    state = getattr(error.orig, "sqlstate", None) or guessed
    for start, (kind, sentence) in POSTGRES.items():
        if state.startswith(start):
            return kind(f"{place} {sentence}")
    gone = error.connection_invalidated or state.startswith(("08", "57P"))
    if gone or (not state and isinstance(error, OperationalError | InterfaceError)):
        return TransientFault(f"{place} {LOST}")
    return None


def explain_sqlite(error: sqlite3.Error, place: str) -> BadInput | Retry | None:
    code = getattr(error, "sqlite_errorcode", -1) & 0xFF  # the rest says more closely what it was
    if code not in SQLITE:
        return None
    kind, sentence = SQLITE[code]
    return kind(f"{place} {sentence}")
