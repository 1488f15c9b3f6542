"""Wake the other managers of the database: PostgreSQL's LISTEN and NOTIFY, delivered with the commit.

Orders that were issued are there to be looked for, so that a wake-up too many does no harm, and one that got lost is
made up for by polling. Channels belong to a whole database, so their names tell its schemas apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

from tuner.store.connection import Store
from tuner.store.faults import LOST, TransientFault, translate_errors
from tuner.store.rows import dialect

ORDERS, USAGE = "orders", "usage"  # what is told of
CHANNEL = "'tuner_' || :what || '_' || abs(hashtext(current_schema())::bigint)"
SEND, NAME = text(f"SELECT pg_notify({CHANNEL}, :said)"), text(f"SELECT {CHANNEL}")
LOOK_S = 0.2  # between two looks whether to end


def send_wakeup(session: Session, what: str = ORDERS, said: str = "") -> None:
    """Wake all who listen when the transaction commits; on SQLite nobody does."""
    if dialect(session) == "postgresql":
        session.execute(SEND, {"what": what, "said": said})


def receive_wakeups(store: Store, on_wakeup: Callable[[str, str], None], ending: Callable[[], bool]) -> None:
    """Listen on a connection of its own until the end, or until that is lost; on PostgreSQL alone.

    The first wake-up is sent here by way of the connection pool, as others send theirs: until it arrives nobody may
    rely on being woken (a pooler of transactions swallows them), and once it does nothing was missed before it.
    """
    autocommit = store.engine.execution_options(isolation_level="AUTOCOMMIT")
    with translate_errors(store.address.shown), autocommit.connect() as connection:
        channels = {str(connection.scalar(NAME, {"what": what})): what for what in (ORDERS, USAGE)}
        for channel in channels:
            connection.exec_driver_sql(f"LISTEN {channel}")
        driver: Any = connection.connection.driver_connection
        connection.detach()  # or whoever has it next would go on listening
        with store.begin() as session:
            send_wakeup(session)
        try:
            while not ending():
                for notice in driver.notifies(timeout=LOOK_S):
                    on_wakeup(channels[notice.channel], notice.payload)
        except driver_error(connection) as error:
            raise TransientFault(f"{store.address.shown} {LOST}") from error


def driver_error(connection: Connection) -> type[Exception]:
    """The driver's own, which SQLAlchemy does not see where it is used directly."""
    found: type[Exception] = connection.dialect.loaded_dbapi.Error
    return found
