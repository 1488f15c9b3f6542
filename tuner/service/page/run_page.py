"""Gather a tuning run's report and its trials, sorted and page by page, and a single trial."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.units import format_fixed
from tuner.service.page.address import check_choice, link_run, read_digits
from tuner.store.applications import load_version
from tuner.store.connection import Session
from tuner.store.objectives import list_objectives
from tuner.store.records import ApplicationVersion, TuningRun
from tuner.store.runs import find_run, find_state, load_run
from tuner.store.trials import TrialFilter, count_trials, find_trial, list_trials, load_repeats
from tuner.views.tuning import load_tuning, numbers
from tuner.views.tuning_documents import describe_repeat
from tuner.views.tuning_page import describe_headline, draw_exploration, draw_result

TRIALS_PER_PAGE = 50
MAX_CHARTED = 20_000  # trials that charts are drawn of
SORTS = ("trial", "price", "violations", "reconfigurations", "slack", "seconds")
COLUMNS = {"trial": "ordinal"}  # of the store, where its word is another
MEASURES = ("price", "violations", "reconfigurations")
TABS = {"": "Result", "model": "Model", "trials": "Trials"}  # by their word in the link
TAB = "trials"


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """Which trials of the table, in which order."""

    sort: str = "trial"
    descending: bool = False
    page: int = 1

    @property
    def query(self) -> dict[str, str]:
        return {"sort": self.sort if self.sort != "trial" or self.descending else "", "way": "down" * self.descending}


def read_order(query: Mapping[str, str]) -> TrialOrder:
    sort = check_choice("sort", query.get("sort") or "trial", SORTS)
    way, page = query.get("way", ""), query.get("page") or "1"
    if way not in ("", "up", "down"):
        raise BadInput(f"way is {way[:40]!r}, and must be up or down")
    number = read_digits(page, 6)
    if not number:
        raise BadInput(f"page is {page[:40]!r}, and must be a number from 1 on")
    return TrialOrder(sort, way == "down", number)


def gather_run(session: Session, app: str, ordinal: int, tab: str, order: TrialOrder) -> dict[str, Any]:
    """The values of the template: what every tab has, and what this one has."""
    run = find_run(session, app, ordinal)
    version = load_version(session, run.application_version_id)
    total = count_trials(session, TrialFilter(run_id=run.id))
    values = {
        "run": run,
        "total": total,
        "tab": tab,
        "tabs": [(word, label, link_run(app, ordinal, None, word)) for word, label in TABS.items()],
    }
    return values | (list_page(session, app, run, total, order) if tab == TAB else draw_run(session, run, version, tab))


def draw_run(session: Session, run: TuningRun, version: ApplicationVersion, tab: str) -> dict[str, Any]:
    """The parts of the report that `tuner report --html` writes."""
    history = list_trials(session, TrialFilter(run_id=run.id), sort="number", limit=MAX_CHARTED)
    if not history:
        nothing = f"The run is {find_state(run, time.time())}, and no trial has ended."
        return {"tiles": [], "sentences": [nothing], "facts": {}, "parts": {}}
    tuning = load_tuning(session, version.application, run, version.document, history)
    if tab:
        return {"tiles": [], "sentences": [], "facts": {}, "parts": draw_exploration(tuning)}
    return {**describe_headline(tuning), "parts": draw_result(tuning)}


def list_page(session: Session, app: str, run: TuningRun, total: int, order: TrialOrder) -> dict[str, Any]:
    """A page of the trials, and the objectives that were made of any."""
    chosen, offset = TrialFilter(run_id=run.id), TRIALS_PER_PAGE * (order.page - 1)
    ordinal = run.ordinal or 0  # which the page was asked for by
    column = COLUMNS.get(order.sort, order.sort)
    return {
        "trials": list_trials(session, chosen, column, order.descending, TRIALS_PER_PAGE, offset),
        "pursued": {o.trial_id: o.version for o in reversed(list_objectives(session, app)) if o.trial_id is not None},
        "order": order,
        "heads": {name: link_sorted(app, ordinal, name, order) for name in SORTS},
        "newer": link_page(app, ordinal, order, order.page - 1) if order.page > 1 else None,
        "older": link_page(app, ordinal, order, order.page + 1) if offset + TRIALS_PER_PAGE < total else None,
    }


def link_sorted(app: str, ordinal: int, name: str, order: TrialOrder) -> str:
    """By this column; the other way round where it is sorted by it already."""
    turned = TrialOrder(name, order.sort == name and not order.descending)
    return link_run(app, ordinal, turned.query, TAB)


def link_page(app: str, ordinal: int, order: TrialOrder, page: int) -> str:
    return link_run(app, ordinal, {**order.query, "page": f"{page}" if page > 1 else ""}, TAB)


def gather_trial(session: Session, app: str, ordinal: int) -> dict[str, Any]:
    """A trial with its run and the objectives made of it."""
    trial = find_trial(session, app, ordinal)
    used, repeats = trial.about.replicas, load_repeats(session, [trial.run_id])
    detail = {key: value for key, value in trial.detail.items() if key not in ("replicas", "of") and value != {}}
    return {
        "run": load_run(session, trial.run_id),
        "trial": trial,
        "figures": [(name, getattr(trial, name), getattr(trial, f"{name}_error")) for name in MEASURES],
        "shares": numbers(trial.parameters, "shares").items(),
        "weights": numbers(trial.parameters, "weights").items(),
        "other": {key: value for key, value in trial.parameters.items() if key not in ("shares", "weights")},
        "replicas": {
            name: {kind: format_fixed(count, 2) for kind, count in numbers(used, name).items()} for name in used
        },
        "detail": detail,
        "repeats": describe_repeat(trial, repeats),
        "other_trial": repeats.find_repeated(trial) or repeats.find_verification(trial),
        "objectives": [o for o in list_objectives(session, app) if o.trial_id == trial.id],
    }
