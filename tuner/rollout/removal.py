"""Use cases of what was made by mistake: remove an application or a tuning run, rename an application.

Each belongs in one writing transaction of the caller's. The audit log keeps what was done, under the name of that time.
"""

from __future__ import annotations

from scaler.model.errors import BadInput
from tuner.store.applications import check_application_name, list_names
from tuner.store.audit_log import add_event
from tuner.store.connection import Session
from tuner.store.faults import StaleState, UnknownApplication
from tuner.store.orders import load_orders
from tuner.store.records import EventRecord
from tuner.store.removal import (
    count_made_of,
    list_undescribed,
    remove_application,
    remove_run,
    rename_application,
)
from tuner.store.runs import find_run, find_state, list_runs


def check_known(session: Session, app: str) -> None:
    """Refuse a name under which nothing is stored."""
    names = list_names(session)
    if app not in (*names, *list_undescribed(session)):
        raise UnknownApplication(app, names[:20])


def check_idle(session: Session, app: str) -> None:
    """Refuse to touch an application that is being tuned, or whose agents have orders."""
    if load_orders(session, app) is not None:
        raise StaleState(
            f"agents of {app!r} follow orders of this database, and would refuse those of a new start; stop its "
            "streams first, then do it with --force"
        )
    running = list_runs(session, app, "running", limit=1)
    if running and running[0].owner is not None:
        raise StaleState(f"run {running[0].ordinal} of {app!r} is under way; stop it first")


def remove(session: Session, app: str, who: str, why: str, now: float, force: bool = False) -> dict[str, int]:
    """Remove an application with samples, surrogates, runs, objectives and decisions; how many rows of each table."""
    check_known(session, app)
    if not force:
        check_idle(session, app)
    counts = {name: count for name, count in remove_application(session, app).items() if count}
    add_event(session, EventRecord(app, now, who, "removed", f"{who} removed {app}: {why}", dict(counts)))
    return counts


def rename(session: Session, app: str, new: str, who: str, why: str, now: float, force: bool = False) -> None:
    """Give an application another name, under which nothing is stored yet."""
    check_known(session, app)
    check_application_name(new)
    if new in (*list_names(session), *list_undescribed(session)):
        raise BadInput(f"there is an application {new!r} already; choose another name, or remove that one first")
    if not force:
        check_idle(session, app)
    rename_application(session, app, new)
    add_event(session, EventRecord(new, now, who, "renamed", f"{who} renamed {app} to {new}: {why}", {"before": app}))


def discard_run(session: Session, app: str, ordinal: int, who: str, why: str, now: float) -> int:
    """Remove a tuning run with its trials, of which no objective was made; how many trials these were."""
    run = find_run(session, app, ordinal)
    run_id = run.id or 0
    if find_state(run, now) == "running":
        raise StaleState(f"run {ordinal} of {app!r} is under way; stop it first")
    if count_made_of(session, run_id):
        raise StaleState(f"an objective was made of run {ordinal} of {app!r}, whose evidence it is; it stays")
    count = remove_run(session, run_id)
    message = f"{who} removed run {ordinal} of {app} with {count} trials: {why}"
    add_event(session, EventRecord(app, now, who, "removed", message, {"run": ordinal, "trials": count}))
    return count
