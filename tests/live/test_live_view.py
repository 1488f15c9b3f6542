"""What the terminal, the page and the status show of a run's decisions, as the manager serves them."""

from __future__ import annotations

import io
import json
import re
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scaler.model.decision import SlotFigures
from scaler.model.errors import BadInput
from tests.commands import refuse, run, succeed
from tests.service.serve_process import add_secret, service
from tests.test_report import Page, check_alone
from tuner.demo.demo_plan import (
    APP,
    BOUNDS,
    COUNT,
    HIGHEST,
    LARGE,
    NIGHT,
    NOON,
    OPERATORS,
    PARSE,
    SLOT_S,
    SPIKE,
    WEIGHTS,
    Plan,
    count_static,
    describe,
    record_days,
    write_line,
)
from tuner.demo.demo_run import Progress, Scene, pursue, read_scene
from tuner.demo.demo_view import PlainLines, draw, showing, write_operator, write_page
from tuner.history.live_status import Manager
from tuner.history.live_status import describe as describe_status
from tuner.store.connection import open_store
from tuner.store.decisions import save_decisions
from tuner.store.orders import save_scalers
from tuner.store.records import DecisionRecord, Scaler

BEGAN = 1_700_000_003.0
FIRST = BEGAN - 3.0
TOTALS = {"lines": 100, "words": 270, "counted": 270, "exact": True}


def decide(slot: int, operator: str, **more: Any) -> dict[str, Any]:
    known = {"rate": 5.0, "response": 2.0, "bound": 5.0, "price": 1.0}
    calm = {"kind": "NO_CHANGE", "reason": "all <b>well</b>", "action": None}
    seen = {"deployment": {"small": 1, "large": 0}}
    return {"time": FIRST + slot * SLOT_S, "operator": operator, **calm, **known, "seen": seen, **more}


DECISIONS = (
    decide(-2, PARSE, reason="before the replay began"),
    decide(0, PARSE),
    decide(0, COUNT, kind="HELD", rate=None, response=None, bound=None, price=None, seen={"deployment": {}}),
    decide(1, PARSE, kind="SCALED", action="+1 large", rate=15.0, response=7.5, reason="late"),
    decide(1, COUNT, response="Infinity"),
    decide(2, PARSE, price=2.7, seen={"deployment": {"small": 1, "large": 1}}),
    decide(2, COUNT),
    decide(9, PARSE, reason="after it ended"),
)


@pytest.fixture
def progress() -> Progress:
    return Progress("streaming", BEGAN, BEGAN + 5.0 * SLOT_S, DECISIONS, TOTALS)


@pytest.fixture
def scene(progress: Progress) -> Scene:
    found = read_scene(progress)
    assert found is not None
    return found


def test_slots_of_the_replay_are_a_scene_and_no_others(scene: Scene) -> None:
    found = sorted(((m.decision.time - FIRST) / SLOT_S, m.operator) for m in scene.moments)
    assert found == [(slot, operator) for slot in range(3) for operator in sorted(OPERATORS)]
    assert scene.node_types == ("large", "small")
    assert scene.changes == 1
    assert scene.changed_share == pytest.approx(1 / 3)
    assert scene.seconds == 3 * SLOT_S
    assert scene.late_share(PARSE) == pytest.approx(1 / 3)
    assert scene.late_share(COUNT) == 0.5  # nobody knows of the first slot; in the second more came than was served
    assert scene.cost_of(PARSE) == pytest.approx((1.0 + 1.0 + 2.7) * SLOT_S / 3600.0)
    assert scene.cost_of(COUNT) == pytest.approx((0.0 + 1.0 + 1.0) * SLOT_S / 3600.0)
    assert scene.static_cost({PARSE: 2, COUNT: 1}, 1.7) == pytest.approx(3 * 3 * 1.7 * SLOT_S / 3600.0)


def test_a_scene_without_decisions_costs_nothing() -> None:
    empty = read_scene(Progress("streaming", BEGAN))
    assert empty is not None
    assert (empty.cost, empty.changes, empty.changed_share, empty.late_share(PARSE)) == (0.0, 0, 0.0, None)
    assert "It decided nothing" in write_page(empty, {}, count_static(), LARGE.price)


def test_the_page_stands_alone_and_shows_every_decision(scene: Scene) -> None:
    page = write_page(scene, TOTALS, count_static(), LARGE.price)
    assert check_alone(page)
    assert "all &lt;b&gt;well&lt;/b&gt;" in page
    assert "<td>SCALED +1 large</td><td>late</td>" in page
    assert page.count("<figure ") == 4
    assert "100 lines, 270 words, all counted once" in page
    assert "overloaded in 1 slot" in page
    assert "nan" not in re.sub(r"<head>.*</head>", "", page, flags=re.S)


def test_what_is_not_known_of_a_slot_breaks_lines_and_no_scale(scene: Scene) -> None:
    rates = find_series(write_operator(scene, COUNT), "mean rate")  # nothing is known of its first slot
    assert rates[0] is None
    assert max(rate for rate in rates if rate is not None) == 5
    last = scene.moments[-1]
    later = replace(last.decision, time=last.decision.time + SLOT_S, seen=SlotFigures())
    late = replace(last, decision=later)
    page = write_operator(replace(scene, moments=(*scene.moments, late)), late.operator)
    assert find_series(page, "small") == [1, 1, 1, 1]  # one replica from first to last


def find_series(page: str, label: str) -> list[float | None]:
    """The values of the first series of this name."""
    found: list[list[float | None]] = [
        series["values"] for chart in Page(page).charts for series in chart["series"] if series["label"] == label
    ]
    return found[0]


def test_the_page_says_when_something_was_lost(scene: Scene) -> None:
    assert "but 269 counted" in write_page(scene, {**TOTALS, "counted": 269, "exact": False}, {}, LARGE.price)


def test_the_terminal_shows_rates_responses_replicas_cost_and_reasons(progress: Progress) -> None:
    sink = io.StringIO()
    console = Console(file=sink, width=120, force_terminal=True, color_system=None)
    console.print(draw(progress, BEGAN + 20.0))
    shown = sink.getvalue()
    for part in (
        "streaming, 20 of 50 s",
        "5.0/s",
        "2 s of 5 s",
        "1 small, 1 large",
        "SCALED +1 large",
        "cost so far",
    ):
        assert part in shown
    console.print(draw(Progress("starting Spark"), BEGAN))
    assert "starting Spark ..." in sink.getvalue()


def test_where_there_is_no_terminal_each_slot_is_a_plain_line_once(progress: Progress) -> None:
    sink = io.StringIO()
    with showing(Console(file=sink, width=80, force_terminal=False)) as show:
        for _ in range(3):
            show(progress)
    lines = sink.getvalue().splitlines()
    assert len(lines) == 1 + 6
    assert lines[0] == "streaming"
    assert any(line.endswith("SCALED +1 large: late") and "7.5 s of 5 s" in line for line in lines)
    assert any("overloaded of 5 s" in line for line in lines)
    assert PlainLines(Console(file=sink)).told == set()


def test_plan_is_a_description_of_a_day(tmp_path: Path) -> None:
    from tuner.scenario.description import scenario_of

    plan = Plan(3.0)
    scenario = scenario_of(describe(plan, record_days(plan, tmp_path / "days.txt")), name=APP)
    assert scenario.settings[0].trace.rates.size == 7 * 18  # days, each of three minutes
    assert scenario.settings[0].trace.rates.max() < HIGHEST
    assert [o.name for o in scenario.settings[0].application.operators] == list(OPERATORS)
    assert [plan.rate(s) for s in (0.0, 90.0, 115.0, 179.0)] == [NIGHT, NOON, SPIKE, NIGHT]
    assert sum(plan.pieces()) == pytest.approx(sum(plan.rate(s + 0.5) for s in range(-30, 180)), rel=0.1)
    assert plan.pieces() == Plan(3.0).pieces()
    assert [len(write_line(n).split()) for n in range(3)] == [1, 2, 2]
    assert all(count >= 1 for count in count_static().values())


NOW = FIRST + 5 * SLOT_S


def make_scaler(operator: str, seen: float) -> Scaler:
    return Scaler(APP, operator, "host-1", FIRST, seen, 4)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    from tuner.store.applications import add_application

    path = tmp_path / "tuner.db"
    with closing(open_store(path)) as opened, opened.begin() as session:
        add_application(session, APP, describe(Plan(), record_days(Plan(), tmp_path / "days.txt")), FIRST)
        save_scalers(session, [make_scaler(PARSE, time.time()), make_scaler(COUNT, FIRST)])
        rows = [{**row, "response": None} for row in DECISIONS]
        save_decisions(session, [DecisionRecord(application=APP, **row) for row in rows])
    return path


def test_status_says_who_is_alive_and_what_each_did_last(store: Path) -> None:
    told = json.loads(succeed("live", "status", APP, "--json", "--store", store))
    by_name = {one["operator"]: one for one in told["operators"]}
    assert [one["alive"] for one in (by_name[PARSE], by_name[COUNT])] == [True, False]
    assert by_name[PARSE]["last"]["reason"] == "after it ended"
    assert by_name[COUNT]["replicas"] == {"small": 1, "large": 0}
    assert by_name[PARSE]["revision"] == 4
    assert told["revision"] is None
    text = succeed("live", "status", APP, "--store", store)
    assert "parse: alive" in text
    assert "count: silent" in text
    assert "NO_CHANGE: after it ended" in text


def test_a_manager_tells_the_same_as_its_database(store: Path, tmp_path: Path) -> None:
    with closing(open_store(store)) as opened:
        for name, scopes in (("all", ("read", "report", "push")), ("reader", ("read",))):
            (tmp_path / name).write_text(add_secret(opened, name, scopes))
    with service(str(store)) as served:
        manager = ("--manager", served.url, "--token-file")
        before = json.loads(succeed("live", "status", APP, "--json", *manager, tmp_path / "all"))
        local = json.loads(succeed("live", "status", APP, "--json", "--store", store))
        for told in (before, local):
            for one in told["operators"]:
                del one["silent_s"]
        assert before == local
        with closing(Manager(served.url, (tmp_path / "all").read_text(), APP)) as caller:
            with pytest.raises(BadInput, match="tune"):
                caller.ask("PUT", "", {"document": {}})
            assert pursue(caller, WEIGHTS, BOUNDS, "a test") == 1
        revisions = [
            json.loads(succeed("live", "status", APP, "--json", *manager, tmp_path / name))["revision"]
            for name in ("all", "reader")
        ]
        assert revisions == [1, None]
        assert "not known" in succeed("live", "status", APP, *manager, tmp_path / "reader")


def test_a_scaler_is_alive_for_three_of_its_slots() -> None:
    scaler = {"operator": PARSE, "instance": "a", "last_seen": NOW, "revision": None}
    rows = [decide(0, PARSE), {**decide(0, PARSE), "time": FIRST - 60.0}]
    for later, alive in ((170.0, True), (190.0, False)):
        (one,) = describe_status(APP, [scaler], rows, None, NOW + later).operators
        assert one.alive is alive


def test_status_refuses_in_one_sentence(store: Path, tmp_path: Path) -> None:
    assert "nobody" in refuse("live", "status", "nobody", "--store", store)
    assert "--token-file" in refuse("live", "status", APP, "--manager", "http://127.0.0.1:1")
    assert "--manager" in refuse("live", "status", APP, "--token-file", tmp_path / "x", "--store", store)
    missing = refuse("live", "status", APP, "--manager", "http://127.0.0.1:1", "--token-file", tmp_path / "x")
    assert "cannot be read" in missing
    (tmp_path / "empty").write_text("\n")
    empty = refuse("live", "status", APP, "--manager", "http://127.0.0.1:1", "--token-file", tmp_path / "empty")
    assert f"{tmp_path / 'empty'} is empty" in empty
    (tmp_path / "token").write_text("ts_x\n")
    gone = run("live", "status", APP, "--manager", "http://127.0.0.1:1", "--token-file", tmp_path / "token")
    assert gone.exit_code == 1
    assert "cannot be reached" in gone.stderr


def test_a_manager_has_a_database_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment may name another: it is there for all commands."""
    (tmp_path / "token").write_text("ts_x\n")
    asked = ("live", "status", APP, "--manager", "http://127.0.0.1:1", "--token-file", tmp_path / "token")
    both = refuse(*asked, "--store", tmp_path / "tuner.db")
    assert "--store" in both
    assert "--manager" in both
    monkeypatch.setenv("TUNER_STORE", str(tmp_path / "tuner.db"))
    assert "cannot be reached" in run(*asked).stderr


def test_demo_refuses_before_it_starts_anything(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    assert "not empty" in refuse("live", "demo", "--keep", tmp_path)
    assert "the operators are parse, count, the node types small, large" in refuse("live", "demo", "--on", "parse=huge")
    assert "no folder" in refuse("live", "demo", "--html", tmp_path / "no" / "live.html")
    taken = ("live", "demo", "--keep", tmp_path)  # which is refused too, but later
    assert "--minutes" in refuse(*taken, "--minutes", "nan")
    assert "parse twice" in refuse(*taken, "--on", "parse=small", "--on", "parse=large")
