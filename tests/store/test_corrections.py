"""Corrections of decisions: a newer report of the same agent stands, the one before is still to be seen."""

from __future__ import annotations

import math
import threading
from contextlib import closing
from dataclasses import replace

import pytest

from scaler.model.decision import ShadowDecision
from tuner.store.connection import Store, open_store
from tuner.store.corrections import (
    MAX_CORRECTIONS,
    correct_decision,
    find_first_reports,
    list_earlier,
    list_superseded,
)
from tuner.store.decisions import (
    list_decisions,
    list_shadow_decisions,
    list_slot_figures,
    list_supply,
    save_decisions,
)
from tuner.store.maintenance import prune
from tuner.store.monitoring import count_by_stretch
from tuner.store.orders import save_scalers
from tuner.store.records import DecisionRecord, Scaler
from tuner.store.retention import DAY_S, PRUNED, Pruning, Retention

SCALED = DecisionRecord(
    "shop", "parse", 60.0, "SCALED", "the rate rises", "+1 small", 3, 90.0, math.inf, 0.05, 2.0,
    {"utilisation": 0.9, "backlog": math.inf}, {"+1 small": 0.2}, {"version": 4, "action": None}, "policy",
    {"small": 1}, [], "driver-1",
)  # fmt: skip
AGENT = Scaler("shop", "parse", "driver-1", 0.0, 0.0)
FAILED = replace(SCALED, kind="ACTUATION_FAILED", reason="no worker", response=0.01, shadow=None, seen={})


def correct(store: Store, *reports: DecisionRecord, now: float = 100.0) -> list[str]:
    with store.begin() as session:
        return [correct_decision(session, report, "shop-agents", now + i) for i, report in enumerate(reports)]


def reported(store: Store) -> None:
    with store.begin() as session:
        save_decisions(session, [SCALED, replace(SCALED, time=120.0), replace(SCALED, operator="count")])


def test_correction_stands_and_the_first_report_is_kept(store: Store) -> None:
    reported(store)
    third = replace(FAILED, reason="no worker in time")
    with store.begin() as session:
        assert save_decisions(session, [FAILED]) == [(FAILED, SCALED)]
    assert correct(store, FAILED, third) == ["corrected", "corrected"]
    with store.read() as session:
        [stands] = list_decisions(session, "shop", ["parse"], until=61.0)
        assert stands == replace(third, corrections=2)
        second, first = list_earlier(session, stands)
        assert (first.record, first.number, first.superseded, first.who) == (SCALED, 1, 100.0, "shop-agents")
        assert (second.record, second.number, second.superseded) == (FAILED, 2, 101.0)
        assert list_superseded(session, "shop", ["parse"]) == [second, first]
        assert list_superseded(session, "shop", ["count"]) == list_superseded(session, "shop", since=61.0) == []
        others = [one for one in list_decisions(session, "shop") if one != stands]
        assert [one.corrections for one in others] == [None, None]
        assert [list_earlier(session, one) for one in others] == [[], []]


def test_old_reports_that_are_sent_again_change_nothing(store: Store) -> None:
    reported(store)
    assert correct(store, FAILED) == ["corrected"]
    assert correct(store, SCALED, FAILED, replace(FAILED)) == ["repeated"] * 3
    with store.begin() as session:
        assert save_decisions(session, [FAILED, SCALED]) == [(SCALED, replace(FAILED, corrections=1))]
        assert len(list_superseded(session, "shop")) == 1


def test_of_two_reports_the_later_one_stands(store: Store) -> None:
    """A, B, A left B though the last was acknowledged: it looked like the first, sent again."""
    a, b = replace(SCALED, sequence=1), replace(FAILED, sequence=2)
    with store.begin() as session:
        save_decisions(session, [a])
    again = replace(a, sequence=3)
    assert correct(store, b, again, b, a, again) == ["corrected", "corrected", "repeated", "repeated", "repeated"]
    with store.read() as session:
        assert list_decisions(session, "shop") == [replace(again, corrections=2)]
    assert correct(store, replace(a, sequence=5), replace(b, sequence=4)) == ["repeated", "repeated"]  # it comes late
    with store.read() as session:
        assert list_decisions(session, "shop") == [replace(a, sequence=5, corrections=2)]


@pytest.mark.parametrize("writer", ["driver-2", None])
def test_nobody_corrects_what_another_wrote(store: Store, writer: str | None) -> None:
    reported(store)
    assert correct(store, replace(FAILED, instance=writer)) == ["refused"]
    assert correct(store, replace(FAILED, time=1e6)) == ["refused"]  # of no slot that was reported
    with store.read() as session:
        assert list_superseded(session, "shop") == []
        assert {one.kind for one in list_decisions(session, "shop")} == {"SCALED"}


def test_one_decision_has_a_bounded_number_of_reports(store: Store) -> None:
    reported(store)
    reports = [replace(FAILED, reason=f"{i}") for i in range(MAX_CORRECTIONS + 2)]
    assert correct(store, *reports) == ["corrected"] * MAX_CORRECTIONS + ["refused"] * 2


def test_evidence_is_what_was_reported_first(store: Store) -> None:
    supplied = {"supply": [{"node_type": "small", "count": 2, "ordered": 1}]}
    with store.begin() as session:
        save_scalers(session, [AGENT])
        save_decisions(session, [replace(SCALED, seen=supplied), replace(SCALED, time=120.0, shadow=None)])
        before = list_slot_figures(session, "shop", ["parse"], registered=True)
        shadows, supply = list_shadow_decisions(session, "shop", 0.0), list_supply(session, "shop")
    assert [type(shadow) for _, _, shadow in shadows] == [ShadowDecision]
    assert correct(store, FAILED) == ["corrected"]
    with store.read() as session:
        assert [tuple(row) for row in list_slot_figures(session, "shop", ["parse"], registered=True)] == [
            tuple(row) for row in before
        ]
        assert list_slot_figures(session, "shop", ["parse"], until=61.0)[0][3] == 0.01
        assert list_shadow_decisions(session, "shop", 0.0) == shadows
        assert list_supply(session, "shop") == supply
        assert set(find_first_reports(session, "shop")) == {("parse", 60.0)}
        assert find_first_reports(session, "shop", since=61.0) == {}


def test_two_corrections_at_once_are_both_kept(store: Store, address: str) -> None:
    reported(store)
    begin, outcomes = threading.Barrier(4), list[str]()

    def write(i: int) -> None:
        with closing(open_store(address)) as mine:
            begin.wait()
            outcomes.extend(correct(mine, replace(FAILED, reason=f"{i}")))

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == ["corrected"] * 4
    with store.read() as session:
        reports = [one.record.reason for one in list_superseded(session, "shop")]
        [stands] = list_decisions(session, "shop", ["parse"], until=61.0)
    assert sorted([stands.reason, *reports]) == ["0", "1", "2", "3", "the rate rises"]


def test_a_correction_is_seen_where_slots_are_counted(store: Store) -> None:
    """Sums of slots are read again when the number of reports has changed."""
    reported(store)
    with store.read() as session:
        assert count_by_stretch(session, 0.0, 299.0, 300.0) == {"shop": {0: 3}}
    correct(store, FAILED)
    with store.read() as session:
        assert count_by_stretch(session, 0.0, 299.0, 300.0) == {"shop": {0: 4}}


def test_earlier_reports_stay_as_long_as_the_decision(store: Store) -> None:
    """Of the slots of one hour three days in, what was corrected is not thinned."""
    held = replace(SCALED, kind="HELD")
    corrected = [0.0, 1800.0, 3.0 * DAY_S, 3.0 * DAY_S + 600.0]
    with store.begin() as session:
        save_scalers(session, [AGENT])
        times = [*corrected, 3.0 * DAY_S + 1200.0, 9.0 * DAY_S]
        save_decisions(session, [replace(held, time=time) for time in times])
    assert correct(store, *(replace(held, time=time, reason="again") for time in corrected)) == ["corrected"] * 4
    assert Pruning(store, Retention(DAY_S, 7.0 * DAY_S, DAY_S)).run() == {
        **dict.fromkeys(PRUNED, 0),
        "decisions": 3,
        "corrections": 2,
    }
    with store.read() as session:
        assert [one.time for one in list_superseded(session, "shop")] == corrected[:1:-1]
    with store.begin() as session:
        assert prune(session, 4.0 * DAY_S)["superseded_decisions"] == 2
