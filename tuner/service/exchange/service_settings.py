"""Settings of the service, made once at its edge; nothing deeper reads flags, files or the environment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Settings:
    """The clock is the one that records are dated by; what waits for something waits by the machine's own."""

    clock: Clock = time.time
    poll_s: float = 0.25  # between looks for orders that another process issued
    longest_wait_s: float = 60.0  # of a long poll
    wake_at_once: int = 10  # waiters that are answered in one go; reports get their turn in between
    wake_pause_s: float = 0.01
    largest_batch: int = 500  # reports in one transaction
    largest_queue: int = 5_000  # reports that wait for theirs; beyond, scalers are asked to come again
    largest_body: int = 4 * 2**20
    requests_per_s: float = 500.0  # of one token; a thousand scalers that share one ask 130 times
    burst: int = 5_000  # that may come at once: all scalers come back together
