"""Render the page's templates, and serve its style sheet and script."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from fastapi import Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from scaler.model import units
from scaler.model.units import NONE
from tuner.service.page import links, page_words
from tuner.views import words
from tuner.views.html_document import read_scripts, read_style

STATIC = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}


def render(template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    return HTMLResponse(environment().get_template(template).render(values), status)


def go_to(address: str) -> Response:
    """After a form was taken: the page that shows what came of it."""
    return RedirectResponse(address, 303)


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tuner.service.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "moment": page_words.mark_moment,
        "percent": units.format_share,
        "money": units.format_money,
        "seconds": units.format_response,
        "number": units.format_number,
        "span": units.format_duration,
        "facts": words.list_facts,
        "state": words.format_state,
        "kind": words.format_kind,
        "figure": page_words.find_figure,
    }
    made.globals |= {
        "ago": page_words.mark_age,
        "change": page_words.format_change,
        "to_application": links.link_application,
        "to_objective": links.link_objective,
        "to_explanation": links.link_explanation,
        "to_run": links.link_run,
        "to_trial": links.link_trial,
        "asset": link_asset,
        "NONE": NONE,
        "HEALTH": words.HEALTH,
        "TRIAL_STATES": words.TRIAL_STATES,
    }
    return made


def link_asset(name: str) -> str:
    """A link that changes with what is behind it, so that browsers may keep it."""
    return f"/static/{name}?v={sha256(read_asset(name).encode()).hexdigest()[:12]}"


@cache
def read_asset(name: str) -> str:
    """The page's own, after those of the reports, whose charts it shows."""
    text = files("tuner.service.page").joinpath("static", name).read_text(encoding="utf-8")
    return f"{read_style() if name == 'page.css' else read_scripts()}\n{text}"
