"""Write reports to disk at once, and send them to the manager until it has confirmed them."""

from __future__ import annotations

import threading
from collections import deque
from urllib.parse import quote

from scaler.link.http import ManagerConnection, ManagerResponse
from scaler.link.link_state import (
    BUSY,
    NOT_ALLOWED,
    NOT_HERE,
    REPORTS,
    STORAGE,
    LinkState,
    describe_refusal,
)
from scaler.link.report_log import REPORT_KINDS, ReportBatch, ReportLog, ReportRecord
from scaler.model.errors import Backoff, Retry

MAX_RECORDS, MAX_REPORT_BYTES = 500, 256 << 10  # of one round
MAX_INBOX = 100_000  # records that may wait for the thread
UNFIT, TOO_LARGE = 422, 413
NOT_WRITABLE = ManagerResponse(UNFIT, "", None, b'{"status": 422, "detail": "it cannot be written as JSON"}')
LOCK_RETRY_S = 60.0  # between tries to have the folder


class Sender:
    """Thread that sends reports."""

    def __init__(self, state: LinkState, connection: ManagerConnection, reports: ReportLog) -> None:
        self.state, self.connection, self.reports = state, connection, reports
        self.path = f"/v1/applications/{quote(state.app, safe='')}/reports"
        self.inbox: deque[ReportRecord] = deque(maxlen=MAX_INBOX)  # driver threads add to it; the oldest give way
        self.displaced = 0  # records of the inbox, for want of room
        self.wake = threading.Event()
        self.backoff = Backoff(state.rng)
        self.batch_size = MAX_RECORDS
        self.sent = 0
        self.waiting = 0  # for others to read
        self.stored = 0  # records taken in, and on disk where there is one
        self.open_at = 0.0

    def put(self, record: ReportRecord) -> None:
        """Queue a record; for the driver's threads."""
        self.displaced += len(self.inbox) == MAX_INBOX
        self.inbox.append(record)

    def run(self) -> None:
        due = self.state.pacer.now()
        while True:
            self.wake.clear()
            if self.state.stopping.is_set():  # asked after clearing, or the call to wake up could be missed
                break
            try:
                self.store()
                if self.state.pacer.now() >= due and self.has_work():
                    due = self.state.pacer.now() + self.send()
            except Exception as error:  # nothing may end this thread
                due = self.state.pacer.now() + self.state.record_failure("sending", error)
            left = max(0.0, due - self.state.pacer.now()) if self.has_work() else LOCK_RETRY_S
            if left > 0.0 and not self.inbox:
                self.state.pacer.wait(self.wake, min(left, LOCK_RETRY_S))
        self.end()

    def end(self) -> None:
        """Write what is in memory to disk; then send it, if the manager answered last time."""
        try:
            self.store()
            while self.has_work() and self.backoff.failures == 0 and self.send() == 0.0 and self.backoff.failures == 0:
                pass
        except Exception as error:
            self.state.record_failure("sending", error)
        self.connection.close()
        self.reports.close()

    def has_work(self) -> bool:
        self.waiting = self.reports.waiting
        return self.waiting > 0

    def store(self) -> None:
        """Write the queued records to disk."""
        now = self.state.pacer.now()
        if not self.reports.logs and now >= self.open_at:
            self.open_at = now + LOCK_RETRY_S
            self.reports.open()
        records = []
        while self.inbox:
            self.waiting += 1  # first, so that nobody reads that nothing waits
            records.append(self.inbox.popleft())
        self.reports.add(records)
        self.stored += len(records)
        self.state.set_fault(STORAGE, self.reports.fault)

    def send(self) -> float:
        """Send one batch; seconds until the next."""
        batch = self.reports.next_batch(self.batch_size, MAX_REPORT_BYTES)
        if batch.lines and not batch.records:  # damaged, all of them
            self.reports.acknowledge(batch)
            return 0.0
        for operator in dict.fromkeys(record[1] for record in batch.records):
            rows = {kind: [b for name, o, b in batch.records if (name, o) == (kind, operator)] for kind in REPORT_KINDS}
            report = {"instance": self.state.instance, "operator": operator, "revision": self.state.revision}
            try:
                answer = self.connection.request("POST", self.path, {**report, **rows, "detail": {}})
            except Retry as error:
                self.state.set_fault(REPORTS, str(error))
                return self.backoff.fail()
            except (ValueError, TypeError):  # what cannot be written as a request
                answer = NOT_WRITABLE
            receipt = answer.document()
            if answer.status != 200 or not isinstance(receipt, dict) or not isinstance(receipt.get("received"), dict):
                return self.handle_refusal(answer, batch)
            self.state.answered_at = self.state.clock()
            self.state.note_expiry(answer)
            if receipt.get("revision") not in (None, self.state.revision):
                self.state.wake.set()
        self.reports.acknowledge(batch)
        self.sent += len(batch.records)
        self.batch_size = min(MAX_RECORDS, 2 * self.batch_size)
        self.backoff.recover()
        self.state.set_fault(REPORTS, "")
        return 0.0

    def handle_refusal(self, answer: ManagerResponse, batch: ReportBatch) -> float:
        """Seconds until the next try after an answer that confirms nothing.

        Only what the manager itself finds unfit is put aside, when it stands alone; whatever else was answered, by the
        manager or by a proxy, judges no record, so all are kept.
        """
        self.state.set_fault(REPORTS, describe_refusal(self.connection, answer, "reports"))
        if answer.status in NOT_ALLOWED or answer.status == NOT_HERE or 300 <= answer.status < 400:
            return self.state.find_long_pause()
        if answer.status in (UNFIT, TOO_LARGE) and len(batch.records) > 1:
            self.batch_size = len(batch.records) // 2
            return 0.0
        if answer.status in (UNFIT, TOO_LARGE) and is_own_word(answer):
            self.reports.acknowledge(batch, refused=True)
            return self.backoff.fail()
        return self.backoff.fail(answer.retry_after or 0.0 if answer.status in BUSY else 0.0)


def is_own_word(answer: ManagerResponse) -> bool:
    """Whether a refusal is a problem document as the manager writes it, which repeats the status."""
    document = answer.document()
    return isinstance(document, dict) and document.get("status") == answer.status
