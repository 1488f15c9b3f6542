"""Rate, backlog and response time of streams whose arrivals, batches and service times are known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model.nodes import NodeType
from scaler.sensing.driver import QueryActivity
from scaler.sensing.evaluate import evaluate
from scaler.sensing.evidence import Evidence
from scaler.sensing.observation import make_samples, observe
from scaler.sensing.query_history import QueryPast, find_spans
from scaler.sensing.reading import NoteCode, Reading
from tests.live.streams import BEGAN, play, recorded, sign, spread, tell
from tests.pipeline.logs import progress as log_progress

SLOT = 60.0
FEW = settings(max_examples=40)


def always(seconds: float) -> Callable[[int], float]:
    return lambda _: seconds


def read(events: list[dict[str, object]], start: float, end: float, **now: Any) -> Reading:
    return read_slot("words", tell(events, end), start, end, **now)


def read_slot(operator: str, past: QueryPast, start: float, end: float, **now: Any) -> Reading:
    return evaluate(Evidence(operator, start, end, past, activity=QueryActivity(**now)))


streams = st.fixed_dictionaries(
    {
        "rate": st.floats(5.0, 400.0),
        "trigger": st.sampled_from([0.5, 1.0, 2.0, 5.0]),
        "load": st.floats(0.05, 0.85),
        "overhead": st.floats(0.05, 0.3),
        "counted": st.booleans(),
    }
)


@FEW
@given(streams)
def test_a_steady_stream_gives_back_what_it_is(stream: dict[str, float]) -> None:
    rate, trigger = stream["rate"], stream["trigger"]
    arrived = spread([(200.0, rate)])
    each = stream["load"] / rate

    def serve(rows: int) -> float:
        return stream["overhead"] * trigger + each * rows

    played = play(arrived, trigger, serve, BEGAN + 200, counted=bool(stream["counted"]))
    start, end = BEGAN + 60, BEGAN + 120
    seen = read(played.events, start, end)
    assert seen.arrival_rate == pytest.approx(rate, rel=0.02, abs=2.0 / SLOT * 2)
    assert seen.response == pytest.approx(played.response(start, end), rel=0.03, abs=1.0 / rate)
    for quantile in (0.5, 0.95):
        expected = played.response_quantile(start, end, quantile)
        assert seen.response_at(quantile) == pytest.approx(expected, rel=0.05, abs=2.0 / rate)
    assert seen.completeness == pytest.approx(1.0, abs=0.01)
    assert seen.backlog == (0.0 if stream["counted"] else None)
    late = max(done - began for began, done in zip(played.began, played.done, strict=True)) + trigger
    assert rate * (SLOT - late) * 0.95 - 2.0 <= (seen.tuples_in or 0.0) <= rate * SLOT * 1.05 + 2.0
    assert seen.tuples_out == seen.tuples_in
    assert seen.notes == ()
    batches = len({began for began, done in zip(played.began, played.done, strict=True) if start <= done < end})
    assert seen.batches == pytest.approx(batches, abs=1)


@FEW
@given(st.floats(20.0, 200.0), st.integers(0, 2**32 - 1), st.booleans())
def test_arrivals_at_random_are_met_on_average(rate: float, seed: int, counted: bool) -> None:
    draw = np.random.default_rng(seed)
    arrived = BEGAN + np.cumsum(draw.exponential(1.0 / rate, size=int(rate * 260)))
    played = play(arrived, 1.0, lambda rows: 0.1 + 0.6 * rows / rate, BEGAN + 250, counted=counted)
    start, end = BEGAN + 60, BEGAN + 240
    seen = read(played.events, start, end)
    assert seen.arrival_rate == pytest.approx(played.rate(start, end), rel=0.02, abs=2.0 / SLOT)
    assert seen.response == pytest.approx(played.response(start, end), rel=0.04)


def test_a_limit_that_is_too_small_shows_as_backlog_and_as_waiting() -> None:
    """50 a second come, 30 are taken: by minute two each tuple waits for all that piled up before it."""
    arrived = spread([(300.0, 50.0)])
    played = play(arrived, 1.0, always(0.5), BEGAN + 300, limit=30)
    for minute in (1, 2, 3):
        start, end = BEGAN + 60 * minute, BEGAN + 60 * minute + 60
        seen = read(played.events, start, end)
        assert seen.arrival_rate == pytest.approx(50.0, rel=0.01)
        assert seen.tuples_in == pytest.approx(30.0 * 60, rel=0.02)
        assert seen.backlog == pytest.approx(20.0 * (end - BEGAN), rel=0.02, abs=60.0)
        assert seen.response == pytest.approx(played.response(start, end), rel=0.02)
        assert seen.batch_throughput == pytest.approx(60.0)  # thirty in half a second
        assert seen.latest_arrival_rate == pytest.approx(50.0, rel=0.05)
        assert seen.has(NoteCode.BATCHES_FULL)
    assert (seen.response or 0.0) > 60.0


def test_queueing_over_batches_is_in_the_response_while_a_backlog_is_worked_off() -> None:
    arrived = spread([(60.0, 40.0), (30.0, 120.0), (150.0, 20.0)])
    played = play(arrived, 1.0, lambda rows: 0.1 + rows / 100.0, BEGAN + 240, limit=80)
    for k in range(1, 8):
        start, end = BEGAN + 30 * k, BEGAN + 30 * k + 30
        seen = read(played.events, start, end)
        assert seen.response == pytest.approx(played.response(start, end), rel=0.05, abs=0.05)
        expected = played.response_quantile(start, end, 0.95)
        assert seen.response_at(0.95) == pytest.approx(expected, rel=0.06, abs=0.05)
        assert seen.arrival_rate == pytest.approx(played.rate(start, end), rel=0.08)


@FEW
@given(st.data())
def test_missing_events_lower_completeness_and_are_never_read_as_zero(data: st.DataObject) -> None:
    rate, seed = data.draw(st.floats(20.0, 200.0)), data.draw(st.integers(0, 2**16))
    counted, lost = data.draw(st.booleans()), data.draw(st.floats(0.0, 1.0))
    trigger = data.draw(st.sampled_from([1.0, 3.0, 7.0]))
    played = play(spread([(240.0, rate)]), trigger, always(0.2), BEGAN + 240, counted=counted)
    keep = random.Random(seed)
    fewer = [event for event in played.events if event["event"] != "progress" or keep.random() > lost]
    start, end = BEGAN + 120, BEGAN + 180
    whole, less = read(played.events, start, end), read(fewer, start, end)
    assert less.completeness <= whole.completeness + 1e-9
    assert less.arrival_rate is None or less.arrival_rate == pytest.approx(rate, rel=0.05)
    assert less.response is None or less.response == pytest.approx(whole.response, rel=0.05)
    assert less.backlog in (None, 0.0)
    if not any(event["event"] == "progress" for event in fewer):
        assert less.completeness == 0.0
        assert astuple(less)[3:13] == (None,) * 10


def test_half_of_the_reports_missing_is_half_complete() -> None:
    played = play(spread([(240.0, 50.0)]), 1.0, always(0.2), BEGAN + 240)
    start, end = BEGAN + 120, BEGAN + 180
    known = [
        e for e in played.events if e["event"] != "progress" or not BEGAN + 130 < tell([e]).triggers[0].time < end - 20
    ]
    seen = read(known, start, end)
    assert seen.completeness == pytest.approx(0.5, abs=0.04)
    assert seen.arrival_rate == pytest.approx(50.0, rel=0.02)


def test_silence_is_unknown_and_not_zero() -> None:
    played = play(spread([(100.0, 50.0)]), 1.0, always(0.2), BEGAN + 100)
    seen = read(played.events, BEGAN + 180, BEGAN + 240)
    assert (seen.arrival_rate, seen.response, seen.tuples_in, seen.batches) == (None, None, None, None)
    assert (seen.backlog, seen.completeness) == (None, 0.0)


def test_idleness_that_is_told_is_zero() -> None:
    played = play(spread([(100.0, 50.0)]), 1.0, always(0.2), BEGAN + 300)
    seen = read(played.events, BEGAN + 180, BEGAN + 240)
    assert (seen.arrival_rate, seen.tuples_in, seen.backlog, seen.batches) == (0.0, 0.0, 0.0, 0)
    assert seen.response is None  # nobody waited
    assert seen.utilisation == 0.0
    assert seen.completeness == 1.0
    short = [e for e in played.events if e["event"] != "idle"]
    assert read(short, BEGAN + 95, BEGAN + 115).completeness < 0.6
    looked = {"event": "idle", "document": sign("run-1", BEGAN + 114)}
    assert read([*short, looked], BEGAN + 95, BEGAN + 115).completeness == 1.0


def test_a_batch_under_way_is_no_hole_and_one_that_lasts_is_seen_before_it_ends() -> None:
    """Batches of nine seconds: at the end of the slot the last report is nine old, and more is on its way."""
    played = play(spread([(240.0, 10.0)]), 10.0, always(9.0), BEGAN + 240)
    start, end = BEGAN + 125, BEGAN + 185
    seen = read(played.events, start, end)
    assert seen.completeness == 1.0
    assert seen.arrival_rate == pytest.approx(10.0, rel=0.02)
    assert seen.response == pytest.approx(5.0 + 9.0, rel=0.02)
    longer = read(played.events, start, end, running_since=end - 40.0)
    assert longer.response == pytest.approx(40.0)
    assert read(played.events, start, end, running_since=end - 4.0).response == seen.response
    assert read(played.events, start, end, running_since=end + 4.0).response == seen.response


def test_tuples_that_waited_before_anybody_looked_waited_at_least_since_then() -> None:
    played = play(spread([(300.0, 50.0)]), 1.0, always(0.5), BEGAN + 300, limit=30)
    late = [e for e in played.events if e["event"] != "progress" or tell([e]).triggers[0].time >= BEGAN + 200]
    start, end = BEGAN + 230, BEGAN + 260
    seen = read(late, start, end)
    assert seen.response is not None
    assert 30.0 < seen.response < played.response(start, end)


def test_the_pipeline_has_the_same_response_of_a_batch_that_left_nothing() -> None:
    """Half the interval and the batch, as `tuner.pipeline.sources.log_samples` takes it."""
    documents = [log_progress(i, f"2023-11-15T00:00:{10 * i:02d}Z", 60, duration=1000) for i in range(3)]
    _, batches = find_spans(tell([{"event": "progress", "document": document} for document in documents]))
    assert [batch.response for batch in batches] == [None, 6.0, 6.0]
    assert [batch.spread for batch in batches] == [(), ((1.0, 11.0, 60.0),), ((1.0, 11.0, 60.0),)]


def test_a_policy_is_shown_the_quantile_that_the_objective_is_about() -> None:
    arrived = spread([(200.0, 50.0)])
    seen = read(play(arrived, 5.0, always(1.0), BEGAN + 200).events, BEGAN + 60, BEGAN + 120)
    mean, p95 = (observe(seen, {"a": 1}, (NodeType("a", 1.0, 1.0),), quantile).response for quantile in (None, 0.95))
    assert mean == seen.response == pytest.approx(3.5, rel=0.02)
    assert p95 == pytest.approx(5.75, rel=0.03)


def test_a_quantile_is_unknown_where_its_batches_are_and_counts_one_that_still_runs() -> None:
    seen = Reading("words", 0.0, SLOT, response=3.0)
    assert seen.response_at(None) == 3.0
    assert seen.response_at(0.95) is None
    assert math.isnan(observe(seen, {}, (), 0.95).response)
    played = play(spread([(300.0, 50.0)]), 5.0, always(1.0), BEGAN + 100)
    outlasted = read(played.events, BEGAN + 90, BEGAN + 150, running_since=BEGAN + 105)
    assert outlasted.response_at(0.95) == 45.0


def test_real_state_is_read_of_both_stores() -> None:
    """A count by key with RocksDB (whose files are written later) and with HDFS-backed stores."""
    rocks, memory = ([t.state for t in tell(recorded("state")[i : i + 2]).triggers] for i in (0, 2))
    assert [astuple(state)[:3] for state in rocks if state] == [(800, 3152160, 3), (1100, 3152160, 3)]
    assert [astuple(state)[3:] for state in rocks if state] == [(0.343, 0, 0.0), (0.516, 0, 0.0)]
    assert [astuple(state) for state in memory if state] == [
        (1100, 188136, 3, 0.436, None, None),
        (1500, 283560, 3, 0.4, None, None),
    ]


def test_state_of_a_slot_is_that_of_its_last_batch() -> None:
    first, second = (event["document"] for event in recorded("state")[:2])
    (own,) = second["stateOperators"]
    own["customMetrics"] |= {"rocksdbNumLoadedFromDfs": 2, "rocksdbSstFileSize": 4_000_000}
    events = [{"event": "progress", "document": document} for document in (first, second)]
    times = [t.time for t in tell(events).triggers]
    seen = read_slot("counts", tell(events), times[0], times[1] + 60.0)
    assert (seen.state_rows, seen.state_bytes, seen.state_partitions) == (1100, 4_000_000, 3)
    assert seen.commit_time == pytest.approx(0.343 + 0.516)
    assert (seen.store_loads, seen.store_load_time) == (2, pytest.approx(0.138))
    (sample,) = make_samples(seen)
    assert (sample["state_bytes"], sample["store_loads"]) == (4_000_000, 2)
    second["stateOperators"] = []
    stateless = read_slot("counts", tell(events), times[1], times[1] + 60.0)
    assert (stateless.state_bytes, stateless.commit_time) == (None, None)


def test_a_real_rate_stream_is_fifty_a_second() -> None:
    events = recorded("rate")
    times = [t.time for t in tell(events).triggers]
    seen = read_slot("rate", tell(events), times[1], times[-1])
    assert seen.arrival_rate == pytest.approx(50.0, rel=0.01)
    assert seen.completeness == pytest.approx(1.0)
    assert seen.response == pytest.approx(0.5 + 0.14, abs=0.1)


def test_real_files_a_restart_and_a_pause() -> None:
    events = recorded("files")
    past = tell(events)
    first, second = (sign.time for sign in past.started)
    pace = read_slot("files", past, first + 4, first + 7)
    assert pace.arrival_rate == pytest.approx(80.0, rel=0.06)  # twenty lines each quarter of a second
    assert pace.notes == ()
    idle = read_slot("files", past, past.triggers[8].time + 0.5, past.idle[-1].time)
    assert (idle.arrival_rate, idle.backlog, idle.completeness) == (0.0, 0.0, 1.0)
    again = read_slot("files", past, second - 2, second + 2)
    assert again.has(NoteCode.RESTARTED)
    assert again.completeness < 0.8
    assert again.arrival_rate == pytest.approx(80.0, rel=0.3)  # and not what waited for the new run


def test_a_real_backlog_grows_by_what_is_not_taken() -> None:
    past = tell(recorded("limited"))
    last = past.triggers[-1]
    seen = read_slot("ticks", past, last.time - 4.0, last.time + 0.5)
    assert seen.arrival_rate == pytest.approx(40.0, rel=0.03)
    assert seen.backlog == 561 - 300
    began = last.time - (last.latest or 0) / 40.0
    truth = [t.done - began - ((t.ended or 0) - 30) / 40.0 for t in past.triggers[-3:]]
    assert 2.9 < (seen.response or 0.0) < sum(truth) / 3  # nobody was there to see them come


@pytest.mark.parametrize("counted", [True, False])
def test_in_short_slots_an_overload_is_seen_while_batches_grow(counted: bool) -> None:
    """Rate times three, beyond what is served: slots of ten seconds, batches of up to twenty."""
    played = play(
        spread([(60.0, 40.0), (90.0, 120.0)]), 1.0, lambda rows: 0.1 + rows / 80.0, BEGAN + 150, None, counted
    )
    running = sorted(set(zip(played.began, played.done, strict=True)))
    seen = []
    for end in range(70, 111, 10):
        since = next((began for began, done in running if began < BEGAN + end < done), None)
        seen.append(read(played.events, BEGAN + end - 10, BEGAN + end, running_since=since))
    assert seen[0].arrival_rate == pytest.approx(120.0, rel=0.1)
    assert all(slot.arrival_rate is None or slot.arrival_rate == pytest.approx(120.0, rel=0.1) for slot in seen)
    assert all(slot.completeness < 0.8 for slot in seen if slot.arrival_rate is None)
    responses = [slot.response for slot in seen if slot.response is not None]
    assert len(responses) >= 4
    assert responses[0] > 1.5
    assert responses[-1] > 9.0
