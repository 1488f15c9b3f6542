"""What routes share: services, callers, parsed bodies, answers, filters, pages of lists, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.concurrency import run_in_threadpool

from scaler.model.errors import BadInput, Retry
from tuner.service.access.callers import Caller
from tuner.service.access.envelope import PROBLEM
from tuner.service.access.gate import gate_of, require
from tuner.service.api.bodies import BODIES, MAX_NAME, MAX_TEXT, MAX_TIME, MAX_WHOLE, Body, check_name
from tuner.service.api.problems import Unsupported, explain_invalid
from tuner.service.exchange.order_board import poll
from tuner.service.exchange.services import Services, services_of
from tuner.service.exchange.wire_documents import check_text, read_document, to_bytes
from tuner.store.connection import Session
from tuner.store.faults import DatabaseFault

BodyT = TypeVar("BodyT", bound=Body)
JSON = "application/json"
SMALL_BODY = 65_536  # bytes of a body that is read at once; a larger one would hold the others up
REFUSALS = {
    code: {"description": why, "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    for code, why in {
        401: "No token, or one that is wrong, revoked or expired.",
        403: "The token has not the scope that this needs.",
        404: "What is named is not there.",
        409: "It has changed in the meantime.",
        413: "The body is too large; send it in parts.",
        415: "The body is not application/json.",
        422: "What is wrong with the request, in one sentence.",
        429: "Too many requests; the header Retry-After says when to come again.",
        500: "The service failed.",
        503: "A passing fault; the header Retry-After says when to come again.",
    }.items()
}
PROBLEM_SCHEMA = {
    "title": "Problem",
    "type": "object",
    "properties": {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence on what is wrong and what would be right."},
    },
    "required": ["type", "title", "status", "detail"],
}
BEARER = {"type": "http", "scheme": "bearer", "description": "A token that `tuner token make` made."}
TAGS = [
    {"name": "scalers", "description": "What the scaler of an operator does: report, and fetch its orders."},
    {"name": "applications", "description": "What is scaled, and what is demanded of it."},
    {"name": "reading", "description": "What was seen, decided and done, and why."},
    {"name": "tuning", "description": "Searches for the best objective, and when they are made."},
    {"name": "objectives", "description": "What the scalers pursue: proposed, pushed, rolled back."},
    {"name": "controls", "description": "Guards that people put before scalers."},
]
MAX_PAGE = 4 * 2**20  # bytes of a list's page; what does not fit is on the next
MAX_OFFSET = 100_000  # of an offset; who wants more narrows the question


async def give_services(request: Request) -> Services:  # not in a thread, for which FastAPI would wait each time
    return services_of(request)


Given = Annotated[Services, Depends(give_services)]
App = Annotated[str, Path(min_length=1, max_length=MAX_NAME), AfterValidator(check_name)]
RowId = Annotated[int, Path(ge=1, le=MAX_WHOLE)]
Tuning = Annotated[Caller, Depends(require("tune"))]
Pushing = Annotated[Caller, Depends(require("push"))]


def read_as(model: type[BodyT]) -> Callable[[Request], Awaitable[BodyT]]:
    """For `Depends`, after the caller, so that the body is validated only for callers with the scope."""

    def parse(body: bytes) -> BodyT:
        try:
            return model.model_validate(read_document(body))
        except ValidationError as error:
            wrong = explain_invalid(error.errors(include_url=False))
        raise BadInput(wrong)  # apart, for pydantic's error holds the whole document for as long as it is referred to

    async def read(request: Request) -> BodyT:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise Unsupported(f"the body's Content-Type is {kind[:100]!r}, and must be {JSON}")
        body = await request.body()
        gate_of(request).quotas.charge(request.state.known, request.path_params["app"], len(body))
        if len(body) <= SMALL_BODY:
            return parse(body)
        return await services_of(request).bodies.run(partial(parse, body))

    return read


def gives(
    schema: dict[str, Any], says: str, *refusals: int, status: int = 200, body: type[Body] | None = None
) -> dict[str, Any]:
    """Arguments of a route for OpenAPI: its answers, refusals, and the body that `read_as` reads."""
    good = {"description": says, "content": {JSON: {"schema": schema}}}
    codes = (401, 403, 422, 429, 500, 503, *refusals, *(() if body is None else (413, 415)))
    described = {"status_code": status, "responses": {status: good, **{code: REFUSALS[code] for code in codes}}}
    if body is None:
        return described
    content = {JSON: {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}}
    return {**described, "openapi_extra": {"requestBody": {"required": True, "content": content}}}


def answer(value: Any, status: int = 200) -> Response:
    return Response(to_bytes(value), status, media_type=JSON)


async def change(given: Services, work: Callable[[Session, float], object], status: int = 200) -> Response:
    """Answer what `work` makes in a transaction of its own; agents that wait for orders are woken before that."""

    def write() -> object:
        with given.store.begin() as session:
            return work(session, given.settings.clock())

    made = await run_in_threadpool(write)
    with suppress(Retry, DatabaseFault):  # it is committed all the same, and will be found by the next poll
        await poll(given.board)
    return answer(made, status)


class Filter(BaseModel):
    """What of a list is asked for; a filter that is not known is refused, for it would not be applied."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    limit: int = Field(100, ge=1, le=1000)


class Paged(Filter):
    offset: int = Field(0, ge=0, le=MAX_OFFSET)


Since = Annotated[float, Field(ge=0.0, le=MAX_TIME, description="The first moment, in seconds since 1970.")]


class Ranged(Filter):
    since: Since | None = None
    until: float | None = Field(None, ge=0.0, le=MAX_TIME, description="The moment after the last.")


def check_word(word: str) -> str:
    try:
        check_text(word)
    except BadInput as error:
        raise ValueError(f"cannot be looked for: {error}") from error
    return word


Word = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(check_word)]
Why = Annotated[
    str,
    AfterValidator(check_word),
    Query(max_length=MAX_TEXT, description="Reason, recorded in the event."),
]


@dataclass(slots=True)
class Page:
    """Items of a list as JSON, as many as were asked for or as fit."""

    items: list[bytes] = field(default_factory=list)
    last: Any = None
    is_last: bool = True


def make_page(found: Iterable[Any], limit: int) -> Page:
    """Take items of a list that is read one by one, one at least."""
    page, size = Page(), 0
    for item in found:
        part = to_bytes(item)
        if len(page.items) == limit or (page.items and size + len(part) > MAX_PAGE):
            page.is_last = False
            break
        page.items.append(part)
        page.last, size = item, size + len(part)
    return page


def give_page(request: Request, page: Page, place: Callable[[Any], dict[str, Any]]) -> Response:
    """Answer a page; the next one is this address with the last item's place."""
    link = None
    if not page.is_last:
        after = place(page.last)
        same = [(key, value) for key, value in request.query_params.multi_items() if key not in after]
        link = f"{quote(request.url.path)}?{urlencode([*same, *after.items()])}"
    content = b'{"items": [%s], "next": %s}' % (b", ".join(page.items), to_bytes(link))
    return Response(content, media_type=JSON)


def cut_page(request: Request, found: Iterable[Any], asked: Paged) -> Response:
    """Answer a page of a list from its beginning to one beyond the page."""
    page = make_page(islice(found, asked.offset, None), asked.limit)
    if asked.offset + len(page.items) > MAX_OFFSET:
        page.is_last = True
    return give_page(request, page, lambda _: {"offset": asked.offset + len(page.items)})


def page_of(schema: dict[str, Any]) -> dict[str, Any]:
    link = {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "Where the next page is, if there is one."}
    items = {"type": "array", "items": schema}
    return {"type": "object", "properties": {"items": items, "next": link}, "required": ["items", "next"]}


description_router = APIRouter(tags=["description"], dependencies=[Depends(require("read"))])


@description_router.get("/v1/openapi.json", **gives({"type": "object"}, "OpenAPI 3.1."))
def description(request: Request) -> Response:
    """Describe this interface."""
    return answer(request.app.openapi())


def write_openapi(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the service's routes and bodies."""
    documented = [route for route in app.routes if getattr(route, "include_in_schema", True)]
    written = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=documented, tags=TAGS
    )
    _, bodies = models_json_schema(
        [(body, "validation") for body in BODIES], ref_template="#/components/schemas/{model}"
    )
    schemas = written.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(bodies["$defs"], Problem=PROBLEM_SCHEMA)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    written["components"]["securitySchemes"] = {"token": BEARER}
    for operations in written["paths"].values():
        for operation in operations.values():
            operation["security"] = [{"token": []}]
    return written
