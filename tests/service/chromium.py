"""Start a headless Chromium, and let a person who has logged in look at the service's pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.service.browsed import Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
NEEDS_BROWSER = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.access(CHROMIUM, os.X_OK), reason="there is no Chromium here (Debian's package chromium)"
    ),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (pip install playwright)")
    with starting() as started:
        yield started


@contextmanager
def starting() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield started
        started.close()


@contextmanager
def looking(browser: Browser, site: Site, **settings: Any) -> Iterator[BrowserContext]:
    """A person's own browser, logged in."""
    context = browser.new_context(base_url=site.url, **settings)
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.goto("/")
    assert urlsplit(page.url).path == "/login"
    page.get_by_label("Token").fill(site.token)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="All applications").wait_for()
    page.close()
    yield context
    context.close()
