"""How often it went wrong in; how long to wait before the next try, in seconds, out."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

FIRST_S, LONGEST_S = 0.5, 60.0


@dataclass(slots=True)
class Backoff:
    """Doubles up to a minute; the jitter, from half of it to all, keeps many scalers from coming all at once."""

    luck: random.Random
    failures: int = field(default=0)

    def fail(self, least: float = 0.0) -> float:
        """The wait after one more failure; a little longer than `least`, which a manager may have asked for."""
        self.failures += 1
        wait = min(LONGEST_S, FIRST_S * 2.0 ** min(self.failures - 1, 20))
        wait *= 0.5 + 0.5 * self.luck.random()
        return least * (1.0 + 0.2 * self.luck.random()) if least > wait else wait

    def recover(self) -> None:
        self.failures = 0
