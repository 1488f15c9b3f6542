"""A time as a person writes it in; seconds since 1970 out."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import click

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
AGO = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
READING = "ISO 8601 in UTC (2026-05-01T08:00), or how long ago (90m, 6h, 2d)"


def parse_moment(ctx: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """For click: a date and time, in UTC where it names no offset, or a length of time before now."""
    if text is None:
        return None
    ago = AGO.fullmatch(text.strip())
    if ago:
        return time.time() - float(ago[1]) * SECONDS[ago[2]]
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time; write {READING}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
