"""Use case: register an application, or a new version of its description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.rollout.issue_orders import issue_orders
from tuner.rollout.retuning_settings import DEFAULTS
from tuner.store.applications import add_application, list_versions
from tuner.store.connection import Session
from tuner.store.events import add_event
from tuner.store.orders import load_orders
from tuner.store.records import ApplicationVersion, EventRecord
from tuner.store.retunings import find_retuning, save_retuning


def register_application(
    session: Session, app: str, document: Mapping[str, Any], who: str, now: float
) -> ApplicationVersion:  # fmt: skip
    """Register the description and let the daemon retune it; retuning settings stay as they were set."""
    before = len(list_versions(session, app))
    version = add_application(session, app, document, now)
    watch = find_retuning(session, app)
    if watch is not None and version.number == before:
        return version
    says = f"{who} registered {app} (version {version.number})"
    add_event(session, EventRecord(app, now, who, "registered", says, {"version": version.number}))
    save_retuning(session, app, DEFAULTS if watch is None else watch.settings, now)
    if load_orders(session, app) is not None:
        issue_orders(session, app, now)
    return version
