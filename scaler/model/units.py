"""Format numbers, shares, money, durations, moments and names for commands, pages and reports: the one place.

Every formatter is total: None is "-", NaN "unknown". An infinite response time is "overloaded", an infinite duration
"unlimited", a moment that is never reached "never", any other infinite figure "infinite". Units: seconds, shares of 1.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

NONE, UNKNOWN, INFINITE = "-", "unknown", "infinite"
OVERLOADED, UNLIMITED, NEVER = "overloaded", "unlimited", "never"
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
SPANS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"))
VAST = 1e15  # from here on by powers of ten
NEARLY_ALL = 0.9995  # shares from here to 1 would be rounded to 100 %
MAX_LETTERS = 300  # of a text that somebody else wrote


def format_number(value: float | None, digits: int = 4) -> str:
    """So many significant digits, thousands in groups: "1,235"."""
    odd = name_odd(value)
    if odd or value is None:
        return odd
    rounded = round_to(value, digits)
    return f"{rounded:,.0f}" if 1000.0 <= abs(rounded) < VAST else f"{rounded:.{digits}g}"


def format_fixed(value: float | None, decimals: int = 3) -> str:
    """So many decimals, for figures that stand below each other."""
    odd = name_odd(value)
    if odd or value is None:
        return odd
    return f"{value:,.{decimals}f}" if abs(value) < VAST else f"{value:.{decimals}g}"


def format_percentage(share: float | None) -> str:
    """Per cent to two decimals, without the sign, for columns."""
    return format_fixed(None if share is None else 100.0 * share, 2)


def format_milliseconds(seconds: float | None) -> str:
    """Milliseconds in four digits, without the unit, for columns."""
    return format_number(None if seconds is None else 1000.0 * seconds)


def format_share(share: float | None) -> str:
    """Per cent in three digits; no "100 %" that is not whole: "3.1 %"."""
    odd = name_odd(share if share is None else 100.0 * share)
    if odd or share is None:
        return odd
    if NEARLY_ALL <= share < 1.0:
        return "more than 99.9 %"
    return f"{format_number(100.0 * share, 3)} %"


def format_money(value: float | None, whole: bool = False) -> str:
    """Two decimals, more of what is less than a cent; `whole` leaves them out from 10 on: "7.90"."""
    odd = name_odd(value)
    if odd or value is None:
        return odd
    if 0.0 < abs(value) < 0.01 or abs(value) >= VAST:
        return f"{value:.3g}"
    return f"{value:,.0f}" if whole and abs(value) >= 10.0 else f"{value:,.2f}"


def format_duration(seconds: float | None) -> str:
    """Three digits in ms, s, min, h or d: "38 ms", "1.2 s", "90 s", "2.5 h"."""
    odd = name_odd(seconds, UNLIMITED)
    if odd or seconds is None:
        return odd
    if seconds < 0.0:
        return f"-{format_duration(-seconds)}"
    rounded = round_to(seconds, 3)
    for size, unit in SPANS:
        if rounded >= 2.0 * size:
            return f"{format_number(seconds / size, 3)} {unit}"
    if rounded >= 1.0 or rounded == 0.0:
        return f"{rounded:.3g} s"
    return f"{1000.0 * rounded:.3g} ms"


def format_response(seconds: float | None) -> str:
    """A response time; infinite where demand exceeds capacity."""
    return OVERLOADED if seconds == math.inf else format_duration(seconds)


def format_moment(seconds: float | None, to_the: str = "seconds") -> str:
    """Seconds since 1970 as a date and time in UTC, to the second or to the minute."""
    odd = name_odd(seconds, NEVER)
    if odd or seconds is None:
        return odd
    moment = find_moment(seconds)
    return f"{seconds:g} s since 1970" if moment is None else f"{moment.isoformat(' ', to_the)[:-6]} UTC"


def find_moment(seconds: float) -> datetime | None:
    """The moment in UTC, where the calendar reaches it."""
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0)
    except (ValueError, OverflowError, OSError):
        return None


def format_age(seconds: float | None, now: float) -> str:
    """How long ago, or how far ahead: "2 h ago"."""
    if seconds is None or not math.isfinite(seconds):
        return name_odd(seconds, NEVER)
    far = format_duration(abs(now - seconds))
    return "just now" if abs(now - seconds) < 10.0 else f"{far} ago" if seconds < now else f"in {far}"


def format_bytes(size: float | None) -> str:
    """A size in the decimal unit that leaves the fewest digits: "319 kB"."""
    odd = name_odd(size)
    if odd or size is None:
        return odd
    for unit in ("B", "kB", "MB"):
        if abs(size) < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" or abs(size) >= 99.5 else f"{size:.1f} {unit}"
        size /= 1000.0
    return f"{size:,.1f} GB" if abs(size) < VAST else f"{size:.3g} GB"


def format_rate(per_second: float | None) -> str:
    """A rate in three digits, thousands and millions as k and M: "15.4 M"."""
    odd = name_odd(per_second)
    if odd or per_second is None:
        return odd
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(per_second) >= 0.9995 * size:
            return f"{per_second / size:.3g} {unit}"
    return f"{per_second:.3g}"


def format_count(count: int, one: str, several: str) -> str:
    """How many of what: "1 slot", "1,440 slots"."""
    return f"{count:,} {one if count == 1 else several}"


def format_flag(flag: bool | None) -> str:
    return NONE if flag is None else "yes" if flag else "no"


def name_odd(value: float | None, infinite: str = INFINITE) -> str:
    """The word for what is no finite number, "" for one."""
    if value is None:
        return NONE
    if math.isnan(value):
        return UNKNOWN
    return "" if math.isfinite(value) else infinite if value > 0.0 else f"-{infinite}"


def round_to(value: float, digits: int) -> float:
    """To so many significant digits; the greatest floats stay as they are."""
    rounded = float(f"{value:.{digits}g}")
    return rounded if math.isfinite(rounded) else value


def clean(text: str, longest: int = MAX_LETTERS) -> str:
    """Without what would move the cursor, ring the bell or begin a line of its own."""
    shown = "".join(c if c.isprintable() else " " if c in "\t\r\n" else ascii(c)[1:-1] for c in text[: longest + 1])
    return shown if len(text) <= longest else f"{shown[:longest]}..."


def quote(text: str) -> str:
    """A name within a sentence: as it is where it is plain, in quotes where it is not."""
    return text if text.replace("-", "").replace("_", "").isalnum() and len(text) < 60 else f"'{clean(text, 60)}'"


def join_words(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def describe_span(seconds: float) -> str:
    """A history's length as people say it: "14 days", "5 hours"."""
    for size, one, many in ((86_400.0, "day", "days"), (3_600.0, "hour", "hours")):
        if seconds >= size:
            return format_count(round(seconds / size), one, many)
    return format_duration(seconds)
