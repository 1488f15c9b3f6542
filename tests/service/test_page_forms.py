"""Forms of the service's pages change what they say, with an event, or are refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from scaler.model.task import Weights
from tests.service.browsed import PERSON, Seen, Site, browsing
from tests.service.made_decisions import DAY, NOW
from tests.service.showcase import MODELS, furnish
from tuner.service.page.application_page import TABS
from tuner.store.audit_log import list_events
from tuner.store.connection import open_store
from tuner.store.objectives import add_objective, list_objectives
from tuner.store.orders import list_controls, load_orders
from tuner.store.records import ObjectiveRecord
from tuner.store.runs import find_retuning


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """What no test changes."""
    store = open_store(tmp_path_factory.mktemp("page") / "tuner.db")
    furnish(store, 400)
    with browsing(store) as found:
        yield found
    store.close()


def test_a_person_pins_lifts_and_asks_and_all_of_it_is_on_record(changed: Site) -> None:
    app = {"app": "payments"}
    before = read_revision(changed)
    sent = changed.send("/act/control", **app, kind="direction_lock", operator="book", only="out", why="a sale  begins")
    assert sent.status_code == 303, sent.text
    assert sent.headers["location"] == "/applications/payments?tab=controls"
    hours = {"from": "08:00", "to": "09:30", "days": "weekdays", "zone": "Europe/Vienna"}
    assert (
        changed.send(
            "/act/control", **app, kind="blocked_hours", until="2026-03-13T00:00", why="w", **hours
        ).status_code
        == 303
    )
    with changed.store.read() as session:
        blocked, locked = list_controls(session, "payments", at=NOW)
        orders = load_orders(session, "payments")
    assert (locked.operator, dict(locked.settings), locked.who, locked.note) == (
        "book",
        {"only": "out"},
        PERSON,
        "a sale begins",
    )
    assert blocked.settings["days"] == ["mon", "tue", "wed", "thu", "fri"]
    assert blocked.until == NOW - NOW % DAY + DAY
    assert orders is not None
    assert orders.revision == before + 2
    assert orders.document["guards"]["book"] == {"direction_lock": {"only": "out"}}
    assert changed.send("/act/lift", **app, kind="direction_lock", operator="book", why="over").status_code == 303
    for word in ("pause", "resume", "tune"):
        assert changed.send(f"/act/{word}", **app, why="to see").status_code == 303
    with changed.store.read() as session:
        events = list_events(session, "payments", limit=6)
        watch = find_retuning(session, "payments")
        assert "direction_lock" not in str(list_controls(session, "payments", at=NOW))
    assert [e.what for e in events] == ["asked", "asked", "asked", "control lifted", "control set", "control set"]
    assert all(e.who == PERSON for e in events)
    assert watch is not None
    assert set(watch.asked) == {"pause", "resume", "tune"}
    assert "a sale begins" in changed.see("/applications/payments?tab=events").said
    assert "asked: pause, resume, tune" in changed.see("/applications/payments").said


def read_revision(site: Site) -> int:
    with site.store.read() as session:
        orders = load_orders(session, "payments")
    return 0 if orders is None else orders.revision


def test_a_person_pushes_a_proposal_and_rolls_it_back(changed: Site) -> None:
    with changed.store.begin() as session:
        bounds, told = {"validate": 0.03, "book": 0.03}, {"model": MODELS["payments"]}
        add_objective(session, ObjectiveRecord("payments", Weights(0.6, 0.2, 0.2), bounds, NOW, evidence=told))
    sent = changed.send("/act/push", app="payments", version="3", stage="canary", why="it looks good")
    assert sent.status_code == 303, sent.text
    assert "canary" in changed.see("/applications/payments").said
    assert 'name="version" value="3"' in changed.client.get("/applications/payments?tab=rollout").text
    sent = changed.send("/act/rollback", app="payments", why="it was not", version="3")
    assert sent.status_code == 303, sent.text
    again = changed.send("/act/rollback", app="payments", why="it was not", version="3")
    assert again.status_code == 409, again.text
    with changed.store.read() as session:
        states = {o.version: o.state for o in list_objectives(session, "payments")}
        back, pushed = list_events(session, "payments", limit=2)
    assert states == {1: "full", 2: "reverted", 3: "reverted"}
    assert (back.what, pushed.what, back.who) == ("rolled back", "pushed", PERSON)
    assert "it was not" in changed.see("/objectives/3?app=payments").said


@pytest.mark.parametrize(
    ("path", "fields", "says"),
    [
        ("control", {"kind": "pin"}, "say why"),
        ("control", {"kind": "pin", "why": "x" * 501}, "why has 501 letters"),
        ("control", {"kind": "dry_run", "why": "w"}, "kind is 'dry_run'"),
        ("control", {"kind": "pin", "operator": "nobody", "why": "w"}, "no operator 'nobody'"),
        ("control", {"kind": "pin", "until": "2020-01-01", "why": "w"}, "which is past"),
        ("control", {"kind": "direction_lock", "only": "up", "why": "w"}, "only"),
        ("control", {"kind": "blocked_hours", "from": "8", "to": "9", "why": "w"}, "time of day"),
        ("control", {"kind": "pin", "why": "a\0b"}, "NUL"),
        ("lift", {"kind": "pin", "operator": "parse", "why": "w"}, "nothing to lift"),
        ("push", {"version": "x", "stage": "full", "why": "w"}, "version is 'x'"),
        ("push", {"version": "2", "stage": "shadow", "why": " "}, "say why"),
        ("push", {"version": "2", "stage": "moon", "why": "w"}, "stage is 'moon'"),
        ("rollback", {"app": "nowhere", "why": "w"}, "nowhere"),
        ("tune", {"app": "", "why": "w"}, "names no application"),
    ],
)
def test_a_wrong_form_changes_nothing_and_gets_one_sentence(
    site: Site, path: str, fields: dict[str, str], says: str
) -> None:
    with site.store.read() as session:
        before = list_events(session, limit=1)
    sent = site.send(f"/act/{path}", **{"app": "clicks", **fields})
    assert sent.status_code in (400, 404), sent.text
    assert says in Seen(sent.text).said
    with site.store.read() as session:
        assert list_events(session, limit=1) == before


def test_who_may_only_look_is_shown_no_forms_and_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = open_store(tmp_path_factory.mktemp("looks") / "tuner.db")
    furnish(store, 40)
    with browsing(store, ("read",)) as site:
        for tab in TABS:
            assert site.see(f"/applications/clicks?tab={tab}").acts() == {"/logout"}
        for path in ("control", "lift", "push", "rollback", "tune", "pause", "resume"):
            assert site.send(f"/act/{path}", app="clicks", kind="pin", why="w").status_code == 403
    store.close()


def test_a_forged_form_is_refused(site: Site) -> None:
    form = {"app": "clicks", "why": "forged"}
    elsewhere = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    right = {**form, "csrf": site.csrf}
    assert site.client.post("/act/rollback", data=right, headers=elsewhere).status_code == 403
    assert site.client.post("/act/rollback", data=form, headers={"Origin": site.url}).status_code == 403
    assert httpx.post(f"{site.url}/act/rollback", data=right, headers={"Origin": site.url}).status_code == 401
    assert "forged" not in site.see("/applications/clicks?tab=events").said


def test_a_wrong_token_gets_the_form_again_and_no_way_elsewhere(site: Site) -> None:
    with httpx.Client(base_url=site.url) as stranger:
        sent = stranger.get("/applications/clicks?kind=HELD")
        assert sent.headers["location"] == "/login?next=/applications/clicks%3Fkind%3DHELD"
        assert (
            Seen(stranger.get(sent.headers["location"]).text).all("input")[0]["value"]
            == "/applications/clicks?kind=HELD"
        )
        wrong = stranger.post("/login", data={"token": "ts_" + "x" * 43, "next": "/"}, headers={"Origin": site.url})
        assert wrong.status_code == 401
        assert "not known" in Seen(wrong.text).said
        away = stranger.post("/login", data={"token": site.token, "next": "//elsewhere"}, headers={"Origin": site.url})
        assert away.headers["location"] == "/"
        assert stranger.get("/static/page.css").status_code == 200
        assert stranger.get("/static/routes.py").status_code == 404
