"""Routes of the log-in at a provider: away to it, and back from it with a code."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

from fastapi import APIRouter, HTTPException, Request, Response
from starlette.concurrency import run_in_threadpool

from scaler.model.errors import BadInput, Retry
from scaler.model.units import clean
from tuner.service.access.gate import Forbidden, find_address, gate_of, record_log_in_refusal, too_many
from tuner.service.access.oidc_attempt import ATTEMPT_S, begin_attempt, read_attempt
from tuner.service.access.oidc_session import open_for_person
from tuner.service.access.oidc_settings import IdentityProvider, is_local
from tuner.service.access.page_session import read_next, set_cookie
from tuner.service.api.problems import describe_error, find_status
from tuner.service.exchange.services import services_of
from tuner.service.page.error_pages import render_refusal
from tuner.service.page.render import go_to, render

router = APIRouter(include_in_schema=False)
BACK = "/login/oidc/back"
MAX_CODE = 2048  # characters
STRANGE = "this log-in was not begun in this browser within the last ten minutes; begin it again at /login"


@router.get("/login/oidc")
async def begin(request: Request) -> Response:
    """Send the browser to the provider, with a cookie that only this attempt fits."""
    provider, services = provider_of(request), services_of(request)
    attempt = begin_attempt(read_next(request.query_params.get("next")), services.settings.clock())
    try:
        find = partial(provider.find_login, attempt, find_redirect(request))
        answer = go_to(await services.log_ins.run(find))
    except (BadInput, Retry) as error:
        return refuse(error)
    set_attempt(request, answer, attempt.write(), ATTEMPT_S)
    return answer


@router.get(BACK)
async def end(request: Request) -> Response:
    """Open a session for who comes back from the provider; an attempt is over however it ends."""
    provider, services, query = provider_of(request), services_of(request), request.query_params
    now = services.settings.clock()
    attempt = read_attempt(request.cookies.get(name_attempt(request)))
    try:
        if attempt is None or not attempt.is_answered_by(query.get("state", ""), now):
            raise BadInput(STRANGE)
        if query.get("iss", provider.settings.issuer) != provider.settings.issuer:
            raise BadInput(f"this answer is not of {provider.settings.name}; begin it again at /login")
        code = query.get("code", "")
        if "error" in query or not 0 < len(code) <= MAX_CODE:
            why = clean(query.get("error", "it sent no code"), 80)
            raise BadInput(f"{provider.settings.name} did not log you in ({why}); begin it again at /login")
        spare_provider(request)
        ask = partial(provider.identify, attempt, find_redirect(request), code, now)
        person = await services.log_ins.run(ask)
        store = services.store
        quotas = gate_of(request).quotas
        opening = (store, provider.settings, person, attempt.state, now, find_address(request), quotas)
        secret = await run_in_threadpool(open_for_person, *opening)
    except Forbidden as error:
        await record_log_in_refusal(request, str(error))
        answer = refuse(error)
    except (BadInput, Retry) as error:
        answer = refuse(error)
    else:
        # a page of our own goes on: of a way that began elsewhere, browsers send no cookie of SameSite=Strict
        answer = render("entered.html", {"next": read_next(attempt.onward), "session": None})
        set_cookie(request, answer, secret)
    set_attempt(request, answer, "", 0.0)
    return answer


def provider_of(request: Request) -> IdentityProvider:
    provider = services_of(request).settings.provider
    if provider is None:
        raise HTTPException(404, "this service has no provider to log in at; log in with a token at /login")
    return provider


def spare_provider(request: Request) -> None:
    """429 for an address that ends attempts too often: each asks the provider."""
    wait = gate_of(request).log_ins.take(find_address(request))
    if wait:
        raise too_many("too many log-ins came from this address", wait)


def find_redirect(request: Request) -> str:
    """Where the provider sends the browser back to: here, by the name that it called us."""
    host = request.headers.get("host", "")
    if request.url.scheme != "https" and not is_local(urlsplit(f"//{host}").hostname or ""):
        raise BadInput("a log-in needs https, except on this machine; open this service by its https address")
    return f"{request.url.scheme}://{host}{BACK}"


def name_attempt(request: Request) -> str:
    return "__Host-tuner-login" if request.url.scheme == "https" else "tuner-login"


def set_attempt(request: Request, answer: Response, text: str, seconds: float) -> None:
    """Lax: the provider's way back begins at another site."""
    secure = request.url.scheme == "https"
    answer.set_cookie(name_attempt(request), text, int(seconds), path="/", secure=secure, httponly=True, samesite="lax")


def refuse(error: Exception) -> Response:
    return render_refusal(describe_error(error), find_status(error, 400))
