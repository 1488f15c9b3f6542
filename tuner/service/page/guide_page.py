"""Render the guide's pages as HTML: no raw HTML, links between pages, headings that can be linked to."""

from __future__ import annotations

import re
from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape

from tuner.guide.pages import TOPICS, find_title, read_page
from tuner.views.words import bind_units

PAGE = re.compile(r"([\w-]+)\.md(#.*)?")
WIDE = '<div class="wide" tabindex="0" role="region" aria-label="Table">'
CODE = '<pre tabindex="0" role="region" aria-label="Code">'
MAX_UNBROKEN = 24  # characters of a word of code that stays on one line
LONG_CELL = 40  # characters; on a phone a table of three columns with such a cell is a list


class GuideRenderer(RendererHTML):
    """HTML as the service's other pages have it."""

    def table_open(self, tokens: Sequence[Token], i: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        if label_cells(tokens, i):
            tokens[i].attrSet("class", "list")
        return WIDE + self.renderToken(tokens, i, options, env)

    def table_close(self, tokens: Sequence[Token], i: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return self.renderToken(tokens, i, options, env) + "</div>"

    def fence(self, tokens: Sequence[Token], i: int, *_: Any) -> str:
        return f"{CODE}<code>{escape(tokens[i].content)}</code></pre>\n"

    def code_block(self, tokens: Sequence[Token], i: int, *_: Any) -> str:
        return self.fence(tokens, i)

    def code_inline(self, tokens: Sequence[Token], i: int, *_: Any) -> str:
        return f"<code>{' '.join(map(break_code, tokens[i].content.split(' ')))}</code>"

    def text(self, tokens: Sequence[Token], i: int, *_: Any) -> str:
        return str(escape(bind_units(tokens[i].content))).replace("|", "|<wbr>")

    def heading_open(self, tokens: Sequence[Token], i: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        tokens[i].attrSet("id", name_anchor(tokens[i + 1].content))
        return self.renderToken(tokens, i, options, env)

    def link_open(self, tokens: Sequence[Token], i: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        found = PAGE.fullmatch(str(tokens[i].attrGet("href")))
        if found is not None:
            tokens[i].attrSet("href", f"/guide/{found[1]}{found[2] or ''}")
        return self.renderToken(tokens, i, options, env)


def break_code(word: str) -> str:
    """A short word of code on one line; a long one breaks after its own signs."""
    if len(word) <= MAX_UNBROKEN:
        return f'<span class="one">{escape(word)}</span>' if re.search(r"\W", word) else word
    return re.sub(r"(?<=[_.,/=(|])(?=\w)", "<wbr>", str(escape(word)))


def label_cells(tokens: Sequence[Token], start: int) -> bool:
    """Name each cell of a table by its column; whether it has three columns or more, and sentences in them."""
    end = next(i for i in range(start, len(tokens)) if tokens[i].type == "table_close")
    cells = [i for i in range(start, end) if tokens[i].type in ("th_open", "td_open")]
    heads = [tokens[i + 1].content.replace("`", "") for i in cells if tokens[i].type == "th_open"]
    for n, i in enumerate(cells):
        if tokens[i].type == "td_open":
            tokens[i].attrSet("data-label", heads[n % len(heads)])
    return len(heads) > 2 and any(len(tokens[i + 1].content) > LONG_CELL for i in cells)


def name_anchor(heading: str) -> str:
    """The part of an address that leads to a heading: its letters and digits, joined by hyphens, as GitHub has it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def render_page(topic: str) -> Markup:
    made = MarkdownIt("commonmark", {"html": False}, renderer_cls=GuideRenderer).enable("table")
    return Markup(made.render(read_page(topic)))


def gather_page(topic: str) -> dict[str, Any]:
    """The values of the template."""
    at = TOPICS.index(topic)
    titles = {name: find_title(name) for name in TOPICS}
    return {
        "topic": topic,
        "titles": titles,
        "text": render_page(topic),
        "before": TOPICS[at - 1] if at else None,
        "after": TOPICS[at + 1] if at + 1 < len(TOPICS) else None,
    }
