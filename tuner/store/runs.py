"""Tuning runs, each leased to one process until it ends, and retunings, each leased to at most one daemon.

Who claims one raises its fence. Every write of a holder names the fence that it was given, in the same transaction:
a process that slept through its lease finds its fence outdated and must stop, whatever it has computed in the meantime.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Select, insert, or_, select, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.operators import eq

from scaler.model.errors import BadInput, Retry
from tuner.store.connection import Store
from tuner.store.faults import DatabaseFault, require
from tuner.store.ordinals import number_older_of, of_ordinal, take_ordinal
from tuner.store.records import RUN_STATES, RetuningRecord, TuningRun, check_one_of
from tuner.store.rows import given, lock_turn
from tuner.store.tables import APPLICATIONS, RETUNINGS, RUNS, VERSIONS, R, RecordTable

LEASE_S = 60.0
INTERRUPTED = "interrupted"
NO_RUN = "there is no tuning run"  # of a number


class LeaseLost(Retry):
    """Another process has the run now: stop working on it, and leave what it wrote."""


def name_owner() -> str:
    """A name that no other process has, nor this one the next time: machine, process, and chance."""
    return f"{name_machine()}:{os.getpid()}:{secrets.token_hex(4)}"


def name_machine() -> str:
    """Within which a process id means one process; containers may share a host's name, but not its processes."""
    try:
        return f"{socket.gethostname()}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def is_owner_dead(owner: str) -> bool:
    """Whether the process was of this machine and is no more; another's may be, and its lease has to run out."""
    machine, _, rest = owner.partition(":")
    pid = rest.partition(":")[0]
    if machine != name_machine() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def find_state(run: TuningRun, now: float) -> str:
    """The run's state as people see it: one that no living process holds any more is interrupted, not running."""
    if run.state != "running":
        return run.state
    is_held = run.owner is not None and (run.lease_until or 0.0) >= now and not is_owner_dead(run.owner)
    return "running" if is_held else INTERRUPTED


def start_run(session: Session, run: TuningRun, owner: str, now: float) -> TuningRun:
    """Save a new run, held by `owner` from the start, under its application's next number."""
    held = replace(run, owner=owner, heartbeat=now, lease_until=now + LEASE_S, fence=1)
    numbered = take_ordinal(session, RUNS, run.application_version_id)
    statement = insert(RUNS.table).values(RUNS.to_columns(held) | numbered).returning(RUNS.c.id)
    return replace(held, ordinal=numbered["ordinal"], id=session.scalar(statement))


def claim_run(session: Session, run_id: int, owner: str, now: float) -> TuningRun | None:
    """Take a run that nobody holds any more; None where somebody does, or where it has ended."""
    version_id = session.scalar(select(RUNS.c.application_version_id).where(RUNS.c.id == run_id))
    if version_id is not None:
        number_older_of(session, version_id)
    return claim(session, RUNS, (RUNS.c.id == run_id) & (RUNS.c.state == "running"), owner, now, LEASE_S)


def claim(
    session: Session, table: RecordTable[R], where: ColumnElement[bool], owner: str, now: float, lease_s: float
) -> R | None:
    """Lease the one record for which this holds, where nobody living holds it; None otherwise."""
    row = table.c
    holder = session.scalar(select(row.owner).where(where))
    free = or_(row.owner.is_(None), row.lease_until < now)
    if holder is not None and is_owner_dead(holder):
        free = or_(free, row.owner == holder)
    lease = {"owner": owner, "heartbeat": now, "lease_until": now + lease_s, "fence": row.fence + 1}
    return table.update(session, lease, where, free)


def claim_abandoned(session: Session, application: str, owner: str, now: float) -> TuningRun | None:
    """Take the newest of the application's runs whose process is gone; None where there is none."""
    query = of_application(select(RUNS.c.id), application).where(RUNS.c.state == "running")
    for run_id in session.scalars(query.order_by(RUNS.c.id.desc())).all():
        if run := claim_run(session, run_id, owner, now):
            return run
    return None


def renew_run(session: Session, run: TuningRun, now: float) -> TuningRun:
    """Say that the holder is alive; `LeaseLost` where it came too late."""
    return write_held(session, run, {"heartbeat": now, "lease_until": now + LEASE_S})


def release_run(session: Session, run: TuningRun) -> TuningRun:
    """Release a run that has not ended, so that it can be resumed at once."""
    return write_held(session, run, {"owner": None, "lease_until": None})


def end_run(session: Session, run: TuningRun, state: str, now: float, failure: str | None = None) -> TuningRun:
    check_one_of(state, RUN_STATES[1:], "the state in which the run ends")
    ended = {"state": state, "ended": now, "failure": failure, "owner": None, "lease_until": None}
    return write_held(session, run, ended)


def write_held(session: Session, run: TuningRun, values: Mapping[str, Any]) -> TuningRun:
    mine = (RUNS.c.id == run.id, RUNS.c.fence == run.fence, RUNS.c.owner == run.owner, RUNS.c.state == "running")
    written = RUNS.update(session, values, *mine)
    if written is None:
        raise LeaseLost(f"tuning run {run.ordinal} was taken over by another process, or has ended; this one stops")
    return written


def load_run(session: Session, run_id: int) -> TuningRun:
    return require(RUNS.find(session, RUNS.c.id == run_id), f"{NO_RUN} {run_id}")


def find_run(session: Session, application: str, ordinal: int) -> TuningRun:
    """The application's run of the number that people see."""
    found = RUNS.find(session, *of_ordinal(RUNS, application, ordinal))
    seen = f"`tuner runs {application}` lists those that there are"
    return require(found, f"application {application!r} has no tuning run {ordinal}; {seen}")


def list_runs(
    session: Session, application: str | None = None, state: str | None = None, limit: int | None = None
) -> list[TuningRun]:
    """The newest first."""
    query = RUNS.select(*given((RUNS.c.state, eq, state)))
    query = query if application is None else of_application(query, application)
    return RUNS.load(session, query.order_by(RUNS.c.id.desc()).limit(limit))


def list_runs_seen(session: Session, application: str, state: str | None, now: float, limit: int) -> list[TuningRun]:
    """Those in a state as people see it, or in any, the newest first."""
    if state not in ("running", INTERRUPTED):
        return list_runs(session, application, state, limit)
    return [run for run in list_runs(session, application, "running") if find_state(run, now) == state][:limit]


def of_application(query: Select[Any], application: str) -> Select[Any]:
    """Of the runs, those of any version of this application."""
    versions = select(VERSIONS.c.id).join(APPLICATIONS).where(APPLICATIONS.c.name == application)
    return query.where(RUNS.c.application_version_id.in_(versions))


Clock = Callable[[], float]


@contextmanager
def renew_lease(store: Store, run: TuningRun, clock: Clock) -> Iterator[Callable[[], None]]:
    """Renew the lease while an evaluation takes long; what it yields raises where the run was taken over."""
    ended, lost = threading.Event(), threading.Event()

    def renew() -> None:
        while not ended.wait(LEASE_S / 4):
            try:
                with store.begin() as session:
                    renew_run(session, run, clock())
            except (
                Retry,
                DatabaseFault,
            ):  # taken over, or no answer: the next write will tell which, in a transaction that is fenced
                lost.set()

    def check() -> None:
        if lost.is_set():
            store.write(lambda session: renew_run(session, run, clock()))
            lost.clear()

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield check
    finally:
        ended.set()
        thread.join()


def release_lease(store: Store, run: TuningRun) -> None:
    """Leave an interrupted run for anybody to resume; where even that fails, its lease runs out."""
    with suppress(Retry, BadInput), store.begin() as session:
        release_run(session, run)


RETUNING_LEASE_S = 45.0  # a holder that dies is followed within a minute


def save_retuning(session: Session, application: str, settings: Mapping[str, Any], due: float) -> RetuningRecord:
    """Watch an application, or go on with other settings; what is in hand stays in hand."""
    lock_turn(session, f"watch of {application}")
    before = find_retuning(session, application)
    if before is None:
        retuning = RetuningRecord(application, settings, due=due)
        session.execute(insert(RETUNINGS.table).values(RETUNINGS.to_columns(retuning)))
        return retuning
    changed = {"settings": dict(settings), "due": due}  # its holder writes the others, and takes no turns
    session.execute(update(RETUNINGS.table).where(RETUNINGS.c.application == application).values(changed))
    return replace(before, settings=settings, due=due)


def find_retuning(session: Session, application: str) -> RetuningRecord | None:
    return RETUNINGS.find(session, RETUNINGS.c.application == application)


def load_retuning(session: Session, application: str) -> RetuningRecord:
    missing = f"application {application!r} is not watched; register it first"
    return require(find_retuning(session, application), missing)


def list_retunings(session: Session) -> list[RetuningRecord]:
    """Those due the longest first."""
    return RETUNINGS.load(session, RETUNINGS.select().order_by(RETUNINGS.c.due, RETUNINGS.c.application))


def add_request(session: Session, application: str, request: Mapping[str, Any]) -> RetuningRecord:
    """Store a person's request for the daemons, replacing earlier ones of the same kind; it is due at once."""
    lock_turn(session, f"watch of {application}")
    retuning = load_retuning(session, application)
    asked = {**retuning.asked, **request}
    session.execute(update(RETUNINGS.table).where(RETUNINGS.c.application == application).values(asked=asked))
    return replace(retuning, asked=asked)


def claim_retuning(session: Session, application: str, owner: str, now: float) -> RetuningRecord | None:
    """Take an application in hand that no living daemon has; None where one does."""
    lock_turn(session, f"watch of {application}")
    return claim(session, RETUNINGS, RETUNINGS.c.application == application, owner, now, RETUNING_LEASE_S)


def renew_retuning(session: Session, retuning: RetuningRecord, now: float) -> RetuningRecord:
    return update_retuning(session, retuning, heartbeat=now, lease_until=now + RETUNING_LEASE_S)


def release_retuning(session: Session, retuning: RetuningRecord, **values: Any) -> RetuningRecord:
    """Release the lease, for any daemon to claim."""
    return update_retuning(session, retuning, owner=None, lease_until=None, **values)


def remove_requests(session: Session, retuning: RetuningRecord, words: tuple[str, ...]) -> RetuningRecord:
    """Remove requests that the lease's holder is about to apply; those stored meanwhile stay."""
    lock_turn(session, f"watch of {retuning.application}")
    there = find_retuning(session, retuning.application)
    asked = {} if there is None else {key: request for key, request in there.asked.items() if key not in words}
    return update_retuning(session, retuning, asked=asked)


def update_retuning(session: Session, retuning: RetuningRecord, **values: Any) -> RetuningRecord:
    """Change what the holder may; `LeaseLost` where it is not the holder any more."""
    mine = (
        RETUNINGS.c.application == retuning.application,
        RETUNINGS.c.fence == retuning.fence,
        RETUNINGS.c.owner == retuning.owner,
    )
    written = RETUNINGS.update(session, values, *mine)
    if written is None:
        raise LeaseLost(f"application {retuning.application!r} was taken in hand by another daemon; this one lets go")
    return written
