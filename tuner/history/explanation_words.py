"""Values of any kind, as scalers of any age may have sent them, in; numbers, tables and words that can be shown out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

LONGEST = 300  # letters of a text that somebody else wrote
SPANS = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0))
MOST_FACTS = 12
SHARES = ("violations", "reconfigurations", "limit", "allowed", "doubt", "late", "share")  # figures of this kind


def take_number(value: Any) -> float | None:
    """A number, infinite ones too; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return None if math.isnan(number) else number


def take_table(value: Any) -> Mapping[str, Any]:
    return {str(key): item for key, item in value.items()} if isinstance(value, Mapping) else {}


def take_text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def can_be_stored(text: str) -> bool:
    """Whether a database could have this name at all."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def clean(text: str, longest: int = LONGEST) -> str:
    """Without what would move the cursor, ring the bell or begin a line of its own."""
    shown = "".join(c if c.isprintable() else " " if c in "\t\r\n" else ascii(c)[1:-1] for c in text[: longest + 1])
    return shown if len(text) <= longest else f"{shown[:longest]}..."


def name(text: str) -> str:
    """A name within a sentence: as it is where it is plain, in quotes where it is not."""
    return text if text.replace("-", "").replace("_", "").isalnum() and len(text) < 60 else f"'{clean(text, 60)}'"


def say_time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{seconds:g} s since 1970"


def say_span(seconds: float) -> str:
    for unit, size in SPANS:
        if seconds >= 2.0 * size:
            return f"{seconds / size:,.0f} {unit}" if seconds < 1e15 else "ages"
    return f"{seconds:.0f} s"


def say_seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if math.isinf(seconds):
        return "for ever"
    return f"{seconds:.3g} s" if abs(seconds) >= 1.0 else f"{1000.0 * seconds:.3g} ms"


def say_share(share: float | None) -> str:
    return "-" if share is None else f"{100.0 * share:.3g} %"


def say_figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if abs(value) < 1e6 else f"{value:.4g}"


def say_deployment(deployment: Mapping[str, float]) -> str:
    """ "2 small + 1 large", without what there is none of."""
    parts = [f"{count:g} {clean(kind, 40)}" for kind, count in deployment.items() if count]
    return " + ".join(parts[:12]) if parts else "no replica"


def say_facts(table: Mapping[str, Any], left_out: Iterable[str] = ()) -> str:
    """The figures of a document that others have made, each by its name."""
    hidden, told = set(left_out), []
    for key, value in table.items():
        number = take_number(value)
        if key in hidden or (number is None and not isinstance(value, bool)):
            continue
        told.append(f"{clean(key.replace('_', ' '), 40)} {say_fact(key, value, number)}")
    return ", ".join(told[:MOST_FACTS])


def say_fact(key: str, value: Any, number: float | None) -> str:
    if isinstance(value, bool) or number is None:
        return "yes" if value else "no"
    if key.partition("_")[0] in SHARES:
        return say_share(number)
    if 1e8 < number < 4.1e9:  # a moment, whatever it is called
        return say_time(number)
    return say_figure(number)


def join_words(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def to_json(record: Any) -> str:
    """A record as JSON; what is infinite as the text "Infinity"."""
    import json
    from dataclasses import asdict

    from tuner.store.json_text import spell

    return json.dumps(spell(asdict(record)), indent=2, allow_nan=False)
