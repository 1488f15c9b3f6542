"""Dense and sparse tables hold the same values; sparse ones stay within their budget."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scaler.policies.learning.q_values import claim, find, make_table, read, reserve, table_bytes

writes = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 2), st.floats(-1e3, 1e3)), max_size=300)


def put(table, state: int, column: int, value: float) -> None:
    row = claim(table, state)
    assert row >= 0
    table.values[row, column] = value


@given(writes)
def test_sparse_and_dense_agree_with_a_dictionary(items) -> None:
    dense = make_table(5001, 3, fill=0.5)
    sparse = make_table(5001, 3, fill=0.5, dense_bytes=0)
    assert len(dense.keys) == 0 < len(sparse.keys)
    plain: dict[tuple[int, int], float] = {}
    for state, column, value in items:
        sparse = reserve(sparse, 1)
        put(dense, state, column, value)
        put(sparse, state, column, value)
        plain[state, column] = value
    for state in {s for s, _, _ in items} | {17, 4999}:
        for column in range(3):
            expected = plain.get((state, column), 0.5)
            assert read(dense, state, column) == expected
            assert read(sparse, state, column) == expected


def test_growing_moves_every_row_and_nothing_else() -> None:
    table = make_table(10**12, 2, dense_bytes=0)
    states = np.random.default_rng(1).integers(0, 10**12, 20_000)
    for i, state in enumerate(states.tolist()):
        table = reserve(table, 1)
        put(table, state, 1, float(i))
    last = {state: float(i) for i, state in enumerate(states.tolist())}
    assert table.used[0] == len(last)
    assert all(read(table, state, 1) == value for state, value in last.items())
    assert find(table, 10**12 + 1) == -1


def test_a_full_budget_refuses_rows_and_counts_them() -> None:
    table = make_table(10**9, 1, dense_bytes=0)
    budget = table_bytes(table)
    for state in range(20_000):
        table = reserve(table, 1, budget_bytes=budget)
        row = claim(table, state)
        if row >= 0:
            table.values[row, 0] = 1.0
    assert table_bytes(table) <= budget
    assert table.used[1] > 0
    assert table.used[0] + table.used[1] == 20_000
    assert read(table, 0, 0) == 1.0
