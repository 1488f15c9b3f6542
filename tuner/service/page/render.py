"""Render the page's templates with their filters, and serve its style sheet and script."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib import metadata
from importlib.resources import files
from typing import Any

from fastapi import Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment
from markupsafe import Markup, escape

from scaler.model.units import (
    NONE,
    find_moment,
    format_age,
    format_duration,
    format_moment,
    format_money,
    format_response,
    format_share,
)
from scaler.model.wire import read_number
from tuner.service.access.token import expires_soon
from tuner.service.page import address
from tuner.store.runs import find_state
from tuner.views import words
from tuner.views.html_document import make_environment, read_scripts, read_style
from tuner.views.tuning import WEIGHTS

STATIC = {
    "page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
}  # fmt: skip
PARTS = {"page.js": ("local_times.js", "page.js")}  # one after the other
PRODUCT = "stream-scaler"
EQUAL = 0.005  # relative difference of prices that says nothing
MOMENT = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?) UTC")  # in sentences
TIME = Markup('<time datetime="{}" title="{}">{}</time>')


def mark_moment(seconds: float | None) -> Markup:
    """UTC to the minute; the title has the seconds."""
    return mark_time(seconds, format_moment(seconds, "minutes"))


def mark_age(seconds: float | None, now: float) -> Markup:
    """How long ago, or how far ahead; the title has the moment."""
    return mark_time(seconds, words.bind_units(format_age(seconds, now)))


def mark_time(seconds: float | None, text: str) -> Markup:
    moment = None if seconds is None else find_moment(seconds)
    if moment is None:
        return Markup(NONE) if seconds is None else escape(text)
    iso = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    return TIME.format(iso, iso, text)


def bind(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """A format whose figures stay on the line of their unit."""
    return lambda value: words.bind_units(show(value))


def mark_text(text: object) -> Markup:
    """A sentence with its moments as the reader's own time, and no line break between a figure and its unit."""

    def mark(found: re.Match[str]) -> str:
        iso = f"{found[1]}T{found[2]:0<5}{':00' * (len(found[2]) == 5)}Z"
        return str(TIME.format(iso, iso, found[0]))

    return Markup(MOMENT.sub(mark, str(escape(words.bind_units(text)))))


def mark_facts(document: Any) -> Iterator[tuple[str, str]]:
    """Every value of a document with its label, moments as the reader's own time."""
    return words.list_facts(document, show=mark_value)


def mark_value(name: str, value: Any) -> str:
    return mark_moment(value) if words.is_moment(value) else words.bind_units(words.format_value(name, value))


def format_change(now: float | None, before: float | None) -> str:
    """ "12 % less than 10.00", "" where there is nothing to compare with."""
    if now is None or not before:
        return ""
    share = now / before - 1.0
    if abs(share) < EQUAL:
        return f"about as much as {format_money(before)}"
    return f"{format_share(abs(share))} {'less' if share < 0.0 else 'more'} than {format_money(before)}"


def render(template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    return HTMLResponse(environment().get_template(template).render(values), status)


def go_to(link: str) -> Response:
    """After a form was taken: the page that shows what came of it."""
    return RedirectResponse(link, 303)


@cache
def environment() -> Environment:
    made = make_environment("tuner.service.page", "tuner.views")
    made.filters |= {
        "moment": mark_moment,
        "facts": mark_facts,
        "unbroken": mark_text,
        "percent": bind(format_share),
        "seconds": bind(format_response),
        "span": bind(format_duration),
        "state": words.format_state,
        "kind": words.format_kind,
        "ordinal": words.format_ordinal,
        "run_state": lambda run: find_state(run, time.time()),
        "figure": lambda document, name: read_number(document.get(name)),
    }
    made.globals |= {
        "ago": mark_age,
        "change": format_change,
        "to_application": address.link_application,
        "to_candidate": address.link_candidate,
        "to_objective": address.link_objective,
        "to_explanation": address.link_explanation,
        "to_run": address.link_run,
        "to_trial": address.link_trial,
        "asset": link_asset,
        "soon": expires_soon,
        "NONE": NONE,
        "PRODUCT": PRODUCT,
        "VERSION": read_product_version(),
        "HEALTH": words.HEALTH,
        "SPANS": address.SPAN_WORDS,
        "TRIAL_STATES": words.TRIAL_STATES,
        "WEIGHTS": WEIGHTS,
    }
    return made


def link_asset(name: str) -> str:
    """A link that changes with what is behind it, so that browsers may keep it."""
    return f"/static/{name}?v={sha256(read_asset(name).encode()).hexdigest()[:12]}"


@cache
def read_asset(name: str) -> str:
    """The page's own, after those of the reports, whose charts it shows."""
    folder = files("tuner.service.page").joinpath("static")
    own = [folder.joinpath(part).read_text(encoding="utf-8") for part in PARTS.get(name, (name,))]
    shared = {"page.css": read_style, "page.js": read_scripts}
    return "\n".join([shared[name](), *own] if name in shared else own)


@cache
def read_product_version() -> str:
    """The installed version, "" where the program runs from its sources."""
    try:
        return metadata.version(PRODUCT)
    except metadata.PackageNotFoundError:
        return ""
