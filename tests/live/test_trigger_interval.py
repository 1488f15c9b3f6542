"""Trigger interval and batch ratio: recorded streams of Spark, simulated ones, and what says nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model.nodes import NodeType
from scaler.model.spark_progress import Trigger
from scaler.sensing.driver import QueryActivity
from scaler.sensing.evaluate import evaluate
from scaler.sensing.evidence import Evidence
from scaler.sensing.observation import observe
from scaler.sensing.reading import Reading
from scaler.sensing.trigger_interval import estimate_trigger_interval
from tests.live.streams import BEGAN, play, recorded, spread, tell

NODES = [NodeType("small", 1.0, 1.0)]


@pytest.mark.parametrize(("name", "interval"), [("files", 1.0), ("rate", 1.0), ("limited", 2.0), ("state", None)])
def test_recorded_streams_have_the_trigger_they_ran_with(name: str, interval: float | None) -> None:
    assert estimate_trigger_interval(tell(recorded(name)).triggers) == interval


def test_recorded_batches_take_part_of_their_trigger() -> None:
    """Eight batches of the rate source that began in [526, 534): a sixth of a second each, of one."""
    past = tell(recorded("rate"))
    batches = [one for one in past.triggers if one.rows]
    start = batches[0].time
    seen = observe(evaluate(Evidence("words", start, start + 7.0, past)), {"small": 1}, NODES)
    assert seen.batch_ratio == pytest.approx(sum(one.duration or 0.0 for one in batches) / len(batches))
    assert seen.backlog is None  # the offsets of a rate source are seconds, and count no tuples


def test_recorded_backlog_is_observed() -> None:
    past = tell(recorded("limited"))
    last = past.triggers[-1]
    seen = observe(evaluate(Evidence("words", last.time - 4.0, last.done + 0.1, past)), {"small": 1}, NODES)
    assert seen.backlog == last.backlog
    assert (seen.backlog or 0) > 0


@settings(max_examples=40)
@given(st.sampled_from([0.5, 1.0, 2.0, 5.0, 60.0]), st.floats(0.1, 0.7), st.integers(0, 5), st.sampled_from([0, 20]))
def test_interval_is_found_through_overruns_and_pauses(trigger: float, load: float, long: int, pause: int) -> None:
    """One batch of several triggers' length, and a time without arrivals, in which no batch runs."""
    arrived = spread([(20 * trigger, 50 / trigger), (pause * trigger, 0.0), (20 * trigger, 50 / trigger)])
    spent = iter([trigger * (long + 0.5) if i == 7 else trigger * load for i in range(100)])
    triggers = tell(play(arrived, trigger, lambda _: next(spent), BEGAN + 60 * trigger).events).triggers
    assert estimate_trigger_interval(triggers) == trigger


@given(st.integers(300, 3000), st.floats(0.1, 0.9))
def test_batches_that_wait_for_data_show_no_trigger(step_ms: int, late: float) -> None:
    """Whatever their rhythm, they begin at no multiples of it."""
    step = step_ms / 1000.0
    starts = [step * (math.ceil(BEGAN / step) + i + late) for i in range(40)]
    waiting = [Trigger("q", "r", i, start, duration=0.05 * step) for i, start in enumerate(starts)]
    assert estimate_trigger_interval(waiting) is None


def test_stream_that_never_waited_has_no_known_trigger() -> None:
    played = play(spread([(60.0, 50.0)]), 1.0, lambda _: 1.5, BEGAN + 60.0)
    assert estimate_trigger_interval(tell(played.events).triggers) is None


def test_batch_that_runs_on_counts_for_as_long_as_it_ran() -> None:
    played = play(spread([(60.0, 50.0)]), 1.0, lambda _: 0.25, BEGAN + 20.0)
    past = tell(played.events)
    since = past.triggers[-1].time + 1.0
    activity = QueryActivity(running_since=since)
    seen = observe(evaluate(Evidence("words", since, since + 10.0, past, activity=activity)), {"small": 1}, NODES)
    assert seen.batch_ratio is None  # no report is of the slot
    early = since - 5.0
    seen = observe(evaluate(Evidence("words", early, early + 15.0, past, activity=activity)), {"small": 1}, NODES)
    assert seen.batch_ratio == pytest.approx(10.0)


def test_what_is_not_known_is_none_and_not_zero() -> None:
    reading = Reading("words", 0.0, 60.0, arrival_rate=5.0, batches=3, batch_time=6.0)
    assert observe(reading, {"small": 1}, NODES).batch_ratio is None
    assert observe(reading, {"small": 1}, NODES).backlog is None
    assert observe(Reading("words", 0.0, 60.0, trigger_interval=2.0), {"small": 1}, NODES).batch_ratio is None
    idle = Reading("words", 0.0, 60.0, batches=0, batch_time=0.0, trigger_interval=2.0, backlog=0.0)
    assert (observe(idle, {"small": 1}, NODES).batch_ratio, observe(idle, {"small": 1}, NODES).backlog) == (0.0, 0.0)
