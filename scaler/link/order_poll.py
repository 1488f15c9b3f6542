"""Poll the manager for orders (long poll); save, acknowledge and hand them on.

The manager's newest answer counts, whatever its revision: a smaller one means that its database was restored from a
copy, and what it says now is what it wants. After each failure, and on each new connection, the first request is
unconditional, for a restored manager may by chance have come to the revision that was last seen, with other orders.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from scaler.link.http import TIMEOUT_S, Condition, ManagerConnection, ManagerResponse
from scaler.link.link_state import (
    BUSY,
    LOG,
    NOT_ALLOWED,
    NOT_HERE,
    ORDERS,
    LinkState,
    SavedOrders,
    describe_refusal,
    save_orders,
)
from scaler.link.report_log import ReportLog
from scaler.model.errors import Backoff, BadInput, Retry
from scaler.model.orders import Orders, parse_orders

POLL_PAUSE_S = 1.0  # between questions to a manager that does not wait though nothing is new


class OrderPoll:
    """Thread that waits for orders."""

    def __init__(
        self,
        state: LinkState,
        connection: ManagerConnection,
        folder: Path,
        reports: ReportLog,
        wait_s: float,
    ) -> None:
        self.state, self.connection, self.folder, self.reports = state, connection, folder, reports
        self.wait_s = wait_s
        self.path = f"/v1/applications/{quote(state.app, safe='')}"
        self.backoff = Backoff(state.rng)
        self.etag = ""  # of what the manager said last; "" when the next question is unconditional
        self.etag_from = 0  # connection that it came by
        self.acknowledged: dict[str, int] = {}  # revision that each operator has acknowledged
        self.unsaved = False

    def run(self) -> None:
        while not self.state.stopping.is_set():
            self.state.wake.clear()
            try:
                pause = self.poll()
                self.save()
                if pause == 0.0 or self.backoff.failures == 0:
                    self.acknowledge()
            except Exception as error:  # nothing may end this thread
                self.etag, pause = "", self.state.record_failure("polling for orders", error)
            if pause > 0.0 and not self.state.stopping.is_set():
                self.state.pacer.wait(self.state.wake, pause)
        self.connection.close()

    def poll(self) -> float:
        """Request once; seconds until the next request."""
        began = self.state.pacer.now()
        asked = self.etag
        headers = {}
        if self.state.operators and fits_a_header(name := f"{self.state.operators[0]}/{self.state.instance}"):
            headers["Scaler"] = name
        try:
            where = f"{self.path}/orders?wait={self.wait_s:g}"
            condition = Condition(self.etag_from, {"If-None-Match": asked}) if asked else None
            answer = self.connection.request("GET", where, None, headers, self.wait_s + TIMEOUT_S, condition)
        except Retry as error:
            self.etag = ""
            if not self.state.stopping.is_set():
                self.state.set_fault(ORDERS, str(error))
            return self.backoff.fail()
        if answer.status == 304 and asked:
            self.mark_success(answer)
            return self.pause(began)
        if answer.status == 200:
            return self.accept(answer, asked, began)
        self.etag = ""
        return self.handle_refusal(answer, began)

    def accept(self, answer: ManagerResponse, asked: str, began: float) -> float:
        document = answer.document()
        refusal = describe_refusal(self.connection, answer, "orders")
        try:
            orders = parse_orders(document)
        except BadInput as error:
            orders = None
            if isinstance(document, dict) and document.get("application") == self.state.app:
                refusal = f"the manager at {self.connection.address}: {error}; those before stand"
        if orders is None or orders.application != self.state.app:
            self.etag = ""
            self.state.set_fault(ORDERS, refusal)
            return self.backoff.fail()
        self.mark_success(answer)
        self.etag = answer.etag if fits_a_header(answer.etag) else f'"{orders.revision}"'
        self.etag_from = self.connection.number
        if not self.adopt(orders, document) and asked:
            return self.pause(began)
        return 0.0

    def adopt(self, orders: Orders, document: Any) -> bool:
        """Adopt orders; whether they are new."""
        before = self.state.saved
        if before is not None and before.document == document:
            return False
        if before is not None and orders.revision <= before.orders.revision:
            went = f"from revision {before.orders.revision} to {orders.revision}"
            LOG.warning("%s: the orders went %s: was the manager restored? They are followed", orders.application, went)
            self.acknowledged = {}
        self.state.saved = SavedOrders(orders, document, self.state.answered_at)
        self.unsaved = True
        return True

    def save(self) -> None:
        saved = self.state.saved
        if not self.unsaved or saved is None or self.reports.lock is None:
            return
        try:
            save_orders(self.folder, saved)
            self.unsaved = False
        except (OSError, ValueError) as error:
            self.state.set_fault(ORDERS, f"the orders cannot be saved in {self.folder} ({error})")

    def mark_success(self, answer: ManagerResponse) -> None:
        self.state.answered_at = self.state.clock()
        self.state.note_expiry(answer)
        self.backoff.recover()
        self.state.set_fault(ORDERS, "")

    def pause(self, began: float) -> float:
        """Zero after a request that waited; a second after one that was answered at once with nothing new."""
        return 0.0 if self.state.pacer.now() - began >= min(POLL_PAUSE_S, self.wait_s / 2.0) else POLL_PAUSE_S

    def handle_refusal(self, answer: ManagerResponse, began: float) -> float:
        self.state.set_fault(ORDERS, describe_refusal(self.connection, answer, "orders"))
        if answer.status in NOT_ALLOWED or 300 <= answer.status < 400:
            return self.state.find_long_pause()
        if answer.status == NOT_HERE:  # none issued yet, or the application is not registered
            problem = answer.document()
            if isinstance(problem, dict) and "detail" in problem:
                self.state.answered_at = self.state.clock()
                if self.pause(began) == 0.0:  # it waited for some to come
                    return 0.0
        return self.backoff.fail(answer.retry_after or 0.0 if answer.status in BUSY else 0.0)

    def acknowledge(self) -> None:
        """Acknowledge the orders for each operator; what fails is tried after the next request."""
        revision = self.state.revision
        if revision is None or not self.etag:
            return
        for operator in self.state.operators:
            if self.acknowledged.get(operator) == revision:
                continue
            body = {"instance": self.state.instance, "operator": operator, "revision": revision}
            try:
                answer = self.connection.request("POST", f"{self.path}/acknowledgements", body)
            except Retry:
                return
            if answer.status != 200:
                return
            self.acknowledged[operator] = revision
        self.state.acknowledged = revision


def fits_a_header(text: str) -> bool:
    return 0 < len(text) <= 400 and text.isascii() and text.isprintable()
