"""Wrap the application: refuse requests early, bound their bodies, add security headers, log them.

Refused before the application sees it: a Host that is none of ours (a page of another site whose name was made to point
here, "DNS rebinding"), a body that is too large or too slow. A body is read whole before it is passed on, because
nothing here works on part of one, and its true length is known then. A stranger's is not read.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuner.service.access.bodies_in_flight import BodiesInFlight
from tuner.service.access.logs import say

LOGGER = logging.getLogger(__name__)
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
OPEN = ("/healthz", "/readyz")  # asked by address, by whatever watches over processes; they tell nothing
MAX_PATH = 300  # of what is told
OFTEN = ("/reports", "/acknowledgements")
SECURE_S = 31_536_000  # seconds for which a browser asks by https alone; not for this machine's own names
PROBLEM = "application/problem+json"
FAILED = "the service failed at this; what happened is in its log"
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # no-referrer would make browsers send `Origin: null` with our own forms
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def wrap(app: ASGIApp, bodies: BodiesInFlight | None = None, host_names: Iterable[str] = ()) -> ASGIApp:
    """`host_names` besides those of the loopback. Goes around the whole application, so that no answer escapes it."""
    held = BodiesInFlight() if bodies is None else bodies
    names = frozenset(name.lower() for name in (*LOOPBACK, *host_names))

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        begun = time.monotonic()
        status, whole = 0, False

        async def send_in_envelope(message: Message) -> None:
            nonlocal status, whole
            if message["type"] == "http.response.start":
                status = message["status"]
                message.setdefault("headers", [])
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():  # where the application has not said something else of the same
                    headers.setdefault(name, value)
                if scope["scheme"] == "https" and read_host(scope) not in LOOPBACK:
                    headers.setdefault("strict-transport-security", f"max-age={SECURE_S}")
                expires = scope.get("state", {}).get("token_expires")
                if expires is not None:  # soon; agents tell it in their log
                    headers["token-expires"] = str(int(expires))
            whole = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            check_host(scope, names)
            check_framing(scope)
            async with held.hold(scope, receive) as request:
                if request is not None:
                    await app(scope, request, send_in_envelope)
        except HTTPException as refusal:
            await refuse(refusal)(scope, receive, send_in_envelope)
        except Exception:
            LOGGER.exception("%s %s failed", scope["method"], scope["path"][:MAX_PATH])
            if not status:
                await refuse(HTTPException(500, FAILED))(scope, receive, send_in_envelope)
            elif not whole:
                raise  # the server cuts the connection, for who reads could not tell that something is missing
        finally:
            note_request(scope, status, time.monotonic() - begun)

    return answer


def check_host(scope: Scope, names: frozenset[str]) -> None:
    if scope["path"] in OPEN:
        return
    if read_host(scope) not in names:
        raise HTTPException(
            421,
            "the Host that was asked for is no name of this service; start it with `tuner serve --host-name NAME`",
        )


def read_host(scope: Scope) -> str:
    """The name that was asked for, without its port."""
    host = Headers(scope=scope).get("host", "")
    name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return name.lower().rstrip(".")


def check_framing(scope: Scope) -> None:
    """Refuse what says twice how long its body is: a proxy may have believed the other word ("request smuggling")."""
    headers = Headers(scope=scope)
    if "content-length" in headers and "transfer-encoding" in headers:
        raise HTTPException(400, "a request has either Content-Length or Transfer-Encoding; send it with one of them")


def write_problem(status: int, detail: str, **more: str) -> bytes:
    title = HTTPStatus(status).phrase
    return json.dumps({"type": "about:blank", "title": title, "status": int(status), "detail": detail, **more}).encode()


def refuse(refusal: HTTPException) -> Response:
    """The rest of the request is not read, so the connection ends."""
    content = write_problem(refusal.status_code, refusal.detail)
    return Response(content, refusal.status_code, {**(refusal.headers or {}), "connection": "close"}, PROBLEM)


def note_request(scope: Scope, status: int, seconds: float) -> None:
    """Requests that only read, or are an agent's daily work, are logged at debug level."""
    method, path = scope["method"], scope["path"][:MAX_PATH]
    if not status:  # the client went away
        return
    daily = status < 400 and (method in ("GET", "HEAD") or path.endswith(OFTEN))
    level = logging.DEBUG if daily else logging.INFO if status < 500 else logging.ERROR
    if not LOGGER.isEnabledFor(level):
        return
    client = scope.get("client")
    say(
        LOGGER, level, "request", f"{method} {path} was answered with {status}", method=method, path=path,
        status=status, ms=round(1000.0 * seconds, 1), address=client[0] if client else None,
        who=scope.get("state", {}).get("caller"),
    )  # fmt: skip
