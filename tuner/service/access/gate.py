"""Authorize requests: the caller, if its token has the scopes that the route needs, or a refusal.

401: no token, or a wrong, revoked or expired one. 403: a token without the scope. 429: a token over its rate, or an
address that sent too many wrong ones. A right token passes even from such an address: secrets cannot be guessed, so the
limit spares work only, and one mistaken agent must not shut out its whole cluster.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Annotated

from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from scaler.model.errors import Retry
from tuner.service.access.logs import say
from tuner.service.access.token import SCOPES, SECRET, digest, is_live, matches
from tuner.store.connection import Store
from tuner.store.tokens import find_token, list_tokens, record_token_use

LOGGER = logging.getLogger(__name__)
HOW = "send a token as `Authorization: Bearer ts_...`; `tuner token make` makes one"
BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="A token that `tuner token make` made.")
MAX_BUCKETS = 10_000  # keys remembered at a time
FRESH_S = 1.0  # seconds that an answer of the database is believed, and so the longest that a revoked token still works
NOTED_S = 60.0  # seconds between two notes that a token is in use
MAX_CALLERS = 4096  # tokens remembered at a time


@dataclass(frozen=True, slots=True)
class RateLimits:
    """A thousand scalers that share a token ask 130 times a second, and some thousands of times as they come back."""

    rate: float = 500.0  # requests a second of one token
    burst: float = 5000.0  # that may come at once
    failures: float = 0.2  # wrong tokens a second of one address
    failures_at_once: float = 20.0


class Buckets:
    """One for each key, which holds `size` and refills at `rate` a second."""

    def __init__(self, rate: float, size: float, ticks: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.size = size
        self.ticks = ticks
        self.levels: dict[Hashable, tuple[float, float]] = {}

    def take(self, key: Hashable) -> float:
        """One out of the key's bucket; 0, or the seconds until there will be one."""
        now = self.ticks()
        if len(self.levels) >= MAX_BUCKETS and key not in self.levels:
            self.make_room(now)
        level = self.level_at(key, now)
        if level < 1.0:
            self.levels[key] = (level, now)
            return (1.0 - level) / self.rate
        self.levels[key] = (level - 1.0, now)
        return 0.0

    def level_at(self, key: Hashable, now: float) -> float:
        level, since = self.levels.get(key, (self.size, now))
        return min(self.size, level + self.rate * (now - since))

    def make_room(self, now: float) -> None:
        """Full buckets say nothing; where that is not enough, the oldest half goes."""
        self.levels = {key: kept for key, kept in self.levels.items() if self.level_at(key, now) < self.size}
        if len(self.levels) >= MAX_BUCKETS:
            newest = sorted(self.levels, key=lambda key: self.levels[key][1])[MAX_BUCKETS // 2 :]
            self.levels = {key: self.levels[key] for key in newest}


def group_address(host: str | None) -> str:
    """Count an IPv6 client by its /64, of which it has all addresses."""
    try:
        address = ip_address(host or "")
    except ValueError:
        return host or "?"
    return str(ip_network((address, 64), strict=False)) if isinstance(address, IPv6Address) else str(address)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks; of a page session, `name` is that of the token that opened it."""

    name: str
    scopes: frozenset[str]
    token_id: int


def look_up(store: Store, secret: str, now: float, page: bool) -> Caller | None:
    """A session's secret is no bearer token and the other way round, so that neither outlives what it was made for."""
    if not SECRET.fullmatch(secret):
        return None
    with store.read() as session:
        token = find_token(session, digest(secret))
        if token is None or token.id is None or not matches(secret, token) or not is_live(token, now):
            return None
        parent = token.parent_id
        if page is (parent is None):
            return None
        # revoking a token revokes its sessions; this finds also one that was being opened at that moment
        if page and not any(one.id == parent and is_live(one, now) for one in list_tokens(session)):
            return None
    return Caller(token.made_by if page else token.name, frozenset(token.scopes.split()), token.id)


class Callers:
    """Those who called within the last second: many requests of one token cost one query."""

    def __init__(self, store: Store, ticks: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self.ticks = ticks
        self.held: dict[tuple[str, bool], tuple[float, Caller]] = {}
        self.asking: dict[tuple[str, bool], asyncio.Future[Caller | None]] = {}
        self.noted: dict[int, float] = {}

    async def find(self, secret: str, now: float, page: bool = False) -> Caller | None:
        key = (digest(secret), page)
        until, held = self.held.get(key, (0.0, None))
        asked = self.ticks()
        if held is not None and asked < until:
            return held
        if key not in self.asking:  # of a burst of requests one asks for all
            self.asking[key] = asyncio.ensure_future(run_in_threadpool(look_up, self.store, secret, now, page))
            self.asking[key].add_done_callback(lambda _: self.asking.pop(key))
        caller = await asyncio.shield(self.asking[key])  # who hangs up leaves the others their answer
        if caller is None:
            self.held.pop(key, None)
            return None
        if len(self.held) >= MAX_CALLERS:
            self.held = {one: entry for one, entry in self.held.items() if asked < entry[0]}
        if len(self.held) < MAX_CALLERS:
            self.held[key] = (asked + FRESH_S, caller)
        return caller

    def forget(self, secret: str) -> None:
        """At once, in this process: a session that was closed."""
        self.held.pop((digest(secret), True), None)

    def is_due(self, caller: Caller) -> bool:
        """Whether to note that the token is in use; says so once a minute."""
        asked = self.ticks()
        if asked < self.noted.get(caller.token_id, 0.0):
            return False
        if len(self.noted) >= MAX_CALLERS:
            self.noted = {one: until for one, until in self.noted.items() if asked < until}
        self.noted[caller.token_id] = asked + NOTED_S
        return True

    def note(self, caller: Caller, now: float) -> None:
        """After the answer, for it waits its turn to write; that it is missed once does no harm."""
        try:
            with self.store.begin() as session:
                record_token_use(session, caller.token_id, now)
        except Retry:
            self.noted.pop(caller.token_id, None)


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
    check_scopes(scopes)

    async def authorize(
        request: Request,
        background: BackgroundTasks,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)],
    ) -> Caller:
        if bearer is None:
            raise unauthorized(f"this needs a token: {HOW}")
        caller = await identify(request, bearer.credentials, False)
        if caller is None:
            count_failure(request, bearer.credentials)
            raise unauthorized(f"this token is wrong, revoked or expired: {HOW}")
        return admit(request, caller, scopes, background)

    return authorize


def check_scopes(scopes: tuple[str, ...]) -> None:
    unknown = set(scopes) - SCOPES.keys()
    if unknown or not scopes:
        raise ValueError(f"a route needs one or more of {', '.join(SCOPES)}, not {', '.join(unknown) or 'none'}")


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
