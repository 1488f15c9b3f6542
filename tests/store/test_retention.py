"""Retention: what stays of an application's decisions and samples, on both databases."""

from __future__ import annotations

from scaler.model.sample import Sample
from tuner.store.applications import save_surrogate
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions, save_decisions
from tuner.store.orders import save_scalers
from tuner.store.records import DecisionRecord, Scaler, SurrogateRecord
from tuner.store.retention import DAY_S, HOUR_S, PRUNED, Pruning, Retention
from tuner.store.samples import load_samples, save_samples

NOTHING = dict.fromkeys(PRUNED, 0)
START = 20_000 * DAY_S
SLOT_S = 600.0
RETENTION = Retention(slots_s=2 * DAY_S, hours_s=4 * DAY_S, samples_s=3 * DAY_S)


def furnish(store: Store, days: int, app: str = "shop", start: float = START) -> None:
    """Decisions and samples of two operators every ten minutes; a change at the fourth slot of every sixth hour."""
    times = [start + i * SLOT_S for i in range(int(days * DAY_S / SLOT_S) + 1)]
    decisions = [
        DecisionRecord(app, operator, time, "SCALED" if i % 36 == 3 else "NO_CHANGE", "r")
        for operator in ("parse", "count")
        for i, time in enumerate(times)
    ]
    samples = [Sample(app, "parse", time - SLOT_S, time, "records", arrived=1.0) for time in times]
    with store.begin() as session:
        save_decisions(session, decisions)
        save_samples(session, samples)
        save_scalers(session, [Scaler(app, "parse", "driver-1", start, start)])


def test_old_slots_thin_to_changes_and_one_an_hour(store: Store) -> None:
    furnish(store, 6)
    counts = Pruning(store, RETENTION).run()
    newest = START + 6 * DAY_S
    with store.read() as session:
        left = list_decisions(session, "shop", ["parse"], limit=None)
        other = list_decisions(session, "shop", ["count"], limit=None)
        samples = load_samples(session, "shop")
    assert min(one.time for one in left) == newest - 4 * DAY_S
    full = [one for one in left if one.time >= newest - 2 * DAY_S]
    assert len(full) == 2 * 144 + 1
    old = [one for one in left if one.time < newest - 2 * DAY_S]
    changes = [one for one in old if one.kind == "SCALED"]
    hourly = [one for one in old if one.kind == "NO_CHANGE"]
    assert len(changes) == 2 * 4
    assert [one.time % HOUR_S for one in hourly] == [0.0] * 48
    assert [one.time for one in other] == [one.time for one in left]  # whole slots stay
    assert min(one.end for one in samples) == newest - 3 * DAY_S
    assert counts == {**NOTHING, "decisions": 2 * (6 * 144 + 1 - len(left)), "samples": 3 * 144}


def test_a_further_pass_finds_little_to_do(store: Store) -> None:
    furnish(store, 6)
    pruning = Pruning(store, RETENTION)
    pruning.run()
    assert pruning.run() == NOTHING
    with store.begin() as session:
        save_decisions(session, [DecisionRecord("shop", "parse", START + 6.5 * DAY_S, "NO_CHANGE", "r")])
    assert pruning.run()["decisions"] > 0
    assert Pruning(store, RETENTION).run() == NOTHING  # another process, from the beginning


def test_a_log_of_long_ago_stays(store: Store) -> None:
    furnish(store, 1, "old", START - 1_000 * DAY_S)
    furnish(store, 6)
    Pruning(store, RETENTION).run()
    with store.read() as session:
        assert len(list_decisions(session, "old", limit=None)) == 2 * 145


def test_samples_of_the_newest_surrogate_stay(store: Store) -> None:
    furnish(store, 6)
    with store.begin() as session:
        save_surrogate(session, SurrogateRecord("shop", {}, START + DAY_S, START + 2 * DAY_S, 3, "pass", START))
    Pruning(store, RETENTION).run()
    with store.read() as session:
        assert min(one.end for one in load_samples(session, "shop")) == START + DAY_S


def test_a_pass_ends_when_it_is_asked_to(store: Store) -> None:
    furnish(store, 6)
    assert Pruning(store, RETENTION).run(lambda: True) == NOTHING
