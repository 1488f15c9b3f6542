"""What a check answers."""

from __future__ import annotations

from typing import NamedTuple


class CheckResult(NamedTuple):
    """A verdict (pass, warn, fail), and what was seen, what was wanted and what to do."""

    verdict: str
    says: str
