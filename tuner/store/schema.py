"""Read the schema revision of a database, and upgrade its tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, column, inspect, select, table, text

from scaler.model.errors import BadInput

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0005"  # spelled out, for reading the history takes longer than opening a database; a test compares them
VERSION_TABLE = "tuner_schema"  # Alembic's own name may be another program's in a shared database
UPGRADE_LOCK = 0x7475_6E65_72  # "tuner": PostgreSQL's advisory lock for whoever changes tables


def read_revision(connection: Connection, place: str) -> str | None:
    """The revision of the tables, None where the database is empty, or why this database will not do."""
    inspector = inspect(connection)
    if inspector.has_table(VERSION_TABLE):
        found = connection.scalar(select(column("version_num")).select_from(table(VERSION_TABLE)))
        if isinstance(found, str) and found.isdecimal():
            return check_age(found, place)
        raise BadInput(f"{place} has the unknown schema {found!r}; name a database that this program made")
    others = inspector.get_table_names()
    if others:
        raise BadInput(f"{place} holds tables of something else ({others[0]}, ...); give the tuner one of its own")
    return None


def check_age(revision: str, place: str) -> str:
    if revision > HEAD:
        raise BadInput(
            f"{place} has schema {revision}, made by a newer tuner, and this one knows up to {HEAD}; upgrade the tuner"
        )
    return revision


def upgrade(connection: Connection, place: str, target: str = HEAD) -> tuple[str | None, str]:
    """Bring the tables up inside the connection's transaction, one process at a time; what they were and are."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
    before = read_revision(connection, place)  # another process may have been first
    if before is None or before < target:
        from alembic import command

        config = configure()
        config.attributes["connection"] = connection
        command.upgrade(config, target)
        return before, target
    return before, before


def configure() -> Config:
    """Return Alembic's configuration for the history of this installation."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(find_history()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def find_history() -> Path:
    """Return the folder of the Alembic history: inside the package in a wheel, at the root of a checkout."""
    packaged = Path(__file__).with_name("migrations")
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "migrations"
