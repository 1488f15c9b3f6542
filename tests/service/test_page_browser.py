"""The service's pages in a real, headless browser: clicks, charts, keyboard, refusals."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.service.browsed import PERSON, Site, browsing
from tests.service.chromium import NEEDS_BROWSER, browser, looking
from tests.service.http_server import running
from tests.service.identity_provider import make_key, providing
from tests.service.made_decisions import CLICKS, NOW
from tests.service.showcase import WHY, furnish
from tuner.service.access.envelope import wrap
from tuner.service.access.oidc_provider import OpenIdProvider
from tuner.service.app import make_app, release_agents
from tuner.service.exchange.services import Settings
from tuner.service.page.address import link_application
from tuner.service.page.application_page import TABS
from tuner.store.applications import add_application
from tuner.store.audit_log import add_event, list_events
from tuner.store.connection import open_store
from tuner.store.decisions import save_decisions
from tuner.store.records import DecisionRecord, EventRecord

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser"]
LONG = "word" * 200
PATHS = (
    *(f"/applications/clicks?tab={tab}" for tab in TABS),
    *("/", "/applications/payments", "/explain?app=clicks", "/objectives/2?app=payments"),
    *("/runs/1?app=clicks", "/trials/3?app=clicks", "/login", "/applications/nowhere", link_application(LONG)),
)

pytestmark = NEEDS_BROWSER


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    store = open_store(tmp_path_factory.mktemp("browser") / "tuner.db")
    furnish(store, 4000)
    with store.begin() as session:
        add_application(
            session, LONG, replace(CLICKS, rates={f"{LONG}{i}": 300.0 for i in "ab"}, edges=()).describe(LONG), NOW
        )
        add_event(session, EventRecord(LONG, NOW, LONG, LONG, LONG))
        save_decisions(
            session, [DecisionRecord(LONG, f"{LONG}a", NOW - 60.0, "HELD", LONG, seen={"deployment": {LONG: 1}})]
        )
    with browsing(store) as found:
        yield found
    store.close()


def rows(page: Page) -> list[str]:
    return page.locator("table.decisions tbody tr").all_inner_texts()


@pytest.mark.parametrize("scripts", [True, False])
def test_decisions_are_filtered_and_the_link_says_so_in_another_tab(
    browser: Browser, site: Site, scripts: bool
) -> None:
    with looking(browser, site, java_script_enabled=scripts) as context:
        page = context.new_page()
        page.goto("/")
        page.get_by_role("link", name="clicks").click()
        page.get_by_role("link", name="Decisions", exact=True).click()
        for kind in ("scaled", "actuation failed", "dry run"):
            page.get_by_label(kind).uncheck()
        page.locator("form.filters select[name=operator]").select_option("enrich")
        page.get_by_role("button", name="Filter").click()
        page.wait_for_url("**kind=BLOCKED**")
        asked = parse_qs(urlsplit(page.url).query)
        assert asked["kind"] == ["BLOCKED"]
        assert asked["operator"] == ["enrich"]
        found = rows(page)
        assert found
        assert all("blocked" in row and "enrich" in row and "cooldown" in row for row in found)
        again = context.new_page()
        again.goto(page.url)
        assert rows(again) == found
        assert again.get_by_label("blocked").is_checked()
        again.locator("table.decisions tbody a").first.click()
        again.wait_for_url("**/explain?**")
        assert "cooldown" in again.locator("main").inner_text()


def test_it_is_dark_for_who_likes_it_dark(browser: Browser, site: Site) -> None:
    found = {}
    for scheme in ("light", "dark"):
        with looking(browser, site, color_scheme=scheme) as context:
            page = context.new_page()
            page.goto("/applications/clicks")
            style = "const s = getComputedStyle(document.body); [s.backgroundColor, s.color]"
            found[scheme] = [brightness(colour) for colour in page.evaluate(style)]
    assert found["light"][0] > 200 > 100 > found["light"][1]
    assert found["dark"][0] < 50 < 180 < found["dark"][1]


def brightness(colour: str) -> float:
    return sum(float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]) / 3.0


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_screen_and_nothing_fails(browser: Browser, site: Site, width: int) -> None:
    with looking(browser, site, viewport={"width": width, "height": 900}) as context:
        page = context.new_page()
        faults: list[str] = []
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: faults.append(request.url) if not is_own(request.url, site) else None)
        for path in PATHS:
            faults.clear()
            page.goto(path)
            page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert all("404" in fault for fault in faults), (path, faults)


def is_own(url: str, site: Site) -> bool:
    return url.startswith((site.url, "data:"))


def test_a_person_rolls_back_by_keyboard_and_sees_who_did_it_and_why(browser: Browser, site: Site) -> None:
    with looking(browser, site) as context:
        page = context.new_page()
        page.goto("/applications/clicks?tab=rollout")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.locator("summary", has_text="Roll back").focus()
        page.keyboard.press("Enter")
        form = page.locator("form[action='/act/rollback']")
        form.get_by_role("button", name="Roll back").click()  # without a word why the browser does not send it
        assert urlsplit(page.url).path == "/applications/clicks"
        assert page.evaluate("document.querySelector(\"form[action='/act/rollback']\").checkValidity()") is False
        form.get_by_label("Why").focus()
        page.keyboard.type("the new bounds made orders late")
        page.keyboard.press("Enter")
        page.wait_for_url("**/applications/clicks?tab=rollout")
        page.locator("h1 .badge", has_text="rolled back").wait_for()
        page.get_by_role("link", name="Events").click()
        event = page.locator("section, table").locator("tr", has_text="the new bounds made orders late").inner_text()
        assert PERSON in event
        assert "rolled back" in event
    with site.store.read() as session:
        assert list_events(session, "clicks", limit=1)[0].what == "rolled back"


def test_the_reason_of_an_earlier_rollback_is_there_to_read(browser: Browser, site: Site) -> None:
    with looking(browser, site) as context:
        page = context.new_page()
        page.goto("/")
        page.get_by_role("link", name="objective 2").last.click()
        page.wait_for_url("**/objectives/2?app=payments")
        assert WHY in " ".join(page.locator("main").inner_text().split())


def test_a_form_of_another_site_is_refused(browser: Browser, site: Site) -> None:
    """Another port is another origin but the same site, so that the browser does send the cookie."""
    with looking(browser, site) as context, serving(forge(site)) as elsewhere:
        page = context.new_page()
        with page.expect_response("**/act/rollback") as sent:
            page.goto(elsewhere)
        assert sent.value.status == 403
        assert "tuner=" in (sent.value.request.all_headers().get("cookie") or "")
    with site.store.read() as session:
        assert not any("forged" in event.message for event in list_events(session, limit=None))


def forge(site: Site) -> bytes:
    return (
        f"<form method=post action='{site.url}/act/rollback'><input name=app value=payments>"
        "<input name=why value=forged></form><script>document.forms[0].submit()</script>"
    ).encode()


@contextmanager
def serving(body: bytes) -> Iterator[str]:
    """A page of somebody else's."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Elsewhere, body))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


class Elsewhere(BaseHTTPRequestHandler):
    def __init__(self, body: bytes, *arguments: Any) -> None:
        self.body = body
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *arguments: Any) -> None:
        """Nothing to the terminal."""


def test_after_the_log_out_even_the_old_cookie_opens_nothing(browser: Browser, site: Site) -> None:
    with looking(browser, site) as context:
        page = context.new_page()
        page.goto("/applications/payments")
        kept = context.cookies()
        assert [(c["name"], c["httpOnly"], c["sameSite"]) for c in kept] == [("tuner", True, "Strict")]
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/login")
        context.add_cookies(kept)
        page.goto("/applications/payments")
        assert urlsplit(page.url).path == "/login"


def test_charts_show_values_under_linked_cursors_and_zoom_together(browser: Browser, site: Site) -> None:
    from playwright import sync_api

    with looking(browser, site, viewport={"width": 1280, "height": 1200}) as context:
        page = context.new_page()
        page.goto("/applications/clicks#seen")
        charts = page.locator("figure.chart.drawn")
        charts.nth(1).wait_for()
        first, second = (charts.nth(i).locator(".u-legend .u-value") for i in (0, 1))
        assert not any(value.is_visible() for value in first.all())  # names alone, as long as nothing is pointed at
        charts.nth(0).locator(".u-over").hover(position={"x": 600, "y": 60})
        sync_api.expect(first.first).to_have_text(re.compile("UTC$"))
        moments = [values.first.inner_text() for values in (first, second)]
        assert moments[0] == moments[1]
        assert re.fullmatch(r"2026-03-\d\d \d\d:\d\d UTC", moments[0])
        assert float(second.nth(1).inner_text()) > 0.0  # replicas
        box = charts.nth(0).locator(".u-over").bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 300.0, box["y"] + 50.0)
        page.mouse.down()
        page.mouse.move(box["x"] + 400.0, box["y"] + 50.0, steps=5)
        page.mouse.up()
        charts.nth(1).locator(".u-over").hover(position={"x": 5, "y": 60})
        assert first.first.inner_text() == second.first.inner_text() > "2026-03-11 18:00 UTC"


def test_times_are_local_with_utc_under_the_pointer(browser: Browser, site: Site) -> None:
    with looking(browser, site, timezone_id="America/New_York") as context:
        page = context.new_page()
        page.goto("/objectives/2?app=payments")
        moment = page.locator("main time").first
        assert moment.inner_text() == "2026-03-12 04:20"
        assert moment.get_attribute("title") == "2026-03-12 08:20:00 UTC"
        assert "America/New_York" in page.locator("footer").inner_text()


def test_fields_of_forms_are_local_and_sent_in_utc(browser: Browser, site: Site) -> None:
    with looking(browser, site, timezone_id="America/New_York") as context:
        page = context.new_page()
        page.goto("/applications/clicks?since=2026-03-12T10:00&until=2026-03-12T12:00&tab=decisions")
        since = page.get_by_label("From, local time")
        assert since.input_value() == "2026-03-12T06:00"
        since.fill("2026-03-12T05:30")
        page.get_by_role("button", name="Filter").click()
        page.wait_for_url("**since=2026-03-12T09%3A30**")
        assert parse_qs(urlsplit(page.url).query)["until"] == ["2026-03-12T12:00"]
        assert page.get_by_label("From, local time").input_value() == "2026-03-12T05:30"


def test_without_scripts_charts_are_tables(browser: Browser, site: Site) -> None:
    with looking(browser, site, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto("/applications/clicks")
        table = page.locator("figure.chart > table").first
        assert table.is_visible()
        assert "mean" in table.inner_text()


def test_person_logs_in_at_another_site_and_comes_back(browser: Browser, tmp_path: Path) -> None:
    """Browsers send the session's cookie on no way that began at another site; a page in between begins a new one."""
    store = open_store(tmp_path / "tuner.db")
    with closing(store), providing(make_key("first"), "localhost") as provider:
        app = make_app(store, Settings(provider=OpenIdProvider(provider.settings)))
        app.add_middleware(wrap)
        with running(app, on_stop=lambda: release_agents(app)) as url:
            context = browser.new_context(base_url=url, java_script_enabled=False)
            page = context.new_page()
            page.goto("/?after=shop")
            page.get_by_role("link", name="Log in with Example").click()
            page.get_by_role("heading", name="All applications").wait_for()
            assert page.url == f"{url}/?after=shop"
            assert [(c["name"], c["httpOnly"], c["sameSite"]) for c in context.cookies()] == [("tuner", True, "Strict")]
            page.get_by_role("button", name="Log out").click()
            page.wait_for_url("**/login")
            context.close()
