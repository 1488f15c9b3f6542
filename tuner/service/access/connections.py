"""Bound what clients can hold without a request: the number of connections, and answers that nobody reads.

uvicorn takes a protocol class of ours; besides its constructor only the callbacks of asyncio's Protocol are used.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from tuner.service.access.gate import group_address

REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Type: application/problem+json"
    b"\r\nContent-Length: %d\r\n\r\n%s"
)
BUSY = b'{"type": "about:blank", "title": "Service Unavailable", "status": 503, "detail": "the service has as many '
BUSY += b'connections as it may; try again in a moment"}'


@dataclass(slots=True)
class ConnectionLimits:
    """Connections at a time, and how long one may leave its answer unread."""

    most: int = 24_000
    most_of_one: int = 12_000  # address; behind a proxy all have the proxy's
    unread_s: float = 30.0
    open: Counter[str] = field(default_factory=Counter)

    def admit(self, address: str) -> bool:
        if self.open.total() >= self.most or self.open[address] >= self.most_of_one:
            return False
        self.open[address] += 1
        return True

    def leave(self, address: str) -> None:
        self.open[address] -= 1
        if not self.open[address]:
            del self.open[address]


def make_protocol(limits: ConnectionLimits) -> type[H11Protocol]:
    """The protocol of one server, whose connections share the limits."""

    class BoundedProtocol(H11Protocol):
        address: str | None = None  # None: refused
        unread: asyncio.TimerHandle | None = None
        left: int = 0  # bytes unread when it was last looked at
        way: asyncio.Transport

        def connection_made(self, transport: Any) -> None:
            name = transport.get_extra_info("peername")
            address = group_address(name[0] if isinstance(name, tuple) else None)
            self.way = transport
            if not limits.admit(address):
                transport.write(REFUSAL % (len(BUSY), BUSY))
                transport.close()
                return
            self.address = address
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=1, low=0)  # told as soon as the client takes no more; 0 stops TLS

        def data_received(self, data: bytes) -> None:
            if self.address is not None:
                super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            if self.unread is not None:
                self.unread.cancel()
            if self.address is not None:
                limits.leave(self.address)
                super().connection_lost(exc)

        def pause_writing(self) -> None:
            if self.address is not None:
                self.await_reader()
                super().pause_writing()

        def resume_writing(self) -> None:
            if self.unread is not None:
                self.unread.cancel()
                self.unread = None
            if self.address is not None:
                super().resume_writing()

        def await_reader(self) -> None:
            """Look again after a while; who has read nothing until then is cut off."""
            self.left = self.way.get_write_buffer_size()
            self.unread = asyncio.get_running_loop().call_later(limits.unread_s, self.check_reader)

        def check_reader(self) -> None:
            if self.way.get_write_buffer_size() >= self.left:
                self.way.abort()
            else:
                self.await_reader()

    return BoundedProtocol
