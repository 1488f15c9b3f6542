"""Files that programs write for themselves are their owner's alone, and no planted link leads a write elsewhere."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from scaler.agent.checkpoint_file import write_checkpoint
from scaler.link.report_log import DECISIONS, ReportLog, ReportRecord
from scaler.model.files import open_private, write_durably, write_whole
from tests.commands import succeed
from tuner.store.applications import add_application
from tuner.store.connection import open_store


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """As most systems have it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def list_readable(folder: Path) -> list[str]:
    """Files that others than their owner may read or write."""
    return [path.name for path in folder.rglob("*") if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_database_its_log_and_exports_are_their_owners(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "tuner.db")) as store, store.begin() as session:
        add_application(session, "shop", {}, 1.0)
        assert {path.name for path in tmp_path.iterdir()} >= {"tuner.db", "tuner.db-wal", "tuner.db-shm"}
        assert list_readable(tmp_path) == []
    for name in ("all.jsonl", "copy.db"):
        succeed("db", "export", tmp_path / name, "--store", tmp_path / "tuner.db")
    assert list_readable(tmp_path) == []


def test_outbox_and_checkpoints_are_their_owners(tmp_path: Path) -> None:
    outbox = ReportLog(tmp_path / "link")
    assert outbox.open()
    outbox.add([ReportRecord(DECISIONS, b'{"operator": "parse", "body": {}}')] * 3)
    outbox.acknowledge(outbox.next_batch(1, 1 << 20))
    outbox.acknowledge(outbox.next_batch(1, 1 << 20), refused=True)
    outbox.close()
    write_checkpoint(tmp_path / "checkpoints" / "parse.npz", {"values": np.arange(3.0)}, {})
    names = {path.name for path in tmp_path.rglob("*")}
    assert names >= {"cursor.json", "lock", "refused.jsonl", "decisions-000000000001.jsonl", "parse.npz"}
    assert list_readable(tmp_path) == []
    folders = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("link", "checkpoints")]
    assert folders == [0o700, 0o700]


def test_what_a_person_asked_for_has_the_usual_permissions(tmp_path: Path) -> None:
    write_whole(tmp_path / "report.html", "text")
    assert list_readable(tmp_path) == ["report.html"]


def test_planted_links_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their name could be told: .NAME.PID.part."""
    victim = tmp_path / "victim"
    victim.write_text("whole")
    monkeypatch.setattr(secrets, "token_hex", lambda length: "ab" * length)  # as if it had been guessed
    for name in (f".a.json.{os.getpid()}.part", f".b.json.{'ab' * 8}.part", "c.jsonl"):
        (tmp_path / name).symlink_to(victim)
    write_durably(tmp_path / "a.json", b"{}")
    with pytest.raises(FileExistsError):
        write_durably(tmp_path / "b.json", b"{}")
    with pytest.raises(OSError, match="symbolic links"):
        open_private(tmp_path / "c.jsonl", "ab")
    assert victim.read_text() == "whole"
    assert (tmp_path / "a.json").read_bytes() == b"{}"
