"""An application as a person describes it in; a version of it, watched from now on, out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from scaler.model.errors import BadInput
from sim.application import parse_application
from sim.graphs import APPLICATIONS
from sim.infrastructure import INFRASTRUCTURES
from tuner.rollout.registration import register_application
from tuner.scenario.describe import describe_application
from tuner.scenario.description import freeze, is_alone, scenario_of
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
from tuner.service.exchange.wire_documents import schema_of, shorten
from tuner.store.applications import list_applications, load_application
from tuner.store.records import ApplicationVersion

router = APIRouter(prefix="/v1/applications", tags=["applications"])
APPLICATION = schema_of(ApplicationVersion)
MOST = {  # of what is simulated to see that it can be
    ("application", "k_max"): 1_000,
    ("trace", "slots"): 1_100_000,  # two years of minutes
    ("run", "levels"): 1_000,
}
MOST_OPERATORS = 2_000
MOST_TYPES = 50


@router.put(
    "/{app}",
    openapi_extra=takes(ApplicationBody),
    responses=gives(APPLICATION, "The newest version, which says what was sent.", 200, 415),
)
async def register(
    app: App, caller: Tuning, body: Annotated[ApplicationBody, Depends(read_as(ApplicationBody))], given: Given
) -> Response:
    """Describe an application and what is demanded of it; from now on it is watched."""
    document = await run_in_threadpool(describe, body.document, app)
    return answer(
        await change(given, lambda session, now: register_application(session, app, document, caller.name, now))
    )


def describe(tables: Mapping[str, Any], app: str) -> dict[str, Any]:
    """What to keep of a scenario's tables, which must make one that can be simulated."""
    from dataclasses import replace

    place = f"the description of {app!r}"
    if is_alone(tables):
        tables = {"application": describe_application(parse_application(tables))}
    check_tables(tables, place)
    try:
        application = scenario_of(tables, name=app).settings[0].application
        own = describe_application(replace(application, name=app))
    except BadInput:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, MemoryError) as error:
        raise BadInput(
            f"{place} cannot be read ({shorten(str(error), 200)}); state it as a scenario's tables"
        ) from error
    return {name: freeze(table) for name, table in {**tables, "application": own}.items()}


def check_tables(tables: Mapping[str, Any], place: str) -> None:
    """Refuse what would read files of this machine, or take more of it than a description needs."""
    for name, table in tables.items():
        if isinstance(table, Mapping) and "file" in table:
            raise BadInput(
                f"{place}, [{name}] file: no file of this machine is read for you; state its content instead"
            )
    known = {("application", "builtin"): list(APPLICATIONS), ("infrastructure", "name"): list(INFRASTRUCTURES)}
    for (name, key), names in known.items():
        value = find(tables, name, key)
        if value is not None and value not in names:
            raise BadInput(f"{place}, [{name}] {key} is {value!r:.99}, and must be one of {', '.join(names)}")
    for (name, key), most in MOST.items():
        check_most(f"{place}, [{name}] {key}", find(tables, name, key), most)
    check_moment(f"{place}, [trace] start", find(tables, "trace", "start"))
    for operator in find(tables, "application", "operator") or ():
        check_most(
            f"{place}, [application] k_max", operator.get("k_max") if isinstance(operator, dict) else None, 1_000
        )
    for name, key, longest in (("application", "operator", MOST_OPERATORS), ("infrastructure", "node", MOST_TYPES)):
        value = find(tables, name, key)
        check_most(f"{place}, [{name}]: the number of {key}s", len(value) if isinstance(value, list) else None, longest)


def check_moment(place: str, value: Any) -> None:
    from datetime import datetime

    try:
        if isinstance(value, str):
            datetime.fromisoformat(value)
    except ValueError:
        raise BadInput(f"{place} is {shorten(value)!r}, and must be a moment like 2026-01-05T08:00:00") from None


def find(tables: Mapping[str, Any], name: str, key: str) -> Any:
    table = tables.get(name)
    return table.get(key) if isinstance(table, Mapping) else None


def check_most(place: str, value: Any, most: int) -> None:
    if isinstance(value, int | float) and value > most:
        raise BadInput(f"{place} is {value}, and may be {most:,} at most")


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
