"""A recorded stream played again: nothing is lost, and cycles are those of the closed form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.what_if.record import make_query
from tuner.what_if.batches_on_executors import model_query
from tuner.what_if.played_stream import Position, find_arrivals, play_stream, play_until
from tuner.what_if.recorded_query import RecordedQuery, find_trigger

sizes_of = st.lists(st.floats(20.0, 800.0), min_size=4, max_size=40)


@given(sizes_of, st.integers(1, 10), st.sampled_from([0.0, 0.5, 3.0, 5.0, 20.0]), st.sampled_from([math.inf, 300.0]))
def test_records_are_answered_or_wait(sizes: list[float], executors: int, trigger: float, most: float) -> None:
    query = make_query(sizes)
    arrivals = replace(find_arrivals(query), most=most)
    until = float(arrivals.times[-1])
    played = play_until(arrivals, model_query(query).place(executors), trigger, Position(0.0), until)
    assert played.records.sum() + played.waiting == pytest.approx(sum(sizes), rel=1e-6)
    assert played.records.max() <= most * (1 + 1e-9)
    ends = played.starts + played.durations
    assert (played.starts[1:] >= ends[:-1] - 1e-9).all()
    assert (played.responses >= played.durations[:, None] - 1e-9).all()
    if trigger > 0.0:
        phase = played.starts / trigger
        at_trigger = np.abs(phase - np.round(phase)) < 1e-6
        overrun = np.isclose(played.starts, np.concatenate([[0.0], ends[:-1]]))
        assert (at_trigger | overrun).all()


@given(st.floats(20.0, 400.0), st.integers(1, 8))
def test_recorded_trigger_gives_half_of_it_and_a_batch(size: float, executors: int) -> None:
    query = make_query([size] * 30, per_record=0.005)
    model = model_query(query).place(executors)
    played = play_stream(find_arrivals(query), model, 5.0)
    assert float(played.responses.mean()) == pytest.approx(2.5 + model.overhead_s + model.per_record_s * size, rel=1e-6)


@pytest.mark.parametrize("executors", [1, 2, 3, 4, 8])
def test_batches_without_a_trigger_settle_at_their_cycle(executors: int) -> None:
    query = make_query([300.0, 200.0, 250.0, 250.0] * 100, per_record=0.01, rest=0.4)
    steady = replace(find_arrivals(query), came=np.linspace(0.0, 100_000.0, 401))
    model = replace(model_query(query).place(executors), deviations=np.zeros(1))
    played = play_stream(steady, model, 0.0)
    load = model.per_record_s * steady.rate
    assert played.behind == (load >= 1.0)
    assert played.durations[-50:].mean() == pytest.approx(model.last_cycle(steady.rate), rel=1e-3) or load >= 0.9


def test_overload_falls_behind_and_its_quantiles_are_infinite() -> None:
    query = make_query([800.0, 900.0] * 20, slots=8)  # 8 s of work every 5 s
    played = play_stream(find_arrivals(query), model_query(query).place(1), 5.0)
    assert played.behind
    assert math.isinf(played.quantile(0.5))


def test_known_backlog_counts_as_arrived() -> None:
    query = make_query([100.0] * 10)
    batches = [replace(batch, backlog=50.0 if batch.number < 5 else 0.0) for batch in query.batches]
    arrivals = find_arrivals(replace(query, batches=tuple(batches)))
    assert arrivals.came.tolist() == [0.0, 150.0, 250.0, 350.0, 450.0, 550.0, 600.0, 700.0, 800.0, 900.0, 1000.0]
    assert arrivals.most == 100.0


def shift(query: RecordedQuery, seconds: float, duration: float) -> RecordedQuery:
    batches = [replace(batch, start=batch.start + seconds, duration_s=duration) for batch in query.batches]
    return replace(query, batches=tuple(batches))


@pytest.mark.parametrize(
    ("seconds", "duration", "trigger"), [(0.0, 1.0, 5.0), (0.02, 4.95, 5.0), (2.5, 4.95, 0.0), (2.5, 3.0, 5.0)]
)
def test_trigger_is_found(seconds: float, duration: float, trigger: float) -> None:
    assert find_trigger(shift(make_query([100.0] * 10), seconds, duration).batches) == trigger
