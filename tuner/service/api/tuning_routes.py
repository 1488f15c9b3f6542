"""A person's wish to tune, pause, go on or stop in; that the daemons will see it, and what searches found, out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from scaler.model.errors import BadInput
from tuner.rollout.retuning_settings import read_settings
from tuner.search.engines import ENGINES
from tuner.service.api.bodies import LATEST, RetuningBody, TuningBody
from tuner.service.api.dependencies import (
    App,
    Given,
    Paged,
    Reading,
    RowId,
    Tuning,
    answer,
    change,
    cut_page,
    gives,
    page_of,
    read_as,
    takes,
)
from tuner.service.api.read_routes import list_from
from tuner.service.exchange.wire_documents import schema_of, shorten
from tuner.store.connection import Session
from tuner.store.events import add_event
from tuner.store.faults import Missing
from tuner.store.records import EventRecord, Trial, TuningRun, Watch
from tuner.store.runs import list_runs, load_run
from tuner.store.trials import Chosen, list_trials, load_trial
from tuner.store.watches import ask_watch, find_watch, put_watch

router = APIRouter(prefix="/v1", tags=["tuning"])
RUN, TRIAL, WATCH = schema_of(TuningRun), schema_of(Trial), schema_of(Watch)
Word = Literal["pause", "resume", "stop"]


class RunFilter(Paged):
    state: Literal["running", "done", "stopped", "failed"] | None = None


class TrialFilter(Paged):
    sort: Literal[
        "id", "number", "cost", "violations", "reconfigurations", "resources", "slack", "seconds", "ended"
    ] = "number"
    descending: bool = False
    state: Literal["complete", "pruned", "failed"] | None = None
    feasible: bool | None = None
    since: Annotated[float, Field(ge=0.0, le=LATEST)] | None = None
    until: Annotated[float, Field(ge=0.0, le=LATEST)] | None = None


@router.post(
    "/applications/{app}/tunings",
    status_code=202,
    openapi_extra=takes(TuningBody),
    responses=gives(WATCH, "Asked for; a daemon takes it up.", 202, 404, 415),
)
async def tune(
    app: App, caller: Tuning, body: Annotated[TuningBody, Depends(read_as(TuningBody))], given: Given
) -> Response:
    """Ask for a tuning now."""
    if body.engine is not None and body.engine not in ENGINES:
        raise BadInput(f"there is no engine {shorten(body.engine)!r}; choose of {', '.join(ENGINES)}")
    wished = body.model_dump(exclude_none=True)
    return answer(await change(given, lambda session, now: ask(session, app, "tune", wished, caller.name, now)), 202)


@router.post("/applications/{app}/tunings/{word}", responses=gives(WATCH, "Asked for.", 202, 404), status_code=202)
async def steer(app: App, word: Word, caller: Tuning, given: Given) -> Response:
    """Pause the retuning of an application, let it go on, or stop the tuning that is under way."""
    return answer(await change(given, lambda session, now: ask(session, app, word, {}, caller.name, now)), 202)


def ask(session: Session, app: str, word: str, wished: dict[str, Any], who: str, now: float) -> Watch:
    watch = ask_watch(session, app, {word: {**wished, "who": who, "when": now}})
    says = {
        "tune": f"{who} asked for a tuning",
        "pause": f"{who} asked to pause the retuning",
        "resume": f"{who} asked to go on with the retuning",
        "stop": f"{who} asked to stop the tuning",
    }
    add_event(session, EventRecord(app, now, who, "asked", says[word], {"word": word, **wished}))
    return watch


@router.get("/applications/{app}/retuning", responses=gives(WATCH, "Its settings, and how far it is.", 200, 404))
def show_retuning(app: App, caller: Reading, given: Given) -> Response:
    """Show when an application is tuned again by itself, and what the daemons are at."""
    with given.store.read() as session:
        return answer(watch_of(session, app))


@router.put(
    "/applications/{app}/retuning",
    openapi_extra=takes(RetuningBody),
    responses=gives(WATCH, "So it is from now on.", 200, 404, 415),
)
async def set_retuning(
    app: App, caller: Tuning, body: Annotated[RetuningBody, Depends(read_as(RetuningBody))], given: Given
) -> Response:
    """Change when an application is tuned again by itself, and how."""
    return answer(await change(given, lambda session, now: keep(session, app, body, caller.name, now)))


def keep(session: Session, app: str, body: RetuningBody, who: str, now: float) -> Watch:
    sources = list(watch_of(session, app).settings.get("sources", []))
    settings = {"sources": sources, **body.settings}
    if settings["sources"] != sources:
        raise BadInput("retuning: sources are files of the manager's machine; they are not changed from elsewhere")
    watch = put_watch(session, app, read_settings(settings), now)
    says = f"{who} changed the settings of the retuning"
    add_event(session, EventRecord(app, now, who, "asked", says, {"word": "retuning", "settings": body.settings}))
    return watch


def watch_of(session: Session, app: str) -> Watch:
    watch = find_watch(session, app)
    if watch is None:
        raise Missing(f"application {app!r} is not watched; register it first")
    return watch


@router.get("/applications/{app}/runs", responses=gives(page_of(RUN), "The newest first.", 200, 404))
def runs(request: Request, app: App, caller: Reading, given: Given, asked: Annotated[RunFilter, Query()]) -> Response:
    """List the searches for an application's best objective."""
    return list_from(request, app, given, asked, lambda session, most: list_runs(session, app, asked.state, most))


@router.get("/runs/{run_id}", responses=gives(RUN, "It.", 200, 404))
def run(run_id: RowId, caller: Reading, given: Given) -> Response:
    """Show one search."""
    with given.store.read() as session:
        return answer(load_run(session, run_id))


@router.get("/runs/{run_id}/trials", responses=gives(page_of(TRIAL), "In the order asked for.", 200, 404))
def trials(
    request: Request, run_id: RowId, caller: Reading, given: Given, asked: Annotated[TrialFilter, Query()]
) -> Response:
    """List what a search tried."""
    chosen = Chosen(run_id=run_id, state=asked.state, feasible=asked.feasible, since=asked.since, until=asked.until)
    most = asked.offset + asked.limit + 1
    with given.store.read() as session:
        load_run(session, run_id)
        found = list_trials(session, chosen, asked.sort, asked.descending, limit=most)
    return cut_page(request, found, asked)


@router.get("/trials/{trial_id}", responses=gives(TRIAL, "It.", 200, 404))
def trial(trial_id: RowId, caller: Reading, given: Given) -> Response:
    """Show one trial."""
    with given.store.read() as session:
        return answer(load_trial(session, trial_id))
