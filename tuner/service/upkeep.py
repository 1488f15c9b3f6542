"""Prune what is older than the retention, and log the audit log's head, hour by hour beside the service."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from scaler.model.errors import BadInput, Retry
from tuner.service.access.logs import say
from tuner.store.audit_log import SERVICE, add_event, find_head
from tuner.store.connection import Store
from tuner.store.faults import DatabaseFault
from tuner.store.records import EventRecord
from tuner.store.retention import DAY_S, HOUR_S, Pruning, Retention
from tuner.store.turns import turn_of

LOGGER = logging.getLogger(__name__)


def keep_up(store: Store, retention: Retention | None, stop: threading.Event) -> None:
    """Make passes until the end; the first deletes after an hour, so that settings can be put right before it."""
    pruning = None if retention is None else Pruning(store, retention)
    record, heads = PruningRecord(store), HeadLog(store)
    carry_out(heads.tell, "the head of the audit log is not known")
    while not stop.wait(HOUR_S):
        if pruning is not None:
            carry_out(partial(prune_and_tell, pruning, record, stop.is_set), "old rows were not deleted")
        carry_out(heads.tell, "the head of the audit log is not known")


def carry_out(work: Callable[[], object], failure: str) -> None:
    """Log a fault, and go on."""
    try:
        work()
    except (BadInput, Retry, DatabaseFault) as error:
        LOGGER.warning("%s: %s", failure, error)
    except Exception:
        LOGGER.exception(failure)


def prune_and_tell(pruning: Pruning, record: PruningRecord, ending: Callable[[], bool]) -> None:
    counts = prune_in_turn(pruning, ending)
    if any(counts.values()):
        say(LOGGER, logging.INFO, "pruned", describe_pruned(counts), **counts)
    record.add(counts, time.time())


def prune_in_turn(pruning: Pruning, ending: Callable[[], bool]) -> dict[str, int]:
    """Make a pass, unless another manager is making one; how many decisions and samples went."""
    with turn_of(pruning.store, "retention") as is_ours:
        return pruning.run(ending) if is_ours else {}


def describe_pruned(counts: Mapping[str, int]) -> str:
    return f"{counts['decisions']:,} decisions and {counts['samples']:,} samples were past their retention"


@dataclass(slots=True)
class PruningRecord:
    """Rows of the audit log about what was deleted: one a day, for every hour deletes some slots."""

    store: Store
    counts: Counter[str] = field(default_factory=Counter)
    due: float = -math.inf

    def add(self, counts: Mapping[str, int], now: float) -> None:
        """Count what a pass deleted, and write the row where one is due."""
        self.counts.update(counts)
        if self.counts.total() and now >= self.due:
            event = EventRecord("", now, SERVICE, "pruned", describe_pruned(self.counts), dict(self.counts))
            self.store.write(lambda session: add_event(session, event))
            self.counts, self.due = Counter(), now + DAY_S


@dataclass(slots=True)
class HeadLog:
    """Tell the service's log, which is kept elsewhere, each new head of the audit log: `tuner audit verify --head`."""

    store: Store
    told: str | None = None

    def tell(self) -> None:
        with self.store.read() as session:
            head = find_head(session)
        if head is not None and head.hash != self.told:
            said = f"The audit log has {head.number:,} rows, the last one with the hash {head.hash}"
            say(LOGGER, logging.INFO, "audit head", said, number=head.number, hash=head.hash)
            self.told = head.hash


@contextmanager
def upkeep(store: Store, retention: Retention | None) -> Iterator[threading.Thread]:
    """Prune, unless all is to stay, and tell the head of the audit log, on a thread for as long as the block runs."""
    stop = threading.Event()
    thread = threading.Thread(target=keep_up, args=(store, retention, stop), name="upkeep", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join()
