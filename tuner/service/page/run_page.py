"""Gather a tuning run's report and its trials, sorted and page by page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from scaler.model.errors import BadInput
from tuner.service.page.links import link_run
from tuner.store.applications import load_version
from tuner.store.connection import Session
from tuner.store.objectives import list_objectives
from tuner.store.records import ObjectiveRecord, Trial, TuningRun
from tuner.store.runs import load_run
from tuner.store.trials import TrialFilter, count_trials, list_trials
from tuner.views.tuning import Tuning, gather_tuning
from tuner.views.tuning_page import draw_parts, write_tiles
from tuner.views.tuning_summary import describe_run, summarise

PAGE = 50
MOST = 20_000  # trials that charts are drawn of
SORTS = ("number", "price", "violations", "reconfigurations", "slack", "seconds")
PART = "trials"
Written = tuple[str, list[str], dict[str, str], list[tuple[str, str]]]  # tiles, sentences, facts, parts with heads


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """Which trials of the table, in which order."""

    sort: str = "number"
    descending: bool = False
    page: int = 1

    @property
    def query(self) -> dict[str, str]:
        return {"sort": self.sort if self.sort != "number" or self.descending else "", "way": "down" * self.descending}


@dataclass(frozen=True, slots=True)
class RunView:
    application: str
    run: TuningRun
    tiles: Markup
    said: Sequence[str]
    facts: Mapping[str, str]
    parts: Sequence[tuple[str, Markup]]
    trials: Sequence[Trial]
    total: int
    order: TrialOrder
    heads: Mapping[str, str]  # links that sort by them
    newer: str | None
    older: str | None


def read_order(query: Mapping[str, str]) -> TrialOrder:
    sort, way, page = query.get("sort") or "number", query.get("way", ""), query.get("page") or "1"
    if sort not in SORTS:
        raise BadInput(f"sort is {sort[:40]!r}, and must be one of {', '.join(SORTS)}")
    if way not in ("", "up", "down"):
        raise BadInput(f"way is {way[:40]!r}, and must be up or down")
    if not (page.isascii() and page.isdecimal() and len(page) < 7 and int(page) > 0):
        raise BadInput(f"page is {page[:40]!r}, and must be a number from 1 on")
    return TrialOrder(sort, way == "down", int(page))


def gather_run(session: Session, run_id: int, order: TrialOrder) -> RunView:

    run = load_run(session, run_id)
    version = load_version(session, run.application_version_id)
    chosen = TrialFilter(run_id=run_id)
    total = count_trials(session, chosen)
    history = list_trials(session, chosen, sort="number", limit=MOST)
    offset = PAGE * (order.page - 1)
    shown = list_trials(session, chosen, order.sort, order.descending, PAGE, offset)
    tiles, said, facts, parts = write_nothing(run)
    if history:
        tiles, said, facts, parts = write(gather(session, version.application, run, version.document, history))
    return RunView(
        version.application,
        run,
        Markup(tiles),
        said,
        facts,
        [(head, Markup(part)) for head, part in parts if part],
        shown,
        total,
        order,
        {name: link_sorted(run_id, name, order) for name in SORTS},
        link_page(run_id, order, order.page - 1) if order.page > 1 else None,
        link_page(run_id, order, order.page + 1) if offset + PAGE < total else None,
    )


def gather(
    session: Session, app: str, run: TuningRun, document: Mapping[str, object], trials: Sequence[Trial]
) -> Tuning:

    return gather_tuning(app, run, document, trials, find_objective(session, app, trials))


def find_objective(session: Session, app: str, trials: Sequence[Trial]) -> ObjectiveRecord | None:
    """What the run led to."""

    made = {trial.id for trial in trials}
    return next((o for o in list_objectives(session, app) if o.trial_id is not None and o.trial_id in made), None)


def write_nothing(run: TuningRun) -> Written:
    return "", [f"The run is {run.state}, and no trial has ended."], {}, []


def write(tuning: Tuning) -> Written:
    """The parts of the report that `tuner report --html` writes."""

    return write_tiles(tuning), summarise(tuning), describe_run(tuning), draw_parts(tuning)


def link_sorted(run_id: int, name: str, order: TrialOrder) -> str:
    """By this column; the other way round where it is sorted by it already."""
    turned = TrialOrder(name, order.sort == name and not order.descending)
    return link_run(run_id, turned.query, PART)


def link_page(run_id: int, order: TrialOrder, page: int) -> str:
    return link_run(run_id, {**order.query, "page": f"{page}" if page > 1 else ""}, PART)
