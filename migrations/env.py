"""Run the Alembic history on the tuner's connection, or on the database of `-x store=PATH|URL`."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from scaler.model.errors import BadInput
from tuner.store.connection import connect_unprepared
from tuner.store.schema_version import VERSION_TABLE
from tuner.store.tables import METADATA


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        version_table=VERSION_TABLE,
        transactional_ddl=True,  # on SQLite too: `tuner.store.connection` begins its transactions itself
        render_as_batch=True,  # SQLite alters a table by making it anew
    )
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    raise BadInput("the history runs on a database alone; leave --sql out")
given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    place = context.get_x_argument(as_dictionary=True).get("store")
    if place is None:
        raise BadInput("name the database, as in: alembic -x store=tuner.db upgrade head")
    store = connect_unprepared(place)
    with store.engine.begin() as connection:
        run(connection)
    store.close()
