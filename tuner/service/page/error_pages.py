"""Show refusals to browsers as pages in the product's layout; programs get them as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException

from tuner.service.access.envelope import PROBLEM
from tuner.service.exchange.wire_documents import shorten
from tuner.service.page.render import render

HEADINGS = {
    400: "This link does not work", 401: "Log in first", 403: "This is not allowed", 404: "There is nothing here",
    409: "This was not done", 413: "This is too large", 422: "This link does not work", 429: "Too many requests",
    503: "Not available at present",
}  # fmt: skip
FOR_PROGRAMS = ("/v1/", "/metrics", "/healthz", "/readyz")
Handler = Callable[[Request, Any], Coroutine[Any, Any, Response]]


def show_errors(handlers: Mapping[Any, Handler]) -> dict[Any, Handler]:
    """These handlers of errors, whose answers to browsers are pages."""
    return {kind: show_error(tell) for kind, tell in handlers.items()}


def show_error(tell: Handler) -> Handler:
    async def answer(request: Request, error: Any) -> Response:
        told = await tell(request, error)
        if told.headers.get("content-type") != PROBLEM or not wants_page(request):
            return told
        kept = {name: value for name, value in told.headers.items() if name in ("retry-after", "allow")}
        return render_refusal(find_sentence(request, error, told), told.status_code, headers=kept)

    return answer


def wants_page(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(FOR_PROGRAMS)


def find_sentence(request: Request, error: Any, told: Response) -> str:
    """The problem's own, but for unknown addresses, where a person needs no description of the API."""
    if isinstance(error, HTTPException) and error.detail == HTTPStatus.NOT_FOUND.phrase:
        return f"there is no page at {shorten(request.url.path)!a}"
    return str(json.loads(bytes(told.body))["detail"])


def mark_commands(says: str) -> Markup:
    """A sentence with what it has between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(says))))


def render_refusal(
    says: str, status: int, session: object = None, app: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    """A sentence as a page, under a heading for its status."""
    heading = HEADINGS.get(status, "That did not work")
    page = render(
        "refused.html", {"session": session, "says": mark_commands(says), "app": app, "heading": heading}, status
    )
    page.headers.update(headers or {})
    return page
