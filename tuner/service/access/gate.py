"""Authorize requests: the caller, if its token has the scopes that the route needs, or a refusal.

401: no token, or a wrong, revoked or expired one. 403: a token without the scope. 429: a token over its rate, or an
address that sent too many wrong ones. A right token passes even from such an address: secrets cannot be guessed, so the
limit spares work only, and one mistaken agent must not shut out its whole cluster.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from tuner.service.access.caller import Caller, Callers, read_bearer
from tuner.service.access.limits import Buckets, RateLimits, group_address
from tuner.service.access.logs import say
from tuner.service.access.scopes import SCOPES
from tuner.store.connection import Store

LOGGER = logging.getLogger(__name__)
HOW = "send a token as `Authorization: Bearer ts_...`; `tuner token make` makes one"
BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="A token that `tuner token make` made.")


@dataclass(frozen=True, slots=True)
class Gate:
    """What one process knows of those who call; `clock` dates tokens."""

    store: Store
    clock: Callable[[], float]
    callers: Callers
    rates: Buckets
    failures: Buckets


def make_gate(app: FastAPI, store: Store, clock: Callable[[], float], limits: RateLimits) -> None:
    """Put a gate into the application's state."""
    rates = Buckets(limits.rate, max(1.0, limits.burst))
    failures = Buckets(limits.failures, max(1.0, limits.failures_at_once))
    app.state.gate = Gate(store, clock, Callers(store), rates, failures)


def gate_of(request: Request) -> Gate:
    gate: Gate = request.app.state.gate
    return gate


def require(*scopes: str) -> Callable[..., Awaitable[Caller]]:
    """For `Depends`: the caller, who has all of these scopes."""
    unknown = set(scopes) - SCOPES.keys()
    if unknown or not scopes:
        raise ValueError(f"a route needs one or more of {', '.join(SCOPES)}, not {', '.join(unknown) or 'none'}")

    async def authorize(
        request: Request,
        background: BackgroundTasks,
        shown: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],  # for the OpenAPI document
    ) -> Caller:
        secret = read_bearer(request.headers.get("authorization"))
        if secret is None:
            raise unauthorized(f"this needs a token: {HOW}")
        caller = await identify(request, secret, False)
        if caller is None:
            count_failure(request, secret)
            raise unauthorized(f"this token is wrong, revoked or expired: {HOW}")
        return admit(request, caller, scopes, background)

    authorize.scopes = frozenset(scopes)  # type: ignore[attr-defined]  # for whoever lists the routes
    return authorize


async def identify(request: Request, secret: str, page: bool) -> Caller | None:
    gate = gate_of(request)
    return await gate.callers.find(secret, gate.clock(), page)


def admit(request: Request, caller: Caller, scopes: tuple[str, ...], background: BackgroundTasks) -> Caller:
    request.state.caller = caller.name
    gate = gate_of(request)
    wait = gate.rates.take(caller.token_id)
    if wait:
        raise too_many("this token asks more often than it may", wait)
    missing = [scope for scope in scopes if scope not in caller.scopes]
    if missing:
        raise HTTPException(403, f"the token {caller.name!r} has not the scope {missing[0]!r} that this needs")
    if gate.callers.is_due(caller):
        background.add_task(gate.callers.note, caller, gate.clock())
    return caller


def count_failure(request: Request, secret: str | None) -> None:
    """429 where the address brought too many wrong secrets."""
    if not secret:
        return
    address = group_address(request.client.host if request.client else None)
    wait = gate_of(request).failures.take(address)
    if wait:
        raise too_many("too many wrong tokens came from this address", wait)
    say(LOGGER, logging.WARNING, "refused", f"{address} brought a wrong, revoked or expired token", address=address)


def unauthorized(sentence: str) -> HTTPException:
    return HTTPException(401, sentence, {"WWW-Authenticate": 'Bearer realm="tuner"'})


def too_many(sentence: str, wait: float) -> HTTPException:
    seconds = math.ceil(wait)
    return HTTPException(429, f"{sentence}; try again in {seconds} s", {"Retry-After": str(seconds)})
