"""Run the retuning daemon: claim the leases of applications that are due, advance each, release them.

A search takes minutes, and stages must be checked meanwhile: searches run on a thread of their own, one at a time,
everything else in the loop. Each lease is renewed by the wall clock while it is held. When a daemon dies, another
claims its leases as soon as they run out, or at once where it sees that the process is gone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from scaler.model.errors import BadInput, Retry
from tuner.retuning.phases import advance
from tuner.retuning.state import DaemonContext, is_requested
from tuner.rollout.issued_orders import CANDIDATES, issue_orders, list_guards
from tuner.store.connection import Store
from tuner.store.objectives import list_applications_with
from tuner.store.orders import list_expired_controls, load_orders
from tuner.store.ordinals import has_unnumbered, number_older
from tuner.store.records import RetuningRecord
from tuner.store.runs import (
    RETUNING_LEASE_S,
    Clock,
    LeaseLost,
    claim_retuning,
    list_retunings,
    name_owner,
    release_retuning,
    renew_retuning,
)

log = logging.getLogger(__name__)
PASS_S = 0.5  # between two passes
RETRY_S, SEARCH_WAIT_S = 60.0, 5.0  # after a failure, and where another search is under way
GRACE_S = 3.0  # for a search to reach its next trial when the daemon is to end


@dataclass(slots=True)
class HeldLeases:
    """The leases that this daemon holds, and the thread of its search, if it has one for that."""

    threaded: bool = True
    held: dict[str, RetuningRecord] = field(default_factory=dict)
    search: threading.Thread | None = None


def run_daemon(
    store: Store,
    clock: Clock = time.time,
    wait: Callable[[float], object] = time.sleep,
    owner: str | None = None,
    ending: Callable[[], bool] = lambda: False,
    every: float = PASS_S,
    leases: HeldLeases | None = None,
) -> None:
    """Make passes until the end; then release every lease, for any daemon to claim.

    A search that has not ended soon after goes on, and its thread is in `leases`.
    """
    context, leases = DaemonContext(store, owner or name_owner(), clock, ending), leases or HeldLeases()
    try:
        while not ending():
            try:
                run_pass(context, leases)
            except (Retry, BadInput) as error:  # of the database
                log.warning("%s", error)
            except Exception:
                log.exception("a pass over the applications failed; the next one follows")
            wait(every)
    finally:
        if leases.search is not None:
            leases.search.join(GRACE_S)
        for record in list(leases.held.values()):
            release(context, record, leases)


def run_once(
    store: Store, clock: Clock = time.time, owner: str | None = None, ending: Callable[[], bool] = lambda: False
) -> list[RetuningRecord]:
    """Make one pass, searches included; the applications that were advanced, as they stand then."""
    return run_pass(DaemonContext(store, owner or name_owner(), clock, ending), HeldLeases(threaded=False))


def run_pass(context: DaemonContext, leases: HeldLeases) -> list[RetuningRecord]:
    """Advance the applications that are due and unclaimed; searches are left to their thread, if there is one."""
    reissue_orders(context)
    number_rows_of_older(context)
    with context.store.read() as session:
        records, moving = list_retunings(session), list_applications_with(session, CANDIDATES)
    now, advanced = context.clock(), []
    for record in records:
        urgent = record.due <= now or is_requested(record) or (record.phase == "idle" and record.application in moving)
        if context.ending() or not urgent or record.application in leases.held:
            continue
        with context.store.begin() as session:
            claimed = claim_retuning(session, record.application, context.owner, time.time())
        if claimed is not None:
            leases.held[record.application] = claimed
            advanced.append(advance_claimed(context, claimed, leases, searching=not leases.threaded))
    return advanced


def advance_claimed(
    context: DaemonContext, record: RetuningRecord, leases: HeldLeases, searching: bool
) -> RetuningRecord:
    """Advance one application, then release it, or hand it to the search thread where a search waits."""
    with renewed_lease(context, record):
        record, waits, failed = advance_safely(context, record, searching)
    if waits and (leases.search is None or not leases.search.is_alive()):
        arguments = (context, record, leases, True)
        leases.search = threading.Thread(target=advance_claimed, args=arguments, name="search", daemon=True)
        leases.search.start()
        return record
    return release(context, record, leases, RETRY_S if failed else SEARCH_WAIT_S if waits else None)


def advance_safely(
    context: DaemonContext, record: RetuningRecord, searching: bool
) -> tuple[RetuningRecord, bool, bool]:
    """The record, whether a search waits, whether something failed; one application's failure stays its own."""
    try:
        return *advance(context, record, searching), False
    except LeaseLost as error:
        log.warning("%s", error)
    except (Retry, BadInput) as error:
        log.warning("%s: %s; trying again later", record.application, error)
    except Exception:
        if context.ending():  # with its processes
            return record, False, False
        log.exception("%s could not be advanced; trying again later", record.application)
    return record, False, True


def release(
    context: DaemonContext, record: RetuningRecord, leases: HeldLeases, again_s: float | None = None
) -> RetuningRecord:
    """Release the lease; the application is due again when its record says, or after so many seconds."""
    later = {} if again_s is None else {"due": context.clock() + again_s}
    try:
        with context.store.begin() as session:
            return release_retuning(session, record, **later)
    except (Retry, BadInput) as error:  # another daemon holds it, or it runs out
        log.warning("%s", error)
        return record
    finally:
        leases.held.pop(record.application, None)


@contextmanager
def renewed_lease(context: DaemonContext, record: RetuningRecord) -> Iterator[None]:
    """Renew the lease while the block runs; writes of a daemon that lost it are refused by its fence anyway."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(RETUNING_LEASE_S / 4):
            try:
                with context.store.begin() as session:
                    renew_retuning(session, record, time.time())
            except (Retry, BadInput) as error:
                log.warning("%s", error)

    thread = threading.Thread(target=renew, name=f"lease of {record.application}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def reissue_orders(context: DaemonContext) -> None:
    """Write new orders where controls have run out by themselves."""
    now = context.clock()
    with context.store.read() as session:
        found = [
            app
            for app in list_expired_controls(session, now)
            if (orders := load_orders(session, app)) and orders.document.get("guards") != list_guards(session, app, now)
        ]
    for app in found:
        with context.store.begin() as session:
            issue_orders(session, app, now)


def number_rows_of_older(context: DaemonContext) -> None:
    """Number runs and trials of programs of the schema before, as they are replaced one by one."""
    with context.store.read() as session:
        found = has_unnumbered(session)
    if found:
        context.store.write(number_older)


@contextmanager
def daemon_thread(store: Store, leases: HeldLeases, clock: Clock = time.time) -> Iterator[threading.Thread]:
    """Run the daemon on a thread for as long as the block runs, as `tuner serve` does."""
    stop = threading.Event()
    work = {"store": store, "clock": clock, "wait": stop.wait, "ending": stop.is_set, "leases": leases}
    thread = threading.Thread(target=run_daemon, kwargs=work, name="retuning", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(1.1 * GRACE_S)
