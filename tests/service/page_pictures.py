"""Write pictures of every page at three widths, light and dark, furnished and empty.

Run: python -m tests.service.page_pictures FOLDER [PART_OF_A_NAME]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.service.browsed import Site, browsing
from tests.service.chromium import looking, starting
from tests.service.showcase import furnish
from tuner.service.page.application_page import TABS
from tuner.store.connection import open_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDTHS, SCHEMES, HEIGHT = (1400, 800, 400), ("light", "dark"), 900
DECISIONS = 36_000
FURNISHED = {
    "overview": "/",
    "app": "/applications/clicks",
    "payments": "/applications/payments",
    "objective": "/objectives/3?app=clicks",
    "reverted": "/objectives/2?app=payments",
    "explain": "/explain?app=clicks&operator=parse&at=1773325140",
    **{f"app-{tab}": f"/applications/clicks?tab={tab}" for tab in TABS if tab},
    "run": "/runs/1",
    "run-model": "/runs/1?tab=model",
    "run-trials": "/runs/1?tab=trials",
    "login": "/login",
    "trial": "/trials/7",
    "guide": "/guide",
    "missing": "/nothing/here",
}
EMPTY = {"empty-overview": "/", "empty-app": "/applications/nowhere", "empty-run": "/runs/1"}


def photograph(browser: Browser, site: Site, pages: Mapping[str, str], folder: Path, only: str = "") -> None:
    """One file a page, width and scheme; prints those that scroll sideways, and how tall each is."""
    for width in WIDTHS:
        for scheme in SCHEMES:
            settings = {"viewport": {"width": width, "height": HEIGHT}, "color_scheme": scheme}
            with looking(browser, site, **settings) as context:
                page = context.new_page()
                for name, path in pages.items():
                    if only not in name:
                        continue
                    page.goto(path)
                    page.wait_for_load_state("networkidle")
                    wide = page.evaluate("document.documentElement.scrollWidth")
                    tall = page.evaluate("document.documentElement.scrollHeight")
                    print(f"{name:16} {width:5} {scheme:5} {tall:6} px{' TOO WIDE' * (wide > width)}")
                    page.screenshot(path=str(folder / f"{name}-{width}-{scheme}.png"), full_page=True)


def main(folder: Path, only: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place, starting() as browser:
        for pages, decisions in ((FURNISHED, DECISIONS), (EMPTY, 0)):
            store = open_store(Path(place) / f"{decisions}.db")
            if decisions:
                furnish(store, decisions)
            with browsing(store) as site:
                photograph(browser, site, pages, folder, only)
            store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
