"""Read request bodies within bounds: of each, of each token's, and of all together.

A body is held whole, so that what callers may make the process hold is stated here. Who calls is judged by the headers,
before any byte of the body is read: of a stranger only the log-in form's is, which has a small room of its own. The
application answers a stranger without the body, as it answers whoever has no right token.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from scaler.model.errors import Retry
from tuner.store.faults import DatabaseFault, PoolTimeout

Known = Callable[[Scope], Awaitable[int | None]]  # the account of a request's token, None without a right one
LOG_IN = "/login"  # whose form is sent without a token
AGAIN = {"Retry-After": "2"}
UNREAD = "the token was not known when this came; send this one again in a moment"
FULL = "the service holds as many bodies as it may; send this one again in a moment"
DISPLACED = "others log in at the same time; send the form again"


@dataclass(slots=True)
class LogInBodies:
    """Log-in forms: small and few, and of those that arrive slowly the oldest gives way to the newest."""

    most: int = 16_384  # bytes of one
    arriving_at_once: int = 256
    held_at_once: int = 1_024  # those that arrive, and those that are being judged
    seconds: float = 5.0  # for one to arrive
    arriving: deque[asyncio.Timeout] = field(default_factory=deque)
    held: int = 0

    @asynccontextmanager
    async def hold(self, receive: Receive) -> AsyncIterator[bytes | None]:
        if self.held >= self.held_at_once:
            raise HTTPException(503, FULL, AGAIN)
        self.held += 1
        try:
            yield await self.read(receive)
        finally:
            self.held -= 1

    async def read(self, receive: Receive) -> bytes | None:
        """None where the client went away before it was whole."""
        if len(self.arriving) >= self.arriving_at_once:
            self.arriving.popleft().reschedule(asyncio.get_running_loop().time())
        body = b""
        try:
            async with asyncio.timeout(self.seconds) as limit:
                self.arriving.append(limit)
                try:
                    while len(body) <= self.most:
                        message = await receive()
                        if message["type"] == "http.disconnect":
                            return None
                        body += message.get("body", b"")
                        if not message.get("more_body", False):
                            break
                finally:
                    if limit in self.arriving:
                        self.arriving.remove(limit)
        except TimeoutError:
            raise HTTPException(408, DISPLACED, AGAIN) from None
        if len(body) > self.most:
            raise too_large(self.most)
        return body


@dataclass(slots=True)
class BodiesInFlight:
    """The bodies that the process holds, in bytes."""

    most: int = 4 * 2**20  # of one
    small: int = 16_384  # of one that large ones leave room for
    total: int = 32 * 2**20  # one becomes about ten times its size until it is committed
    reserve: float = 0.125  # of that, for small ones: large ones never shut these out
    share: float = 0.5  # of that, for all of one token
    seconds: float = 30.0  # for one to arrive
    judged_at_once: int = 4_096  # requests whose token is being looked up, of those with more than a light body
    light: int = 4_096  # bytes of a body that may wait for that beyond; agents' usual ones, that come by the thousand
    known: Known | None = None  # None: all callers are one
    held: int = 0
    held_by: Counter[int] = field(default_factory=Counter)  # account
    judged: int = 0
    log_ins: LogInBodies = field(default_factory=LogInBodies)

    @asynccontextmanager
    async def hold(self, scope: Scope, receive: Receive) -> AsyncIterator[Receive | None]:
        """The request with its whole body in one message; None where the client went away before it was whole."""
        if not has_body(scope):
            yield receive
            return
        check_length(scope, self.most)
        if scope["path"] == LOG_IN:
            async with self.log_ins.hold(receive) as form:
                yield None if form is None else replay(form, receive)
            return
        account = await self.find_account(scope)
        if account is None:
            yield refuse_reading
            return
        before = Held(self, account)
        try:
            body = await before.read(scope, receive)
            yield None if body is None else replay(body, receive)
        finally:
            before.release()

    async def find_account(self, scope: Scope) -> int | None:
        """None also where the database does not say: the application answers for that itself."""
        if self.known is None:
            return 0
        counted = int(not 0 < read_length(scope) <= self.light)
        if counted and self.judged >= self.judged_at_once:
            raise HTTPException(503, FULL, AGAIN)
        self.judged += counted
        try:
            return await self.known(scope)
        except (Retry, DatabaseFault, PoolTimeout):
            return None
        finally:
            self.judged -= counted


@dataclass(slots=True)
class Held:
    """What one request holds of the room."""

    room: BodiesInFlight
    account: int
    length: int = 0

    async def read(self, scope: Scope, receive: Receive) -> bytes | None:
        """None where the client went away before it was whole."""
        stated, parts = read_length(scope), list[bytes]()
        try:
            async with asyncio.timeout(self.room.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    self.take(len(parts[-1]), stated)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise HTTPException(408, f"the body was not here within {self.room.seconds:g} s") from None

    def take(self, size: int, stated: int) -> None:
        room = self.room
        self.length += size
        room.held += size
        room.held_by[self.account] += size
        if self.length > room.most:
            raise too_large(room.most)
        large = max(self.length, stated) > room.small
        full = room.held > room.total * (1.0 - room.reserve if large else 1.0)
        if full or room.held_by[self.account] > max(room.total * room.share, self.length):
            raise HTTPException(503, FULL, AGAIN)

    def release(self) -> None:
        self.room.held -= self.length
        self.room.held_by[self.account] -= self.length
        if not self.room.held_by[self.account]:
            del self.room.held_by[self.account]


def has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def read_length(scope: Scope) -> int:
    return int(Headers(scope=scope).get("content-length") or "0")


def check_length(scope: Scope, most: int) -> None:
    stated = Headers(scope=scope).get("content-length") or "0"
    if not stated.isdecimal() or len(stated) > 20 or int(stated) > most:
        raise too_large(most)


def replay(body: bytes, receive: Receive) -> Receive:
    """The body in one message, then whatever comes after it: that the client has gone."""
    waiting = True

    async def receive_again() -> Message:
        nonlocal waiting
        if not waiting:
            return await receive()
        waiting = False
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def refuse_reading() -> Message:
    """Nobody reads a stranger's body; where the token turns out to be right after all, it is to be sent again."""
    raise HTTPException(503, UNREAD, AGAIN)


def too_large(most: int) -> HTTPException:
    return HTTPException(413, f"the body may have {most:,} bytes; send it in smaller parts")
