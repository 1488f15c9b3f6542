"""Routes of applications and their tuning: describe one; request, pause and stop a tuning; list runs and trials."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from tuner.rollout.steering import TuningRequest, load_watch, register_application, request_action
from tuner.rollout.steering import set_retuning as set_settings
from tuner.scenario.description import describe_received
from tuner.service.api.bodies import MAX_WHOLE, ApplicationBody, RetuningBody, TuningBody
from tuner.service.api.dependencies import (
    App,
    Given,
    Paged,
    Ranged,
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
)
from tuner.service.api.read_routes import list_from
from tuner.service.exchange.wire_documents import schema_of
from tuner.store.applications import list_applications, load_application
from tuner.store.connection import Session
from tuner.store.records import ApplicationVersion, RetuningRecord, Trial, TuningRun
from tuner.store.runs import list_runs, load_run
from tuner.store.trials import TrialFilter, list_trials, load_trial

applications = APIRouter(prefix="/v1/applications", tags=["applications"])
tunings = APIRouter(prefix="/v1", tags=["tuning"])
RUN, TRIAL, WATCH = schema_of(TuningRun), schema_of(Trial), schema_of(RetuningRecord)
APPLICATION = schema_of(ApplicationVersion)
Steering = Literal["pause", "resume", "stop"]


class RunFilter(Paged):
    state: Literal["running", "done", "stopped", "failed"] | None = None


class TrialQuery(Paged, Ranged):
    sort: Literal["id", "number", "price", "violations", "reconfigurations", "slack", "seconds", "ended"] = "number"
    descending: bool = False
    state: Literal["complete", "pruned", "failed"] | None = None
    feasible: bool | None = None


@applications.put("/{app}", **gives(APPLICATION, "The newest version, which says what was sent.", body=ApplicationBody))
async def register(
    app: App, caller: Tuning, body: Annotated[ApplicationBody, Depends(read_as(ApplicationBody))], given: Given
) -> Response:
    """Describe an application and its QoS; from now on it is watched."""
    document = await run_in_threadpool(describe_received, body.document, app)
    return await change(given, lambda session, now: register_application(session, app, document, caller.name, now))


@applications.get("", **gives(page_of(APPLICATION), "The newest version of each, by name."))
def show_all(request: Request, caller: Reading, given: Given, asked: Annotated[Paged, Query()]) -> Response:
    """List the applications that are described."""
    with given.store.read() as session:
        return cut_page(request, list_applications(session), asked)


@applications.get("/{app}", **gives(APPLICATION, "The newest version, or the one asked for.", 404))
def show(
    app: App, caller: Reading, given: Given, version: Annotated[int | None, Query(ge=1, le=MAX_WHOLE)] = None
) -> Response:
    """Show how an application is described."""
    with given.store.read() as session:
        return answer(load_application(session, app, version))


@tunings.post(
    "/applications/{app}/tunings", **gives(WATCH, "Requested; a daemon starts it.", 404, status=202, body=TuningBody)
)
async def tune(
    app: App, caller: Tuning, body: Annotated[TuningBody, Depends(read_as(TuningBody))], given: Given
) -> Response:
    """Ask for a tuning now."""

    def work(session: Session, now: float) -> RetuningRecord:
        asked = TuningRequest(caller.name, now, body.why, body.budget, body.engine, body.seed)
        return request_action(session, app, "tune", asked)

    return await change(given, work, 202)


@tunings.post("/applications/{app}/tunings/{action}", **gives(WATCH, "Requested.", 404, status=202))
async def steer(app: App, action: Steering, caller: Tuning, given: Given, why: Why = "") -> Response:
    """Pause the retuning of an application, let it go on, or stop the tuning that is under way."""
    return await change(
        given, lambda session, now: request_action(session, app, action, TuningRequest(caller.name, now, why)), 202
    )


@tunings.get("/applications/{app}/retuning", **gives(WATCH, "Its settings, and how far it is.", 404))
def show_retuning(app: App, caller: Reading, given: Given) -> Response:
    """Show when an application is tuned again by itself, and what the daemons are at."""
    with given.store.read() as session:
        return answer(load_watch(session, app))


@tunings.put("/applications/{app}/retuning", **gives(WATCH, "So it is from now on.", 404, body=RetuningBody))
async def set_retuning(
    app: App, caller: Tuning, body: Annotated[RetuningBody, Depends(read_as(RetuningBody))], given: Given
) -> Response:
    """Change when an application is tuned again by itself, and how."""
    return await change(given, lambda session, now: set_settings(session, app, body.settings, caller.name, now))


@tunings.get("/applications/{app}/runs", **gives(page_of(RUN), "The newest first.", 404))
def runs(request: Request, app: App, caller: Reading, given: Given, asked: Annotated[RunFilter, Query()]) -> Response:
    """List the searches for an application's best objective."""
    return list_from(request, app, given, asked, lambda session, most: list_runs(session, app, asked.state, most))


@tunings.get("/runs/{run_id}", **gives(RUN, "It.", 404))
def run(run_id: RowId, caller: Reading, given: Given) -> Response:
    """Show one search."""
    with given.store.read() as session:
        return answer(load_run(session, run_id))


@tunings.get("/runs/{run_id}/trials", **gives(page_of(TRIAL), "In the order asked for.", 404))
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


@tunings.get("/trials/{trial_id}", **gives(TRIAL, "It.", 404))
def trial(trial_id: RowId, caller: Reading, given: Given) -> Response:
    """Show one trial."""
    with given.store.read() as session:
        return answer(load_trial(session, trial_id))
