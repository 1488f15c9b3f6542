"""Pages of the guide in a real browser: tables and code are cut nowhere but where they scroll."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.service.browsed import Site, browsing
from tests.service.chromium import NEEDS_BROWSER, browser, looking
from tuner.guide.pages import TOPICS
from tuner.store.connection import open_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser"]
HIDDEN = """(parts) => [...document.querySelectorAll(parts)]
    .filter((part) => part.scrollWidth > part.clientWidth + 1).map((part) => part.innerText.slice(0, 80))"""
OF_FIGURES = "replicas\tslots over the bound"  # scrolls on a phone: its columns are compared

pytestmark = NEEDS_BROWSER


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    store = open_store(tmp_path_factory.mktemp("guide") / "tuner.db")
    with browsing(store) as found:
        yield found
    store.close()


@pytest.mark.parametrize(("width", "parts"), [(400, ".wide"), (800, ".wide, pre"), (1400, ".wide, pre")])
def test_tables_and_code_of_the_guide_are_not_cut(browser: Browser, site: Site, width: int, parts: str) -> None:
    with looking(browser, site, viewport={"width": width, "height": 900}) as context:
        page = context.new_page()
        for topic in TOPICS:
            page.goto(f"/guide/{topic}")
            cut = [text for text in page.evaluate(HIDDEN, parts) if OF_FIGURES not in text]
            assert cut == [], (topic, cut)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, topic


def test_code_that_is_wider_than_a_phone_scrolls_by_keyboard(browser: Browser, site: Site) -> None:
    from playwright import sync_api

    with looking(browser, site, viewport={"width": 400, "height": 900}) as context:
        page = context.new_page()
        page.goto("/guide/driver")
        block = page.locator("pre").first
        block.focus()
        page.keyboard.press("End")
        page.keyboard.press("ArrowRight")
        sync_api.expect(block).not_to_have_js_property("scrollLeft", 0)  # it scrolls smoothly
