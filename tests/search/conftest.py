"""Databases as the store's tests have them: a SQLite file, and again a schema on a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.conftest import address, postgres, server_store, store
from tuner.store.connection import Store, open_store

__all__ = ["address", "postgres", "server_store", "store"]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Store]:
    """For what is the same on every database."""
    opened = open_store(tmp_path / "tuner.db")
    yield opened
    opened.close()
