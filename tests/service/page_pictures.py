"""Write pictures of every page at three widths, light and dark, furnished, fresh and empty.

Run: python -m tests.service.page_pictures FOLDER [PART_OF_A_NAME]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from tests.service.browsed import Site, browsing
from tests.service.chromium import looking, starting
from tests.service.made_decisions import CLICKS, NOW
from tests.service.showcase import furnish
from tuner.guide.pages import TOPICS
from tuner.rollout.steering import register_application
from tuner.service.page.application_page import TABS
from tuner.store.connection import Store, open_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDTHS, HEIGHT = (1400, 800, 400), 900
SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
DECISIONS = 36_000
OPENED = "-opened"  # ends the name of a page whose folded parts are opened first
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
FURNISHED = {
    "overview": "/",
    "overview-missed": "/?search=orders",
    "app": "/applications/clicks",
    "app-opened": "/applications/clicks",
    "payments": "/applications/payments",
    "fraud": "/applications/fraud%20scores",
    "fraud-agents": "/applications/fraud%20scores?tab=agents",
    "objective": "/objectives/3?app=clicks",
    "reverted": "/objectives/2?app=payments",
    "explain": "/explain?app=clicks&operator=parse&at=1773325140",
    "explain-all": "/explain?app=clicks&at=1773325140",
    "explain-missed": "/explain?app=clicks&operator=parse&at=1673325140",
    **{f"app-{tab}": f"/applications/clicks?tab={tab}" for tab in TABS if tab},
    **{f"app-{tab}{OPENED}": f"/applications/clicks?tab={tab}" for tab in ("rollout", "controls", "tuning")},
    "run": "/runs/1?app=clicks",
    "run-model": "/runs/1?app=clicks&tab=model",
    "run-trials": "/runs/1?app=clicks&tab=trials",
    "login": "/login",
    "trial": "/trials/7?app=clicks",
    "trial-opened": "/trials/7?app=clicks",
    "missing": "/nothing/here",
    "wrong-link": "/applications/clicks?last=tomorrow",
    **{f"guide-{topic}": f"/guide/{topic}" for topic in TOPICS},
}
FRESH = {"fresh-overview": "/", **{f"fresh-{tab or 'app'}": f"/applications/shop?tab={tab}" for tab in TABS}}
EMPTY = {"empty-overview": "/", "empty-app": "/applications/nowhere", "empty-run": "/runs/1?app=clicks"}


def photograph(browser: Browser, site: Site, pages: Mapping[str, str], folder: Path, only: str = "") -> None:
    """One file a page, width and scheme; prints those that scroll sideways, and how tall each is.

    A page is loaded once and then resized, as a person's window is.
    """
    with looking(browser, site, viewport={"width": WIDTHS[0], "height": HEIGHT}) as context:
        page = context.new_page()
        for name, path in pages.items():
            if only not in name:
                continue
            page.goto(path)
            page.wait_for_load_state("networkidle")
            if name.endswith(OPENED):
                page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": HEIGHT})
                for scheme in SCHEMES:
                    page.emulate_media(color_scheme=scheme)
                    page.evaluate(DRAWN)
                    page.screenshot(path=str(folder / f"{name}-{width}-{scheme}.png"), full_page=True)
                wide, tall = page.evaluate(
                    "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
                )
                print(f"{name:20} {width:5} {tall:6} px{' TOO WIDE' * (wide > width)}", flush=True)


def register(store: Store) -> None:
    """An application of which nothing else is known yet."""
    with store.begin() as session:
        register_application(session, "shop", CLICKS.describe("shop"), "ana", NOW)


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
