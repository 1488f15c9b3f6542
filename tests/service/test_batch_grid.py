"""Samples as agents make them become input rate, processing rate, batch duration and lag on a grid of slots."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from scaler.model.sample import Sample
from scaler.sensing.observation import make_samples
from scaler.sensing.reading import Reading
from tuner.history.qos_history import QosFigures
from tuner.service.page.batch_grid import BatchGrid, load_batches
from tuner.service.page.slot_grid import SlotGrid
from tuner.store.connection import Store
from tuner.store.samples import save_samples

START, SLOT = 1_700_000_040.0, 60.0
OPERATORS = ("parse", "count")


def load(store: Store, samples: list[Sample], slots: int = 4) -> BatchGrid:
    shape = (slots, len(OPERATORS))
    nothing, replicas = np.full(shape, math.nan), np.full((*shape, 1), math.nan)
    figures = QosFigures(0, None, None, None, None, 0)
    course = SlotGrid(START, SLOT, OPERATORS, ("small",), nothing, nothing, nothing, nothing[:, 0], replicas, replicas,
                      (None, None), figures, (0,))  # fmt: skip
    with store.begin() as session:
        save_samples(session, samples)
    with store.read() as session:
        return load_batches(session, "shop", course)


def report(operator: str, slot: int, **known: float | None) -> list[Sample]:
    """What an agent sends of a slot."""
    start = START + SLOT * slot
    reading = Reading(operator, start, start + SLOT, **known)  # type: ignore[arg-type]
    return [Sample(application="shop", **sample) for sample in make_samples(reading)]


def test_what_agents_report_is_charted_and_what_they_do_not_know_is_not_zero(store: Store) -> None:
    busy = report(
        "parse", 1, arrival_rate=50.0, tuples_in=3000.0, batches=4, batch_time=12.0, backlog=70.0, completeness=0.5
    )
    idle = report("parse", 2, arrival_rate=0.0, tuples_in=0.0, batches=0, batch_time=0.0, backlog=0.0)
    grid = load(store, [*busy, *idle, *report("count", 2, tuples_in=10.0)])
    assert grid.arrival[1, 0] == pytest.approx(50.0)  # per second of what was seen
    assert grid.processing[1, 0] == pytest.approx(250.0)
    assert grid.duration[1, 0] == pytest.approx(3.0)
    assert grid.lag[1, 0] == 70.0
    assert (grid.arrival[2, 0], grid.lag[2, 0]) == (0.0, 0.0)
    for unknown in (grid.processing[2, 0], grid.duration[2, 0]):
        assert math.isnan(unknown)
    assert all(np.isnan(table[2, 1]) for table in (grid.arrival, grid.processing, grid.duration, grid.lag))
    assert grid.known_slots.tolist() == [False, True, True, False]


def test_node_types_of_a_window_add_up_and_a_sample_of_all_stands_for_them(store: Store) -> None:
    window: dict[str, Any] = {"application": "shop", "start": START, "end": START + SLOT, "evidence": "tasks"}
    typed = [Sample(operator="parse", node_type=name, arrived=60.0, **window) for name in ("small", "large")]
    whole = Sample(operator="parse", batches=2.0, batch_time=3.0, **window)
    counted = ((None, 90.0), ("small", 60.0))
    both = [Sample(operator="count", node_type=name, arrived=n, **window) for name, n in counted]
    grid = load(store, [*typed, whole, *both])
    assert grid.arrival[0].tolist() == [2.0, 1.5]
    assert grid.duration[0, 0] == 1.5


def test_windows_longer_and_shorter_than_slots_find_their_places(store: Store) -> None:
    long = Sample("shop", "parse", START + SLOT, START + 3 * SLOT, "progress", arrived=240.0, batches=1.0,
                  batch_time=100.0)  # fmt: skip
    starts = [START + 20.0 * i for i in range(3)]
    short = [Sample("shop", "count", at, at + 20.0, "progress", arrived=at - START) for at in starts]
    before = Sample("shop", "count", START - 60.0, START, "progress", arrived=1e6)
    grid = load(store, [long, *short, before])
    assert grid.arrival[:, 0].tolist() == pytest.approx([math.nan, 2.0, 2.0, math.nan], nan_ok=True)
    assert grid.duration[1:3, 0].tolist() == [100.0, 100.0]
    assert grid.arrival[0, 1] == pytest.approx(1.0)


def test_without_samples_nothing_is_known(store: Store) -> None:
    assert not load(store, []).known_slots.any()
