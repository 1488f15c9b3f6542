"""Latency over time of a migration against event by event, and the command."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from sim.migration import Change, Migration, price_change
from tests.commands import succeed
from tests.oracles import migration as oracle
from tuner.lab.migration.waits import STEP_S, run_queue, trace_waits

STATE = Migration("pause", state_bytes=600e6, partitions=200, network_rate=50e6, step_s=0.5)


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (3, 5)])
@pytest.mark.parametrize("kind", ["pause", "at-once"])
def test_traced_waits_match_event_simulation(kind: str, before: int, after: int) -> None:
    change = Change(before, after, rate=300.0, capacity=200.0 if min(before, after) == 2 else 140.0, slack_s=1.5)
    migration = Migration(kind, state_bytes=600e6, partitions=200, network_rate=50e6, step_s=0.5)
    found = trace_waits(migration, change, 120.0)
    placed = oracle.place_consistently(60, before, after)
    held = range(60) if kind == "pause" else [key for key in range(60) if placed[0][key] != placed[1][key]]
    hold = (0.0, found.cost.hold_s)
    exact = (0.0, change.capacity)
    seen = oracle.count_late(placed, dict.fromkeys(held, hold), 300.0, change.capacity, 1.5, exact, hold[1] + 60.0)
    assert 0.5 < found.late_s == pytest.approx(seen, abs=0.1, rel=0.02)
    assert found.longest_s == pytest.approx(found.cost.hold_s, abs=2 * STEP_S)


def test_traced_steps_match_event_simulation_back_to_back() -> None:
    """Steps follow each other at once, so that the queue of one may stand when the next begins."""
    migration = Migration("progressive", 6e9, 200, network_rate=50e6, step_s=0.5, bins=10, at_once=5)
    change = Change(2, 3, rate=300.0, capacity=150.0, slack_s=1.5)
    found = trace_waits(migration, change, 300.0)
    placed = oracle.place_consistently(60, 2, 3)
    moved = [key for key in range(60) if placed[0][key] != placed[1][key]]
    lasts = found.migration_s / 2
    releases = {key: (0.0, lasts) if i < len(moved) / 2 else (lasts, 2 * lasts) for i, key in enumerate(moved)}
    seen = oracle.count_late(placed, releases, 300.0, 150.0, 1.5, (0.0, 150.0), 300.0)
    assert 5.0 < found.late_s == pytest.approx(seen, rel=0.03)


def test_little_s_law_of_a_pause() -> None:
    """Extra waiting is lambda D^2 / 2 x mu / (mu - lambda)."""
    change = Change(4, 5, rate=400.0, capacity=125.0, slack_s=0.5)
    found = trace_waits(STATE, change, 60.0)
    hold = price_change(STATE, change).hold_s
    assert found.waiting == pytest.approx(400.0 * hold**2 / 2.0 * 625.0 / (625.0 - 400.0), rel=0.02)


def test_a_queue_never_falls_below_nothing() -> None:
    work = np.array([5.0, 0.0, 0.0, 0.0, 3.0, 1.0])
    assert run_queue(work, 2.0).tolist() == [3.0, 1.0, 0.0, 0.0, 1.0, 0.0]


def test_the_command_lays_strategies_side_by_side() -> None:
    found = json.loads(succeed("lab", "reproduce", "migration", "--json"))
    assert [table["figure"] for table in found["tables"]] == [
        "migration-costs", "migration-10-MB", "migration-1-GB", "migration-8-GB",
    ]  # fmt: skip
    assert len(found["tables"][0]["rows"]) == 12
    assert all(claim["holds"] for claim in found["claims"])
    for rows in (table["rows"] for table in found["tables"][1:]):
        assert all(later["stop"] <= earlier["stop"] for earlier, later in pairwise(rows))
    text = succeed("lab", "reproduce", "migration")
    assert "19 of 19 claims hold." in text
    assert "printed figures" not in text
