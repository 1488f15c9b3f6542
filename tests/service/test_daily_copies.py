"""Daily copies: one a day however often the service starts, the newest kept, and no fault that ends them."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from scaler.model.errors import BadInput
from tuner.service.daily_copies import DAY_S, check_folder, copy_daily, copy_if_due, list_copies
from tuner.store.connection import Store, open_store
from tuner.store.maintenance import check_store

DAY = 20_000 * DAY_S


def test_one_copy_a_day_and_the_newest_stay(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    check_folder(folder)
    (folder / "notes.txt").touch()  # what is no copy is left alone
    made = [copy_if_due(store, folder, 3, DAY + hour * 3600.0) for hour in range(0, 121, 6)]
    names = [path.name for path in made if path is not None]
    assert len(names) == 6
    assert [path.name for path in list_copies(folder)] == names[-3:]
    assert (folder / "notes.txt").exists()
    with closing(open_store(list_copies(folder)[0])) as copy:
        assert check_store(copy) == []


def test_a_copy_that_fails_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, ticks = tmp_path / "copies", iter(range(4))

    def clock() -> float:
        tick = next(ticks)
        if tick == 2:
            folder.mkdir()
        if tick == 3:
            stop.set()
        return DAY + tick

    class Hurried(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            return self.is_set()

    stop = Hurried()
    with closing(open_store(tmp_path / "tuner.db")) as store:
        copy_daily(store, folder, 3, stop, clock)
    assert len(list_copies(folder)) == 1
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="where no folder can be"):
        check_folder(tmp_path / "file")
