"""Find the caller of a secret; a finding is remembered for a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from scaler.model.errors import Retry
from tuner.service.access.scopes import split_scopes
from tuner.service.access.token import SECRET, digest, is_live, matches
from tuner.store.connection import Session, Store
from tuner.store.records import Token
from tuner.store.tokens import find_token, list_tokens, record_token_use

FRESH = 1.0  # seconds that an answer of the database is believed, and so the longest that a revoked token still works
NOTED = 60.0  # seconds between two notes that a token is in use
MOST = 4096  # tokens remembered at a time


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks; of a page session, `name` is that of the token that opened it."""

    name: str
    scopes: frozenset[str]
    token_id: int


def find_caller(store: Store, header: str | None, now: float) -> Caller | None:
    """Of an Authorization header; None where there is none, or its token is wrong, revoked or expired."""
    secret = read_bearer(header)
    return None if secret is None else look_up(store, secret, now, False)


def read_bearer(header: str | None) -> str | None:
    scheme, _, secret = (header or "").strip().partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


def look_up(store: Store, secret: str, now: float, page: bool) -> Caller | None:
    """A session's secret is no bearer token and the other way round, so that neither outlives what it was made for."""
    if not SECRET.fullmatch(secret):
        return None
    with store.read() as session:
        token = find_token(session, digest(secret))
        if token is None or token.id is None or not matches(secret, token) or not is_live(token, now):
            return None
        if page is (token.parent_id is None) or not has_live_parent(session, token, now):
            return None
    return Caller(token.made_by if page else token.name, split_scopes(token.scopes), token.id)


def has_live_parent(session: Session, token: Token, now: float) -> bool:
    """Revoking a token revokes its sessions; this finds also one that was being opened at that moment."""
    if token.parent_id is None:
        return True
    return any(one.id == token.parent_id and is_live(one, now) for one in list_tokens(session))


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
        if len(self.held) >= MOST:
            self.held = {one: entry for one, entry in self.held.items() if asked < entry[0]}
        if len(self.held) < MOST:
            self.held[key] = (asked + FRESH, caller)
        return caller

    def forget(self, secret: str) -> None:
        """At once, in this process: a session that was closed."""
        for page in (False, True):
            self.held.pop((digest(secret), page), None)

    def is_due(self, caller: Caller) -> bool:
        """Whether to note that the token is in use; says so once a minute."""
        asked = self.ticks()
        if asked < self.noted.get(caller.token_id, 0.0):
            return False
        if len(self.noted) >= MOST:
            self.noted = {one: until for one, until in self.noted.items() if asked < until}
        self.noted[caller.token_id] = asked + NOTED
        return True

    def note(self, caller: Caller, now: float) -> None:
        """After the answer, for it waits its turn to write; that it is missed once does no harm."""
        try:
            with self.store.begin() as session:
                record_token_use(session, caller.token_id, now)
        except Retry:
            self.noted.pop(caller.token_id, None)
