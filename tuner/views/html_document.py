"""Write self-contained HTML documents: the style sheet, the charts' scripts, tables and figures that reports share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import NamedTuple

TEXTS = ("setting", "policy", "floor", "floor after")  # heads of columns that hold words
Legend = Iterable[tuple[str, str]]  # style, label


class Column(NamedTuple):
    """A head, one cell per row, and how to read them."""

    head: str
    cells: tuple[str, ...]
    reading: str


def write_document(title: str, body: str) -> str:
    """A whole page that asks for nothing; scripts only where it holds charts."""
    scripts = f"<script>{read_scripts()}</script>" if 'class="chart"' in body else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{read_style()}</style>{scripts}</head><body>\n"
        f"<h1>{escape(title)}</h1>\n{body}</body></html>\n"
    )


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


def write_columns(columns: Sequence[Column], best: Sequence[bool] = ()) -> str:
    """Columns side by side; rows that are best stand out. A head's title says how to read it."""
    side = [' class="text"' if c.head in TEXTS else "" for c in columns]
    heads = "".join(
        f'<th{s} title="{escape(c.reading)}">{escape(c.head)}</th>' for s, c in zip(side, columns, strict=True)
    )
    rows = "".join(
        f"<tr{' class=best' if i < len(best) and best[i] else ''}>"
        f"{''.join(f'<td{s}>{escape(cell)}</td>' for s, cell in zip(side, cells, strict=True))}</tr>"
        for i, cells in enumerate(zip(*(column.cells for column in columns), strict=True))
    )
    return f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def write_readings(columns: Iterable[Column]) -> str:
    """How to read the columns, folded away."""
    readings = {column.head: column.reading for column in columns if column.reading}
    items = "".join(f"<li>{escape(head)}: {escape(reading)}</li>" for head, reading in readings.items())
    return f"<details><summary>How to read the columns</summary><ul>{items}</ul></details>"


def write_facts(facts: Mapping[str, str]) -> str:
    rows = "".join(f"<tr><td>{escape(key)}</td><td>{escape(value)}</td></tr>" for key, value in facts.items())
    return f'<table class="facts"><tbody>{rows}</tbody></table>'


def frame_drawing(drawing: str, legend: Legend) -> str:
    """A drawing with its legend."""
    keys = "".join(f'<span><i class="{style}"></i>{escape(label)}</span>' for style, label in legend)
    return f'<figure>{drawing}<figcaption class="legend">{keys}</figcaption></figure>'
