"""What a person may name a database by, and what of it is ever shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.model.errors import BadInput
from tuner.cli.options import find_database
from tuner.store.address import parse_address
from tuner.store.connection import Store, open_store


@pytest.mark.parametrize(
    ("text_", "sentence"),
    [
        ("oracle://me:hunter2@host/db", "oracle:// is no database that this works with"),
        ("postgresql://me:hunter2@host:port/db", "postgresql:// URL of the database cannot be read"),
        ("sqlite://", "names no file"),
        ("/nowhere/at/all/tuner.db", "there is no folder /nowhere/at/all"),
        ("/tmp", "is a folder"),
    ],
)
def test_addresses_that_are_none(text_: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence) as refused:
        open_store(text_)
    assert "hunter2" not in str(refused.value)


def test_the_default_is_in_the_users_folder(tmp_path: Path) -> None:
    open_store(find_database({"XDG_DATA_HOME": str(tmp_path)}, None)).close()
    assert (tmp_path / "stream-scaler" / "tuner.db").exists()
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"there can be no folder .*; name another file: --store"):
        open_store(find_database({"XDG_DATA_HOME": str(tmp_path / "file")}, None))


def test_no_secret_is_shown() -> None:
    address = parse_address("postgresql://me:hunter2@db/tuner?sslpassword=hunter3&sslmode=require")
    assert address.shown == "postgresql://me:***@db/tuner?sslmode=require&sslpassword=%2A%2A%2A"
    assert "hunter" not in repr(address)
    store = Store(engine=None, address=address)  # type: ignore[arg-type]
    assert "hunter" not in repr(store)
