"""Records from the driver in; written to disk at once, and sent to the manager until it has confirmed them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from scaler.link.backoff import Backoff
from scaler.link.http import ManagerConnection, ManagerResponse
from scaler.link.link_state import (
    BUSY,
    INTERNAL,
    LOG,
    NOT_ALLOWED,
    NOT_HERE,
    REPORTS,
    STORAGE,
    LinkState,
    describe_refusal,
    is_receipt,
)
from scaler.link.report_log import DECISIONS, SAMPLES, ReportBatch, ReportLog, ReportRecord
from scaler.model.errors import Retry

MAX_RECORDS, MAX_REPORT_BYTES = 500, 256 << 10  # of one round
MAX_INBOX = 100_000  # records that may wait for the thread
UNPROCESSABLE = (400, 413, 422)  # whatever is refused so is refused tomorrow: it is split, and in the end put aside
LOCK_RETRY_S = 60.0  # between tries to have the folder


class Sender:
    """The thread that sends."""

    def __init__(self, desk: LinkState, caller: ManagerConnection, outbox: ReportLog) -> None:
        self.desk, self.caller, self.outbox = desk, caller, outbox
        self.path = f"/v1/applications/{quote(desk.application, safe='')}/reports"
        self.inbox: deque[ReportRecord] = deque()
        self.lost = {DECISIONS: 0, SAMPLES: 0}  # for want of room in the inbox
        self.details: dict[str, Mapping[str, Any]] = {}  # the last of each operator
        self.untold: set[str] = set()  # operators whose detail is news
        self.wake = threading.Event()
        self.backoff = Backoff(desk.luck)
        self.size = MAX_RECORDS
        self.sent = 0
        self.waiting = 0  # for others to read
        self.stored = 0  # records taken in, and on disk where there is one
        self.own_at = 0.0

    def put(self, record: ReportRecord) -> None:
        """Called by the driver's threads."""
        while len(self.inbox) >= MAX_INBOX:
            try:
                self.lost[self.inbox.popleft().lane] += 1
            except IndexError:
                break
        self.inbox.append(record)

    def run(self) -> None:
        due = self.desk.pace.now()
        while True:
            self.wake.clear()
            if self.desk.stopping.is_set():  # asked after clearing, or the call to wake up could be missed
                break
            try:
                self.store()
                if self.desk.pace.now() >= due and self.busy():
                    due = self.desk.pace.now() + self.send()
            except Exception as error:  # nothing may end this thread
                due = self.desk.pace.now() + self.fail(error)
            left = max(0.0, due - self.desk.pace.now()) if self.busy() else LOCK_RETRY_S
            if left > 0.0 and not self.inbox:
                self.desk.pace.wait(self.wake, min(left, LOCK_RETRY_S))
        self.end()

    def end(self) -> None:
        """What is in memory goes to disk; then to the manager, if it answered when it was last asked."""
        try:
            self.store()
            while self.busy() and self.backoff.failures == 0 and self.send() == 0.0 and self.backoff.failures == 0:
                pass
        except Exception as error:
            self.fail(error)
        self.caller.close()
        self.outbox.release()

    def fail(self, error: Exception) -> float:
        LOG.debug("the sender failed", exc_info=error)
        self.desk.say(INTERNAL, f"sending failed in a way that was not foreseen ({type(error).__name__})")
        return self.desk.some_patience()

    def busy(self) -> bool:
        self.waiting = self.outbox.waiting
        return bool(self.untold) or self.waiting > 0

    def store(self) -> None:
        """Put on disk what the driver has handed over."""
        now = self.desk.pace.now()
        if not self.outbox.lanes and now >= self.own_at:
            self.own_at = now + LOCK_RETRY_S
            self.outbox.open()
        records = []
        while self.inbox:
            self.waiting += 1  # first, so that nobody reads that nothing waits
            records.append(self.inbox.popleft())
        self.outbox.add(records)
        self.stored += len(records)
        self.desk.say(STORAGE, self.outbox.fault)

    def send(self) -> float:
        """One round; seconds until the next."""
        batch = self.outbox.take(self.size, MAX_REPORT_BYTES)
        if batch.lines and not batch.records:  # damaged, all of them
            self.outbox.settle(batch)
            return 0.0
        for operator in dict.fromkeys([*(record[1] for record in batch.records), *sorted(self.untold)]):
            detail = self.details.get(operator, {})
            rows = {lane: [b for name, o, b in batch.records if name == lane and o == operator] for lane in self.lost}
            report = {"instance": self.desk.instance, "operator": operator, "revision": self.desk.revision}
            try:
                answer = self.caller.ask("POST", self.path, {**report, **rows, "detail": detail})
            except Retry as error:
                self.desk.say(REPORTS, str(error))
                return self.backoff.fail()
            except (ValueError, TypeError):  # what cannot be written as a request
                answer = ManagerResponse(400, "", None, b"")
            if answer.status != 200 or not is_receipt(receipt := answer.document()):
                return self.refused(answer, batch, operator)
            self.desk.hear()
            if receipt.get("revision") not in (None, self.desk.revision):
                self.desk.poke.set()
            if self.details.get(operator, {}) is detail or not detail:
                self.untold.discard(operator)
        self.outbox.settle(batch)
        self.sent += len(batch.records)
        self.size = min(MAX_RECORDS, 2 * self.size)
        self.backoff.recover()
        self.desk.say(REPORTS, "")
        return 0.0

    def refused(self, answer: ManagerResponse, batch: ReportBatch, operator: str) -> float:
        """Seconds until the next try after an answer that confirms nothing."""
        self.desk.say(REPORTS, describe_refusal(self.caller, answer, "reports"))
        if answer.status in NOT_ALLOWED or answer.status == NOT_HERE or 300 <= answer.status < 400:
            return self.desk.some_patience()
        if answer.status in UNPROCESSABLE:
            if len(batch.records) > 1:
                self.size = len(batch.records) // 2
                return 0.0
            self.details.pop(operator, None)  # it may be to blame
            self.untold.discard(operator)
            if batch.records:
                self.outbox.settle(batch, refused=True)
            return self.backoff.fail()
        return self.backoff.fail(answer.retry_after or 0.0 if answer.status in BUSY else 0.0)
