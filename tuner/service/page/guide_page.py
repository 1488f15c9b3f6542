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
from markupsafe import Markup

from tuner.guide.pages import TOPICS, find_title, read_page

PAGE = re.compile(r"([\w-]+)\.md(#.*)?")
WIDE = '<div class="wide" tabindex="0" role="region" aria-label="Table">'


class GuideRenderer(RendererHTML):
    """HTML as the service's other pages have it."""

    def table_open(self, tokens: Sequence[Token], i: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return WIDE + self.renderToken(tokens, i, options, env)

    def table_close(self, tokens: Sequence[Token], i: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return self.renderToken(tokens, i, options, env) + "</div>"

    def heading_open(self, tokens: Sequence[Token], i: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        tokens[i].attrSet("id", name_anchor(tokens[i + 1].content))
        return self.renderToken(tokens, i, options, env)

    def link_open(self, tokens: Sequence[Token], i: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        found = PAGE.fullmatch(str(tokens[i].attrGet("href")))
        if found is not None:
            tokens[i].attrSet("href", f"/guide/{found[1]}{found[2] or ''}")
        return self.renderToken(tokens, i, options, env)


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
