"""Sessions of the page: a cookie opened with a token, safe from forged requests.

The cookie is sent by no other site (SameSite=Strict) and read by no script (HttpOnly). A request that changes something
must also say that it comes from our own page (Origin, Sec-Fetch-Site), and carry a text that only our page could have
got (derived from the session's secret). Forms are read here, because FastAPI needs another package for them.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import parse_qsl, quote

from fastapi import BackgroundTasks, FastAPI, HTTPException, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from tuner.service.access.callers import Caller, look_up
from tuner.service.access.gate import (
    SAFE,
    Gate,
    Quotas,
    admit,
    check_scopes,
    count_failure,
    find_address,
    gate_of,
    identify,
    read_bearer,
)
from tuner.service.access.logs import say
from tuner.service.access.token import PAGE_PREFIX, SECRET, digest, is_live, make_secret
from tuner.store.audit_log import add_event
from tuner.store.connection import Session, Store
from tuner.store.records import EventRecord, Token
from tuner.store.tokens import add_token, find_token, revoke_token

LOGGER = logging.getLogger(__name__)
SESSION_S = 12 * 3600.0  # seconds
FIELD = "csrf"  # of a form; or the header X-CSRF-Token
MAX_FIELDS = 1000


@dataclass(frozen=True, slots=True)
class PageSession:
    """Who looks at a page, and what a form on it has to send back in the field "csrf"."""

    caller: Caller
    csrf: str


def require_page(*scopes: str) -> Callable[..., Awaitable[PageSession]]:
    """For `Depends`: the session, of one who has these scopes; without one, a GET is sent to /login and back."""
    check_scopes(scopes)

    async def authorize(request: Request, background: BackgroundTasks) -> PageSession:
        secret = read_cookie(request)
        caller = await identify(request, secret, True) if secret else None
        if caller is None or secret is None:
            await count_failure(request, secret, recorded=False)  # of a session that ended
            send_to_login(request)
        session = PageSession(caller, make_csrf(secret))
        if request.method not in SAFE:
            check_origin(request)
            await check_csrf(request, session)
        admit(request, caller, scopes, background)
        return session

    return authorize


async def find_account(app: FastAPI, scope: Scope) -> int | None:
    """Return whose right token or session the headers have, asked before a body is read; None: nobody's."""
    request, gate = Request(scope), find_gate(app)
    for secret, page in ((read_bearer(request.headers), False), (read_cookie(request), True)):
        caller = await gate.callers.find(secret, gate.clock(), page) if secret else None
        if caller is not None:
            return caller.account_id
    return None


def find_gate(app: FastAPI) -> Gate:
    gate: Gate = app.state.gate
    return gate


def send_to_login(request: Request) -> NoReturn:
    if request.method not in SAFE:
        raise HTTPException(401, "this needs a session that has not ended; log in at /login, then send it again")
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    raise HTTPException(303, "log in first", {"Location": f"/login?next={quote(here, safe='/')}"})


async def log_in(request: Request, secret: str) -> str | None:
    """What to put in the cookie, if the typed token is live; None if not, and 429 once too many were wrong."""
    check_origin(request)
    gate = gate_of(request)
    opening = (gate.store, secret, gate.clock(), find_address(request), gate.quotas)
    opened = await run_in_threadpool(open_session, *opening)
    if opened is None:
        await count_failure(request, secret)
    return opened


def open_session(store: Store, secret: str, now: float, address: str = "", quotas: Quotas | None = None) -> str | None:
    """A token of its own with the scopes of the typed one, which ends with it."""
    secret = secret.strip()
    known = look_up(store, secret, now, False)
    if known is None:  # before there is anything to write
        return None
    if quotas is not None:
        quotas.charge_session(known.account_id, known.name)
    with store.begin() as session:
        token = find_token(session, digest(secret))
        if token is None or not is_live(token, now):
            return None
        made = add_session(session, token, now)
        record_log_in(session, token, now, address, "with a token")
    say(LOGGER, logging.INFO, "logged in", f"{token.name} opened a session", who=token.name)
    return made


def add_session(session: Session, opener: Token, now: float, key: str = "") -> str:
    """The secret of a new one, which ends with its opener; of the same key there is one at most."""
    made = make_secret(PAGE_PREFIX)
    expires = min(now + SESSION_S, now + SESSION_S if opener.expires is None else opener.expires)
    opened = Token(
        f"session {digest(key or made)[:32]}", digest(made), opener.scopes, opener.name, now, expires,
        parent_id=opener.id, applications=opener.applications,
    )  # fmt: skip
    add_token(session, opened)
    return made


def record_log_in(session: Session, opener: Token, now: float, address: str, how: str) -> None:
    """A row of the audit log, in the transaction that opens the session: who, from where, with which rights."""
    who, rights = opener.name, {"scopes": opener.scopes.split(), "applications": opener.applications}
    message = f"{who} logged in {how}" + (f" from {address}" if address else "")
    add_event(session, EventRecord("", now, who, "logged in", message, {"address": address, **rights}))


async def log_out(request: Request) -> None:
    """The session of the request's cookie is refused from now on, here at once and elsewhere within a second."""
    secret = read_cookie(request)
    if secret is not None and SECRET.fullmatch(secret):
        gate = gate_of(request)
        await run_in_threadpool(close_session, gate.store, secret, gate.clock())
        gate.callers.forget(secret)


def close_session(store: Store, secret: str, now: float) -> None:
    with store.begin() as session:
        token = find_token(session, digest(secret))
        if token is not None and token.parent_id is not None and token.revoked is None:
            revoke_token(session, token.name, now)
            message = f"{token.made_by} logged out"
            add_event(session, EventRecord("", now, token.made_by, "logged out", message))


def name_cookie(request: Request) -> str:
    """Under TLS a browser takes a cookie of such a name only from this very host, and only over TLS."""
    return "__Host-tuner" if request.url.scheme == "https" else "tuner"


def read_cookie(request: Request) -> str | None:
    return request.cookies.get(name_cookie(request))


def set_cookie(request: Request, response: Response, secret: str, seconds: float = SESSION_S) -> None:
    name, secure = name_cookie(request), request.url.scheme == "https"
    response.set_cookie(name, secret, int(seconds), path="/", secure=secure, httponly=True, samesite="strict")


def clear_cookie(request: Request, response: Response) -> None:
    set_cookie(request, response, "", 0.0)


def make_csrf(secret: str) -> str:
    return hmac.new(secret.encode(), b"csrf", "sha256").hexdigest()


async def check_csrf(request: Request, session: PageSession) -> None:
    given = request.headers.get("x-csrf-token") or (await read_form(request)).get(FIELD, "")
    if not hmac.compare_digest(given.encode(), session.csrf.encode()):
        raise HTTPException(403, "this form is not of your session; load the page again, then send it again")


def check_origin(request: Request) -> None:
    """A browser says where a request comes from in at least one of two headers, and no page can make it lie."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    own = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if site not in (None, "same-origin") or origin not in (None, own) or site is origin is None:
        raise HTTPException(403, "this request does not come from the page of this service itself")


async def read_form(request: Request) -> dict[str, str]:
    """Fields of an urlencoded form; of a field that is there twice, the last."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return {}
    try:
        text = (await request.body()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
    except ValueError:  # of UnicodeDecodeError too
        raise HTTPException(400, "the form cannot be read; it must be urlencoded UTF-8") from None


def read_next(text: str | None) -> str:
    """Where to go after the log-in: a path here, and never another site."""
    inside = text is not None and text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if text is not None and inside and "\\" not in text else "/"
