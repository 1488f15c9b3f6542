"""Batches that warm up are recognised by what they cost, where they can be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.what_if.record import make_query
from tuner.what_if.warm_up import find_calm


def left_out(query: object) -> list[int]:
    return np.flatnonzero(~find_calm(query)).tolist()  # type: ignore[arg-type]


def test_slow_first_batches_warm_up() -> None:
    assert left_out(make_query([100.0] * 20, factors=(5.0, 2.0, 1.5))) == [0, 1, 2]


def test_calm_start_leaves_nothing_out() -> None:
    assert left_out(make_query([100.0, 300.0, 200.0, 150.0] * 5)) == []


def test_slow_batch_amid_calm_ones_stays() -> None:
    factors = [1.0] * 9 + [4.0] + [1.0] * 10
    assert left_out(make_query([100.0] * 20, factors=factors)) == []


def test_slow_batches_after_a_change_warm_up() -> None:
    query = make_query([100.0] * 20, factors=[1.0] * 9 + [4.0, 3.0] + [1.0] * 9)
    batches = [replace(batch, disturbed=batch.number in (0, 9)) for batch in query.batches]
    assert left_out(replace(query, batches=tuple(batches))) == [9, 10]


def test_larger_first_batch_is_no_warm_up() -> None:
    assert left_out(make_query([1000.0, *[100.0, 200.0, 150.0] * 6])) == []


def test_too_few_batches_are_all_used() -> None:
    assert left_out(make_query([100.0] * 3, factors=(5.0,))) == []


@given(st.lists(st.floats(50.0, 500.0), min_size=8, max_size=40), st.integers(0, 5), st.floats(2.0, 20.0))
def test_warm_up_is_found_whatever_sizes(sizes: list[float], warm: int, factor: float) -> None:
    assert left_out(make_query(sizes, rest=0.0, factors=[factor] * min(warm, 1))) == [0] * min(warm, 1)
