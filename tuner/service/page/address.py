"""Build the addresses of pages, whatever characters names hold, and parse what their queries and forms say.

A page shows a time range: `last`, or `since` and `until`. All times are UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from scaler.model.errors import BadInput

Query = Mapping[str, str | Iterable[str]]
SPANS = {"6h": 6 * 3600.0, "24h": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0}
SPAN_WORDS = {"6h": "6 h", "24h": "24 h", "7d": "7 days", "30d": "30 days"}
USUAL = "24h"
LONGEST = 92 * 86_400.0
LATEST = 4_102_444_800.0  # 2100


def link_application(app: str, query: Query | None = None, tab: str = "") -> str:
    """A name that no path can hold goes into the query; so does the tab, unless it is the first."""
    stated = {**(query or {}), "tab": tab}
    if "/" in app or "\\" in app or app.strip(".") == "":
        return join("/applications", {"app": app, **stated})
    return join(f"/applications/{quote(app, safe='', errors='replace')}", stated)


def link_candidate(app: str) -> str:
    """The part of a page that says how the candidate does now."""
    return join("/candidate", {"app": app})


def link_objective(app: str, version: int) -> str:
    return join(f"/objectives/{version}", {"app": app})


def link_explanation(app: str, operator: str, at: float) -> str:
    return join("/explain", {"app": app, "operator": operator, "at": f"{at:.15g}"})


def link_run(app: str, ordinal: int, query: Query | None = None, tab: str = "") -> str:
    return join(f"/runs/{ordinal}", {"app": app, **(query or {}), "tab": tab})


def link_trial(app: str, ordinal: int) -> str:
    return join(f"/trials/{ordinal}", {"app": app})


def join(path: str, query: Query) -> str:
    stated = urlencode({key: value for key, value in query.items() if value}, doseq=True, errors="replace")
    asked = f"?{stated}" if stated else ""
    return f"{path}{asked}"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From `since` up to, and not with, `until`; `last` where it ends now."""

    since: float
    until: float
    last: str | None = None

    @property
    def query(self) -> dict[str, str]:
        """The range in a link."""
        if self.last is not None:
            return {} if self.last == USUAL else {"last": self.last}
        since, until = (f"{datetime.fromtimestamp(end, UTC):%Y-%m-%dT%H:%M}" for end in (self.since, self.until))
        return {"since": since, "until": until}


def read_window(query: Mapping[str, str], now: float) -> TimeRange:
    since, until, last = (query.get(key, "").strip() for key in ("since", "until", "last"))
    if not since and not until:
        chosen = check_choice("last", last or USUAL, SPANS)
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


def read_digits(text: str, most: int) -> int | None:
    """A whole number of at most so many digits; None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= most else None


def read_version(text: str) -> int:
    version = read_digits(text, 9)
    if version is None:
        raise BadInput(f"version is {text[:40]!r}, and must be the number of an objective")
    return version


def check_choice(name: str, text: str, choices: Iterable[str]) -> str:
    if text not in choices:
        raise BadInput(f"{name} is {text[:40]!r}, and must be one of {', '.join(choices)}")
    return text


def check_text(text: str) -> str:
    if "\0" in text:
        raise BadInput("a name holds the character NUL; leave it out")
    return text
