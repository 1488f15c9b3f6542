"""Give a turn to one of several managers on PostgreSQL, for what they would otherwise all do, such as pruning.

It is an advisory lock of a connection of its own: the server frees it when the process dies, however it dies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tuner.store.connection import Store
from tuner.store.faults import translate_errors

LOCK = "hashtextextended(current_schema() || ': ' || :what, 0)"
TAKE, FREE = text(f"SELECT pg_try_advisory_lock({LOCK})"), text(f"SELECT pg_advisory_unlock({LOCK})")


@contextmanager
def turn_of(store: Store, what: str) -> Iterator[bool]:
    """Whether nobody else has the turn, which is this process's then while the block runs; on SQLite always."""
    if store.address.path is not None:
        yield True
        return
    autocommit = store.engine.execution_options(isolation_level="AUTOCOMMIT")
    with translate_errors(store.address.shown), autocommit.connect() as connection:
        connection.detach()  # to be closed after the block, whatever becomes of it there
        is_ours = bool(connection.scalar(TAKE, {"what": what}))
        try:
            yield is_ours
        finally:
            if is_ours:
                with suppress(DBAPIError):  # where the connection was lost, so was the lock
                    connection.execute(FREE, {"what": what})
