"""Remember who called within the last second, and look up all who call often in one query.

Hundreds of agents with tokens of their own ask some hundred times a second, each token hardly more than once: looked up
one by one, they cost a query for each request. So whichever must be looked up takes along all that were used of late.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from anyio import CapacityLimiter, to_thread

from scaler.model.errors import BadInput, Retry
from tuner.service.access.logs import say
from tuner.service.access.token import SECRET, describe_expiry, digest, expires_soon, is_live
from tuner.store.connection import Store
from tuner.store.faults import DatabaseFault
from tuner.store.records import Token
from tuner.store.tokens import find_openers, find_tokens, record_token_uses

LOGGER = logging.getLogger(__name__)
FRESH_S = 1.0  # seconds that an answer of the database is believed, and so the longest that a revoked token still works
KEPT_S = 60.0  # seconds without a request, after which a token is looked up no more
NOTED_S = 60.0  # seconds between two notes that a token is in use
MAX_CALLERS = 4096  # tokens remembered at a time
WARNED_S = 86_400.0  # seconds between two warnings that a token expires
Key = tuple[str, bool]  # digest of a secret, and whether it is a page session's


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks; of a page session, `name` is that of the token that opened it."""

    name: str
    scopes: frozenset[str]
    token_id: int
    applications: frozenset[str] | None = None  # None: all of them
    expires: float | None = None  # of a token that is no page session's
    opener_id: int | None = None  # of a page session

    @property
    def account_id(self) -> int:
        """Whose quotas count: a token's sessions have none of their own."""
        return self.token_id if self.opener_id is None else self.opener_id

    def may_reach(self, app: str) -> bool:
        return self.applications is None or app in self.applications


@dataclass(slots=True)
class Known:
    """A caller, until when it is believed, and when it called last."""

    caller: Caller
    until: float
    used: float


def look_up(store: Store, secret: str, now: float, page: bool) -> Caller | None:
    """Who has this secret now."""
    key = digest(secret), page
    return look_up_all(store, [key], now).get(key) if SECRET.fullmatch(secret) else None


def look_up_all(store: Store, keys: Collection[Key], now: float) -> dict[Key, Caller]:
    """Those of the keys that are live tokens."""
    with store.read() as session:
        tokens = find_tokens(session, {key[0] for key in keys})
        openers = find_openers(session, tokens.values())
    made = ((key, make_caller(tokens.get(key[0]), openers, now, key[1])) for key in keys)
    return {key: caller for key, caller in made if caller is not None}


def make_caller(token: Token | None, openers: Mapping[int, Token], now: float, page: bool) -> Caller | None:
    """A session's secret is no bearer token and the other way round, so that neither outlives what it was made for."""
    if token is None or token.id is None or not is_live(token, now) or page is (token.parent_id is None):
        return None
    # revoking a token revokes its sessions; this finds also one that was being opened at that moment
    opener = openers.get(token.parent_id or 0)
    if page and (opener is None or not is_live(opener, now)):
        return None
    applications = None if token.applications is None else frozenset(token.applications)
    name, scopes = token.made_by if page else token.name, frozenset(token.scopes.split())
    return Caller(name, scopes, token.id, applications, None if page else token.expires, token.parent_id)


class Callers:
    """Those who called of late; all but `note` is for one event loop."""

    def __init__(self, store: Store, ticks: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self.ticks = ticks
        self.held: dict[Key, Known] = {}
        self.waiting: dict[Key, asyncio.Future[Caller | None]] = {}  # for the next query
        self.asked: dict[Key, asyncio.Future[Caller | None]] = {}  # in the query under way
        self.closed: set[Key] = set()  # meanwhile
        self.work: asyncio.Task[None] | None = None
        self.now = 0.0
        self.thread = CapacityLimiter(1)  # of its own, so that no page holds it up
        self.noted: dict[int, float] = {}
        self.warned: dict[int, float] = {}
        self.uses: dict[int, float] = {}  # to be written
        self.writing = threading.Lock()

    async def find(self, secret: str, now: float, page: bool = False) -> Caller | None:
        if not SECRET.fullmatch(secret):
            return None
        key, asked = (digest(secret), page), self.ticks()
        known = self.held.get(key)
        if known is not None and asked < known.until:
            known.used = asked
            return known.caller
        self.now = now
        answer = self.asked.get(key) or self.waiting.get(key)
        if answer is None:
            answer = self.waiting[key] = asyncio.get_running_loop().create_future()
            if self.work is None or self.work.done():
                self.work = asyncio.create_task(self.answer_all())
        return await asyncio.shield(answer)  # who hangs up leaves the others their answer

    async def answer_all(self) -> None:
        """One query at a time, for all who came during the last one."""
        while self.waiting:
            self.asked, self.waiting, asked = self.waiting, {}, self.ticks()
            often = {key for key, known in self.held.items() if asked - known.used <= KEPT_S}
            keys = often | self.asked.keys()
            try:
                found = await to_thread.run_sync(look_up_all, self.store, keys, self.now, limiter=self.thread)
            except Exception as error:
                for answer in self.asked.values():
                    answer.set_exception(error)
                    answer.exception()  # seen, though all who waited may have gone
            else:
                self.remember(keys, found, asked)
                for key, answer in self.asked.items():
                    answer.set_result(found.get(key))
            self.asked = {}

    def remember(self, keys: Collection[Key], found: Mapping[Key, Caller], asked: float) -> None:
        before, until = self.held, asked + FRESH_S
        known = {
            key: Known(found[key], until, asked if key in self.asked else before[key].used)
            for key in keys
            if key in found and key not in self.closed and (key in self.asked or key in before)
        }
        newest = sorted(known, key=lambda key: -known[key].used)[:MAX_CALLERS] if len(known) > MAX_CALLERS else known
        self.held = {key: known[key] for key in newest}
        self.closed.clear()

    def forget(self, secret: str) -> None:
        """At once, in this process: a session that was closed."""
        self.held.pop((digest(secret), True), None)
        self.closed.add((digest(secret), True))

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
        if expires_soon(caller.expires, now) and now >= self.warned.get(caller.token_id, 0.0):
            self.warned[caller.token_id] = now + WARNED_S
            sentence = describe_expiry(caller.name, caller.expires)
            say(LOGGER, logging.WARNING, "token expires", sentence, who=caller.name)
        self.uses[caller.token_id] = now
        if not self.writing.acquire(blocking=False):
            return  # whoever writes finds it, or who notes the next
        try:
            while self.uses:
                self.write_uses()
        finally:
            self.writing.release()

    def write_uses(self) -> None:
        """All in one transaction."""
        uses, self.uses = self.uses, {}
        try:
            with self.store.begin() as session:
                record_token_uses(session, uses)
        except (BadInput, Retry, DatabaseFault):
            for token_id in uses:
                self.noted.pop(token_id, None)
