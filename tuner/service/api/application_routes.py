"""Routes of applications: describe one, list them, show one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from tuner.rollout.registration import register_application
from tuner.scenario.description import describe_received
from tuner.service.api.bodies import LARGEST_WHOLE, ApplicationBody
from tuner.service.api.dependencies import (
    App,
    Given,
    Paged,
    Reading,
    Tuning,
    answer,
    change,
    cut_page,
    gives,
    page_of,
    read_as,
    takes,
)
from tuner.service.exchange.wire_documents import schema_of
from tuner.store.applications import list_applications, load_application
from tuner.store.records import ApplicationVersion

router = APIRouter(prefix="/v1/applications", tags=["applications"])
APPLICATION = schema_of(ApplicationVersion)


@router.put(
    "/{app}",
    openapi_extra=takes(ApplicationBody),
    responses=gives(APPLICATION, "The newest version, which says what was sent.", 200, 415),
)
async def register(
    app: App, caller: Tuning, body: Annotated[ApplicationBody, Depends(read_as(ApplicationBody))], given: Given
) -> Response:
    """Describe an application and what is demanded of it; from now on it is watched."""
    document = await run_in_threadpool(describe_received, body.document, app)
    return answer(
        await change(given, lambda session, now: register_application(session, app, document, caller.name, now))
    )


@router.get("", responses=gives(page_of(APPLICATION), "The newest version of each, by name."))
def show_all(request: Request, caller: Reading, given: Given, asked: Annotated[Paged, Query()]) -> Response:
    """List the applications that are described."""
    with given.store.read() as session:
        found = list_applications(session)
    return cut_page(request, found, asked)


@router.get("/{app}", responses=gives(APPLICATION, "The newest version, or the one asked for.", 200, 404))
def show(
    app: App, caller: Reading, given: Given, version: Annotated[int | None, Query(ge=1, le=LARGEST_WHOLE)] = None
) -> Response:
    """Show how an application is described."""
    with given.store.read() as session:
        return answer(load_application(session, app, version))
