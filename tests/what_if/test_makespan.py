"""Tasks on slots: laws of list scheduling, against brute force."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.what_if.record import make_query
from tuner.what_if.batches_on_executors import makespan, model_query

tasks_of = st.lists(st.floats(0.01, 5.0), min_size=1, max_size=40)
few = st.lists(st.floats(0.01, 5.0), min_size=1, max_size=6)
slots_of = st.integers(1, 12)


def walk_slots(tasks: list[float], slots: int, gap: float) -> float:
    """The same as a plain walk: each task to the slot that was free first."""
    free, ends = [0.0] * slots, []
    for task in tasks:
        slot = free.index(min(free))
        ends.append(free[slot] + task)
        free[slot] = ends[-1] + gap
    return max(ends)


def find_optimum(tasks: list[float], slots: int) -> float:
    """The shortest that any assignment takes."""
    return min(
        max(sum(task for task, slot in zip(tasks, where, strict=True) if slot == one) for one in range(slots))
        for where in product(range(slots), repeat=len(tasks))
    )


@given(tasks_of, slots_of, st.floats(0.0, 0.5))
def test_makespan_equals_a_plain_walk(tasks: list[float], slots: int, gap: float) -> None:
    assert makespan(np.array(tasks), slots, gap) == pytest.approx(walk_slots(tasks, slots, gap))


@given(few, st.integers(1, 3))
def test_makespan_keeps_graham_bound(tasks: list[float], slots: int) -> None:
    best, found = find_optimum(tasks, slots), makespan(np.array(tasks), slots)
    assert best * (1 - 1e-9) <= found <= (2.0 - 1.0 / slots) * best * (1 + 1e-9)


@given(tasks_of, slots_of)
def test_makespan_lies_between_its_bounds(tasks: list[float], slots: int) -> None:
    least = max(max(tasks), sum(tasks) / slots)
    assert least * (1 - 1e-12) <= makespan(np.array(tasks), slots) <= (sum(tasks) / slots + max(tasks)) * (1 + 1e-12)


@given(st.integers(1, 60), slots_of, st.floats(0.01, 5.0), st.floats(-0.005, 0.5))
def test_equal_tasks_run_in_waves(tasks: int, slots: int, each: float, gap: float) -> None:
    waves = math.ceil(tasks / slots)
    expected = waves * each + (waves - 1) * gap
    assert makespan(np.full(tasks, each), slots, gap) == pytest.approx(expected)


@given(st.integers(1, 60), st.floats(0.01, 5.0))
def test_more_slots_never_slow_equal_tasks(tasks: int, each: float) -> None:
    spans = [makespan(np.full(tasks, each), slots) for slots in range(1, 20)]
    assert all(later <= sooner for sooner, later in pairwise(spans))


@given(st.integers(1, 6), st.integers(1, 24), st.floats(-0.002, 0.2), st.floats(0.1, 2.0))
def test_recorded_slots_get_their_durations_back(slots: int, tasks: int, gap: float, rest: float) -> None:
    query = make_query([80.0, 160.0, 240.0, 100.0], slots, tasks, per_record=0.1, rest=rest, gap=gap)
    placed = model_query(query).place(slots).placed
    assert placed == pytest.approx([batch.duration_s for batch in query.batches], abs=1e-9)


@given(st.lists(st.floats(50.0, 500.0), min_size=4, max_size=20), st.integers(1, 16))
def test_model_of_batches_is_exact_for_equal_tasks(sizes: list[float], executors: int) -> None:
    model = model_query(make_query([*sizes, 50.0, 500.0], slots=2, tasks=8)).place(executors)
    waves = math.ceil(8 / executors)
    assert model.overhead_s == pytest.approx(0.3, abs=1e-6)
    assert model.per_record_s == pytest.approx(0.01 / 8 * waves, rel=1e-6)


@given(st.integers(1, 5), st.integers(1, 16), st.floats(0.001, 2.0))
def test_first_tasks_of_slots_take_longer_anew(slots: int, executors: int, first: float) -> None:
    query = make_query([80.0, 160.0, 240.0, 100.0], slots, 12, per_record=0.1, first=first)
    waves = math.ceil(12 / executors)
    expected = [0.3 + first + waves * 0.1 * batch.records / 12 for batch in query.batches]
    assert model_query(query).place(executors).placed == pytest.approx(expected)
