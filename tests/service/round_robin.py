"""A TCP proxy on loopback that gives each new connection to the next manager that takes it, as a balancer does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tests.service.http_server import PATIENCE

CHUNK = 65_536  # bytes


class RoundRobin:
    """One that listens on a thread of its own; `port` once it does."""

    def __init__(self, backends: Sequence[int]) -> None:
        self.backends = list(backends)
        self.next = 0
        self.port = 0
        self.refused = 0  # connections for which no manager was there
        self.ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.over = asyncio.Event()
        self.thread = threading.Thread(target=self.run, name="round robin")

    def run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self.listen())

    async def listen(self) -> None:
        server = await asyncio.start_server(self.carry, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await self.over.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Both ways, until either side closes."""
        there = await self.connect()
        if there is None:
            self.refused += 1
            writer.close()
            return
        ways = [
            asyncio.create_task(copy(source, target)) for source, target in ((reader, there[1]), (there[0], writer))
        ]
        with suppress(asyncio.CancelledError):  # at the end of the proxy
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for side in (writer, there[1]):
            side.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in self.backends:
            port = self.backends[self.next % len(self.backends)]
            self.next += 1
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        return None


async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await source.read(CHUNK):
            target.write(chunk)
            await target.drain()


@contextmanager
def balancing(backends: Sequence[int]) -> Iterator[RoundRobin]:
    proxy = RoundRobin(backends)
    proxy.thread.start()
    try:
        assert proxy.ready.wait(PATIENCE)
        yield proxy
    finally:
        proxy.loop.call_soon_threadsafe(proxy.over.set)
        proxy.thread.join(PATIENCE)
        assert not proxy.thread.is_alive()
