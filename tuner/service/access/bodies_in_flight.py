"""Read request bodies within bounds: of each, of all together, and of callers without a right token.

A body is held whole, so that what all callers may make the process hold is stated here, whatever they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope

from scaler.model.errors import Retry
from tuner.store.faults import DatabaseFault, PoolTimeout

Known = Callable[[Scope], Awaitable[bool]]  # whether a request brings a right token
AGAIN = {"Retry-After": "2"}
UNKNOWN = "a body of this size needs a token: send it as `Authorization: Bearer ts_...`; `tuner token make` makes one"
AWAY = "the database, which knows the tokens, does not serve this service at present; send this one again in a moment"
FULL = "the service holds as many bodies as it may; send this one again in a moment"


@dataclass(slots=True)
class BodiesInFlight:
    """The bodies that the process holds, in bytes."""

    most: int = 4 * 2**20  # of one
    unknown: int = 16_384  # of one whose caller has shown no right token
    total: int = 32 * 2**20  # one becomes about ten times its size until it is committed
    reserve: float = 0.125  # of that, for bodies that need no token to be read: large ones never shut these out
    seconds: float = 30.0  # for one to arrive
    known: Known | None = None  # asked once for each larger body
    held: int = 0

    async def read(self, scope: Scope, receive: Receive) -> bytes | None:
        """None where the client went away before it was whole; `release` gives its room back."""
        stated = Headers(scope=scope).get("content-length") or "0"
        if not stated.isdecimal() or len(stated) > 20 or int(stated) > self.most:
            raise too_large(self.most)
        parts: list[bytes] = []
        length, checked = 0, False
        try:
            async with asyncio.timeout(self.seconds):
                while True:
                    if not checked and max(length, int(stated)) > self.unknown:
                        await self.check_known(scope)
                        checked = True
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        self.release(length)
                        return None
                    part = message.get("body", b"")
                    length += len(part)
                    self.held += len(part)
                    if length > self.most:
                        raise too_large(self.most)
                    large = max(length, int(stated)) > self.unknown
                    if self.held > self.total * (1.0 - self.reserve if large else 1.0):
                        raise HTTPException(503, FULL, AGAIN)
                    parts.append(part)
                    if not message.get("more_body", False):
                        if not checked and length > self.unknown:
                            await self.check_known(scope)
                        return b"".join(parts)
        except TimeoutError:
            self.release(length)
            raise HTTPException(408, f"the body was not here within {self.seconds:g} s") from None
        except BaseException:
            self.release(length)
            raise

    async def check_known(self, scope: Scope) -> None:
        if self.known is None:
            return
        try:
            known = await self.known(scope)
        except (Retry, DatabaseFault, PoolTimeout) as error:
            raise HTTPException(503, AWAY, AGAIN) from error
        if not known:
            raise HTTPException(401, UNKNOWN, {"WWW-Authenticate": 'Bearer realm="tuner"'})

    def release(self, length: int) -> None:
        self.held -= length


def too_large(most: int) -> HTTPException:
    return HTTPException(413, f"the body may have {most:,} bytes; send it in smaller parts")
