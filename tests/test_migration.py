"""Strategies of state migration against event by event, and the laws they keep."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model.errors import BadInput
from scaler.model.hold import HoldTime, late_seconds
from sim.migration import STRATEGIES, Change, Migration, check_state, price_change
from tests.oracles import migration as oracle

STATE = Migration("pause", state_bytes=600e6, partitions=200, network_rate=50e6, step_s=0.5)
CHANGES = [(2, 3), (3, 2), (3, 5), (5, 3), (2, 4)]


@pytest.mark.parametrize(("before", "after"), CHANGES)
@pytest.mark.parametrize("hash_", ["consistent", "modulo"])
@pytest.mark.parametrize("kind", ["pause", "at-once"])
def test_late_seconds_match_event_simulation(kind: str, hash_: str, before: int, after: int) -> None:
    change = Change(before, after, rate=300.0, capacity=200.0 if min(before, after) == 2 else 140.0, slack_s=1.5)
    cost = price_change(replace(STATE, kind=kind, hash=hash_), change)
    place = oracle.place_modulo if hash_ == "modulo" else oracle.place_consistently
    placed = place(60, before, after)
    moved = [key for key in range(60) if placed[0][key] != placed[1][key]]
    held = range(60) if kind == "pause" else moved
    seen = oracle.count_late(
        placed,
        dict.fromkeys(held, (0.0, cost.hold_s)),
        change.rate,
        change.capacity,
        change.slack_s,
        (0.0, change.capacity),
        cost.hold_s + 60.0,
    )
    assert cost.held == pytest.approx(len(held) / 60)
    assert cost.moved_bytes == pytest.approx(len(moved) / 60 * STATE.state_bytes)
    assert 0.5 < cost.late_s == pytest.approx(seen, abs=0.1, rel=0.02)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_progressive_steps_match_event_simulation(before: int, after: int) -> None:
    """Interference included; the steps have a pause between them, in which each one's queue drains."""
    move = replace(STATE, kind="progressive", bins=10, at_once=3, interference=0.1, state_bytes=6e9)
    change = Change(before, after, rate=300.0, capacity=210.0, slack_s=1.5)
    cost = price_change(move, change)
    placed = oracle.place_consistently(60, before, after)
    moved = [key for key in range(60) if placed[0][key] != placed[1][key]]
    releases: dict[int, tuple[float, float]] = {}
    start = 0.0
    for first in range(0, len(moved), 3 * len(moved) // 10):
        step = moved[first : first + 3 * len(moved) // 10]
        lasts = 0.5 + len(step) / 60 * 6e9 / 50e6
        releases |= dict.fromkeys(step, (start, start + lasts))
        start += lasts + 60.0
    slower = change.capacity * 0.9
    seen = oracle.count_late(placed, releases, change.rate, slower, change.slack_s, (0.0, slower), start)
    assert cost.steps == math.ceil(len(releases) / (3 * len(moved) // 10)) == 4
    assert cost.hold_s == pytest.approx(max(end - begin for begin, end in releases.values()))
    assert 1.0 < cost.late_s == pytest.approx(seen, abs=0.3, rel=0.03)


@settings(max_examples=40)
@given(
    held=st.integers(1, 10),
    hold=st.floats(0.1, 8.0),
    slack=st.floats(0.1, 6.0),
    loss=st.floats(0.0, 0.6),
    load=st.floats(0.3, 0.85),
)
def test_late_seconds_match_one_queue(held: int, hold: float, slack: float, loss: float, load: float) -> None:
    """`held` of ten keys wait for the hold, the others are served meanwhile by a slower replica."""
    rate, capacity = 100.0, 100.0 / load
    found = late_seconds(hold, slack, rate * held / 10, rate * (1.0 - held / 10), capacity, capacity * (1.0 - loss))
    releases = dict.fromkeys(range(held), (0.0, hold))
    until = hold * (1.0 + 1.0 / (1.0 - load)) + 1.0
    moving = hold, capacity * (1.0 - loss)
    seen = oracle.count_late(([0] * 10, [0] * 10), releases, rate, capacity, slack, moving, until)
    assert found * held / 10 == pytest.approx(seen, abs=0.2, rel=0.05)


@given(held=st.floats(0.0, 50.0), own=st.floats(0.0, 50.0), hold=st.floats(0.0, 60.0), slack=st.floats(0.0, 60.0))
def test_late_seconds_grow_with_hold(held: float, own: float, hold: float, slack: float) -> None:
    late = late_seconds(hold, slack, held, own, 110.0, 110.0)
    assert 0.0 <= late <= late_seconds(hold + 1.0, slack, held, own, 110.0, 110.0)
    assert late >= late_seconds(hold, slack + 1.0, held, own, 110.0, 110.0)
    assert late == 0.0 or hold > slack
    assert late_seconds(hold, slack, held, own, held + own, 110.0) == math.inf


changes = st.builds(
    Change,
    before=st.integers(1, 12),
    after=st.integers(1, 12),
    rate=st.floats(0.0, 900.0),
    capacity=st.just(1000.0),
    slack_s=st.floats(0.0, 20.0),
)


@given(changes, st.sampled_from(sorted(STRATEGIES)), st.floats(0.0, 1e9), st.sampled_from(["consistent", "modulo"]))
def test_every_strategy_keeps_its_laws(change: Change, kind: str, state: float, hash_: str) -> None:
    move = Migration(kind, state, 48, hash=hash_, step_s=0.2)
    cost = price_change(move, change)
    assert (cost.steps == 0) == (change.before == change.after)
    assert 0.0 <= cost.held <= 1.0
    assert cost.late_s >= 0.0
    assert cost.moved_bytes <= 2.0 * state + 1.0
    assert cost.late_s == 0.0 or cost.hold_s > change.slack_s
    larger = price_change(replace(move, state_bytes=state + 1e8), change)
    assert larger.hold_s >= cost.hold_s or kind == "progressive"  # which then takes smaller steps
    if change.before != change.after and kind == "progressive":
        whole = price_change(replace(move, kind="pause"), change)
        assert cost.held <= whole.held
        assert cost.hold_s <= whole.hold_s * (1.0 + 1e-9)
        assert cost.late_s <= whole.late_s * (1.0 + 1e-9)


@given(changes, st.floats(1e6, 1e10), st.integers(1, 60))
def test_chosen_step_is_largest_within_slack(change: Change, state: float, bins: int) -> None:
    move = Migration("progressive", state, 48, bins=bins, step_s=0.2)
    costs = [price_change(replace(move, at_once=b), change) for b in range(1, bins + 1)]
    within = [b for b, cost in enumerate(costs, 1) if cost.hold_s <= change.slack_s + 1e-6]
    chosen = price_change(move, change)
    if change.before != change.after:
        assert abs(chosen.at_once - max(within, default=1)) <= (chosen.hold_s > change.slack_s - 1e-6)


@given(st.integers(1, 200), st.integers(1, 30), st.integers(1, 30))
def test_spark_waits_for_busiest_executor(partitions: int, before: int, after: int) -> None:
    move = Migration("spark", state_bytes=partitions * 1e6, partitions=partitions, read_rate=1e6, open_s=0.0)
    hold = price_change(replace(move, changelogs=0), Change(before, after, 1.0, 100.0, 1.0)).hold_s
    if before == after or (after > before >= partitions):
        assert hold == 0.0
        return
    least, most = oracle.count_loads(partitions, before, after)
    assert least - 1e-9 <= hold <= most + 1.0 + 1e-9


def test_stop_and_restart_adds_up_its_parts() -> None:
    move = Migration("stop", 4e8, 8, read_rate=1e8, write_rate=5e7, stop_s=3.0, deploy_s=7.0)
    change = Change(2, 4, rate=300.0, capacity=100.0, slack_s=2.0)
    cost = price_change(move, change)
    assert cost.hold_s == pytest.approx(3.0 + 4e8 / (2 * 5e7) + 7.0 + 4e8 / (4 * 1e8))
    assert cost.late_s == pytest.approx((cost.hold_s - 2.0) * 400.0 / (400.0 - 300.0))
    old = price_change(replace(move, checkpoint_age_s=40.0), change)
    assert old.hold_s == pytest.approx(3.0 + 7.0 + 4e8 / (4 * 1e8) + 300.0 * 40.0 / 400.0)
    assert old.moved_bytes == cost.moved_bytes / 2.0
    assert price_change(move, replace(change, after=3)).late_s == math.inf


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Migration("spark", state_bytes=1e6), "state size without partitions"),
        (lambda: check_state(0.0, 0, 8.0), "state size without partitions"),
        (lambda: check_state(-1.0, 4), "must be 0 or more"),
        (lambda: Migration("teleport"), "choose one of none, stop, pause"),
        (lambda: Migration("pause", network_rate=0.0), "must be positive"),
        (lambda: Migration("pause", step_s=-1.0), "must be 0 or more"),
        (lambda: Migration("progressive", bins=4, at_once=5), "moves 5 of 4 bins"),
        (lambda: Migration("pause", interference=1.0), "share from 0 to below 1"),
        (lambda: Migration("pause", hash="md5"), "choose one of consistent, modulo"),
        (lambda: Change(0, 1, 1.0, 1.0, 1.0), "at least 1"),
        (lambda: Change(1, 2, 1.0, 0.0, 1.0), "capacity positive"),
        (lambda: HoldTime(-1.0), "0 or more"),
    ],
)
def test_bad_migration_is_one_sentence(wrong: Callable[[], object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        wrong()
