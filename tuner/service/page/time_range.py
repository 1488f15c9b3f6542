"""Parse the time range that a page shows: `last`, or `since` and `until`. All times are UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from scaler.model.errors import BadInput

SPANS = {"6h": 6 * 3600.0, "24h": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0}
USUAL = "24h"
LONGEST = 92 * 86_400.0
LATEST = 4_102_444_800.0  # 2100


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From `since` up to, and not with, `until`; `last` where it ends now."""

    since: float
    until: float
    last: str | None = None

    @property
    def query(self) -> dict[str, str]:
        """What in a link says the same."""
        if self.last is not None:
            return {} if self.last == USUAL else {"last": self.last}
        return {"since": say_minute(self.since), "until": say_minute(self.until)}


def read_window(query: Mapping[str, str], now: float) -> TimeRange:
    since, until, last = (query.get(key, "").strip() for key in ("since", "until", "last"))
    if not since and not until:
        chosen = last or USUAL
        if chosen not in SPANS:
            raise BadInput(f"last is {chosen[:40]!r}, and must be one of {', '.join(SPANS)}")
        return TimeRange(now - SPANS[chosen], now, chosen)
    end = read_moment(until, "until") if until else now
    begin = read_moment(since, "since") if since else end - SPANS[USUAL]
    if not 0.0 < end - begin <= LONGEST:
        raise BadInput(f"since must lie before until, by at most {LONGEST / 86_400.0:.0f} days")
    return TimeRange(begin, end)


def read_moment(text: str, name: str) -> float:
    """A date with or without a time of day; UTC where it names no zone."""
    try:
        moment = datetime.fromisoformat(text)
        found = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        found = -1.0
    if not 0.0 <= found <= LATEST:
        raise BadInput(f"{name} is {text[:40]!r}, and must be a time like 2026-03-12T14:20")
    return found


def say_minute(seconds: float) -> str:
    """As a field for date and time holds it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M}"
