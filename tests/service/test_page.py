"""Pages of the service show what the database holds, whatever its names are."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from importlib import metadata
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import update

from scaler.model.task import Weights
from tests.service.browsed import Seen, Site, browsing
from tests.service.made_decisions import CLICKS, DAY, HOUR, NOW
from tests.service.showcase import WHY, furnish
from tuner.history.qos_history import load_slots, measure_qos
from tuner.retuning.loop import run_once
from tuner.rollout.retuning_settings import RetuningSettings
from tuner.rollout.stage_checks import check_stage
from tuner.service.page.address import SPANS, link_explanation
from tuner.service.page.application_page import TABS
from tuner.service.page.decision_page import CHANGES, DECISIONS_PER_PAGE
from tuner.service.page.overview_order import APPLICATIONS_PER_PAGE
from tuner.service.page.overview_page import describe
from tuner.store.applications import add_application, load_application
from tuner.store.audit_log import add_event
from tuner.store.connection import open_store
from tuner.store.decisions import list_decisions, save_decisions
from tuner.store.objectives import add_objective, load_objective
from tuner.store.orders import save_scalers
from tuner.store.records import DecisionRecord, EventRecord, ObjectiveRecord, Scaler
from tuner.store.tables import RUNS, TRIALS
from tuner.store.trials import TrialFilter, list_trials, load_repeats

PAGES = (
    *("/", "/applications/clicks", "/applications/clicks?last=30d&kind=BLOCKED&kind=HELD", "/applications/payments"),
    *(f"/applications/clicks?tab={tab}" for tab in TABS if tab),
    *("/applications/fraud%20scores?last=6h", "/objectives/2?app=payments", "/objectives/3?app=clicks"),
    "/runs/1?app=clicks",
    *(
        "/runs/1?app=clicks&tab=trials&sort=price&way=down&page=2",
        "/runs/1?app=clicks&tab=model",
        "/trials/7?app=clicks",
        "/explain?app=clicks&operator=parse&at=1773325140",
        "/explain?app=payments",
        "/applications/clicks?since=2026-03-01&until=2026-03-02",
    ),
)
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>"
HOSTILE = (
    *(MARKUP, "\"><svg onload='x'>", "../../etc/passwd", "a/b?c=d&e#f", "%2e%2e%2f", "..", "{{ 7*7 }}{% raw %}"),
    *("';DROP TABLE decisions;--", "\u202eright to left\u202c שלום", "🙂" * 40, "long" * 200, "tab\tand\nline"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """What no test changes."""
    store = open_store(tmp_path_factory.mktemp("page") / "tuner.db")
    furnish(store, 36_000)  # back to before the first tuned objective
    with browsing(store) as found:
        yield found
    store.close()


def test_every_page_answers_on_every_database(changed: Site) -> None:
    for path in PAGES:
        changed.see(path)


@pytest.mark.parametrize("path", [*PAGES, "/applications/nowhere", "/login"])
def test_a_page_is_whole_and_usable_without_sight_mouse_or_scripts(site: Site, path: str) -> None:
    answer = site.client.get(path)
    page = Seen(answer.text)
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    assert all(attrs["src"].startswith("/static/page.js") for attrs in page.all("script") if attrs.get("src"))
    assert len(page.all("script")) == 1
    assert not re.search(r"https?://|@import|url\(", page.text)
    assert not any("nan" in (attrs.get("d") or "") or "inf" in (attrs.get("d") or "") for attrs in page.all("path"))
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("h1")) == 1
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    own = re.sub(r"<table><thead>.*?</table>", "", page.text)  # those of the reports have heads of columns alone
    assert all(attrs.get("scope") in ("row", "col") for attrs in Seen(own).all("th"))
    assert all(attrs.get("aria-label") for attrs in page.all("svg") if attrs.get("role") == "img")
    charts = [attrs for attrs in page.all("figure") if "data-chart" in attrs]
    assert all(attrs.get("aria-label") and json.loads(attrs["data-chart"] or "")["series"] for attrs in charts)
    assert len(charts) == len(re.findall(r'class="canvas"></div><table>', page.text))
    assert all(attrs.get("datetime") == attrs.get("title") for attrs in page.all("time"))
    for form in re.findall(r'<form method="post" action="/(?:act|logout).*?</form>', page.text):
        assert 'name="csrf"' in form
    unlabelled = re.sub(r"<label.*?</label>", "", page.text, flags=re.S)
    assert all(attrs.get("type") == "hidden" for attrs in Seen(unlabelled).all("input"))


def test_the_overview_says_how_each_application_stands(site: Site) -> None:
    page = site.see("/")
    with site.store.read() as session:
        described = describe(load_application(session, "fraud scores").document)
        assert described.shape is not None
        assert described.qos is not None
        slots = load_slots(session, "fraud scores", ("features", "score"), NOW - DAY, NOW)
        seen = measure_qos(slots, described.shape, described.qos)
    assert seen.violations is not None
    assert f"{100 * seen.violations:.3g} % 5 % allowed" in page.said
    for told in ("canary objective 3", "2 in full use", "rolled back objective 2", "1 of 2", "62 % off", WHY):
        assert told in page.said
    assert "before tuning" in page.said
    assert "1 with more violations than allowed" in page.said
    assert "1 with silent agents" in page.said


def test_an_overview_without_applications_says_how_to_begin(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = open_store(tmp_path_factory.mktemp("empty") / "tuner.db")
    with closing(store), browsing(store) as site:
        said = site.see("/").said
    assert "tuner init events/ --app shop tuner app add shop shop.toml --r-max 6s" in said
    assert "last 24 hours" not in said


def test_a_search_that_finds_nothing_says_for_what(site: Site) -> None:
    assert "0 applications of 3" in site.see("/?search=orders").said
    assert "No application has “orders” in its name." in site.see("/?search=orders").said
    silent = site.see("/?search=clicks&show=silent").said
    assert "No application with silent agents has “clicks” in its name." in silent


def list_names(page: Seen) -> list[str]:
    """The applications of the overview, in its order."""
    return re.findall(r'<th scope="row"><a href="[^"]*"><bdi>(.*?)</bdi>', page.text)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["clicks", "fraud scores", "payments"]),
        ("search=ScOr", ["fraud scores"]),
        ("way=turned", ["payments", "fraud scores", "clicks"]),
        ("sort=price", ["clicks", "payments", "fraud scores"]),
        ("sort=price&way=turned", ["fraud scores", "payments", "clicks"]),
        ("sort=violations", ["fraud scores", "payments", "clicks"]),
        ("sort=surrogate", ["fraud scores", "payments", "clicks"]),
        ("sort=event", ["fraud scores", "clicks", "payments"]),
        ("show=silent", ["fraud scores"]),
        ("show=doubtful&sort=price", ["payments", "fraud scores"]),
        ("show=rollout", ["clicks"]),
        ("show=violations&search=clicks", []),
    ],
)
def test_the_overview_is_searched_filtered_and_sorted_by_link(site: Site, query: str, names: list[str]) -> None:
    page = site.see(f"/?{query}")
    assert list_names(page) == names
    for link in re.findall(r'<th scope="col"[^>]*><a href="(.*?)">', page.text):
        link = link.replace("&amp;", "&")
        assert len(list_names(site.see(link))) == len(names)  # a head sorts what is shown, and loses no filter
    assert bool(names) == ("No application with" not in page.said)


def test_pages_of_the_overview_hold_every_application_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = open_store(tmp_path_factory.mktemp("many") / "tuner.db")
    names = [f"stream {i:03}" for i in range(2 * APPLICATIONS_PER_PAGE + 1)]
    with store.begin() as session:
        for name in names:
            add_application(session, name, CLICKS.describe(name), NOW)
    with browsing(store) as site:
        found, path = [], "/?search=stream"
        while path:
            page = site.see(path)
            found += list_names(page)
            (path,) = page.links("after=") or [""]
        assert found == names
        assert list_names(site.see("/?way=turned")) == names[::-1]
    store.close()


def test_an_application_without_agents_is_not_called_silent(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = open_store(tmp_path_factory.mktemp("new") / "tuner.db")
    with store.begin() as session:
        add_application(session, "new", CLICKS.describe("new"), NOW)
    with browsing(store) as site:
        assert "none attached" in site.see("/").said
        assert "0 with silent agents" in site.see("/").said
        assert "none is attached yet" in site.see("/applications/new").said
    store.close()


def test_the_page_of_an_application_says_what_happened_and_why(site: Site) -> None:
    page = site.see("/applications/payments")
    assert WHY in page.said
    assert "rolled back" in page.said
    assert WHY in site.see("/applications/payments?tab=rollout").said
    assert WHY in site.see("/applications/payments?tab=events").said
    assert page.text.count('class="box"') == 2
    for name in ("validate", "book"):
        assert f"Operator {name}" in page.said
        assert f"Response time of {name}" in page.text
        assert f"Replicas of {name} by node type, recommended and running, on the arrival rate" in page.text
    assert "the sink is being migrated" in site.see("/applications/clicks").said


def test_decisions_are_filtered_and_every_link_keeps_the_filters(site: Site) -> None:
    path = "/applications/clicks?tab=decisions&kind=SCALED&kind=HELD&operator=parse&last=7d"
    with site.store.read() as session:
        window = (NOW - SPANS["7d"], NOW)
        wanted = list_decisions(session, "clicks", ["parse"], ["SCALED", "HELD"], *window, limit=None)
    found: list[str] = []
    while path:
        page = site.see(path)
        found += page.links("/explain?")
        assert {attrs["value"] for attrs in page.all("input") if "checked" in attrs} == {"SCALED", "HELD"}
        older = page.links("after=")
        asked = parse_qs(urlsplit(older[0]).query) if older else {}
        assert not older or (asked["kind"], asked["operator"], asked["last"]) == (
            *(["SCALED", "HELD"], ["parse"]),
            ["7d"],
        )
        path = older[0] if older else ""
    assert found == [link_explanation("clicks", "parse", decision.time) for decision in wanted]
    assert len(found) > 2 * DECISIONS_PER_PAGE


def test_changes_and_blocks_are_listed_unless_all_are_asked_for(site: Site) -> None:
    page = site.see("/applications/clicks?tab=decisions")
    with site.store.read() as session:
        usual = list_decisions(session, "clicks", None, CHANGES, NOW - DAY, NOW, None)
        every = list_decisions(session, "clicks", None, None, NOW - DAY, NOW, DECISIONS_PER_PAGE)
    first = usual[:DECISIONS_PER_PAGE]
    assert page.links("/explain?") == [link_explanation("clicks", one.operator, one.time) for one in first]
    assert not any(one.kind in ("NO_CHANGE", "HELD") for one in usual)
    (onward,) = page.links("kind=all")
    assert site.see(onward).links("/explain?") == [link_explanation("clicks", d.operator, d.time) for d in every]


def test_a_tab_keeps_the_time_range_and_says_which_it_is(site: Site) -> None:
    page = site.see("/applications/clicks?last=7d")
    (decisions,) = [link for link in page.links("tab=decisions") if "last=7d" in link]
    tab = site.see(decisions)
    assert [a["href"] for a in tab.all("a") if a.get("aria-current") == "page"] == [decisions]
    assert {s["value"] for s in tab.all("option") if "selected" in s} == {"7d"}


def test_charts_show_batches_marks_and_gaps(site: Site) -> None:
    page = site.see("/applications/clicks")
    charts = [json.loads(figure["data-chart"] or "") for figure in page.all("figure") if "data-chart" in figure]
    titled = {chart["title"]: chart for chart in charts}
    rates, lasted = (titled[f"{title} of every operator"] for title in ("Input and processing rate", "Batch duration"))
    assert [one["label"] for one in rates["series"]] == [
        f"{kind}, {name}" for kind in ("input", "processing") for name in CLICKS.rates
    ]
    assert all(2.0 < value < 12.0 for value in lasted["series"][0]["values"] if value is not None)
    x = lasted["x"]
    quiet = [x["first"] + i * x["step"] for i, value in enumerate(lasted["series"][0]["values"]) if value is None]
    assert 25 <= len(quiet) <= 31  # an hour in columns of two minutes
    assert all(NOW - 9.05 * HOUR <= time <= NOW - 7.95 * HOUR for time in quiet)
    for chart in charts:
        assert [(mark["label"], mark["at"]) for mark in chart["marks"]] == [
            ("objective 3: canary", NOW - 5 * HOUR), ("pin join", NOW - 2 * HOUR),
        ]  # fmt: skip
    assert {"Backlog of parse", "Batch duration of parse", "Response time of parse"} <= set(titled)


def test_charts_begin_and_end_with_the_data(site: Site) -> None:
    page = site.see("/applications/clicks?last=30d")
    (chart,) = [json.loads(f["data-chart"] or "") for f in page.all("figure")
                if f.get("aria-label") == "Response time of the slowest path"]  # fmt: skip
    assert NOW - 6.3 * DAY < chart["x"]["first"] < NOW - 6.2 * DAY  # of 9,000 slots
    assert "Nothing is known before 2026-03-06" in page.said


def test_what_a_canary_sees_is_its_stages_check(site: Site) -> None:
    part = site.see("/candidate?app=clicks")
    with site.store.read() as session:
        verdict = check_stage(session, load_objective(session, "clicks", 3), RetuningSettings(), NOW)
    assert verdict.why in part.said
    assert f"{verdict.figures.slots} of {RetuningSettings().canary_slots} wanted" in part.said
    assert {parse_qs(urlsplit(link).query)["operator"][0] for link in part.links("/explain?")} == {"parse"}
    assert "No objective is in shadow or a canary now" in site.see("/candidate?app=payments").said


def test_decisions_of_one_objective_or_of_a_stretch_of_time(site: Site) -> None:
    page = site.see(
        "/applications/clicks?tab=decisions&kind=all&version=2&since=2026-03-12T08:00&until=2026-03-12T08:05"
    )
    assert len(page.links("/explain?")) == 5 * len(CLICKS.rates)
    none = "No decision of these kinds under objective 7 in this time range."
    assert none in site.see("/applications/clicks?tab=decisions&version=7").said
    times = {attrs["datetime"] for attrs in page.all("time") if (attrs["datetime"] or "").startswith("2026-03-12T08:0")}
    assert times == {f"2026-03-12T08:0{minute}:00Z" for minute in range(6)}  # and the end of the stretch


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/applications/nowhere", 404, "there is no application 'nowhere'"),
        ("/applications/clicks?kind=SOME", 400, "kind is 'SOME', and must be one of SCALED"),
        ("/?show=moon", 400, "show is 'moon', and must be one of"),
        ("/?sort=seed", 400, "sort is 'seed', and must be one of"),
        ("/?way=down", 400, "way is 'down', and must be turned"),
        ("/applications/clicks?tab=moon", 400, "tab is 'moon', and must be one of"),
        ("/candidate?app=nowhere", 404, "there is no application 'nowhere'"),
        ("/applications/clicks?last=9d", 400, "last is '9d', and must be one of 6h"),
        ("/applications/clicks?since=soon", 400, "since is 'soon', and must be a time like"),
        ("/applications/clicks?since=2026-03-12&until=2026-03-11", 400, "since must lie before until"),
        ("/applications/clicks?version=x", 400, "version is 'x'"),
        ("/applications/clicks?after=x~parse", 400, "after is 'x~parse'"),
        ("/applications/clicks?before=x", 400, "before is 'x'"),
        ("/applications/a%00b", 400, "NUL"),
        ("/runs/99?app=clicks", 404, "has no tuning run 99; tuner runs clicks"),
        ("/runs/1?app=clicks&sort=seed", 400, "sort is 'seed', and must be one of trial"),
        ("/runs/1?app=clicks&tab=moon", 400, "tab is 'moon'"),
        ("/runs/1?app=clicks&page=0", 400, "page is '0'"),
        ("/trials/99999999999999?app=clicks", 404, "there is no trial"),
        ("/objectives/9?app=clicks", 404, "has no objective 9"),
    ],
)
def test_a_wrong_link_gets_one_sentence(site: Site, path: str, status: int, says: str) -> None:
    assert says in site.see(path, status).said


@pytest.mark.parametrize(
    ("method", "path", "status", "heading"),
    [
        ("GET", "/nothing", 404, "There is nothing here"),
        ("GET", "/static/other.js", 404, "There is nothing here"),
        ("POST", "/", 405, "That did not work"),
        ("POST", "/act/tune", 403, "This is not allowed"),
    ],
)
def test_an_error_is_a_page_for_browsers_and_json_for_programs(
    site: Site, method: str, path: str, status: int, heading: str
) -> None:
    as_page = site.client.request(method, path, headers={"Accept": "text/html,*/*;q=0.8"})
    assert as_page.status_code == status
    page = Seen(as_page.text)
    assert f"<h1>{heading}</h1>" in page.text
    assert 'class="brand"' in page.text
    assert "openapi" not in page.said
    as_json = site.client.request(method, path)
    assert as_json.status_code == status
    assert as_json.headers["content-type"] == "application/problem+json"
    assert as_page.headers.get("allow") == as_json.headers.get("allow")


def test_programs_paths_answer_json_whatever_they_accept(site: Site) -> None:
    answer = site.client.get("/v1/nothing", headers={"Accept": "text/html"})
    assert answer.headers["content-type"] == "application/problem+json"


def test_every_page_names_the_product_its_version_and_the_guide(site: Site) -> None:
    version = metadata.version("stream-scaler")
    for path in ("/", "/login", "/applications/clicks", "/nothing"):
        page = Seen(site.client.get(path, headers={"Accept": "text/html"}).text)
        assert f"stream-scaler {version}" in page.said
        assert page.links("/guide") == ["/guide"]


def test_trials_are_sorted_and_paged_by_link(site: Site) -> None:
    page = site.see("/runs/1?app=clicks&tab=trials&sort=price&way=down")
    first = [int(link.rpartition("/")[2].partition("?")[0]) for link in page.links("/trials/")]
    assert len(first) == DECISIONS_PER_PAGE
    (onward,) = page.links("page=2")
    rest = [int(link.rpartition("/")[2].partition("?")[0]) for link in site.see(onward).links("/trials/")]
    assert len({*first, *rest}) == 61
    assert [attrs["aria-sort"] for attrs in page.all("th") if "aria-sort" in attrs] == ["descending"]
    assert "/runs/1?app=clicks&sort=price&tab=trials" in page.links()  # the other way round


def test_a_run_shows_its_result_and_what_the_model_says(site: Site) -> None:
    for head in ("Tuned beside equal shares", "The best so far", "Price against violations"):
        assert head in site.see("/runs/1?app=clicks").said
    model = site.see("/runs/1?app=clicks&tab=model")
    for said in ("What price and violations depend on", "All trials", "left out in turn", "R²",
                 *(f"share of {name}" for name in CLICKS.rates), "weight of violations over resources"):  # fmt: skip
        assert said in model.said
    assert "Price per hour: observed against predicted without the trial" in model.text


def test_the_trial_that_became_an_objective_is_marked(site: Site) -> None:
    page = site.see("/runs/1?app=clicks&tab=trials")
    (row,) = re.findall(r'<tr class="best">.*?</tr>', page.text)
    (trial,) = re.findall(r'href="(/trials/[^"]+)"', row)
    assert "/objectives/2?app=clicks" in row
    assert "Objective 2 was made of it." in site.see(trial).said
    assert "{}" not in site.see(trial).said


def test_a_verification_names_its_trial_by_number(site: Site) -> None:
    with site.store.read() as session:
        trials = list_trials(session, TrialFilter("clicks"))
        one = next(trial for trial in trials if trial.about.of is not None)
        repeated = load_repeats(session, [one.run_id]).find_repeated(one)
    assert repeated is not None
    assert repeated.ordinal != one.about.of
    verification, verified = (site.see(f"/trials/{trial.ordinal}?app=clicks") for trial in (one, repeated))
    assert f"This verifies trial {repeated.ordinal} on fresh seeds" in verification.said
    assert f"/trials/{repeated.ordinal}?app=clicks" in verification.links()
    assert f"its verified price, which objectives show): trial {one.ordinal}" in verified.said
    assert f"/trials/{one.ordinal}?app=clicks" in verified.links()


def test_a_link_without_an_application_says_what_is_missing(site: Site) -> None:
    for place in ("/runs/1", "/trials/1", "/objectives/1", "/explain", "/candidate"):
        page = site.see(place, 400)
        assert f"the link names no application; add it, as in {place}?app=NAME" in page.said


def test_a_time_without_a_slot_leads_to_the_slots_beside(site: Site) -> None:
    early = site.see("/explain?app=clicks&operator=parse&at=1673325140")
    assert "This is before the first stored slot of parse" in early.said
    assert "--at" not in early.said
    (link,) = (found for found in early.links("/explain?") if "operator=parse" in found)
    assert "no decision" not in site.see(link).said


def test_retuning_is_paused_or_resumed_not_both(changed: Site) -> None:
    forms = changed.see("/applications/clicks?tab=tuning").acts()
    assert {"/act/tune", "/act/pause"} <= forms
    assert "/act/resume" not in forms
    assert changed.send("/act/pause", app="clicks", why="a sale").status_code == 303
    assert {"/act/tune", "/act/resume"} <= changed.see("/applications/clicks?tab=tuning").acts()
    run_once(changed.store, lambda: NOW)
    page = changed.see("/applications/clicks?tab=tuning")
    assert "/act/pause" not in page.acts()
    assert "Paused by <b>Ann</b>" in page.said


def test_a_run_without_trials_yet_has_a_page(changed: Site) -> None:
    from tuner.store.records import TuningRun
    from tuner.store.runs import start_run

    with changed.store.begin() as session:
        run = start_run(session, TuningRun(1, "gp", 0, 10, NOW), "me", NOW)
    place = f"/runs/{run.ordinal}?app=clicks"
    assert all("no trial has ended" in changed.see(f"{place}&tab={tab}").said for tab in ("", "model"))


def test_what_is_not_numbered_yet_is_shown_without_links(changed: Site) -> None:
    """Runs and trials of a program of the schema before have no number until a newer one writes."""
    shown = []
    for table, path in (
        (TRIALS, "/runs/1?app=clicks&tab=trials"),
        (RUNS, "/applications/clicks?tab=tuning"),
        (RUNS, "/objectives/3?app=clicks"),
    ):
        with changed.store.begin() as session:
            session.execute(update(table.table).values(application_id=None, ordinal=None))
        shown.append(changed.see(path))
    assert not any("None" in (attrs.get("href") or "") for page in shown for attrs in page.all("a"))
    assert all(re.search(r'<th scope="row">\s*-\s*</th>', page.text) for page in shown[:2])
    assert "trial - of run -" in shown[2].said


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_shown_and_does_nothing(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    store = open_store(tmp_path_factory.mktemp("hostile") / "tuner.db")
    with store.begin() as session:
        document = CLICKS.describe(name)
        for operator in document["application"]["operator"]:
            operator["name"] = f"{name}{operator['name']}"
        document["application"].pop("edge")
        operator = document["application"]["operator"][0]["name"]
        add_application(session, name, document, NOW)
        add_event(session, EventRecord(name, NOW, name, name, name, {name: name}))
        add_objective(
            session,
            ObjectiveRecord(
                name, Weights(0.5, 0.25, 0.25), {operator: 1.0}, NOW, provenance=name, evidence={name: name}
            ),
        )
        save_scalers(session, [Scaler(name, operator, name, NOW, NOW)])
        seen = {"deployment": {name: 1}, "utilisation": name}
        one = DecisionRecord(name, operator, NOW - 60.0, "SCALED", name, f"+1 {name}", 1, 5.0, 0.01, 0.02, 1.0, seen)
        save_decisions(
            session, [one, replace(one, time=NOW - 120.0, rate=math.inf, response=-1e300, seen={"deployment": []})]
        )
    with browsing(store) as site:
        page = site.see("/")
        (link,) = page.links("/applications")
        shown = site.see(link)
        joint = "&" if "?" in link else "?"
        tabs = [site.see(f"{link}{joint}tab={tab}&kind=all") for tab in TABS if tab]
        assert " ".join(name.split()) in shown.said
        listed, stages = tabs[0], tabs[1]
        for seen_page in (
            page,
            shown,
            *tabs,
            *(site.see(to) for to in (*stages.links("/objectives/"), listed.links("/explain?")[0])),
        ):
            assert len(seen_page.all("script")) == 1
            assert not seen_page.all("img")
            assert "49" not in re.findall(r">([^<]*)<", seen_page.text)
        assert len(listed.links("/explain?")) == 2
        assert site.see(shown.links("last=6h")[0]).said.startswith(shown.said[:20])
    store.close()


def test_browsers_keep_the_style_for_as_long_as_it_stays_the_same(site: Site) -> None:
    (link,) = [attrs["href"] for attrs in site.see("/").all("link") if attrs["rel"] == "stylesheet"]
    answer = site.client.get(link or "")
    assert "immutable" in answer.headers["cache-control"]
    assert answer.text.count("prefers-color-scheme: dark") == 1
    assert answer.headers["content-type"].startswith("text/css")


@pytest.mark.slow
def test_a_hundred_thousand_decisions_stay_a_small_page(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = open_store(tmp_path_factory.mktemp("large") / "tuner.db")
    furnish(store, 100_000)
    with browsing(store) as site:
        for last in ("24h", "30d"):
            page = site.see(f"/applications/clicks?last={last}")
            assert len(page.text.encode()) < 600_000
            listed = site.see(f"/applications/clicks?tab=decisions&kind=all&last={last}")
            assert len(listed.links("/explain?")) == DECISIONS_PER_PAGE
        rare = site.see("/applications/clicks?tab=decisions&last=30d&kind=ACTUATION_FAILED")
        assert len(rare.links("/explain?")) == 3
    store.close()
