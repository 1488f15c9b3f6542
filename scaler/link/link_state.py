"""State that the two threads of a link share, the last good orders on disk, and how refusals are described."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scaler.link.http import ManagerConnection, ManagerResponse
from scaler.model.files import write_durably
from scaler.model.orders import Orders, parse_orders
from scaler.model.units import format_moment

LOG = logging.getLogger("scaler.link")
OPERATOR_RETRY_S = 60.0  # before another try of what somebody has to put right first
NOT_HERE, NOT_ALLOWED, BUSY = 404, (401, 403), (429, 503)
REPORTS, ORDERS, STORAGE, INTERNAL = "reports", "orders", "storage", "internal"  # sources of faults
ORDERS_FILE = "orders.json"
WARNED_S = 86_400.0  # seconds between two warnings that the token expires


@dataclass(frozen=True, slots=True)
class SavedOrders:
    orders: Orders
    document: Any  # that they were read from
    received_at: float  # when the manager last confirmed them


def save_orders(folder: Path, saved: SavedOrders) -> None:
    """Save orders so that a crash at any moment leaves these or those before."""
    text = json.dumps(saved.document, sort_keys=True)
    content = {"digest": digest(text), "heard": saved.received_at, "orders": text}
    write_durably(folder / ORDERS_FILE, json.dumps(content).encode())


def load_orders(folder: Path, app: str) -> SavedOrders | None:
    """Load the orders of this application; None where there are none that can be trusted."""
    try:
        outer = json.loads((folder / ORDERS_FILE).read_bytes())
        text, received_at = outer["orders"], float(outer["heard"])
        if digest(text) != outer["digest"]:
            return None
        document = json.loads(text)
        orders = parse_orders(document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ArithmeticError):
        return None
    return SavedOrders(orders, document, received_at) if orders.application == app else None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Pacer:
    """Monotonic time and waiting; tests have their own."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> None:
        event.wait(seconds)


@dataclass(slots=True)
class LinkState:
    """State that both threads share; each field is replaced whole, so that readers need no lock."""

    app: str
    instance: str
    operators: tuple[str, ...]
    clock: Callable[[], float]
    pacer: Pacer
    rng: random.Random
    stopping: threading.Event = field(default_factory=threading.Event)
    wake: threading.Event = field(default_factory=threading.Event)  # the order poll should poll again
    saved: SavedOrders | None = None
    answered_at: float = -math.inf
    acknowledged: int | None = None
    faults: dict[str, str] = field(default_factory=dict)
    token_expires: float | None = None  # where it is soon
    warned_at: float = -math.inf
    sequence: int = 0
    numbering: threading.Lock = field(default_factory=threading.Lock)

    def next_sequence(self) -> int:
        """A number higher than any before, of the process before this one too unless the clock was set back."""
        with self.numbering:
            self.sequence = max(self.sequence + 1, int(1e6 * self.clock()))
            return self.sequence

    @property
    def orders(self) -> Orders | None:
        return None if self.saved is None else self.saved.orders

    @property
    def revision(self) -> int | None:
        return None if self.saved is None else self.saved.orders.revision

    def set_fault(self, whose: str, sentence: str) -> None:
        """Log a fault once, and once that it is over."""
        before = self.faults.get(whose, "")
        if sentence == before:
            return
        self.faults = {**self.faults, whose: sentence}
        if sentence:
            LOG.warning("%s: %s", self.app, sentence)
        else:
            LOG.info("%s: it is over that %s", self.app, before)

    def note_expiry(self, answer: ManagerResponse) -> None:
        """Log once a day that the token expires; an answer that does not say so is to another one."""
        self.token_expires = expires = answer.token_expires
        now = self.clock()
        if expires is not None and now >= self.warned_at + WARNED_S:
            self.warned_at = now
            when = format_moment(expires)
            LOG.warning("%s: the token expires at %s; rotate it with: tuner token rotate", self.app, when)

    def record_failure(self, what: str, error: Exception) -> float:
        """Record that a thread's step failed, which is not to end the thread; seconds until its next."""
        LOG.debug("%s failed", what, exc_info=error)
        self.set_fault(INTERNAL, f"{what} failed in a way that was not foreseen ({type(error).__name__})")
        return self.find_long_pause()

    def find_long_pause(self) -> float:
        return OPERATOR_RETRY_S * (0.9 + 0.2 * self.rng.random())


def describe_refusal(connection: ManagerConnection, answer: ManagerResponse, what: str) -> str:
    """Describe a response other than the requested one in a sentence."""
    said = connection.describe(answer)
    if answer.status in NOT_ALLOWED:
        return f"the manager at {connection.address} does not let this token have {what} ({said})"
    if 300 <= answer.status < 400:
        return f"the manager at {connection.address} points elsewhere ({said}); give the address where it is"
    if answer.status == 200:
        return f"{connection.address} answers something that is not what a manager says to {what}; is it one?"
    return f"the manager at {connection.address} refused {what} ({said})"
