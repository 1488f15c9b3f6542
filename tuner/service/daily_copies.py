"""Copy the database to a folder once a day, and delete the oldest copies.

When the last copy was made is in the names of the files, so that a service that is started often makes one a day, too,
and so do several managers that copy to the same folder: one of them at a time looks and copies.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from scaler.model.errors import BadInput, Retry
from tuner.service.access.logs import say
from tuner.store.audit_log import SERVICE
from tuner.store.backup import back_up, record_copying
from tuner.store.connection import Store
from tuner.store.faults import DatabaseFault
from tuner.store.turns import turn_of

LOGGER = logging.getLogger(__name__)
DAY_S, LOOK_S = 86_400.0, 60.0  # between two copies, and between two looks at the clock
FORM = "tuner-%Y%m%dT%H%M%SZ.db"
NAME = re.compile(r"tuner-\d{8}T\d{6}Z\.db")


def check_folder(folder: Path) -> None:
    """Make the folder where it is missing, readable by its owner alone."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--backups is {folder}, where no folder can be ({error.strerror}); name another") from error


def list_copies(folder: Path) -> list[Path]:
    """The oldest first."""
    return sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))


def find_due(folder: Path) -> float:
    """When the next copy is due; at once where there is none."""
    copies = list_copies(folder)
    if not copies:
        return 0.0
    return datetime.strptime(copies[-1].name, FORM).replace(tzinfo=UTC).timestamp() + DAY_S


def copy_if_due(store: Store, folder: Path, keep: int, now: float) -> Path | None:
    """The copy that was made, if one was due; of all, the newest `keep` stay."""
    if now < find_due(folder):
        return None
    with turn_of(store, "daily copies") as is_ours:
        if not is_ours or now < find_due(folder):  # another manager is at it, or was quicker
            return None
        path = folder / datetime.fromtimestamp(now, UTC).strftime(FORM)
        back_up(store, path, now)
    if fault := record_copying(store, SERVICE, "backed up", path, now):
        LOGGER.warning("the audit log has no row of the copy %s: %s", path, fault)
    for old in list_copies(folder)[:-keep]:
        old.unlink(missing_ok=True)
    return path


def copy_daily(
    store: Store, folder: Path, keep: int, stop: threading.Event, clock: Callable[[], float] = time.time
) -> None:
    """Copy until the end; a copy that fails is logged once, and tried again."""
    fault = ""
    while not stop.is_set():
        try:
            if path := copy_if_due(store, folder, keep, clock()):
                fault = ""
                say(LOGGER, logging.INFO, "copied", f"The database was copied to {path}", path=str(path))
        except (BadInput, Retry, DatabaseFault, OSError) as error:
            if str(error) != fault:
                fault = str(error)
                LOGGER.error("the database cannot be copied to %s: %s", folder, error)
        except Exception:
            LOGGER.exception("the database cannot be copied to %s", folder)
        stop.wait(LOOK_S)


@contextmanager
def daily_copies(store: Store, folder: Path, keep: int) -> Iterator[threading.Thread]:
    """Copy on a thread for as long as the block runs."""
    check_folder(folder)
    stop = threading.Event()
    thread = threading.Thread(target=copy_daily, args=(store, folder, keep, stop), name="copies", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join()
