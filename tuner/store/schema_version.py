"""Which programs may use a database: those of its schema, and those of the one before where the newer only adds.

So that managers can be replaced one by one, migrations only add: tables, columns that may be null or have a default,
indexes that refuse no row of the programs before. Whoever upgrades the tables states in the row of the version the
oldest schema whose programs may go on with them. Programs of earlier versions, which know no such statement, refuse
what is newer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

if TYPE_CHECKING:
    from alembic.config import Config

VERSION_TABLE = "tuner_schema"  # Alembic's own name may be another program's in a shared database
HEAD = "0012"  # spelled out, for reading the history takes longer than opening a database; a test compares them
OLDEST = "0011"  # whose programs may use the tables of HEAD: HEAD itself, or the one before where HEAD only adds
MAX_AHEAD = 1  # schemas


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """What the database says of its tables."""

    revision: object
    oldest: object = None  # None: stated by no program

    @property
    def is_known(self) -> bool:
        return isinstance(self.revision, str) and self.revision.isdecimal()

    @property
    def is_usable(self) -> bool:
        """Whether this program may read and write, apart from upgrading what is older."""
        revision, oldest = str(self.revision), self.oldest
        if revision <= HEAD:
            return True
        return int(revision) - int(HEAD) <= MAX_AHEAD and isinstance(oldest, str) and oldest <= HEAD


def read_version(connection: Connection) -> SchemaVersion:
    """The row of the version table, which must be there."""
    row = connection.execute(text(f"SELECT * FROM {VERSION_TABLE}")).mappings().first()
    return SchemaVersion(None) if row is None else SchemaVersion(row["version_num"], row.get("oldest"))


def state_oldest(connection: Connection, revision: str) -> None:
    """Record, after an upgrade to this revision, whose programs may use the tables."""
    columns = {column["name"] for column in inspect(connection).get_columns(VERSION_TABLE)}
    if "oldest" not in columns:
        connection.execute(text(f"ALTER TABLE {VERSION_TABLE} ADD COLUMN oldest TEXT"))
    oldest = OLDEST if revision == HEAD else revision
    connection.execute(text(f"UPDATE {VERSION_TABLE} SET oldest = :oldest"), {"oldest": oldest})


def configure() -> Config:
    """Return Alembic's configuration for the history of this installation."""
    from alembic.config import Config

    packaged = Path(__file__).with_name("migrations")  # inside the package in a wheel, at the root of a checkout
    history = packaged if packaged.is_dir() else Path(__file__).parents[2] / "migrations"
    config = Config()
    config.set_main_option("script_location", str(history).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
