"""Authorize requests: the caller, if its token has the scopes that the route needs, or a refusal.

401: no token, or a wrong, revoked or expired one. 403: a token without the scope, or for other applications than the
address names (routes that name it elsewhere check it themselves). 429: a token over its rate, or an
address that sent too many wrong ones. A right token passes even from such an address: secrets cannot be guessed, so the
limit spares work only, and one mistaken agent must not shut out its whole cluster.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network

from fastapi import BackgroundTasks, FastAPI, HTTPException, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from scaler.model.errors import BadInput
from tuner.service.access.callers import Caller, Callers
from tuner.service.access.logs import say
from tuner.service.access.refusals import Refusals, record_refusal, record_token_refusal
from tuner.service.access.token import SCOPES, expires_soon
from tuner.store.connection import Store
from tuner.store.faults import NotFound

LOGGER = logging.getLogger(__name__)
HOW = "send a token as `Authorization: Bearer ts_...`; `tuner token make` makes one"
MAX_BUCKETS = 10_000  # keys remembered at a time
LOG_INS = (1.0, 60.0)  # a second of one address, and at once: an office comes in the morning
MAX_SHOWN = 60  # characters of a name in a refusal
APPLICATION, TOKEN, ACTS, AGENTS = "application", "token", "acts", "agents"  # what has a quota
CHANGING = {"tune", "push"}  # scopes of acts, each of which is a row of the audit log
SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True)
class RateLimits:
    """A thousand scalers that share a token ask 130 times a second, and some thousands of times as they come back."""

    rate: float = 500.0  # requests a second of one token
    burst: float = 5000.0  # that may come at once
    failures: float = 0.2  # wrong tokens a second of one address
    failures_at_once: float = 20.0
    report_bytes: float = 262_144.0  # a second of one application; an operator's slot has about a thousand
    tokens_share: float = 4.0  # of one token, in applications' rates
    catch_up_s: float = 128.0  # seconds' worth that may come at once, after an outage
    acts: float = 1.0  # changes a second of one token or person, with 2,000 at once
    acts_at_once: float = 2000.0
    sessions: float = 0.1  # log-ins a second of one token or person
    sessions_at_once: float = 100.0
    agents: float = 0.1  # agents a second that nobody has seen before, of one application
    agents_at_once: float = 5000.0


class Buckets:
    """One for each key, which holds `size` and refills at `rate` a second."""

    def __init__(self, rate: float, size: float, ticks: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.size = size
        self.ticks = ticks
        self.levels: dict[Hashable, tuple[float, float]] = {}
        self.turn = threading.Lock()

    def take(self, key: Hashable, amount: float = 1.0) -> float:
        """So much out of the key's bucket, all of it at most; 0, or the seconds until there will be enough."""
        amount = min(amount, self.size)
        with self.turn:
            now = self.look_up(key)
            level = self.level_at(key, now)
            if level < amount:
                self.levels[key] = (level, now)
                return (amount - level) / self.rate
            self.levels[key] = (level - amount, now)
            return 0.0

    def drain(self, key: Hashable, amount: float) -> None:
        """Take out what was taken elsewhere; a debt of one bucket at most is paid before anything is taken again."""
        with self.turn:
            now = self.look_up(key)
            self.levels[key] = (max(-self.size, self.level_at(key, now) - amount), now)

    def look_up(self, key: Hashable) -> float:
        """Make room where the key is a new one; the time."""
        now = self.ticks()
        if len(self.levels) >= MAX_BUCKETS and key not in self.levels:
            self.make_room(now)
        return now

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


class Forbidden(BadInput):
    """What this token was not made for."""


def check_application(caller: Caller, app: str) -> None:
    if not caller.may_reach(app):
        raise Forbidden(
            f"the token {caller.name!r} is not for application {app[:MAX_SHOWN]!r}; `tuner token make --app` makes one"
        )


def check_reach(caller: Caller, app: str, missing: str) -> None:
    """Answer as if it were not there, for what is named by a number: whose it is, is not everybody's to know."""
    if not caller.may_reach(app):
        raise NotFound(missing)


def check_all_applications(caller: Caller) -> None:
    if caller.applications is not None:
        raise Forbidden(f"the token {caller.name!r} is not for all applications, which this shows")


@dataclass(slots=True)
class Quotas:
    """What of the database applications and accounts may use: bytes sent, and rows that stay."""

    applications: Buckets  # bytes
    tokens: Buckets  # bytes, by account
    acts: Buckets  # rows of the audit log, by account
    sessions: Buckets  # log-ins, by account
    agents: Buckets  # rows of agents, by application
    untold: Counter[tuple[str, str]] | None = None  # what to tell other managers of, where they are told

    def charge(self, caller: Caller, application: str, size: int) -> None:
        """Take the bytes of a body; 429 where either has used up its own."""
        self.take(self.tokens, TOKEN, f"{caller.account_id}", size, "this token sends more bytes than it may")
        self.take(self.applications, APPLICATION, application, size, "this application is sent more bytes than it may")

    def charge_act(self, caller: Caller) -> None:
        """Take one row of the audit log; 429 where the account has used up its own."""
        self.take(self.acts, ACTS, f"{caller.account_id}", 1, f"{caller.name} changes things more often than it may")

    def charge_session(self, opener: Hashable, name: str) -> None:
        """Take one log-in; 429 where whoever logs in did so too often. Each manager counts its own."""
        if wait := self.sessions.take(opener):
            raise too_many(f"{name} logs in more often than it may", wait)

    def charge_agent(self, application: str) -> None:
        """Take the row of an agent that nobody has seen before; 429 where there were too many."""
        sentence = "this application has more new agents than it may; name an agent the same each time it reports"
        self.take(self.agents, AGENTS, application, 1, sentence)

    def take(self, buckets: Buckets, kind: str, key: str, amount: int, sentence: str) -> None:
        if wait := buckets.take(key, float(amount)):
            raise too_many(sentence, wait)
        if self.untold is not None:
            self.untold[kind, key] += amount

    @property
    def shared(self) -> dict[str, Buckets]:
        """By what it limits, which the managers of one database count together."""
        return {APPLICATION: self.applications, TOKEN: self.tokens, ACTS: self.acts, AGENTS: self.agents}


def make_quotas(limits: RateLimits) -> Quotas:
    size, share = limits.report_bytes, limits.report_bytes * limits.tokens_share
    return Quotas(
        Buckets(size, size * limits.catch_up_s), Buckets(share, share * limits.catch_up_s),
        Buckets(limits.acts, limits.acts_at_once), Buckets(limits.sessions, limits.sessions_at_once),
        Buckets(limits.agents, limits.agents_at_once),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Gate:
    """What one process knows of those who call; `clock` dates tokens."""

    store: Store
    clock: Callable[[], float]
    callers: Callers
    rates: Buckets
    failures: Buckets
    quotas: Quotas
    log_ins: Buckets  # at a provider, by address
    refusals: Refusals = field(default_factory=Refusals)


def make_gate(app: FastAPI, store: Store, clock: Callable[[], float], limits: RateLimits) -> None:
    """Put a gate into the application's state."""
    rates = Buckets(limits.rate, max(1.0, limits.burst))
    failures = Buckets(limits.failures, max(1.0, limits.failures_at_once))
    app.state.gate = Gate(store, clock, Callers(store), rates, failures, make_quotas(limits), Buckets(*LOG_INS))


def read_bearer(headers: Headers) -> str | None:
    """The token; read here, for as a dependency of FastAPI's it cost more than its look-up."""
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() or None if scheme.lower() == "bearer" else None


def gate_of(request: Request) -> Gate:
    gate: Gate = request.app.state.gate
    return gate


def require(*scopes: str) -> Callable[..., Awaitable[Caller]]:
    """For `Depends`: the caller, who has all of these scopes."""
    check_scopes(scopes)

    async def authorize(request: Request, background: BackgroundTasks) -> Caller:
        secret = read_bearer(request.headers)
        if secret is None:
            raise unauthorized(f"this needs a token: {HOW}")
        caller = await identify(request, secret, False)
        if caller is None:
            await count_failure(request, secret)
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
    if expires_soon(caller.expires, gate.clock()):
        request.state.token_expires = caller.expires
    request.state.known = caller
    wait = gate.rates.take(caller.account_id)
    if wait:
        raise too_many("this token asks more often than it may", wait)
    missing = [scope for scope in scopes if scope not in caller.scopes]
    if missing:
        raise HTTPException(403, f"the token {caller.name!r} has not the scope {missing[0]!r} that this needs")
    for app in (request.path_params.get("app"), request.query_params.get("app")):
        if app is not None:
            check_application(caller, app)
    if request.method not in SAFE and CHANGING.intersection(scopes):
        gate.quotas.charge_act(caller)
    if gate.callers.is_due(caller):
        background.add_task(gate.callers.note, caller, gate.clock())
    return caller


async def count_failure(request: Request, secret: str | None, recorded: bool = True) -> None:
    """429 where the address brought too many wrong secrets; else a row of the audit log, where one is due."""
    if not secret:
        return
    address, gate = find_address(request), gate_of(request)
    wait = gate.failures.take(address)
    if wait:
        raise too_many("too many wrong tokens came from this address", wait)
    say(LOGGER, logging.WARNING, "refused", f"{address} brought a wrong, revoked or expired token", address=address)
    now = gate.clock()
    if recorded and (count := gate.refusals.count(address, now)):
        await run_in_threadpool(record_token_refusal, gate.store, address, secret, count, now)


async def record_log_in_refusal(request: Request, sentence: str) -> None:
    """A row of the audit log about a person whom the provider knows and who may not enter, where one is due."""
    address, gate = find_address(request), gate_of(request)
    now = gate.clock()
    if count := gate.refusals.count(address, now):
        await run_in_threadpool(record_refusal, gate.store, address, "log-in refused", sentence, count, now)


def find_address(request: Request) -> str:
    return group_address(request.client.host if request.client else None)


def unauthorized(sentence: str) -> HTTPException:
    return HTTPException(401, sentence, {"WWW-Authenticate": 'Bearer realm="tuner"'})


def too_many(sentence: str, wait: float) -> HTTPException:
    seconds = math.ceil(wait)
    return HTTPException(429, f"{sentence}; try again in {seconds} s", {"Retry-After": str(seconds)})
