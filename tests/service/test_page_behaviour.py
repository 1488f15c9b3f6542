"""The page moves in a real browser: live parts, tabs, search, marks and zoom of charts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.service.browsed import Site, browsing
from tests.service.chromium import NEEDS_BROWSER, browser, looking
from tests.service.made_decisions import HOUR, NOW
from tests.service.showcase import furnish
from tuner.store.connection import open_store
from tuner.store.decisions import save_decisions
from tuner.store.records import DecisionRecord

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

__all__ = ["browser"]
pytestmark = NEEDS_BROWSER
HIDE = """hidden => {
  Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    store = open_store(tmp_path_factory.mktemp("behaviour") / "tuner.db")
    furnish(store, 4000)
    with browsing(store) as found:
        yield found
    store.close()


def save_slot(site: Site, before_s: float, reason: str) -> None:
    """One more decision of the canary, as if an agent had just reported it."""
    one = DecisionRecord("clicks", "parse", NOW - before_s, "SCALED", reason, "+1 small", 3, 900.0, 0.019, 0.02, 5.0)
    with site.store.begin() as session:
        save_decisions(session, [one])


def list_slots(page: Page) -> str:
    return page.locator("section.live table").inner_text()


def test_what_a_canary_sees_is_refreshed_in_place_and_not_while_hidden(browser: Browser, site: Site) -> None:
    with looking(browser, site) as context:
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(urlsplit(request.url).path))
        page.clock.install()
        page.goto("/applications/clicks")
        page.evaluate("window.same = true")
        assert "+1 small" not in list_slots(page)
        save_slot(site, 30.0, "one more")
        with page.expect_response("**/candidate?**"):
            page.clock.fast_forward(6_000)
        page.locator("section.live td", has_text="+1 small").wait_for()
        assert page.evaluate("window.same")  # the page was not loaded again
        page.evaluate(HIDE, True)
        asked.clear()
        for _ in range(3):
            page.clock.fast_forward(60_000)
        page.evaluate("fetch('/static/icon.svg').then((answer) => answer.text())")  # all before it would have been sent
        assert asked == ["/static/icon.svg"]
        save_slot(site, 20.0, "when it was hidden")
        with page.expect_response("**/candidate?**"):
            page.evaluate(HIDE, False)
        page.locator("section.live tbody tr:nth-child(2)", has_text="+1 small").wait_for()


def test_a_person_who_is_in_a_live_part_is_left_alone(browser: Browser, site: Site) -> None:
    with looking(browser, site) as context:
        page = context.new_page()
        page.clock.install()
        page.goto("/applications/clicks?tab=rollout")
        link = page.locator("section.live a").first
        link.focus()
        with page.expect_response("**/candidate?**"):
            page.clock.fast_forward(6_000)
        page.evaluate("new Promise((done) => requestAnimationFrame(done))")
        assert link.evaluate("link => link === document.activeElement")


@pytest.mark.parametrize("scripts", [True, False])
def test_tabs_are_links_that_work_by_keyboard_and_without_scripts(browser: Browser, site: Site, scripts: bool) -> None:
    with looking(browser, site, java_script_enabled=scripts) as context:
        page = context.new_page()
        page.goto("/applications/payments?last=7d")
        tabs = page.get_by_role("navigation", name="Parts of this application")
        for name in ("Decisions", "Roll-out", "Controls", "Tuning", "Agents", "Events"):
            tabs.get_by_role("link", name=name).focus()
            page.keyboard.press("Enter")
            page.locator("main h2", has_text=name if name != "Tuning" else "Tuning runs").first.wait_for()
            assert tabs.locator("[aria-current=page]").inner_text() == name
        page.go_back()
        assert tabs.locator("[aria-current=page]").inner_text() == "Agents"


def test_applications_are_searched_and_sorted(browser: Browser, site: Site) -> None:
    with looking(browser, site) as context:
        page = context.new_page()
        page.goto("/")
        names = page.locator("table.overview tbody th")
        page.get_by_label("Name").fill("s")
        page.keyboard.press("Enter")
        page.wait_for_url("**/?search=s")  # what was left empty is not in the link
        page.get_by_role("link", name="price per hour").click()
        page.wait_for_url("**sort=price**")
        assert names.all_inner_texts() == ["clicks", "payments", "fraud scores"]
        page.get_by_label("Show").select_option("silent")
        page.get_by_role("button", name="Search").click()
        page.wait_for_url("**show=silent**")
        assert names.all_inner_texts() == ["fraud scores"]
        assert "sort=price" in page.url


def find_time(chart: Locator, x: float) -> str:
    """What the legend says of the time under the pointer at so many pixels from the left."""
    chart.locator(".u-over").hover(position={"x": x, "y": 60})
    return str(chart.locator(".u-legend .u-value").first.inner_text())


def test_marks_are_told_under_the_pointer_and_a_double_click_shows_all_again(browser: Browser, site: Site) -> None:
    with looking(browser, site, viewport={"width": 1280, "height": 1200}, timezone_id="Asia/Kolkata") as context:
        page = context.new_page()
        page.goto("/applications/clicks")
        chart = page.locator("figure.chart.drawn").first
        chart.locator(".u-over").scroll_into_view_if_needed()
        box = chart.locator(".u-over").bounding_box()
        assert box is not None
        x = chart.evaluate("figure => JSON.parse(figure.dataset.chart).x")
        first, last = (x[0], x[-1]) if isinstance(x, list) else (x["first"], x["first"] + x["step"] * (x["count"] - 1))
        at = box["width"] * (NOW - 5 * HOUR - first) / (last - first)
        told = find_time(chart, at)
        assert "Objective 3 leads operator parse for half of every hour." in told
        assert told.startswith("2026-03-12 14:5")  # five and a half hours ahead
        assert "(09:2" in told
        assert "UTC)" in told
        assert "Objective" not in find_time(chart, at - 60.0)
        whole = find_time(chart, 5.0)
        page.mouse.move(box["x"] + 300.0, box["y"] + 50.0)
        page.mouse.down()
        page.mouse.move(box["x"] + 400.0, box["y"] + 50.0, steps=4)
        page.mouse.up()
        assert find_time(chart, 5.0) > whole
        chart.locator(".u-over").dblclick(position={"x": 200, "y": 60})
        assert find_time(chart, 5.0) == whole
