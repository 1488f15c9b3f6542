"""Values in; what a page says of them out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape

from tuner.views.tuning_words import NONE, milliseconds, money, percent

SHARES = ("violations", "reconfigurations", "confidence", "utilisation", "held", "completeness")
MOMENTS = ("when", "since", "until", "at", "started", "ended", "again", "settled")
LONGEST = 300  # letters of a value shown


def say_moment(seconds: float | None) -> Markup:
    """UTC to the minute; to the second on a longer look."""
    if seconds is None:
        return Markup(NONE)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return escape(f"{seconds:g}")
    iso = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    return Markup('<time datetime="{}" title="{}">{} UTC</time>').format(iso, iso, f"{moment:%Y-%m-%d %H:%M}")


def say_ago(seconds: float | None, now: float) -> Markup:
    """How long ago, or how far ahead; the moment on a longer look."""
    if seconds is None:
        return Markup(NONE)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return escape(f"{seconds:g}")
    far = abs(now - seconds)
    says = "just now" if far < 10.0 else f"{say_span(far)} ago" if seconds < now else f"in {say_span(far)}"
    iso = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso, iso, says)


def say_span(seconds: float) -> str:
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def say_percent(share: float | None) -> str:
    return NONE if share is None else percent(share) if math.isfinite(share) else f"{share}"


def say_money(value: float | None) -> str:
    return NONE if value is None else money(value) if math.isfinite(value) else f"{value}"


def say_seconds(value: float | None) -> str:
    return NONE if value is None else "infinite" if value == math.inf else milliseconds(value)


def say_number(value: float | None) -> str:
    return NONE if value is None else f"{value:,.4g}" if abs(value) < 1e6 else f"{value:.4g}"


def say_change(now: float | None, before: float | None) -> str:
    if now is None or not before:
        return ""
    share = now / before - 1.0
    return f"{percent(abs(share))} {'less' if share < 0.0 else 'more'}"


def list_facts(document: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every value of a document with the way to it."""
    if isinstance(document, Mapping) and document:
        for key, value in document.items():
            yield from list_facts(value, f"{name} · {key}" if name else str(key))
    elif isinstance(document, list | tuple) and any(isinstance(each, Mapping | list | tuple) for each in document):
        for i, value in enumerate(document):
            yield from list_facts(value, f"{name} · {i + 1}")
    else:
        yield name, say_value(name, document)


def say_value(name: str, value: Any) -> str:
    last = name.rpartition(" · ")[2]
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: NONE}[value]
    if isinstance(value, float | int):
        if last in MOMENTS and 1e8 < value < 4.1e9:
            return f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M} UTC"
        if last in SHARES and 0.0 <= value <= 1.0:
            return percent(value)
        return f"{value:,}" if isinstance(value, int) else f"{value:.5g}"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def find_figure(document: Mapping[str, Any], name: str) -> float | None:
    """A number of the document's, if it is one."""
    value = document.get(name)
    return float(value) if isinstance(value, float | int) and not isinstance(value, bool) else None
