"""Answer every fault as application/problem+json with one clear sentence and no internals."""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from scaler.model.errors import BadInput, NotReady, Retry
from tuner.service.access.envelope import FAILED, PROBLEM, write_problem
from tuner.service.access.gate import Forbidden
from tuner.service.exchange.wire_documents import TooLarge, shorten
from tuner.store.faults import DatabaseFault, IntegrityError, NotFound, PoolTimeout, StaleState, UnknownApplication

log = logging.getLogger(__name__)
AGAIN_S = 2  # seconds after which a passing fault is worth another try
SUBJECT = re.compile(r"^(Input|String|List|Dictionary|Value|Data) should ")
AWAY = "the database does not serve this service at present, so that nothing was judged; send it again in a moment"
CHANGED = "this was changed by another request in the meantime; look at it again, then decide anew"
BUSY = "the service has more to do than its database can take; try again in a moment"
SHORT = "the service lacks memory, open files or disk at present, so that nothing was judged; try again in a moment"
PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
Error = Mapping[str, Any]


class Unsupported(BadInput):
    """A body that is not JSON by its own account."""


STATUSES = {  # the first that fits: a database that refuses us is no fault of the caller's
    DatabaseFault: 503, Forbidden: 403, NotFound: 404, StaleState: 409, IntegrityError: 409, NotReady: 409,
    TooLarge: 413, Unsupported: 415, Retry: 503, PoolTimeout: 503,
}  # fmt: skip


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None, **more: str) -> Response:
    return Response(write_problem(status, detail, **more), status, dict(headers or {}), PROBLEM)


def find_status(error: Exception, otherwise: int = 422) -> int:
    """HTTP status of a refusal, by what the caller can do about it."""
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), otherwise)


def describe_error(error: Exception) -> str:
    """The refusal in one sentence; of the database nothing but that it fails: its user, host and name are ours."""
    if isinstance(error, UnknownApplication):
        return one_line(error.sentence)
    said = {PoolTimeout: BUSY, DatabaseFault: AWAY, IntegrityError: CHANGED}
    known = next((sentence for kind, sentence in said.items() if isinstance(error, kind)), None)
    return one_line(str(error)) if known is None else known


async def tell_fault(request: Request, error: Exception) -> Response:
    """A refusal, or a passing fault with the time after which to try again."""
    status = find_status(error)
    return problem(status, describe_error(error), {"Retry-After": str(AGAIN_S)} if status == 503 else None)


async def tell_invalid(request: Request, error: RequestValidationError) -> Response:
    return problem(422, explain_invalid(error.errors()))


async def tell_http(request: Request, error: HTTPException) -> Response:
    if error.status_code < 400:  # a way to somewhere else
        return Response(None, error.status_code, dict(error.headers or {}))
    return problem(error.status_code, say_http(request, error), error.headers)


def say_http(request: Request, error: HTTPException) -> str:
    """The router's own words say less than a sentence should."""
    if error.detail != HTTPStatus(error.status_code).phrase:
        return one_line(str(error.detail))
    if error.status_code == 404:
        return f"there is nothing at {shorten(request.url.path)!a}; /v1/openapi.json says what there is"
    if error.status_code == 405:
        return f"{request.method} cannot be done at {shorten(request.url.path)!a}; see the header Allow for what can"
    return f"{error.detail.lower()}; /v1/openapi.json says what is taken"


async def tell_system_fault(request: Request, error: Exception) -> Response:
    """What the machine lacks is no fault of the request, and may be there again in a moment."""
    if isinstance(error, OSError) and error.errno not in PASSING:
        raise error
    log.error("%s %s failed: %r", request.method, shorten(request.url.path), error)
    return problem(503, SHORT, {"Retry-After": str(AGAIN_S)})


async def tell_unexpected(request: Request, error: Exception) -> Response:
    """What it was is for the log alone, which the server writes it to."""
    return problem(500, FAILED)


HANDLERS: dict[int | type[Exception], Any] = {
    **dict.fromkeys((BadInput, NotReady, Retry, PoolTimeout, DatabaseFault, IntegrityError), tell_fault),
    **dict.fromkeys((OSError, MemoryError), tell_system_fault),
    RequestValidationError: tell_invalid,
    HTTPException: tell_http,
    Exception: tell_unexpected,
}


def one_line(text: str) -> str:
    return " ".join(text.split())


def explain_invalid(errors: Sequence[Error]) -> str:
    """The first of pydantic's findings as a sentence, and how many more there are."""
    first = explain_one(errors[0])
    return one_line(first if len(errors) == 1 else f"{first} ({len(errors) - 1} more like it)")


def explain_one(error: Error) -> str:
    place, kind, message = name_place(error["loc"]), error["type"], str(error["msg"])
    if kind == "missing":
        return f"{place} is missing"
    if kind == "extra_forbidden":
        return f"{place} is not known here; leave it out or correct its name"
    if kind == "value_error":
        return f"{place} {message.removeprefix('Value error, ')}"
    words, count = SUBJECT.subn("must ", message)
    return f"{place} is {show(error.get('input'))}, and {words}" if count else f"{place}: {message}"


def name_place(loc: Sequence[str | int]) -> str:
    """`samples[3].arrived`; of the address: `limit in the query`."""
    where = loc[0] if loc and loc[0] in ("query", "path", "header") else None
    named = ""
    for part in loc[1:] if where else loc:
        named += f"[{part}]" if isinstance(part, int) else f".{shorten(part)}" if named else shorten(part)
    if where is None:
        return named or "the body"
    return f"{named} in the {'address' if where == 'path' else where}"


def show(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return shorten("null" if value is None else ascii(value))
