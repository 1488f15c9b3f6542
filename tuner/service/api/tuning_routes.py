"""Routes of tuning: request, pause, resume and stop it, set the retuning, list runs and trials."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from tuner.rollout.tuning_requests import TuningRequest, load_watch, request_action
from tuner.rollout.tuning_requests import set_retuning as set_retuning_settings
from tuner.service.api.bodies import LATEST, RetuningBody, TuningBody
from tuner.service.api.dependencies import (
    App,
    Given,
    Paged,
    Reading,
    RowId,
    Tuning,
    Why,
    answer,
    change,
    cut_page,
    gives,
    page_of,
    read_as,
    takes,
)
from tuner.service.api.read_routes import list_from
from tuner.service.exchange.wire_documents import schema_of
from tuner.store.connection import Session
from tuner.store.records import RetuningRecord, Trial, TuningRun
from tuner.store.runs import list_runs, load_run
from tuner.store.trials import TrialFilter, list_trials, load_trial

router = APIRouter(prefix="/v1", tags=["tuning"])
RUN, TRIAL, WATCH = schema_of(TuningRun), schema_of(Trial), schema_of(RetuningRecord)
Steering = Literal["pause", "resume", "stop"]


class RunFilter(Paged):
    state: Literal["running", "done", "stopped", "failed"] | None = None


class TrialQuery(Paged):
    sort: Literal["id", "number", "price", "violations", "reconfigurations", "slack", "seconds", "ended"] = "number"
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

    def work(session: Session, now: float) -> RetuningRecord:
        asked = TuningRequest(caller.name, now, body.why, body.budget, body.engine, body.seed)
        return request_action(session, app, "tune", asked)

    return answer(await change(given, work), 202)


@router.post("/applications/{app}/tunings/{action}", responses=gives(WATCH, "Asked for.", 202, 404), status_code=202)
async def steer(app: App, action: Steering, caller: Tuning, given: Given, why: Why = "") -> Response:
    """Pause the retuning of an application, let it go on, or stop the tuning that is under way."""

    def work(session: Session, now: float) -> RetuningRecord:
        return request_action(session, app, action, TuningRequest(caller.name, now, why))

    return answer(await change(given, work), 202)


@router.get("/applications/{app}/retuning", responses=gives(WATCH, "Its settings, and how far it is.", 200, 404))
def show_retuning(app: App, caller: Reading, given: Given) -> Response:
    """Show when an application is tuned again by itself, and what the daemons are at."""
    with given.store.read() as session:
        return answer(load_watch(session, app))


@router.put(
    "/applications/{app}/retuning",
    openapi_extra=takes(RetuningBody),
    responses=gives(WATCH, "So it is from now on.", 200, 404, 415),
)
async def set_retuning(
    app: App, caller: Tuning, body: Annotated[RetuningBody, Depends(read_as(RetuningBody))], given: Given
) -> Response:
    """Change when an application is tuned again by itself, and how."""
    return answer(
        await change(given, lambda session, now: set_retuning_settings(session, app, body.settings, caller.name, now))
    )


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
    request: Request, run_id: RowId, caller: Reading, given: Given, asked: Annotated[TrialQuery, Query()]
) -> Response:
    """List what a search tried."""
    chosen = TrialFilter(
        run_id=run_id, state=asked.state, feasible=asked.feasible, since=asked.since, until=asked.until
    )
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
