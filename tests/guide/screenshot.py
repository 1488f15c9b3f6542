"""Take the pictures of the page that README and guide show, light and dark, of the showcase's furnished database.

python -m tests.guide.screenshot
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.service.browsed import browsing
from tests.service.chromium import looking, starting
from tests.service.showcase import furnish
from tuner.store.connection import open_store

FOLDER = Path(__file__).parents[2] / "tuner" / "guide"
PLACE = "/applications/clicks"
DECISIONS = 36_000
SIZE = {"width": 1200, "height": 900}
FROM, UNTIL = "h2:has-text('Graph and charts')", ".chart >> nth=1"  # of the page: its graph and its large charts
MARGIN = 12


def main() -> None:
    with TemporaryDirectory() as place, starting() as browser:
        store = open_store(Path(place) / "tuner.db")
        furnish(store, DECISIONS)
        with browsing(store) as site:
            for scheme in ("light", "dark"):
                with looking(browser, site, viewport=SIZE, color_scheme=scheme) as context:
                    page = context.new_page()
                    page.goto(PLACE)
                    page.wait_for_load_state("networkidle")
                    top, end = (page.locator(one).first.bounding_box() for one in (FROM, UNTIL))
                    assert top is not None
                    assert end is not None
                    height = end["y"] + end["height"] - top["y"] + MARGIN
                    clip = {"x": 0, "y": top["y"], "width": SIZE["width"], "height": height}
                    page.screenshot(path=str(FOLDER / f"page-{scheme}.png"), full_page=True, clip=clip)
        store.close()


if __name__ == "__main__":
    main()
