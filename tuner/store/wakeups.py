"""Wake the other managers of the database: PostgreSQL's LISTEN and NOTIFY, delivered with the commit.

A wake-up says that there may be new orders, and nothing else: whoever may connect to the database may send it, so that
it makes a manager poll, and what it says is not read. One too many does no harm, one that got lost is made up for by
polling, and who is flooded with them stops listening for a while. Channels belong to a whole database, so their names
tell its schemas apart.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

from scaler.model.errors import Retry
from tuner.store.connection import Store
from tuner.store.faults import LOST, TransientFault, translate_errors
from tuner.store.rows import dialect

CHANNEL = "'tuner_orders_' || abs(hashtext(current_schema())::bigint)"
SEND, NAME = text(f"SELECT pg_notify({CHANNEL}, :said)"), text(f"SELECT {CHANNEL}")
LOOK_S = 0.2  # between two looks whether to end
MAX_WAKEUPS = 1_000  # a second; managers issue the orders of one application at a time
FLOODED = "sends more wake-ups than its managers do; somebody else notifies their channel"


class Flooded(Retry):
    """More wake-ups came than managers send."""


def send_wakeup(session: Session, said: str = "") -> None:
    """Wake all who listen when the transaction commits; on SQLite nobody does."""
    if dialect(session) == "postgresql":
        session.execute(SEND, {"said": said})


def receive_wakeups(store: Store, on_wakeup: Callable[[bool], None], ending: Callable[[], bool]) -> None:
    """Listen on a connection of its own until the end, until that is lost or flooded; on PostgreSQL alone.

    Told is of every wake-up whether it is the one that is sent from here by way of the connection pool, as others send
    theirs: until it arrives nobody may rely on being woken (a pooler of transactions swallows them), and once it does
    nothing was missed before it. What it says nobody else knows.
    """
    autocommit = store.engine.execution_options(isolation_level="AUTOCOMMIT")
    with translate_errors(store.address.shown), autocommit.connect() as connection:
        connection.exec_driver_sql(f"LISTEN {connection.scalar(NAME)}")
        driver: Any = connection.connection.driver_connection
        connection.detach()  # or whoever has it next would go on listening
        own = secrets.token_hex(16)
        with store.begin() as session:
            send_wakeup(session, own)
        begun, count = time.monotonic(), 0
        try:
            while not ending():
                for notice in driver.notifies(timeout=LOOK_S):
                    if time.monotonic() - begun > 1.0:
                        begun, count = time.monotonic(), 0
                    count += 1
                    if count > MAX_WAKEUPS:
                        raise Flooded(f"{store.address.shown} {FLOODED}")
                    on_wakeup(notice.payload == own)
        except driver_error(connection) as error:
            raise TransientFault(f"{store.address.shown} {LOST}") from error


def driver_error(connection: Connection) -> type[Exception]:
    """The driver's own, which SQLAlchemy does not see where it is used directly."""
    found: type[Exception] = connection.dialect.loaded_dbapi.Error
    return found
