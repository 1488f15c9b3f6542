"""Parse the path or URL of a database to SQLAlchemy's address and a name that hides its secrets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from scaler.model.errors import BadInput
from scaler.model.files import OWNER_FOLDER

FORMS = "a path (runs.db), sqlite:///PATH or postgresql://USER@HOST/DATABASE"
SECRET_WORDS = ("pass", "secret", "token", "key")


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Where a database is; `shown` may be printed anywhere."""

    url: URL
    shown: str
    history: Path  # folder of the fine samples, where none is named
    path: Path | None = None  # of a SQLite file
    own_folder: bool = False  # is made where it is missing

    def __repr__(self) -> str:
        return f"DatabaseAddress({self.shown!r})"


def default_address(data: Path) -> DatabaseAddress:
    """The user's own database in the folder of this program's data, which is made when the database is opened."""
    return replace(describe_file(data / "tuner.db"), own_folder=True)


def parse_address(text: str | Path, data: Path | None = None) -> DatabaseAddress:
    """A text without "://" is a path. A server's fine samples go into a folder of this program's data."""
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
        if find_spec("psycopg") is None:
            raise BadInput("PostgreSQL needs psycopg; install it with: pip install 'stream-scaler[postgres]'")
        folder = (data or Path.home() / ".local" / "share" / "stream-scaler") / "history"
        return DatabaseAddress(url.set(drivername="postgresql+psycopg"), show(url), folder)
    raise BadInput(f"{scheme}:// is no database that this works with; it must be {FORMS}")


def make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(OWNER_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"there can be no folder {path.parent} ({error.strerror}); name another file: --store"
        ) from error


def at_path(path: Path) -> DatabaseAddress:
    path = path.expanduser()
    if not str(path) or path.is_dir():
        raise BadInput(f"the database {str(path)!r} is a folder; name a file")
    if not path.absolute().parent.is_dir():
        raise BadInput(f"the database {path} cannot be made, for there is no folder {path.parent}; make it first")
    return describe_file(path)


def describe_file(path: Path) -> DatabaseAddress:
    """The fine samples go beside the database."""
    url = URL.create("sqlite+pysqlite", database=str(path))
    return DatabaseAddress(url, str(path), path.with_name(f"{path.stem}-history"), path)


def show(url: URL) -> str:
    """The URL without its password, nor what its query may hide."""
    query = {
        key: "***" if any(word in key.lower() for word in SECRET_WORDS) else value for key, value in url.query.items()
    }
    return url.set(drivername="postgresql", query=query).render_as_string(hide_password=True)
