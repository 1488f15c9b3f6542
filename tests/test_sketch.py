"""Sketches of response times: the stated error of their quantiles, merging, and what is stored of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.model.sketch import (
    ERROR,
    MAX_BUCKETS,
    Sketch,
    add_buckets,
    add_span,
    compact_sketch,
    find_quantile,
    merge_sketches,
)

times = st.lists(st.floats(1e-5, 1e6), min_size=1, max_size=50)
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)


def sketch_of(values: list[float]) -> Sketch:
    sketch: Sketch = {}
    for value in values:
        add_span(sketch, value, value, 1.0)
    return sketch


@given(times, st.sampled_from(QUANTILES))
def test_quantiles_are_within_stated_error(values: list[float], quantile: float) -> None:
    exact = float(np.quantile(values, quantile, method="inverted_cdf"))
    assert find_quantile(sketch_of(values), quantile) == pytest.approx(exact, rel=ERROR * (1 + 1e-9))


@given(st.floats(0.0, 50.0), st.floats(0.01, 100.0), st.sampled_from(QUANTILES))
def test_quantile_of_a_span_is_that_of_uniform(low: float, width: float, quantile: float) -> None:
    sketch: Sketch = {}
    add_span(sketch, low, low + width, 7.0)
    assert sum(sketch.values()) == pytest.approx(7.0)
    assert find_quantile(sketch, quantile) == pytest.approx(low + quantile * width, rel=ERROR * (1 + 1e-9))


@given(times, times)
def test_merging_equals_sketching_all(first: list[float], second: list[float]) -> None:
    assert merge_sketches([sketch_of(first), None, sketch_of(second)]) == pytest.approx(sketch_of(first + second))


def test_storing_bounds_buckets_and_keeps_upper_quantiles() -> None:
    rng = np.random.default_rng(3)
    values = rng.lognormal(0.0, 1.5, 20_000)
    stored = compact_sketch(json.loads(json.dumps(sketch_of(list(values)))))
    assert len(stored) <= MAX_BUCKETS
    assert sum(stored.values()) == pytest.approx(len(values), rel=1e-3)
    kept = values.max() / 2900.0
    assert len(sketch_of(list(values))) > MAX_BUCKETS
    for quantile in QUANTILES:
        exact = np.quantile(values, quantile)
        assert exact > kept
        assert find_quantile(stored, quantile) == pytest.approx(exact, rel=1.2 * ERROR)


def test_share_of_a_sketch_scales_its_tuples() -> None:
    sketch = sketch_of([1.0, 2.0])
    add_buckets(sketch, sketch_of([1.0, 2.0]), 0.5)
    assert sum(sketch.values()) == pytest.approx(3.0)


def test_nothing_known_has_no_quantile() -> None:
    assert find_quantile(None, 0.95) is None
    assert find_quantile({}, 0.95) is None
    assert merge_sketches([None, {}]) is None
