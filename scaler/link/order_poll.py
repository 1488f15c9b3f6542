"""The manager's orders in, by long poll; kept on disk, acknowledged, and handed on, out.

The manager's newest word counts, whatever its revision: a smaller one means that its database was restored from a copy,
and what it says now is what it wants. After each break in the conversation the first question is unconditional, for a
restored manager may by chance have come to the revision that was last seen, with other orders.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scaler.link.backoff import Backoff
from scaler.link.http import TIMEOUT_S, ManagerConnection, ManagerResponse
from scaler.link.link_state import BUSY, INTERNAL, LOG, NOT_ALLOWED, NOT_HERE, ORDERS, LinkState, describe_refusal
from scaler.link.report_log import ReportLog
from scaler.link.saved_orders import SavedOrders, save_orders
from scaler.model.errors import BadInput, Retry
from scaler.model.orders import Orders, parse_orders

POLL_PAUSE_S = 1.0  # between questions to a manager that does not wait though nothing is new


class OrderPoll:
    """The thread that waits for orders."""

    def __init__(
        self,
        desk: LinkState,
        caller: ManagerConnection,
        folder: Path,
        outbox: ReportLog,
        wait_s: float,
        on_orders: Callable[[Orders], None] | None,
    ) -> None:
        self.desk, self.caller, self.folder, self.outbox = desk, caller, folder, outbox
        self.wait_s, self.on_orders = wait_s, on_orders
        self.path = f"/v1/applications/{quote(desk.application, safe='')}"
        self.backoff = Backoff(desk.luck)
        self.etag = ""  # of what the manager said last; "" when the next question is unconditional
        self.told: dict[str, int] = {}  # revision that each operator has acknowledged
        self.unsaved = False

    def run(self) -> None:
        while not self.desk.stopping.is_set():
            self.desk.poke.clear()
            try:
                pause = self.poll()
                self.save()
                if pause == 0.0 or self.backoff.failures == 0:
                    self.acknowledge()
            except Exception as error:  # nothing may end this thread
                LOG.debug("the listener failed", exc_info=error)
                self.desk.say(INTERNAL, f"listening failed in a way that was not foreseen ({type(error).__name__})")
                self.etag, pause = "", self.desk.some_patience()
            if pause > 0.0 and not self.desk.stopping.is_set():
                self.desk.pace.wait(self.desk.poke, pause)
        self.caller.close()

    def poll(self) -> float:
        """Ask once; seconds until the next question."""
        began = self.desk.pace.now()
        asked = self.etag
        headers = {"If-None-Match": asked} if asked else {}
        if self.desk.operators and fits_a_header(name := f"{self.desk.operators[0]}/{self.desk.instance}"):
            headers["Scaler"] = name
        try:
            where = f"{self.path}/orders?wait={self.wait_s:g}"
            answer = self.caller.ask("GET", where, None, headers, self.wait_s + TIMEOUT_S)
        except Retry as error:
            self.etag = ""
            if not self.desk.stopping.is_set():
                self.desk.say(ORDERS, str(error))
            return self.backoff.fail()
        if answer.status == 304 and asked:
            self.greet()
            return self.pause(began)
        if answer.status == 200:
            return self.take(answer, asked, began)
        self.etag = ""
        return self.refused(answer, began)

    def take(self, answer: ManagerResponse, asked: str, began: float) -> float:
        document = answer.document()
        try:
            orders = parse_orders(document)
        except (BadInput, OverflowError, RecursionError):
            orders = None
        if orders is None or orders.application != self.desk.application:
            self.etag = ""
            self.desk.say(ORDERS, describe_refusal(self.caller, answer, "orders"))
            return self.backoff.fail()
        self.greet()
        self.etag = answer.etag if fits_a_header(answer.etag) else f'"{orders.revision}"'
        if not self.adopt(orders, document) and asked:
            return self.pause(began)
        return 0.0

    def adopt(self, orders: Orders, document: Any) -> bool:
        """Whether they are news."""
        before = self.desk.kept
        if before is not None and before.document == document:
            return False
        if before is not None and orders.revision <= before.orders.revision:
            went = f"from revision {before.orders.revision} to {orders.revision}"
            LOG.warning("%s: the orders went %s: was the manager restored? They are followed", orders.application, went)
            self.told = {}
        self.desk.kept = SavedOrders(orders, document, self.desk.heard)
        self.unsaved = True
        if self.on_orders is not None:
            try:
                self.on_orders(orders)
            except Exception:
                LOG.exception("%s: what was to be told of new orders failed", orders.application)
        return True

    def save(self) -> None:
        kept = self.desk.kept
        if not self.unsaved or kept is None or self.outbox.lock is None:
            return
        try:
            save_orders(self.folder, kept)
            self.unsaved = False
        except (OSError, ValueError) as error:
            self.desk.say(ORDERS, f"the orders cannot be kept in {self.folder} ({error})")

    def greet(self) -> None:
        self.desk.hear()
        self.backoff.recover()
        self.desk.say(ORDERS, "")

    def pause(self, began: float) -> float:
        """None after a question that was waited for; a second after one that was answered at once with nothing new."""
        return 0.0 if self.desk.pace.now() - began >= min(POLL_PAUSE_S, self.wait_s / 2.0) else POLL_PAUSE_S

    def refused(self, answer: ManagerResponse, began: float) -> float:
        self.desk.say(ORDERS, describe_refusal(self.caller, answer, "orders"))
        if answer.status in NOT_ALLOWED or 300 <= answer.status < 400:
            return self.desk.some_patience()
        if answer.status == NOT_HERE:  # none issued yet, or the application is not registered
            problem = answer.document()
            if isinstance(problem, dict) and "detail" in problem:
                self.desk.hear()
                if self.pause(began) == 0.0:  # it waited for some to come
                    return 0.0
        return self.backoff.fail(answer.retry_after or 0.0 if answer.status in BUSY else 0.0)

    def acknowledge(self) -> None:
        """Say of each operator that it acts under these orders; what fails is tried after the next question."""
        revision = self.desk.revision
        if revision is None or not self.etag:
            return
        for operator in self.desk.operators:
            if self.told.get(operator) == revision:
                continue
            body = {"instance": self.desk.instance, "operator": operator, "revision": revision}
            try:
                answer = self.caller.ask("POST", f"{self.path}/acknowledgements", body)
            except Retry:
                return
            if answer.status != 200:
                return
            self.told[operator] = revision
        self.desk.acknowledged = revision


def fits_a_header(text: str) -> bool:
    return 0 < len(text) <= 400 and text.isascii() and text.isprintable()
