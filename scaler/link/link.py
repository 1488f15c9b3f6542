"""Link between an application's agents and their manager: one thread sends reports, another polls for orders."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scaler.link.http import ManagerConnection, read_address
from scaler.link.link_state import INTERNAL, ORDERS, REPORTS, STORAGE, LinkState, Pacer, load_orders
from scaler.link.order_poll import OrderPoll
from scaler.link.report_log import DECISIONS, SAMPLES, ReportLog, ReportRecord
from scaler.link.sender import Sender
from scaler.model.orders import Orders
from scaler.model.wire import write_line

Rows = Sequence[Mapping[str, Any]]
REPORT_KEYS = ("application", "operator", "key")  # what rows need not say


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """State of the link; `fault` is "" or one sentence."""

    fault: str
    revision: int | None  # of the orders at hand
    acknowledged: int | None
    age: float  # seconds since the manager last answered; infinite if it never did
    waiting: int  # records to be sent
    sent: int  # records that the manager has confirmed, since the start
    dropped: int  # records, the oldest, for want of room, since the start
    refused: int  # records that the manager would not have, one by one, since the start
    token_expires: float | None  # seconds since 1970, where that is soon


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Settings that few users change."""

    clock: Callable[[], float] = time.time
    seed: int = 0  # of the jitter
    ca_file: Path | None = None  # certificates to trust instead of the system's
    limit_bytes: int = 64 << 20  # on disk
    wait_s: float = 30.0  # of a long poll
    pacer: Pacer = field(default_factory=Pacer)


class Link:
    """Reports and orders of one application's operators in this driver. Nothing here raises once it is made."""

    def __init__(
        self,
        url: str,
        app: str,
        operators: Sequence[str],
        token: str | Path | None,
        folder: Path,
        instance: str,
        settings: LinkSettings | None = None,
    ) -> None:
        address = read_address(url)
        given = settings or LinkSettings()
        rng = random.Random(given.seed)
        self.state = LinkState(app, instance, tuple(operators), given.clock, given.pacer, rng)
        self.folder = Path(folder)
        self.reports = ReportLog(self.folder, given.limit_bytes)
        self.connections = [ManagerConnection(address, token, given.ca_file) for _ in range(2)]
        self.sender = Sender(self.state, self.connections[0], self.reports)
        self.order_poll = OrderPoll(self.state, self.connections[1], self.folder, self.reports, given.wait_s)
        self.threads: list[threading.Thread] = []
        self.unserialisable = 0

    def start(self) -> None:
        """Read the last orders from disk, then begin to send and to poll."""
        if self.threads:
            return
        self.state.saved = load_orders(self.folder, self.state.app)
        if self.state.saved is not None:
            self.state.answered_at = self.state.saved.received_at
        for name, run in (("sender", self.sender.run), ("poll", self.order_poll.run)):
            self.threads.append(threading.Thread(target=run, name=f"scaler-link-{name}", daemon=True))
        for thread in self.threads:
            thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Write what is in memory to disk, try once more to send it, and end. A link is not started twice."""
        until = time.monotonic() + timeout
        self.state.stopping.set()
        self.state.wake.set()
        self.sender.wake.set()
        self.connections[1].abort()
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))

    def orders(self) -> Orders | None:
        """The last orders known; never waits."""
        return self.state.orders

    def age(self) -> float:
        """Seconds since the manager last answered; infinite if it never did."""
        return max(0.0, self.state.clock() - self.state.answered_at)

    def report(self, operator: str, decisions: Rows = (), samples: Rows = ()) -> None:
        """Queue a report; never waits."""
        for kind, rows in ((DECISIONS, decisions), (SAMPLES, samples)):
            for row in rows:
                try:
                    body = {key: value for key, value in row.items() if key not in REPORT_KEYS}
                    if kind == DECISIONS:
                        body["sequence"] = self.state.next_sequence()
                    self.sender.put(ReportRecord(kind, write_line({"operator": operator, "body": body})))
                except (AttributeError, TypeError, ValueError, RecursionError) as error:
                    self.unserialisable += 1
                    self.state.set_fault(
                        INTERNAL, f"a row of {kind} of {operator!r} is not made of plain values ({error})"
                    )
        self.sender.wake.set()

    def status(self) -> LinkStatus:
        faults = self.state.faults
        return LinkStatus(
            fault=next((faults[name] for name in (ORDERS, REPORTS, STORAGE, INTERNAL) if faults.get(name)), ""),
            revision=self.state.revision,
            acknowledged=self.state.acknowledged,
            age=self.age(),
            waiting=len(self.sender.inbox) + self.sender.waiting,
            sent=self.sender.sent,
            dropped=sum(self.reports.dropped.values()) + self.sender.displaced,
            refused=self.reports.refused + self.unserialisable,
            token_expires=self.state.token_expires,
        )
