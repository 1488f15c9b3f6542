"""All applications that are watched in; those that are due taken in hand one by one, carried on and let go of, out.

A search takes minutes, and what is on its way in must be looked at meanwhile: searches run on a thread of their own,
one at a time, everything else in the loop. Each watch that is held is renewed while it is, by the wall clock; a daemon
that dies is followed by another as soon as its lease has run out, or at once where that one sees the process gone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import select

from scaler.model.errors import BadInput, Retry
from tuner.retuning.context import Clock, Hand
from tuner.retuning.phases import attend
from tuner.retuning.requests import is_asked
from tuner.retuning.stages import list_moving
from tuner.rollout.issue_orders import issue_orders, list_guards
from tuner.store.connection import Store
from tuner.store.models import ControlRow, OrdersRow
from tuner.store.orders import load_orders
from tuner.store.records import RetuningRecord
from tuner.store.retunings import LEASE_S, claim_retuning, list_retunings, release_retuning, renew_retuning
from tuner.store.runs import LeaseLost, name_owner

log = logging.getLogger(__name__)
EVERY_S = 0.5
AGAIN_S, WAIT_S = 60.0, 5.0  # after a failure, and where another search is under way
GRACE_S = 10.0  # for a search to reach its next trial when the daemon is to end


@dataclass(slots=True)
class Desk:
    """Which watches this daemon holds, and the thread that searches."""

    held: dict[str, RetuningRecord] = field(default_factory=dict)
    search: threading.Thread | None = None

    def searches(self) -> bool:
        return self.search is not None and self.search.is_alive()


def watch_over(
    store: Store,
    clock: Clock = time.time,
    wait: Callable[[float], object] = time.sleep,
    owner: str | None = None,
    ended: Callable[[], bool] = lambda: False,
    every: float = EVERY_S,
) -> None:
    """Pass after pass until it is to end; then everything is let go of, and can be taken up by anybody."""
    hand, desk = Hand(store, owner or name_owner(), clock, ended), Desk()
    try:
        while not ended():
            try:
                make_pass(hand, desk)
            except (Retry, BadInput) as error:  # of the database
                log.warning("%s", error)
            except Exception:
                log.exception("a pass over the applications failed; the next one follows")
            wait(every)
    finally:
        if desk.search is not None:
            desk.search.join(GRACE_S)
        let_go_of_all(hand, desk)


def look_once(store: Store, clock: Clock = time.time, owner: str | None = None,
              ended: Callable[[], bool] = lambda: False) -> list[RetuningRecord]:  # fmt: skip
    """One pass, searches included; the watches that were attended to, as they stand then."""
    return make_pass(Hand(store, owner or name_owner(), clock, ended), None)


def make_pass(hand: Hand, desk: Desk | None) -> list[RetuningRecord]:
    """Attend to what is due and in nobody's hand; with a desk searches are left to its thread."""
    renew_orders(hand)
    with hand.store.read() as session:
        watches, moving = list_retunings(session), list_moving(session)
    now, attended = hand.clock(), []
    for watch in watches:
        urgent = watch.due <= now or is_asked(watch) or (watch.phase == "idle" and watch.application in moving)
        if hand.ended() or not urgent or (desk is not None and watch.application in desk.held):
            continue
        held = claim(hand, watch.application)
        if held is not None:
            attended.append(carry_on(hand, held, desk))
    return attended


def claim(hand: Hand, app: str) -> RetuningRecord | None:
    with hand.store.begin() as session:
        return claim_retuning(session, app, hand.owner, time.time())


def carry_on(hand: Hand, held: RetuningRecord, desk: Desk | None) -> RetuningRecord:
    """What is done with one application; its failure is not the others'."""
    if desk is not None:
        desk.held[held.application] = held
    with renewing(hand, held):
        watch, waits, failed = attend_safely(hand, held, searching=desk is None)
    if desk is not None and waits and not desk.searches():
        desk.search = threading.Thread(target=search, args=(hand, watch, desk), name="search", daemon=True)
        desk.search.start()
        return watch
    return let_go(hand, watch, desk, AGAIN_S if failed else WAIT_S if waits else None)


def search(hand: Hand, watch: RetuningRecord, desk: Desk) -> None:
    """What the thread for searches does."""
    with renewing(hand, watch):
        watch, _, failed = attend_safely(hand, watch, searching=True)
    let_go(hand, watch, desk, AGAIN_S if failed else None)


def attend_safely(hand: Hand, watch: RetuningRecord, searching: bool) -> tuple[RetuningRecord, bool, bool]:
    """The watch, whether a search waits, and whether something failed that no step accounts for."""
    try:
        return *attend(hand, watch, searching), False
    except LeaseLost as error:
        log.warning("%s", error)
    except (Retry, BadInput) as error:
        log.warning("%s: %s; looking again later", watch.application, error)
    except Exception:
        if hand.ended():  # with its processes
            return watch, False, False
        log.exception("%s could not be attended to; looking again later", watch.application)
    return watch, False, True


def let_go(hand: Hand, watch: RetuningRecord, desk: Desk | None, again_s: float | None = None) -> RetuningRecord:
    """For anybody to claim, when it is due or after so many seconds."""
    later = {} if again_s is None else {"due": hand.clock() + again_s}
    try:
        with hand.store.begin() as session:
            return release_retuning(session, watch, **later)
    except (Retry, BadInput) as error:  # another has it, or its lease runs out
        log.warning("%s", error)
        return watch
    finally:
        if desk is not None:
            desk.held.pop(watch.application, None)


def let_go_of_all(hand: Hand, desk: Desk) -> None:
    for watch in list(desk.held.values()):
        let_go(hand, watch, desk)


@contextmanager
def renewing(hand: Hand, watch: RetuningRecord) -> Iterator[None]:
    """Renew the lease for as long as the work takes; a write of who was taken over is refused by its fence anyway."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(LEASE_S / 4):
            try:
                with hand.store.begin() as session:
                    renew_retuning(session, watch, time.time())
            except (Retry, BadInput) as error:
                log.warning("%s", error)

    thread = threading.Thread(target=renew, name=f"lease of {watch.application}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def renew_orders(hand: Hand) -> None:
    """Tell scalers of controls that have run out by themselves."""
    now = hand.clock()
    query = (
        select(ControlRow.application)
        .join(OrdersRow, OrdersRow.application == ControlRow.application)
        .where(ControlRow.until <= now, ControlRow.until > OrdersRow.issued, ControlRow.ended.is_(None))
    )
    with hand.store.read() as session:
        found = [
            app
            for app in session.scalars(query.distinct())
            if (orders := load_orders(session, app)) and orders.document.get("guards") != list_guards(session, app, now)
        ]
    for app in found:
        with hand.store.begin() as session:
            issue_orders(session, app, now)


@contextmanager
def daemon_beside(store: Store, clock: Clock = time.time) -> Iterator[threading.Thread]:
    """The daemon on a thread of its own for as long as the block takes, as `tuner serve` has it."""
    stop = threading.Event()
    work = {"store": store, "clock": clock, "wait": stop.wait, "ended": stop.is_set}
    thread = threading.Thread(target=watch_over, kwargs=work, name="retuning", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(1.1 * GRACE_S)
