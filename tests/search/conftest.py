"""Databases as the store's tests have them: a SQLite file, and again a schema on a real PostgreSQL server."""

from tests.store.conftest import address, postgres, server_store, store

__all__ = ["address", "postgres", "server_store", "store"]
