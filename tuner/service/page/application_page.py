"""Gather all that an application's page shows of a time range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from scaler.model.errors import BadInput
from tuner.service.page.decision_page import DecisionList, Filters, find_decisions
from tuner.service.page.links import link_application
from tuner.service.page.live_graph import draw_live
from tuner.service.page.overview_page import ApplicationLine, describe, gather_line
from tuner.service.page.slot_series import SlotGrid, load_grid
from tuner.service.page.time_charts import draw_course
from tuner.service.page.time_range import SPANS, USUAL, TimeRange
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.controls import list_controls
from tuner.store.events import list_events
from tuner.store.objectives import list_objectives
from tuner.store.records import Control, EventRecord, ObjectiveRecord, RetuningRecord, Scaler, TuningRun
from tuner.store.retunings import find_retuning
from tuner.store.runs import list_runs
from tuner.store.scalers import list_scalers

EVENTS, RUNS, OBJECTIVES = 20, 10, 10
STAGES = ("proposed", "shadow", "canary", "full")


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One stage of a roll-out: whether it is past, is now or is to come, and what was seen in it."""

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
        """When it was rolled back; why is said above."""
        return {key: value for key, value in self.reverted.items() if key != "why"}


@dataclass(frozen=True, slots=True)
class View:
    line: ApplicationLine
    window: TimeRange
    spans: Mapping[str, str]  # links to other stretches
    course: SlotGrid | None
    graph: Markup
    charts: Markup
    listed: DecisionList
    objectives: Sequence[ObjectiveRecord]
    rollouts: Sequence[Rollout]
    controls: Sequence[Control]
    events: Sequence[EventRecord]
    older_events: str | None
    newest_events: str | None
    runs: Sequence[TuningRun]
    scalers: Sequence[Scaler]
    watch: RetuningRecord | None
    now: float

    @property
    def operators(self) -> tuple[str, ...]:
        shape = self.line.described.shape
        return () if shape is None else tuple(o.name for o in shape.operators)

    @property
    def pushable(self) -> list[int]:
        """Versions of the objectives that can be let in further by hand."""
        return [o.version for o in self.objectives if o.state in STAGES[:3] and o.version is not None]

    @property
    def stages(self) -> set[str]:
        """Where any of these can go."""
        return {word for o in self.objectives if o.state in STAGES[:3] for word in STAGES[STAGES.index(o.state) + 1 :]}


def gather_view(
    session: Session, app: str, now: float, window: TimeRange, filters: Filters, before: int | None = None
) -> View:

    version = load_application(session, app)
    described = describe(version.document)
    shape, qos = described.shape, described.qos
    course, graph, charts = None, "", ""
    if shape is not None and qos is not None:
        course = load_grid(session, app, shape, qos, window, described.slot_s)
        graph = draw_live(shape, course, qos.r_max)
        charts = draw_course(course, qos.r_max) if course.known else ""
    whole_day = course is not None and window.last == USUAL and course.start <= window.since
    line = gather_line(session, version, now, course.observed if course is not None and whole_day else None)
    objectives = list_objectives(session, app, limit=OBJECTIVES)
    events = list_events(session, app, limit=EVENTS + 1, before=before)
    spans = {name: link_application(app, {**TimeRange(0.0, 1.0, name).query, **filters.query}) for name in SPANS}
    older = None
    if len(events) > EVENTS:
        older = link_application(app, {**window.query, **filters.query, "before": f"{events[EVENTS - 1].id}"}, "events")
    return View(
        line=line,
        window=window,
        spans=spans,
        course=course,
        graph=Markup(graph),
        charts=Markup(charts),
        listed=find_decisions(session, app, window, filters),
        objectives=objectives,
        rollouts=[make_rollout(o) for o in choose_rollouts(objectives)],
        controls=list_controls(session, app, at=now),
        events=events[:EVENTS],
        older_events=older,
        newest_events=None if before is None else link_application(app, {**window.query, **filters.query}, "events"),
        runs=list_runs(session, app, limit=RUNS),
        scalers=list_scalers(session, app),
        watch=find_retuning(session, app),
        now=now,
    )


def choose_rollouts(objectives: Sequence[ObjectiveRecord]) -> list[ObjectiveRecord]:
    """Those on their way, and the one that was rolled back last if nothing came after it; else the one in full use."""
    full = next((o for o in objectives if o.state == "full"), None)
    ahead = [o for o in objectives if full is None or (o.version or 0) > (full.version or 0)]
    shown = [o for o in objectives if o.state in ("shadow", "canary")]
    shown += [o for o in ahead if o.state == "reverted"][:1] + [o for o in ahead if o.state == "proposed"][:2]
    return sorted(shown, key=lambda o: -(o.version or 0)) or ([] if full is None else [full])


def make_rollout(objective: ObjectiveRecord) -> Rollout:
    reached = STAGES.index(objective.state) if objective.state in STAGES else None
    steps = []
    for i, word in enumerate(STAGES):
        found = objective.evidence.get(word)
        figures = found if isinstance(found, Mapping) else {}
        past = bool(figures) if reached is None else i < reached
        steps.append(RolloutStep(word, "now" if i == reached else "past" if past or i == 0 else "next", figures))
    reverted = objective.evidence.get("reverted")
    return Rollout(objective, tuple(steps), reverted if isinstance(reverted, Mapping) else {})


def read_before(text: str) -> int | None:
    """The id of the last event on the page before."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise BadInput(f"before is {text[:40]!r}, which no link of this page says")
    return int(text)
