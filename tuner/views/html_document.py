"""Render self-contained HTML documents from templates/, with the tables and figures that reports and pages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from scaler.model import units
from tuner.views.words import Column, bind_units


def write_document(title: str, body: str) -> str:
    """A whole page that asks for nothing; scripts only where it holds charts."""
    scripts = Markup(read_scripts()) if 'class="chart"' in body else ""
    return str(render("document.html", title=title, style=Markup(read_style()), scripts=scripts, body=Markup(body)))


@cache
def read_style() -> str:
    """The style sheet of every page, after uPlot's."""
    return read_part("vendor/uPlot.min.css") + read_part("static/style.css")


@cache
def read_scripts() -> str:
    """uPlot with its licence, and the script that draws the page's charts once it is read."""
    licence = f"/*!\n{read_part('vendor/uPlot.LICENSE.txt').strip()}\n*/\n"
    own = read_part("static/timelines.js")
    return f"{licence}{read_part('vendor/uPlot.iife.min.js')}\n{own}"


def read_part(path: str) -> str:
    return files("tuner.views").joinpath(*path.split("/")).read_text(encoding="utf-8")


def make_environment(*packages: str) -> Environment:
    """The templates of these packages, the first one's before the others', with the formats of all pages."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    made.filters |= {
        "moment": units.format_moment,
        "percent": units.format_share,
        "money": units.format_money,
        "seconds": units.format_response,
        "number": units.format_number,
        "count": units.format_count,
        "span": units.format_duration,
        "unbroken": bind_units,
    }
    return made


@cache
def open_templates() -> Environment:
    return make_environment("tuner.views")


def render(template: str, **values: Any) -> Markup:
    """A part of a page, from one of the templates beside this module."""
    return Markup(open_templates().get_template(template).render(values))


def write_columns(columns: Sequence[Column], best: Sequence[bool] = ()) -> Markup:
    """Columns side by side; rows that are best stand out. A head's title says how to read it."""
    return render_macro("columns", columns, best)


def write_readings(columns: Iterable[Column]) -> Markup:
    """How to read the columns, folded away."""
    return render_macro("readings", {column.head: column.reading for column in columns if column.reading})


def render_macro(name: str, *values: Any) -> Markup:
    return Markup(getattr(open_templates().get_template("tables.html").module, name)(*values))
