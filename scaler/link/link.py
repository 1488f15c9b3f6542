"""An application's scalers and their manager: reports flow out by one thread, orders come in by another."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaler.link.http import ManagerConnection, read_address
from scaler.link.link_state import INTERNAL, ORDERS, REPORTS, STORAGE, LinkState, Pacer
from scaler.link.order_poll import OrderPoll
from scaler.link.report_log import DECISIONS, SAMPLES, ReportLog, ReportRecord
from scaler.link.saved_orders import load_orders
from scaler.link.sender import Sender
from scaler.model.orders import Orders
from scaler.model.wire import write_line

KNOWN_FROM_THE_REPORT = ("application", "operator", "key")  # what rows need not say


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """How the link stands; `fault` is "" or one sentence."""

    fault: str
    revision: int | None  # of the orders at hand
    acknowledged: int | None
    age: float  # seconds since the manager was last heard; infinite if it never was
    waiting: int  # records to be sent
    sent: int  # records that the manager has confirmed, since the start
    dropped_samples: int  # for want of room, since the start
    dropped_decisions: int
    refused: int  # records that the manager would not have, one by one, since the start


class Link:
    """Reports and orders of one application's operators in this driver. Nothing here raises once it is made."""

    def __init__(
        self,
        manager: str,
        application: str,
        operators: Sequence[str],
        token: str | None,
        folder: Path,
        instance: str,
        clock: Callable[[], float] = time.time,
        on_orders: Callable[[Orders], None] | None = None,  # called on the link's thread
        seed: int = 0,  # of the jitter
        authority: Path | None = None,  # certificates to trust instead of the system's
        limit_bytes: int = 64 << 20,  # on disk
        wait_s: float = 30.0,  # of a long poll
        pace: Pacer | None = None,
    ) -> None:
        address = read_address(manager)
        self.desk = LinkState(application, instance, tuple(operators), clock, pace or Pacer(), random.Random(seed))
        self.folder = Path(folder)
        self.outbox = ReportLog(self.folder, limit_bytes)
        self.callers = [ManagerConnection(address, token, authority) for _ in range(2)]
        self.sender = Sender(self.desk, self.callers[0], self.outbox)
        self.listener = OrderPoll(self.desk, self.callers[1], self.folder, self.outbox, wait_s, on_orders)
        self.threads: list[threading.Thread] = []
        self.unsayable = 0

    def start(self) -> None:
        """Read the last orders from disk, then begin to send and to listen."""
        if self.threads:
            return
        self.desk.kept = load_orders(self.folder, self.desk.application)
        if self.desk.kept is not None:
            self.desk.heard = self.desk.kept.heard
        for name, run in (("sends", self.sender.run), ("listens", self.listener.run)):
            self.threads.append(threading.Thread(target=run, name=f"scaler-link-{name}", daemon=True))
        for thread in self.threads:
            thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Write what is in memory to disk, try once more to send it, and end. A link is not started twice."""
        until = time.monotonic() + timeout
        self.desk.stopping.set()
        self.desk.poke.set()
        self.sender.wake.set()
        self.callers[1].cut()
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))

    def orders(self) -> Orders | None:
        """The last orders known; never waits."""
        return self.desk.orders

    def age(self) -> float:
        """Seconds since the manager was last heard; infinite if it never was."""
        return max(0.0, self.desk.clock() - self.desk.heard)

    def report(
        self,
        operator: str,
        decisions: Sequence[Mapping[str, Any]] = (),
        samples: Sequence[Mapping[str, Any]] = (),
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Hand over what is to be told; never waits. `detail` is of the scaler itself: the last one counts."""
        for lane, rows in ((DECISIONS, decisions), (SAMPLES, samples)):
            for row in rows:
                try:
                    body = {key: value for key, value in row.items() if key not in KNOWN_FROM_THE_REPORT}
                    self.sender.put(ReportRecord(lane, write_line({"operator": operator, "body": body})))
                except (AttributeError, TypeError, ValueError, RecursionError) as error:
                    self.unsayable += 1
                    self.desk.say(INTERNAL, f"a row of {lane} of {operator!r} is not made of plain values ({error})")
        if detail is not None:
            self.sender.details[operator] = dict(detail)
            self.sender.untold.add(operator)
        self.sender.wake.set()

    def status(self) -> LinkStatus:
        faults = self.desk.faults
        dropped, lost = self.outbox.dropped, self.sender.lost
        return LinkStatus(
            fault=next((faults[name] for name in (ORDERS, REPORTS, STORAGE, INTERNAL) if faults.get(name)), ""),
            revision=self.desk.revision,
            acknowledged=self.desk.acknowledged,
            age=self.age() if math.isfinite(self.desk.heard) else math.inf,
            waiting=len(self.sender.inbox) + self.sender.waiting,
            sent=self.sender.sent,
            dropped_samples=dropped[SAMPLES] + lost[SAMPLES],
            dropped_decisions=dropped[DECISIONS] + lost[DECISIONS],
            refused=self.outbox.refused + self.unsayable,
        )
