"""What a person names a database by in; the address that SQLAlchemy opens, and a name that hides its secrets, out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from scaler.model.errors import BadInput

FORMS = "a path (runs.db), sqlite:///PATH or postgresql://USER@HOST/DATABASE"
SECRET_WORDS = ("pass", "secret", "token", "key")


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Where a database is; `shown` may be printed anywhere."""

    url: URL
    shown: str
    path: Path | None = None  # of a SQLite file

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"


def default_path() -> Path:
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return home / "stream-scaler" / "tuner.db"


def find_history_folder(address: DatabaseAddress) -> Path:
    """The folder of the fine samples, where none is named: beside the database."""
    path = address.path
    return default_path().parent / "history" if path is None else path.with_name(f"{path.stem}-history")


def parse_address(text: str | Path | None) -> DatabaseAddress:
    """None: the default file, whose folder is made; a text without "://" is a path."""
    if text is None:
        return at_path(make_folder(default_path()))
    if isinstance(text, Path) or "://" not in text:
        return at_path(Path(text))
    scheme = text.partition("://")[0]
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # neither is shown: they quote the URL, password and all
        raise BadInput(f"the {scheme}:// URL of the database cannot be read; it must be {FORMS}") from None
    backend = url.get_backend_name()
    if backend == "sqlite":
        if not url.database or url.database == ":memory:":
            raise BadInput("the sqlite:// URL names no file; what is in memory alone is lost, so write sqlite:///PATH")
        return at_path(Path(url.database))
    if backend in ("postgresql", "postgres"):
        return at_server(url)
    raise BadInput(f"{scheme}:// is no database that this works with; it must be {FORMS}")


def make_folder(path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"there can be no folder {path.parent} ({error.strerror}); name another file: --store"
        ) from error
    return path


def at_path(path: Path) -> DatabaseAddress:
    path = path.expanduser()
    if not str(path) or path.is_dir():
        raise BadInput(f"the database {str(path)!r} is a folder; name a file")
    if not path.absolute().parent.is_dir():
        raise BadInput(f"the database {path} cannot be made, for there is no folder {path.parent}; make it first")
    return DatabaseAddress(URL.create("sqlite+pysqlite", database=str(path)), str(path), path)


def at_server(url: URL) -> DatabaseAddress:
    if find_spec("psycopg") is None:
        raise BadInput("PostgreSQL needs the package psycopg; install it with: pip install 'psycopg[binary]>=3.2'")
    return DatabaseAddress(url.set(drivername="postgresql+psycopg"), show(url))


def show(url: URL) -> str:
    """The URL without its password, nor what its query may hide."""
    query = {
        key: "***" if any(word in key.lower() for word in SECRET_WORDS) else value for key, value in url.query.items()
    }
    return url.set(drivername="postgresql", query=query).render_as_string(hide_password=True)
