"""Gather what the pages of an application and of an objective show: course, roll-out, evidence, decisions, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from scaler.model.errors import BadInput
from scaler.model.wire import read_table
from tuner.rollout.push import find_reversible
from tuner.service.page.address import SPANS, USUAL, TimeRange, link_application, read_digits
from tuner.service.page.decision_page import Filters, find_decisions
from tuner.service.page.overview_page import describe, gather_line
from tuner.service.page.slot_charts import draw_course, draw_live, load_grid
from tuner.store.applications import load_application
from tuner.store.audit_log import list_events
from tuner.store.connection import Session
from tuner.store.objectives import STAGES, list_objectives, load_objective
from tuner.store.orders import list_controls, list_scalers
from tuner.store.records import ObjectiveRecord
from tuner.store.runs import find_retuning, list_runs
from tuner.store.trials import load_trial

SEARCHED_EVENTS = 500  # of the application, searched for those of the objective
SHOWN = ("reverted", "model", *STAGES)  # keys of the evidence with a place of their own


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One stage of a roll-out, with the figures that it showed."""

    word: str
    place: str  # "past", "now" or "next"
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rollout:
    objective: ObjectiveRecord
    steps: tuple[RolloutStep, ...]
    reverted: Mapping[str, Any]

    @property
    def figures_then(self) -> dict[str, Any]:
        """When it was rolled back; why stands above."""
        return {key: value for key, value in self.reverted.items() if key != "why"}


def make_rollout(objective: ObjectiveRecord) -> Rollout:
    reached = STAGES.index(objective.state) if objective.state in STAGES else None
    steps = []
    for i, word in enumerate(STAGES):
        figures = read_table(objective.evidence.get(word))
        past = bool(figures) if reached is None else i < reached
        steps.append(RolloutStep(word, "now" if i == reached else "past" if past or i == 0 else "next", figures))
    return Rollout(objective, tuple(steps), read_table(objective.evidence.get("reverted")))


def gather_objective(session: Session, app: str, version: int) -> dict[str, Any]:
    """The values of the template."""
    found = load_objective(session, app, version)
    earlier = (o for o in list_objectives(session, app) if o.version is not None and o.version < version)
    before = next((o for o in earlier if o.state in ("full", "retired")), None)
    bounds = {} if before is None else before.bounds
    return {
        "objective": found,
        "before": before,
        "bounds": [(name, bound, bounds.get(name)) for name, bound in found.bounds.items()],
        "rollout": make_rollout(found),
        "events": [e for e in list_events(session, app, limit=SEARCHED_EVENTS) if e.detail.get("version") == version],
        "run_id": None if found.trial_id is None else load_trial(session, found.trial_id).run_id,
        "evidence": {key: value for key, value in found.evidence.items() if key not in SHOWN},
        "model": found.evidence.get("model"),
    }


EVENTS, RUNS, OBJECTIVES = 20, 10, 10


def gather_application(
    session: Session, app: str, now: float, window: TimeRange, filters: Filters, before: int | None = None
) -> dict[str, Any]:
    """The values of the template; `before` is the id of the last event on the page before."""
    version = load_application(session, app)
    described = describe(version.document)
    shape, qos = described.shape, described.qos
    course, graph, charts = None, Markup(""), Markup("")
    if shape is not None and qos is not None:
        course = load_grid(session, app, shape, qos, window, described.slot_s)
        graph = draw_live(shape, course, qos.r_max, qos.quantile)
        charts = draw_course(course, qos.r_max) if course.known else charts
    whole_day = course is not None and window.last == USUAL and course.start <= window.since
    line = gather_line(session, version, now, course.observed if course is not None and whole_day else None)
    objectives = list_objectives(session, app, limit=OBJECTIVES)
    events = list_events(session, app, limit=EVENTS + 1, before=before)
    spans = {name: link_application(app, {**TimeRange(0.0, 1.0, name).query, **filters.query}) for name in SPANS}
    older, same = None, {**window.query, **filters.query}
    if len(events) > EVENTS:
        older = link_application(app, {**same, "before": f"{events[EVENTS - 1].id}"}, "events")
    pushable, reversible = [o for o in objectives if o.state in STAGES[:-1]], find_reversible(session, app)
    return {
        "line": line,
        "window": window,
        "spans": spans,  # links to other time ranges
        "course": course,
        "graph": graph,
        "charts": charts,
        "listed": find_decisions(session, app, window, filters),
        "objectives": objectives,
        "pushable": [o.version for o in pushable if o.version is not None],
        "reversible": None if reversible is None else reversible.version,
        "stages": {  # where any of them can go
            stage for o in pushable for stage in STAGES[STAGES.index(o.state) + 1 :]
        },
        "rollouts": [make_rollout(o) for o in choose_rollouts(objectives)],
        "controls": list_controls(session, app, at=now),
        "events": events[:EVENTS],
        "older_events": older,
        "newest_events": None if before is None else link_application(app, same, "events"),
        "runs": list_runs(session, app, limit=RUNS),
        "scalers": list_scalers(session, app),
        "watch": find_retuning(session, app),
    }


def choose_rollouts(objectives: Sequence[ObjectiveRecord]) -> list[ObjectiveRecord]:
    """Those on their way, and the one that was rolled back last if nothing came after it; else the one in full use."""
    full = next((o for o in objectives if o.state == "full"), None)
    ahead = [o for o in objectives if full is None or (o.version or 0) > (full.version or 0)]
    shown = [o for o in objectives if o.state in ("shadow", "canary")]
    shown += [o for o in ahead if o.state == "reverted"][:1] + [o for o in ahead if o.state == "proposed"][:2]
    return sorted(shown, key=lambda o: -(o.version or 0)) or ([] if full is None else [full])


def read_before(text: str) -> int | None:
    """The id of the last event on the page before."""
    found = read_digits(text, 15)
    if text and found is None:
        raise BadInput(f"before is {text[:40]!r}, which no link of this page says")
    return found
