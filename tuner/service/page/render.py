"""A template's name and values in; an answer for the browser, or what its pages need besides, out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from fastapi import Response
from fastapi.responses import HTMLResponse, RedirectResponse

from tuner.service.page import links, page_words
from tuner.views.tuning_words import NONE

if TYPE_CHECKING:
    from jinja2 import Environment

STATIC = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}


def render(template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    return HTMLResponse(environment().get_template(template).render(values), status)


def go_to(address: str) -> Response:
    """After a form was taken: the page that shows what came of it."""
    return RedirectResponse(address, 303)


@cache
def environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("tuner.service.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "moment": page_words.say_moment,
        "percent": page_words.say_percent,
        "money": page_words.say_money,
        "seconds": page_words.say_seconds,
        "number": page_words.say_number,
        "facts": page_words.list_facts,
        "span": page_words.say_span,
        "figure": page_words.find_figure,
    }
    made.globals |= {
        "ago": page_words.say_ago,
        "change": page_words.say_change,
        "to_application": links.link_application,
        "to_objective": links.link_objective,
        "to_explanation": links.link_explanation,
        "to_run": links.link_run,
        "to_trial": links.link_trial,
        "asset": link_asset,
        "NONE": NONE,
    }
    return made


def link_asset(name: str) -> str:
    """A link that changes with what is behind it, so that browsers may keep it."""
    return f"/static/{name}?v={sha256(read_asset(name).encode()).hexdigest()[:12]}"


@cache
def read_asset(name: str) -> str:
    """The page's own; the style sheet after those of the reports, whose charts it shows."""
    text = files("tuner.service.page").joinpath("static", name).read_text(encoding="utf-8")
    if name != "page.css":
        return text
    from tuner.views.dots import STYLE as ROOMY
    from tuner.views.html_page import write_style
    from tuner.views.search_charts import STYLE as SLICES
    from tuner.views.shares_chart import STYLE as GRAPH
    from tuner.views.strands import STYLE as STRANDS
    from tuner.views.trial_dots import STYLE as DOTS
    from tuner.views.tuning_page import LOOKS

    return "".join((write_style(), ROOMY, DOTS, SLICES, STRANDS, GRAPH, LOOKS, text))
