"""Errors named by what the caller does next, and the pauses of one that tries again."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

NEAR = 0.75  # of 1, how alike two words are from which one may be meant by the other
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0


class BadInput(ValueError):
    """The input is wrong; the message is one sentence that names the place and what would be right. Exit code 2."""


class NotReady(RuntimeError):
    """There is nothing to decide on yet: skip this slot."""


class Retry(RuntimeError):
    """A passing fault: the same call may succeed later."""


def suggest(word: str, known: Iterable[str], listed: str = "choose one of {}") -> str:
    """The end of a refusal: the known name that is nearest to a misspelt one, or all of them where none is near."""
    names = list(known)
    by_lower = {name.lower(): name for name in names}
    near = get_close_matches(word.lower(), by_lower, 1, NEAR)
    return f"did you mean {by_lower[near[0]]!r}?" if near else listed.replace("{}", ", ".join(names))


def find_pause(failures: int, first_s: float = FIRST_PAUSE_S, longest_s: float = LONGEST_PAUSE_S) -> float:
    """Seconds to wait after so many failures in a row, from 1: doubled each time, up to a limit."""
    return min(longest_s, first_s * 2.0 ** min(failures - 1, 30))


@dataclass(slots=True)
class Backoff:
    """Failures in a row; the jitter, from half of a pause to all of it, keeps many agents from coming all at once."""

    rng: random.Random
    failures: int = 0

    def fail(self, least_s: float = 0.0) -> float:
        """The pause after one more failure; a little longer than `least_s`, which a manager may have asked for."""
        self.failures += 1
        pause = find_pause(self.failures) * (0.5 + 0.5 * self.rng.random())
        return least_s * (1.0 + 0.2 * self.rng.random()) if least_s > pause else pause

    def recover(self) -> None:
        self.failures = 0
