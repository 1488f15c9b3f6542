"""Run heavy work on a few threads beside the event loop, with a bounded queue before them.

Pages of large applications read and draw for seconds. Two at a time leave the processor to reports and orders, and
bound the memory; who finds a full queue is asked to come again, and waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from scaler.model.errors import Retry

T = TypeVar("T")
BUSY = "the service is busy with others like it; send this one again in a moment"


@dataclass(slots=True)
class WorkPool:
    threads: int = 2
    most: int = 24  # pieces of work, those that run included
    held: int = 0
    limiter: CapacityLimiter = field(init=False)

    def __post_init__(self) -> None:
        self.limiter = CapacityLimiter(self.threads)

    async def run(self, work: Callable[[], T]) -> T:
        """What it returns; `Retry` where too much waits already. A client that goes away leaves its work to end."""
        if self.held >= self.most:
            raise Retry(BUSY)
        self.held += 1
        try:
            return await to_thread.run_sync(work, limiter=self.limiter)
        finally:
            self.held -= 1
