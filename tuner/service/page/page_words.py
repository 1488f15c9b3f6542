"""Format values for the page's templates: moments as HTML time elements, changes between two figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from scaler.model.units import NONE, find_moment, format_age, format_moment, format_share
from scaler.model.wire import read_number

TIME = Markup('<time datetime="{}" title="{}">{}</time>')


def mark_moment(seconds: float | None) -> Markup:
    """UTC to the minute; the title has the seconds."""
    return mark_time(seconds, format_moment(seconds, "minutes"))


def mark_age(seconds: float | None, now: float) -> Markup:
    """How long ago, or how far ahead; the title has the moment."""
    return mark_time(seconds, format_age(seconds, now))


def mark_time(seconds: float | None, text: str) -> Markup:
    moment = None if seconds is None else find_moment(seconds)
    if moment is None:
        return Markup(NONE) if seconds is None else escape(text)
    iso = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    return TIME.format(iso, iso, text)


def format_change(now: float | None, before: float | None) -> str:
    """ "12 % less", "" where there is nothing to compare with."""
    if now is None or not before:
        return ""
    share = now / before - 1.0
    return f"{format_share(abs(share))} {'less' if share < 0.0 else 'more'}"


def find_figure(document: Mapping[str, Any], name: str) -> float | None:
    """A number of the document's, if it is one."""
    return read_number(document.get(name))
