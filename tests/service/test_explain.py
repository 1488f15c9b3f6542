"""Explanations on both databases: alternatives, blocks, the objective's origin, and why there is no decision."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from scaler.model.decision import KINDS, Objection, parse_decision
from scaler.model.hold import HoldTime, HoldTimes
from scaler.model.nodes import NodeType
from scaler.model.orders import ObjectiveModel, OperatorModel
from scaler.model.task import Moments, Weights
from scaler.model.units import format_moment
from tests.service.made_decisions import CLICKS, HOUR, NOW, SLOT
from tests.service.showcase import furnish
from tuner.cli.agent_commands import explain as command
from tuner.history.explanation import Account, Explanation, compare, explain, find_blocks, rank_alternatives
from tuner.history.held_changes import HeldChange, weigh_holds
from tuner.history.objective_origin import ExpectedFigures
from tuner.store.applications import add_application
from tuner.store.connection import Store, open_store
from tuner.store.decisions import list_decisions, save_decisions
from tuner.store.monitoring import list_operator_states
from tuner.store.objectives import ObjectiveEvidence, add_objective
from tuner.store.orders import save_orders, save_scalers, set_control
from tuner.store.records import Control, DecisionRecord, ObjectiveRecord, Scaler
from tuner.views.explanation_lines import to_lines
from tuner.views.words import to_json

WEIGHTS = Weights(0.5, 0.15, 0.35)
STAY = DecisionRecord(
    "shop", "parse", NOW, "NO_CHANGE", "At 412 tuples/s answers took 38 ms; planner proposed no change", None, 3, 412.0,
    0.038, 0.042, 3.6, {"utilisation": 0.7, "deployment": {"small": 2, "large": 1}, "completeness": 1.0},
    {"no change": 0.31, "+1 small": 0.35, "-1 large": 0.44},
)  # fmt: skip
BLOCKED = replace(
    STAY, kind="BLOCKED", action=None,
    reason="At 412 tuples/s answers took 3 ms; planner under objective 3 proposed removing a replica on small, which "
    "was blocked by direction_lock: it would scale in, and only is out; cooldown: the last change was 60 s ago, and "
    "in_s is 600",
    alternatives={"-1 small": 0.2, "no change": 0.31}, code="direction_lock", proposed={"small": -1},
    objections=[
        Objection("guard", "direction_lock", "it would scale in, and only is out").to_json(),
        Objection("guard", "cooldown", "the last change was 60 s ago, and in_s is 600").to_json(),
    ],
)  # fmt: skip


@pytest.fixture
def ask(store: Store) -> Callable[..., Explanation]:
    """Explain with the clock at NOW."""

    def ask(app: str = "shop", at: float | None = None, operator: str | None = None) -> Explanation:
        with store.read() as session:
            return explain(session, app, at, operator, NOW)

    return ask


def keep(store: Store, *decisions: DecisionRecord) -> None:
    with store.begin() as session:
        save_decisions(session, decisions)


def heard(store: Store, since: float = NOW - HOUR, last: float = NOW) -> None:
    with store.begin() as session:
        save_scalers(session, [Scaler("shop", "parse", "driver-1", since, last)])


def only(explanation: Explanation) -> Account:
    (account,) = explanation.operators
    return account


def reason_of(explanation: Explanation) -> str:
    decision = only(explanation).decision
    return "" if decision is None else decision.reason


def text(explanation: Explanation) -> str:
    return " ".join(" ".join(to_lines(explanation)).split())


def test_no_change_says_why_nothing_was_better(store: Store, ask: Callable[..., Explanation]) -> None:
    keep(store, STAY)
    account = only(ask())
    assert account.gap is None
    assert account.compared == "Nothing was better than no change, at a cost of 0.31; +1 small came next, at 0.04 more."
    assert [(a.action, a.done) for a in account.alternatives] == [
        ("no change", True), ("+1 small", False), ("-1 large", False),
    ]  # fmt: skip
    assert "412 tuples/s, utilisation 70 %, response 38 ms of 42 ms allowed, 2 small + 1 large at 3.60/h" in text(ask())


def test_no_change_is_explained_though_a_change_was_worth_more_or_nothing_was_valued() -> None:
    better = replace(STAY, alternatives={"no change": 0.31, "+1 small": 0.3})
    assert compare(better.decision, rank_alternatives(better.decision)) == (
        "+1 small had a cost 0.01 below that of no change, too little for the policy to change."
    )
    unvalued = replace(STAY, alternatives={})
    assert "does not put a figure on alternatives" in compare(unvalued.decision, rank_alternatives(unvalued.decision))
    equal = replace(STAY, alternatives={"no change": 0.3, "+1 small": 0.3})
    assert compare(equal.decision, rank_alternatives(equal.decision)).endswith("+1 small had the same cost.")


def test_a_block_names_the_guard_and_who_set_it(store: Store, ask: Callable[..., Explanation]) -> None:
    lock = Control("shop", "", "direction_lock", {"only": "out"}, "ann", NOW - 600.0, "sale tonight", NOW + 600.0)
    with store.begin() as session:
        save_decisions(session, [BLOCKED])
        set_control(session, lock)
        set_control(session, replace(lock, kind="pin", operator="count", who="bob"))
        set_control(session, replace(lock, kind="bounds", settings={"max": 3}, since=NOW + 1.0))  # after the slot
    account = only(ask())
    assert [(b.objection.code, [c.who for c in b.set_by]) for b in account.blocked] == [
        ("direction_lock", ["ann"]),
        ("cooldown", []),
    ]
    assert [c.kind for c in account.controls] == ["direction_lock"]
    said = text(ask())
    lock = "direction_lock: it would scale in, and only is out; set by ann for all operators"
    assert f"{lock} at {format_moment(NOW - 600)}" in said
    assert "sale tonight" in said
    assert "in_s is 600; not a control" in said


def test_change_of_several_is_named_and_what_was_done_of_it(store: Store, ask: Callable[..., Explanation]) -> None:
    whole = replace(STAY, kind="SCALED", action="+3 small, -1 large", proposed={"small": 3, "large": -1})
    keep(store, whole)
    assert "SCALED +3 small, -1 large because" in text(ask())
    assert "-1 large was what the policy wanted" in text(ask())
    lack = Objection("actuation", "not_actuated", "one worker is left").to_json()
    keep(store, replace(whole, time=NOW + 1.0, action="+2 small", objections=[lack]))
    said = text(ask(at=NOW + 1.0))
    assert "SCALED +2 small of +3 small, -1 large because" in said
    assert "blocked by not_actuated: one worker is left" in said


def test_decision_of_an_older_agent_has_one_replica(store: Store, ask: Callable[..., Explanation]) -> None:
    """It sent its action in words, and no proposal."""
    keep(store, replace(STAY, kind="SCALED", action="+1 small", proposed=None))
    assert "SCALED +1 small because" in text(ask())


def test_what_was_held_failed_or_overloaded_has_its_words(store: Store, ask: Callable[..., Explanation]) -> None:
    keep(
        store,
        replace(STAY, kind="HELD", reason="Held: the rate is not known", rate=None, response=None, alternatives={}),
    )
    assert "Nothing was weighed, for the agent held." in text(ask())
    keep(
        store,
        replace(
            STAY, time=STAY.time + 1.0, kind="ACTUATION_FAILED", action="+1 small", reason="no worker is free",
            response=math.inf,
        ),
    )  # fmt: skip
    said = text(ask())
    assert "ACTUATION_FAILED +1 small" in said
    assert "response overloaded" in said
    assert json.loads(to_json(ask()))["operators"][0]["decision"]["response"] == "Infinity"


def test_decision_dated_ahead_hides_no_other(store: Store, ask: Callable[..., Explanation]) -> None:
    """One of a year ahead, which an older program took, was the newest one for a year."""
    ahead = replace(STAY, time=NOW + 365 * 24 * HOUR, reason="a clock jumped")
    keep(store, STAY, ahead)
    heard(store)
    assert only(ask()).decision == STAY.decision
    assert only(ask(at=ahead.time)).decision == ahead.decision
    with store.read() as session:
        assert [one.time for one in list_operator_states(session, until=NOW)] == [NOW]


def test_the_newest_slot_at_or_before_the_time_is_explained(store: Store, ask: Callable[..., Explanation]) -> None:
    keep(store, *(replace(STAY, time=NOW - SLOT * i, reason=f"slot {i}") for i in range(5)))
    assert reason_of(ask()) == "slot 0"
    assert (reason_of(ask(at=NOW - SLOT)), only(ask(at=NOW - SLOT)).age) == ("slot 1", 0.0)
    assert (reason_of(ask(at=NOW - SLOT - 1.0)), only(ask(at=NOW - SLOT - 1.0)).age) == ("slot 2", SLOT - 1.0)


def test_an_objective_is_followed_to_its_trial_and_its_stages(store: Store) -> None:
    furnish(store, 400)
    with store.read() as session:
        slot = list_decisions(session, "payments", until=NOW - 4 * HOUR, limit=1)[0]
        account = only(explain(session, "payments", slot.time, slot.operator, NOW))
        whole = explain(session, "clicks", None, None, NOW)
    pursued = account.objective
    assert pursued is not None
    assert (pursued.version, pursued.state) == (2, "reverted")
    assert pursued.source is not None
    assert (pursued.source.engine, pursued.source.surrogate) == ("gp", None)
    assert pursued.before == ExpectedFigures(4.4, None, 0.021, None)
    said = text(Explanation("payments", slot.time, True, operators=(account,)))
    assert "price 3.10 ± 0.02/h instead of 4.40, violations 4 % instead of 2.1 %" in said
    assert "Violations rose from 2.1 % to 11.4 % of 180 slots" in said
    assert [one.operator for one in whole.operators] == list(CLICKS.rates)
    assert [one.decision.shadow.version for one in whole.operators] == [3] * len(CLICKS.rates)  # type: ignore[union-attr]
    assert "objective 3 would have made no change, running" in text(whole)


def test_every_reason_to_have_no_decision_is_told_apart(store: Store, ask: Callable[..., Explanation]) -> None:
    document = {"application": {"operator": [{"name": "parse", "service_rate": 100.0, "scv": 0.5}]}}
    assert (ask().known, ask().message) == (
        False,
        "Application shop was never registered, and no agent of it ever reported.",
    )
    with store.begin() as session:
        add_application(session, "shop", document, NOW - HOUR)
    assert gap_of(ask()) == "never reported"
    heard(store)
    assert gap_of(ask()) == "no objective"
    with store.begin() as session:
        add_objective(session, ObjectiveRecord("shop", WEIGHTS, {"parse": 0.04}, NOW - 1800.0, "full"))
    assert gap_of(ask()) == "no decisions"
    assert gap_of(ask(at=NOW - 2000.0)) == "no objective"  # it was not there yet
    keep(store, replace(STAY, time=NOW - 900.0), replace(STAY, time=NOW - 100.0))
    assert gap_of(ask(at=NOW - 1000.0)) == "before the first slot"
    assert only(ask(at=NOW - 890.0)).gap is None
    silent = only(ask(at=NOW - 300.0)).gap
    assert silent is not None
    assert (silent.kind, silent.since, silent.until) == ("silent", NOW - 840.0, NOW - 100.0)
    assert gap_of(ask(at=NOW + HOUR)) == "to come"
    assert all(account.gap is None or account.gap.advice for account in ask().operators)
    assert "has no operator count; it has parse." in ask(operator="count").message


def test_a_slot_lasts_as_long_as_the_orders_say(store: Store, ask: Callable[..., Explanation]) -> None:
    keep(store, replace(STAY, time=NOW - 1000.0))
    assert gap_of(ask()) == "silent"
    with store.begin() as session:
        save_orders(session, "shop", {"slot_s": 600.0}, NOW)
    assert only(ask()).gap is None


def gap_of(explanation: Explanation) -> str | None:
    gap = only(explanation).gap
    return None if gap is None else gap.kind


HOSTILE = ("'; DROP TABLE decisions; --", "\x1b[2J\a", "nul\0", "\ud800", "<script>", "a" * 5000, "\n\n", "", "{{7*7}}")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_answered_and_move_no_cursor(
    store: Store, ask: Callable[..., Explanation], name: str
) -> None:
    storable = "\0" not in name and name != "\ud800"
    keep(store, STAY, *([replace(STAY, application=name, operator=name, reason=name, action=name)] if storable else []))
    for explanation in (
        ask(name),
        ask(name, NOW, name),
        ask("shop", NOW, name),
        ask(name, math.inf),
        ask(name, math.nan),
    ):
        assert all(line.isprintable() for line in to_lines(explanation))
        json.loads(to_json(explanation))
    assert ask(name).known == storable


LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
NESTED = LEAF | st.lists(LEAF, max_size=3) | st.dictionaries(st.text(max_size=5), LEAF, max_size=3)
JSON = NESTED | st.lists(NESTED, max_size=3) | st.dictionaries(st.text(max_size=5), NESTED, max_size=3)
KEYS = st.sampled_from(
    ["utilisation", "deployment", "completeness", "asked", "version", "action", "response", "no change"]
)
TABLE = st.dictionaries(KEYS | st.text(max_size=5), JSON, max_size=5)


@given(TABLE, TABLE, st.none() | TABLE, st.sampled_from(KINDS), st.none() | st.text(max_size=9), st.text(), JSON, JSON)
def test_odd_documents_are_read_as_far_as_they_can_be(
    seen: dict[str, Any], alternatives: dict[str, Any], shadow: Any, kind: str, action: str | None, reason: str,
    proposed: Any, objections: Any,
) -> None:  # fmt: skip
    record = replace(
        STAY, seen=seen, alternatives=alternatives, shadow=shadow, kind=kind, action=action, reason=reason,
        proposed=proposed, objections=objections,
    )  # fmt: skip
    decision = record.decision
    ranked = rank_alternatives(decision)
    blocks = find_blocks(decision, [])
    account = Account(
        "parse", None, 0.0, decision, alternatives=ranked, compared=compare(decision, ranked), blocked=blocks
    )
    assert parse_decision(decision.to_json()) == decision
    lines = to_lines(Explanation("shop", NOW, True, operators=(account,)))
    assert all(line.isprintable() for line in lines)
    json.loads(to_json(account))


def test_odd_evidence_is_read_as_far_as_it_can_be(store: Store, ask: Callable[..., Explanation]) -> None:
    odd = {
        "shadow": 7,
        "canary": {"since": "x", "who": 3, "figures": [1]},
        "reverted": {"why": 1},
        "baseline": [],
        "cost": "?",
    }
    with store.begin() as session:
        made = add_objective(session, ObjectiveRecord("shop", WEIGHTS, {"parse": 0.04}, NOW, "full", evidence=odd))
    keep(store, replace(STAY, objective_version=made.version), replace(STAY, operator="count", objective_version=99))
    said = text(ask())
    assert "99, which the database does not have" in said
    assert "bound 40 ms on the queueing part" in said


@pytest.fixture
def database(tmp_path: Path) -> str:
    address = str(tmp_path / "tuner.db")
    with closing(open_store(address)) as store:
        keep(store, STAY, replace(STAY, operator="count", time=NOW - 120.0, reason="nothing to do"))
    return address


def test_the_command_prints_lines_that_fit_and_one_document(database: str) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(command, [*arguments, "--store", database])
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    said = run("shop", "--at", "2026-03-12T14:20:05")
    assert max(map(len, said.splitlines())) <= 120
    assert "parse at 2026-03-12 14:20:00 UTC, 5 s before: NO_CHANGE" in said
    document = json.loads(run("shop", "--at", "2026-03-12T14:20:05", "--operator", "count", "--json"))
    assert [(one["operator"], one["age"]) for one in document["operators"]] == [("count", 125.0)]
    unknown = CliRunner().invoke(command, ["nowhere", "--json", "--store", database])
    assert (unknown.exit_code, json.loads(unknown.stdout)["known"]) == (2, False)
    assert CliRunner().invoke(command, ["shop", "--operator", "foo", "--store", database]).exit_code != 0
    assert CliRunner().invoke(command, ["shop", "--at", "soon", "--store", database]).exit_code == 2


def test_what_changes_hold_is_told_under_the_load_of_the_slot(store: Store, ask: Callable[..., Explanation]) -> None:
    """Three replicas at 70 %: 12 s held, 4 ms slack, drained by four; of the way back nothing is known."""
    known = OperatorModel(Moments(0.005, 0.0), 8, 900.0, hold=HoldTimes(HoldTime(9.0, 3.0, 4)))
    model = ObjectiveModel("planner", (NodeType("small", 1.0, 1.0),), {"parse": known})
    evidence = ObjectiveEvidence(model=model).to_json()
    with store.begin() as session:
        for _ in range(3):
            add_objective(session, ObjectiveRecord("shop", WEIGHTS, {"parse": 0.04}, NOW, "full", evidence=evidence))
    keep(store, STAY)
    out, into = only(ask()).holds
    assert (out.events, out.hold_s) == (4, 12.0)
    assert out.late_s == pytest.approx((12.0 - 0.004) / (1.0 - 0.7 * 3.0 / 4.0))
    assert into == HeldChange("in")
    assert "a scale-out by one holds answers for 12 s (measured on 4 events): 25.3 s of late answers" in text(ask())
    assert "what a scale-in holds is not known" in text(ask())
    silent = weigh_holds(known.hold, replace(STAY, rate=None).decision)
    assert silent[0] == HeldChange("out", 4, 12.0)
    inward = weigh_holds(HoldTimes(into=HoldTime(2.0)), replace(STAY, price=1.0).decision)[1]
    assert inward.late_s == math.inf  # two replicas would be at 105 %
    assert weigh_holds(HoldTimes(), STAY.decision) == ()
