"""Translate errors of the database drivers to errors named by what the caller does next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from scaler.model.errors import BadInput, Retry, suggest

__all__ = [
    "DatabaseFault", "IntegrityError", "Locked", "NotFound", "PoolTimeout", "StaleState", "TransientFault",
    "Unavailable", "UnknownApplication", "Unusable", "require", "translate_errors",
]  # fmt: skip
T = TypeVar("T")
MAX_QUOTED = 200  # characters of what a database says


class NotFound(BadInput):
    """What the input names is not there."""


class UnknownApplication(NotFound):
    """No such application; `sentence` says it without the names that there are, which not everybody may know."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.sentence = f"there is no application {name!r}"
        there = suggest(name, known, "there are {}") if known else "add it with: tuner app add"
        super().__init__(f"{self.sentence}; {there}")


class StaleState(BadInput):
    """What the input takes for granted was so, and is not any more: look again, then decide anew."""


class DatabaseFault(Exception):
    """A fault of the database, whatever was asked of it; the message names its place, which no client may see."""


class Unusable(DatabaseFault, BadInput):
    """Somebody has to put the database, its rights or its address right; to a command that named it, bad input."""


class Unavailable(DatabaseFault, Retry):
    """The database may do the same later."""


class Locked(Unavailable):
    """Somebody else holds for too long what is needed."""


class TransientFault(Unavailable):
    """A fault that is likely to be gone in a moment, so that the same transaction is worth running again at once."""


Explained = Mapping[Any, tuple[type[Unusable | Unavailable], str]]  # code -> the error, and what it says of the place
SQLITE: Explained = {
    sqlite3.SQLITE_NOTADB: (Unusable, "is no SQLite database; name another file, or none for the default one"),
    sqlite3.SQLITE_CORRUPT: (
        Unusable,
        "is damaged; bring a copy back with `tuner db restore COPY`, which leaves nothing of it behind",
    ),
    sqlite3.SQLITE_READONLY: (Unusable, "is not yours to write to; name another file or change its rights"),
    sqlite3.SQLITE_CANTOPEN: (Unusable, "cannot be opened; its folder must be there, and yours to write to"),
    sqlite3.SQLITE_PERM: (Unusable, "is not yours to open; name another file or change its rights"),
    sqlite3.SQLITE_BUSY: (
        Locked,
        "is locked by another process that has not let go in time; try again when it has finished",
    ),
    sqlite3.SQLITE_LOCKED: (Locked, "is locked by another transaction of this process; try again"),
    sqlite3.SQLITE_FULL: (
        Unavailable,
        "is on a disk that is full; make room there, nothing that was committed is lost",
    ),
    sqlite3.SQLITE_IOERR: (Unavailable, "could not be read or written by the disk; look at the disk, then try again"),
}
POSTGRES: Explained = {  # by how SQLSTATE begins; the first that fits
    "28": (Unusable, "does not let this user in; correct the user or the password in the URL"),
    "3D": (Unusable, "is not there; make it with `createdb` or correct its name in the URL"),
    "42501": (Unusable, "does not give this user the rights that it needs; grant them on its schema"),
    "25006": (Unusable, "takes no writes (a standby, or set so); name the primary"),
    "53100": (Unavailable, "is on a disk that is full; make room there, nothing that was committed is lost"),
    "53": (Unavailable, "has no more connections or memory to give; try again when others have finished"),
    "55P03": (Locked, "is locked by another process that has not let go in time; try again"),
    "57014": (Unavailable, "was too long at one statement and ended it; try again when it has less to do"),
    "0A000": (Unusable, "does not offer what is needed of it (a standby takes no writes); name the primary"),
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
UNSTORABLE = "what was sent holds a value that the database has no place for; send a smaller or plainer one"
LOST = "does not answer; see that it runs and can be reached, then try again"


def require(found: T | None, missing: str) -> T:
    """What was found; `NotFound` with what is missing otherwise."""
    if found is None:
        raise NotFound(missing)
    return found


@contextmanager
def translate_errors(place: str) -> Iterator[None]:
    """Whatever the database raises inside becomes a `DatabaseFault` about `place`.

    Not so where the written values are at fault: one without a place is `BadInput`, a broken constraint goes through.
    """
    try:
        yield
    except IntegrityError:
        raise
    except DataError as error:
        raise BadInput(UNSTORABLE) from error
    except (DBAPIError, sqlite3.Error) as error:  # the latter from settings made before SQLAlchemy looks on
        found = explain_sqlite(error, place) if isinstance(error, sqlite3.Error) else explain(error, place)
        raise found or explain_unforeseen(error, place) from error


def is_damage(fault: DatabaseFault) -> bool:
    """Whether it is the content of a SQLite file that is at fault, rather than rights or a disk."""
    cause = fault.__cause__
    original = cause.orig if isinstance(cause, DBAPIError) else cause
    code = getattr(original, "sqlite_errorcode", -1) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def explain_unforeseen(error: DBAPIError | sqlite3.Error, place: str) -> Unavailable:
    cause = error.orig if isinstance(error, DBAPIError) else error
    said = " ".join(str(cause).split())[:MAX_QUOTED]
    return Unavailable(f"{place} failed in an unforeseen way ({type(cause).__name__}: {said}); look at its log")


def explain(error: DBAPIError, place: str) -> Unusable | Unavailable | None:
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


def explain_sqlite(error: sqlite3.Error, place: str) -> Unusable | Unavailable | None:
    code = getattr(error, "sqlite_errorcode", -1) & 0xFF  # the rest says more closely what it was
    if code not in SQLITE:
        return None
    kind, sentence = SQLITE[code]
    return kind(f"{place} {sentence}")
