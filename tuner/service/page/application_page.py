"""Gather what the page of an application shows, tab by tab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from scaler.model.decision import KINDS
from scaler.model.errors import BadInput
from tuner.retuning.state import state_of
from tuner.service.page.address import SPANS, USUAL, TimeRange, link_application, read_digits
from tuner.service.page.batch_grid import load_batches
from tuner.service.page.candidate import gather_candidate
from tuner.service.page.decision_page import CHANGES, Filters, find_decisions
from tuner.service.page.live_graph import draw_live
from tuner.service.page.overview_page import Described, describe, find_stage, gather_line
from tuner.service.page.rollout_page import gather_rollout
from tuner.service.page.slot_charts import chart_course
from tuner.service.page.slot_grid import find_data, load_grid
from tuner.service.page.time_marks import list_marks
from tuner.store.applications import list_surrogates, load_application
from tuner.store.audit_log import list_events
from tuner.store.connection import Session
from tuner.store.decisions import list_decisions
from tuner.store.objectives import list_objectives
from tuner.store.orders import list_controls, list_scalers
from tuner.store.records import ApplicationVersion
from tuner.store.runs import find_retuning, list_runs

TABS = {  # by their word in the link, the first one's is left out
    "": "Overview", "decisions": "Decisions", "rollout": "Roll-out", "controls": "Controls", "tuning": "Tuning",
    "agents": "Agents", "events": "Events",
}  # fmt: skip
EVENTS, RUNS, AGENTS, LATEST_CHANGES = 20, 20, 200, 5


@dataclass(frozen=True, slots=True)
class View:
    """What is asked of the page: a tab, a time range, and what its lists are filtered by."""

    app: str
    tab: str
    now: float
    window: TimeRange
    filters: Filters
    before: int | None = None  # id of the last event on the page before

    def link(self, tab: str | None = None, **query: str) -> str:
        """The same view of this tab, or another tab of the same time."""
        same = {**self.window.query, **(self.filters.query if tab is None else {}), **query}
        return link_application(self.app, same, self.tab if tab is None else tab)


def gather_application(session: Session, view: View) -> dict[str, Any]:
    """The values of the template: what every tab has, and what this one has."""
    version = load_application(session, view.app)
    described = describe(version.document)
    shape = described.shape
    return {
        "tab": view.tab,
        "tabs": [(word, label, view.link(word)) for word, label in TABS.items()],
        "stage": find_stage(list_objectives(session, view.app), view.now),
        "described": described,
        "operators": () if shape is None else tuple(operator.name for operator in shape.operators),
        "window": view.window,
        **GATHERERS[view.tab](session, view, version, described),
    }


def gather_course(session: Session, view: View, version: ApplicationVersion, described: Described) -> dict[str, Any]:
    """The first tab: how it does, now and over the time range."""
    app, window, shape, qos = view.app, view.window, described.shape, described.qos
    course, graph, charts, marks, fitted = None, Markup(""), None, list_marks(session, app, window), None
    if shape is not None and qos is not None:
        course = load_grid(session, app, shape, qos, window, described.slot_s)
        graph = draw_live(shape, course, qos.r_max, qos.quantile)
        batches = load_batches(session, app, course)
        known = course.known_slots | batches.known_slots
        if known.any():
            first, last = find_data(known)
            fitted = course.cut(first, last)
            inside = [mark for mark in marks if fitted.start <= mark.at <= fitted.end]
            charts = chart_course(fitted, batches.cut(first, last), qos.r_max, inside)
    whole_day = course is not None and window.last == USUAL and course.start <= window.since
    return {
        "line": gather_line(session, version, view.now, course.observed if course is not None and whole_day else None),
        "spans": {name: link_application(app, TimeRange(0.0, 1.0, name).query) for name in SPANS},
        "course": course,
        "fitted": fitted,
        "graph": graph,
        "charts": charts,
        "marks": marks,
        "changes": list_decisions(session, app, None, CHANGES, window.since, window.until, LATEST_CHANGES),
        "controls": list_controls(session, app, at=view.now),
        "candidate": gather_candidate(session, app, view.now),
        "watch": find_retuning(session, app),
    }


def gather_decisions(session: Session, view: View, version: ApplicationVersion, described: Described) -> dict[str, Any]:
    every = Filters(KINDS, view.filters.operator, view.filters.version)
    return {
        "spans": SPANS,
        "listed": find_decisions(session, view.app, view.window, view.filters),
        "every": link_application(view.app, {**view.window.query, **every.query}, view.tab),
        "heard": bool(list_scalers(session, view.app)),
    }


def gather_stages(session: Session, view: View, version: ApplicationVersion, described: Described) -> dict[str, Any]:
    return {**gather_rollout(session, view.app), "candidate": gather_candidate(session, view.app, view.now)}


def gather_controls(session: Session, view: View, version: ApplicationVersion, described: Described) -> dict[str, Any]:
    return {"controls": list_controls(session, view.app, at=view.now)}


def gather_tuning(session: Session, view: View, version: ApplicationVersion, described: Described) -> dict[str, Any]:
    watch = find_retuning(session, view.app)
    return {
        "runs": list_runs(session, view.app, limit=RUNS),
        "watch": watch,
        "paused_by": None if watch is None else state_of(watch).paused_by,
        "resumable": watch is not None and ("pause" in watch.asked or state_of(watch).paused_by is not None),
        "surrogate": next(iter(list_surrogates(session, view.app, limit=1)), None),
    }


def gather_agents(session: Session, view: View, version: ApplicationVersion, described: Described) -> dict[str, Any]:
    return {"agents": list_scalers(session, view.app)[:AGENTS]}


def gather_events(session: Session, view: View, version: ApplicationVersion, described: Described) -> dict[str, Any]:
    events = list_events(session, view.app, limit=EVENTS + 1, before=view.before)
    older = view.link(before=f"{events[EVENTS - 1].id}") if len(events) > EVENTS else None
    return {
        "events": events[:EVENTS],
        "older_events": older,
        "newest_events": None if view.before is None else view.link(),
    }


GATHERERS: dict[str, Callable[[Session, View, ApplicationVersion, Described], dict[str, Any]]] = {
    "": gather_course,
    "decisions": gather_decisions,
    "rollout": gather_stages,
    "controls": gather_controls,
    "tuning": gather_tuning,
    "agents": gather_agents,
    "events": gather_events,
}


def read_before(text: str) -> int | None:
    """The id of the last event on the page before."""
    found = read_digits(text, 15)
    if text and found is None:
        raise BadInput(f"before is {text[:40]!r}, which no link of this page says")
    return found
