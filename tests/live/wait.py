"""Wait until a condition holds, within a generous time."""

from __future__ import annotations

import time
from collections.abc import Callable


def await_true(ask: Callable[[], bool], seconds: float = 30.0) -> None:
    limit = time.monotonic() + seconds
    while not ask():
        assert time.monotonic() < limit, "what was waited for did not come"
        time.sleep(0.02)
