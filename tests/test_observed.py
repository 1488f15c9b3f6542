"""What decisions tell of an application's QoS: sums along paths, and nothing made of what is missing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.model.task import Moments
from sim.application import Application, Edge, Operator
from tests.store.conftest import address, postgres, store  # noqa: F401  fixtures
from tuner.history.qos_history import (
    UNKNOWN,
    VIOLATED,
    WITHIN,
    Slots,
    find_violations,
    lay_out,
    load_slots,
    measure_qos,
)
from tuner.scenario.layout import QoS
from tuner.store.connection import Store
from tuner.store.decisions import save_decisions
from tuner.store.records import DecisionRecord

CHAIN = Application(
    tuple(Operator(name, Moments(0.001, 0.0)) for name in ("parse", "count")), (Edge("parse", "count"),)
)
NAMES = ("parse", "count")
LIMIT = QoS(0.1, 0.05, 0.1)
Row = tuple[float, str, float, float, float, float, str, int | None]


def row(time: float, operator: str, response: float, kind: str = "NO_CHANGE", price: float = 1.0) -> Row:
    return (time, operator, 10.0, response, 0.05, price, kind, 1)


def verdicts(*rows: Row) -> list[int]:
    return find_violations(lay_out(list(rows), NAMES, 60.0), CHAIN, LIMIT).tolist()


def test_a_path_takes_as_long_as_its_operators_together() -> None:
    assert verdicts(row(0, "parse", 0.06), row(0, "count", 0.03)) == [WITHIN]
    assert verdicts(row(0, "parse", 0.06), row(0, "count", 0.05)) == [VIOLATED]
    assert verdicts(row(0, "parse", math.inf), row(0, "count", 0.01)) == [VIOLATED]


def test_operators_report_within_a_slot_not_at_the_same_instant() -> None:
    assert verdicts(row(61, "parse", 0.06), row(119, "count", 0.05)) == [VIOLATED]


def test_missing_is_not_zero() -> None:
    assert verdicts(row(0, "parse", 0.06)) == [UNKNOWN]
    assert verdicts(row(0, "parse", 0.06), row(0, "count", math.nan)) == [UNKNOWN]
    assert verdicts(row(0, "parse", 0.2)) == [VIOLATED]  # whatever the other took
    seen = measure_qos(lay_out([row(0, "parse", 0.06), row(60, "parse", 0.2)], NAMES, 60.0), CHAIN, LIMIT)
    assert (seen.slots, seen.known, seen.violations, seen.price) == (2, 1, 1.0, None)


def test_nothing_reported_is_nothing_known() -> None:
    seen = measure_qos(lay_out([], NAMES, 60.0), CHAIN, LIMIT)
    assert (seen.slots, seen.violations, seen.reconfigurations, seen.price, seen.held) == (0, None, None, None, None)


def test_a_slot_is_reconfigured_once_however_many_operators_were_scaled() -> None:
    rows = [row(0, "parse", 0.01, "SCALED"), row(0, "count", 0.01, "SCALED"), row(60, "parse", 0.01, "HELD")]
    seen = measure_qos(lay_out([*rows, row(60, "count", 0.01, price=3.0)], NAMES, 60.0), CHAIN, LIMIT)
    assert (seen.reconfigurations, seen.price, seen.held) == (0.5, 3.0, 0.25)


def test_a_path_may_have_a_bound_of_its_own() -> None:
    slots = lay_out([row(0, "parse", 0.03), row(0, "count", 0.03)], NAMES, 60.0)
    assert find_violations(slots, CHAIN, QoS(0.1, 0.05, 0.1, {"parse -> count": 0.05})).tolist() == [VIOLATED]


@given(st.lists(st.tuples(st.floats(0.0, 0.1), st.floats(0.0, 0.1)), min_size=1, max_size=30))
def test_it_agrees_with_a_plain_count(responses: list[tuple[float, float]]) -> None:
    rows = [row(60.0 * t, name, r[m]) for t, r in enumerate(responses) for m, name in enumerate(NAMES)]
    seen = measure_qos(lay_out(rows, NAMES, 60.0), CHAIN, LIMIT)
    assert seen.violations == pytest.approx(sum(a + b > 0.1 for a, b in responses) / len(responses))


def test_slots_come_from_the_decisions_kept(store: Store) -> None:  # noqa: F811
    decisions = [
        DecisionRecord("shop", name, 60.0 * t, "SCALED", "", None, 2, 5.0, math.inf if t else 0.01, 0.05, 1.5)
        for t in range(3)
        for name in (*NAMES, "another")
    ]
    with store.begin() as session:
        save_decisions(session, [*decisions, DecisionRecord("shop", "parse", 180.0, "HELD", "no metrics")])
    with store.read() as session:
        slots: Slots = load_slots(session, "shop", NAMES, since=60.0)
    assert slots.time.tolist() == [60.0, 120.0, 180.0]
    assert slots.version.tolist() == [[2, 2], [2, 2], [-1, -1]]
    assert slots.kind.tolist()[2] == ["HELD", ""]
    assert find_violations(slots, CHAIN, LIMIT).tolist() == [VIOLATED, VIOLATED, UNKNOWN]
    assert np.isnan(slots.price[2]).all()
