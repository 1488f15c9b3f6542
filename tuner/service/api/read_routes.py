"""Routes that read: applications and their tuning, and what agents, daemons and people did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import AfterValidator, Field

from scaler.model.decision import KINDS
from scaler.model.sample import Sample
from tuner.history.explanation import explain
from tuner.service.access.callers import Caller
from tuner.service.access.gate import require
from tuner.service.api.bodies import MAX_TIME, MAX_WHOLE, Kind, Name
from tuner.service.api.dependencies import (
    App,
    Given,
    Paged,
    Ranged,
    RowId,
    Since,
    Word,
    answer,
    cut_page,
    give_page,
    gives,
    make_page,
    page_of,
)
from tuner.service.exchange.services import Services
from tuner.service.exchange.wire_documents import NUMBER as FIGURE
from tuner.service.exchange.wire_documents import schema_of
from tuner.store.applications import list_surrogates, load_application, stream_applications
from tuner.store.audit_log import list_events
from tuner.store.connection import Session
from tuner.store.corrections import stream_superseded
from tuner.store.decisions import stream_decisions
from tuner.store.faults import NotFound
from tuner.store.objectives import load_objective, stream_objectives
from tuner.store.orders import list_controls, stream_scalers
from tuner.store.records import (
    ApplicationVersion,
    Control,
    DecisionRecord,
    EventRecord,
    ObjectiveRecord,
    RetuningRecord,
    Scaler,
    SupersededDecision,
    SurrogateRecord,
    Trial,
    TuningRun,
)
from tuner.store.runs import find_run, list_runs_seen, load_retuning, load_run
from tuner.store.samples import stream_samples
from tuner.store.trials import TrialFilter, find_made_of, find_trial, list_trials, load_repeats
from tuner.views.tuning_documents import (
    OBJECTIVE_IDS,
    RUN_IDS,
    TRIAL_IDS,
    lay_out_objective,
    lay_out_run,
    lay_out_trial,
)

READER = require("read")
READ = [Depends(READER)]
Reading = Annotated[Caller, Depends(READER)]
applications = APIRouter(prefix="/v1/applications", tags=["applications"], dependencies=READ)
router = APIRouter(prefix="/v1/applications/{app}", tags=["reading"], dependencies=READ)
tunings = APIRouter(prefix="/v1", tags=["tuning"], dependencies=READ)
NUMBER = {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "1, 2, ... of its application."}
VERIFIED = {"anyOf": [{"type": "object"}, {"type": "null"}], "description": "The verification of it, and its figures."}
PRICE = {"anyOf": [FIGURE, {"type": "null"}]}
RUN = schema_of(TuningRun, RUN_IDS, run=NUMBER)
TRIAL = schema_of(Trial, TRIAL_IDS, trial=NUMBER, run=NUMBER, purpose={"type": "string"}, verified=VERIFIED)
OBJECTIVE = schema_of(ObjectiveRecord, OBJECTIVE_IDS, trial=NUMBER, run=NUMBER, searched_price=PRICE)
SORTS = {"trial": "ordinal"}  # of the store, where its word is another
APPLICATION, WATCH = schema_of(ApplicationVersion), schema_of(RetuningRecord)
EXPLANATION: dict[str, Any] = {"type": "object", "description": "What was seen, weighed, decided and why."}
State = Literal["proposed", "shadow", "canary", "full", "reverted", "retired"]


def check_place(text: str) -> str:
    """Where a page of decisions ended: its last one's time and operator."""
    try:
        if 0.0 <= float(text.partition("~")[0]) <= MAX_TIME:
            return text
    except ValueError:
        pass
    raise ValueError("must be the one of a `next` that was answered")


class DecisionFilter(Ranged):
    operator: list[Word] = Field([], max_length=50)
    kind: list[Kind] = Field([], max_length=len(KINDS))
    after: Annotated[Word, AfterValidator(check_place)] | None = Field(None, description="As `next` has it.")


class OperatorFilter(Paged, Ranged):
    operator: list[Word] = Field([], max_length=50)


class EventFilter(Ranged):
    what: list[Word] = Field([], max_length=20)
    before: int | None = Field(None, ge=1, le=MAX_WHOLE, description="The id that all are to be lower than.")


class ObjectiveFilter(Paged):
    state: list[State] = Field([], max_length=6)


class ScalerFilter(Paged):
    since: Since | None = None


class ControlFilter(Paged):
    all: bool = Field(False, description="Also those that stand no more.")


class RunFilter(Paged):
    state: Literal["running", "interrupted", "done", "stopped", "failed"] | None = None


class TrialQuery(Paged, Ranged):
    sort: Literal["trial", "price", "violations", "reconfigurations", "slack", "seconds", "ended"] = "trial"
    descending: bool = False
    state: Literal["complete", "pruned", "failed"] | None = None
    feasible: bool | None = None


def ensure_known(session: Session, app: str, found: Sequence[Any]) -> None:
    """Where nothing is there: is it that there is no such application?"""
    if not found:
        load_application(session, app)


def number_objective(session: Session, one: ObjectiveRecord) -> dict[str, Any]:
    """An objective, its trial and its run by their numbers."""
    return lay_out_objective(one, *find_made_of(session, one))


@router.get("/decisions", **gives(page_of(schema_of(DecisionRecord)), "The newest first.", 404))
async def decisions(request: Request, app: App, given: Given, asked: Annotated[DecisionFilter, Query()]) -> Response:
    """List what the scalers decided, and why."""
    return await given.lists.run(partial(give_decisions, request, app, given, asked))


def give_decisions(request: Request, app: str, given: Services, asked: DecisionFilter) -> Response:
    """One page, made beside the event loop."""
    time, _, operator = (asked.after or "").partition("~")
    after = (float(time), operator) if asked.after else None
    chosen = (asked.operator or None, asked.kind or None, asked.since, asked.until, asked.limit + 1, after)
    with given.store.read() as session:
        page = make_page(stream_decisions(session, app, *chosen), asked.limit)
        ensure_known(session, app, page.items)
    return give_page(request, page, lambda last: {"after": f"{last.time!r}~{last.operator}"})


@router.get("/corrections", **gives(page_of(schema_of(SupersededDecision)), "The newest slot first.", 404))
async def corrections(request: Request, app: App, given: Given, asked: Annotated[OperatorFilter, Query()]) -> Response:
    """List what agents reported of slots before they corrected it; the decisions are what stands."""

    def read(session: Session, most: int) -> Iterable[SupersededDecision]:
        return stream_superseded(session, app, asked.operator or None, asked.since, asked.until, most)

    return await given.lists.run(partial(list_from, request, app, given, asked, read))


@router.get("/samples", **gives(page_of(schema_of(Sample)), "The newest first.", 404))
async def samples(request: Request, app: App, given: Given, asked: Annotated[OperatorFilter, Query()]) -> Response:
    """List what was measured."""

    def read(session: Session, most: int) -> Iterable[Sample]:
        until = MAX_TIME if asked.until is None else asked.until
        return stream_samples(session, app, asked.operator or None, asked.since or 0.0, until, limit=most, newest=True)

    return await given.lists.run(partial(list_from, request, app, given, asked, read))


@router.get("/events", **gives(page_of(schema_of(EventRecord)), "The newest first.", 404))
def events(request: Request, app: App, given: Given, asked: Annotated[EventFilter, Query()]) -> Response:
    """List what people and daemons did."""
    with given.store.read() as session:
        found = list_events(session, app, asked.what or None, asked.since, asked.until, asked.limit + 1, asked.before)
        ensure_known(session, app, found)
    return give_page(request, make_page(found, asked.limit), lambda last: {"before": last.id})


def list_from(
    request: Request, app: str, given: Given, asked: Paged, load: Callable[[Session, int], Iterable[Any]]
) -> Response:
    """A page of a list that is read from its beginning to one beyond it."""
    with given.store.read() as session:
        found = iter(load(session, asked.offset + asked.limit + 1))
        first = list(islice(found, 1))
        ensure_known(session, app, first)
        return cut_page(request, chain(first, found), asked)


@router.get("/objectives", **gives(page_of(OBJECTIVE), "The newest first.", 404))
def objectives(request: Request, app: App, given: Given, asked: Annotated[ObjectiveFilter, Query()]) -> Response:
    """List the objectives, where they came from, and what became of them."""

    def read(session: Session, most: int) -> Iterable[Any]:
        found = list(stream_objectives(session, app, asked.state or None, most))
        return (number_objective(session, one) for one in found)

    return list_from(request, app, given, asked, read)


@router.get("/objectives/{version}", **gives(OBJECTIVE, "It.", 404))
def objective(app: App, version: RowId, given: Given) -> Response:
    """Show one objective."""
    with given.store.read() as session:
        return answer(number_objective(session, load_objective(session, app, version)))


@router.get("/surrogates", **gives(page_of(schema_of(SurrogateRecord)), "The newest first.", 404))
def surrogates(request: Request, app: App, given: Given, asked: Annotated[Paged, Query()]) -> Response:
    """List the surrogates that were fitted."""
    return list_from(request, app, given, asked, lambda session, most: list_surrogates(session, app, most))


@router.get("/scalers", **gives(page_of(schema_of(Scaler)), "By operator, the last seen first.", 404))
async def scalers(request: Request, app: App, given: Given, asked: Annotated[ScalerFilter, Query()]) -> Response:
    """List the agents that have reported, and the orders' revision under which each acts."""

    def read(session: Session, most: int) -> Iterable[Scaler]:
        return stream_scalers(session, app, asked.since, most)

    return await given.lists.run(partial(list_from, request, app, given, asked, read))


@router.get("/controls", **gives(page_of(schema_of(Control)), "The newest first.", 404))
def controls(request: Request, app: App, given: Given, asked: Annotated[ControlFilter, Query()]) -> Response:
    """List what people put before the scalers: pins, locks, blocked hours."""
    at = None if asked.all else given.settings.clock()
    return list_from(request, app, given, asked, lambda session, _: list_controls(session, app, at))


@router.get("/explanation", **gives(EXPLANATION, "Why it was decided so.", 404))
def explanation(
    app: App,
    given: Given,
    at: Annotated[float | None, Query(ge=0.0, le=MAX_TIME, allow_inf_nan=False)] = None,
    operator: Annotated[Name | None, Query()] = None,
) -> Response:
    """Explain a decision: what was seen, each alternative's worth, which guard blocked, which objective and why."""
    with given.store.read() as session:
        found = explain(session, app, at, operator, given.settings.clock())
    if not found.operators:
        raise NotFound(f"{found.message} {found.advice}")
    return answer(found)


@applications.get("", **gives(page_of(APPLICATION), "The newest version of each, by name."))
def show_all(request: Request, caller: Reading, given: Given, asked: Annotated[Paged, Query()]) -> Response:
    """List the applications that are described, as far as the token is for them."""
    with given.store.read() as session:
        found = stream_applications(session)
        return cut_page(request, (one for one in found if caller.may_reach(one.application)), asked)


@applications.get("/{app}", **gives(APPLICATION, "The newest version, or the one asked for.", 404))
def show(app: App, given: Given, version: Annotated[int | None, Query(ge=1, le=MAX_WHOLE)] = None) -> Response:
    """Show how an application is described."""
    with given.store.read() as session:
        return answer(load_application(session, app, version))


@tunings.get("/applications/{app}/retuning", **gives(WATCH, "Its settings, and how far it is.", 404))
def show_retuning(app: App, given: Given) -> Response:
    """Show when an application is tuned again by itself, and what the daemons are at."""
    with given.store.read() as session:
        return answer(load_retuning(session, app))


@tunings.get("/applications/{app}/runs", **gives(page_of(RUN), "The newest first.", 404))
def runs(request: Request, app: App, given: Given, asked: Annotated[RunFilter, Query()]) -> Response:
    """List the searches for an application's best objective."""
    now = given.settings.clock()

    def read(session: Session, most: int) -> Iterable[Any]:
        return [lay_out_run(one, now) for one in list_runs_seen(session, app, asked.state, now, most)]

    return list_from(request, app, given, asked, read)


@tunings.get("/applications/{app}/runs/{run}", **gives(RUN, "It.", 404))
def run(app: App, run: RowId, given: Given) -> Response:
    """Show one search."""
    with given.store.read() as session:
        load_application(session, app)
        return answer(lay_out_run(find_run(session, app, run), given.settings.clock()))


@tunings.get("/applications/{app}/runs/{run}/trials", **gives(page_of(TRIAL), "In the order asked for.", 404))
def trials(request: Request, app: App, run: RowId, given: Given, asked: Annotated[TrialQuery, Query()]) -> Response:
    """List what a search tried."""
    most = asked.offset + asked.limit + 1
    with given.store.read() as session:
        load_application(session, app)
        of = find_run(session, app, run)
        chosen = TrialFilter(
            run_id=of.id, state=asked.state, feasible=asked.feasible, since=asked.since, until=asked.until
        )
        found = list_trials(session, chosen, SORTS.get(asked.sort, asked.sort), asked.descending, limit=most)
        repeats = load_repeats(session, [of.id or 0])
    return cut_page(request, (lay_out_trial(one, of, repeats) for one in found), asked)


@tunings.get("/applications/{app}/trials/{trial}", **gives(TRIAL, "It.", 404))
def trial(app: App, trial: RowId, given: Given) -> Response:
    """Show one trial."""
    with given.store.read() as session:
        load_application(session, app)
        found = find_trial(session, app, trial)
        return answer(lay_out_trial(found, load_run(session, found.run_id), load_repeats(session, [found.run_id])))
