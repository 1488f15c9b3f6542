"""Write pictures of every page at three widths, light and dark, furnished, fresh and empty.

Run: python -m tests.service.page_pictures FOLDER [PART_OF_A_NAME]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.service.browsed import Site, browsing
from tests.service.chromium import looking, starting
from tests.service.made_decisions import CLICKS, NOW
from tests.service.showcase import furnish
from tuner.service.page.application_page import TABS
from tuner.store.applications import add_application
from tuner.store.connection import Store, open_store

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
    "run": "/runs/1?app=clicks",
    "run-model": "/runs/1?app=clicks&tab=model",
    "run-trials": "/runs/1?app=clicks&tab=trials",
    "login": "/login",
    "trial": "/trials/7?app=clicks",
    "guide": "/guide",
    "missing": "/nothing/here",
}
FRESH = {"fresh-overview": "/", **{f"fresh-{tab or 'app'}": f"/applications/shop?tab={tab}" for tab in TABS}}
EMPTY = {"empty-overview": "/", "empty-app": "/applications/nowhere", "empty-run": "/runs/1?app=clicks"}


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


def register(store: Store) -> None:
    """An application of which nothing else is known yet."""
    with store.begin() as session:
        add_application(session, "shop", CLICKS.describe("shop"), NOW)


STORES: dict[str, tuple[Mapping[str, str], Callable[[Store], object]]] = {
    "furnished": (FURNISHED, lambda store: furnish(store, DECISIONS)),
    "fresh": (FRESH, register),
    "empty": (EMPTY, lambda store: None),
}


def main(folder: Path, only: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place, starting() as browser:
        for name, (pages, fill) in STORES.items():
            store = open_store(Path(place) / f"{name}.db")
            fill(store)
            with browsing(store) as site:
                photograph(browser, site, pages, folder, only)
            store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
