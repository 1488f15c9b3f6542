"""Seconds that reconfigurations add to batches, and the state they move, against streams made up event by event."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from scaler.model.hold import HoldTime
from scaler.model.kernel import action_of, lay_out
from scaler.model.orders import parse_objective, to_task
from scaler.model.sample import Sample
from scaler.model.task import Moments, Weights
from sim.application import Application, Operator
from sim.holding import HELD_S
from sim.infrastructure import find_infrastructure
from sim.replicas import Inertia, disturb, fresh_plant
from sim.setting import Setting, hold_law, tasks
from sim.simulate import simulate
from sim.trace import Trace
from tests.surrogate.changes import Change, changing_stream
from tuner.search.recommendation import make_model
from tuner.surrogate.fit import fit
from tuner.surrogate.fitted_application import apply_measured, find_hold
from tuner.surrogate.observed_windows import build_windows, divide, find_changes
from tuner.surrogate.reconfiguration_times import LEAST_EVENTS, find_passed, measure_reconfigurations, measure_state
from tuner.surrogate.surrogate import (
    OperatorSurrogate,
    ReconfigurationTime,
    StateSize,
    find_operator,
    from_document,
    to_document,
)
from tuner.views.surrogate_report import describe_reconfigurations, describe_state, list_cost_lines

MEAN = 0.1


def hold(replicas: int) -> float:
    return 4.0 + 1.5 * replicas if replicas > 0 else 2.0


def busy(moment: float) -> float:
    """Tuples per second: from little to more than the fewest replicas get through."""
    return 18.0 + 8.0 * float(np.cos(moment / 1500.0))


def draw_changes(seed: int, sizes: tuple[int, ...] = (1, 2, 3), many: int = 12) -> list[Change]:
    rng = np.random.default_rng(seed)
    changes = [(0.0, 3)]
    for i in range(many):
        moment, step = 600.0 * (i + 1) + rng.uniform(0.0, 60.0), int(rng.choice(sizes))
        there = changes[-1][1]
        changes.append((moment, there + step if there <= 3 else max(2, there - step)))
    return changes


def find_truth(changes: list[Change], direction: str) -> float:
    steps = np.diff([count for _, count in changes])
    return float(np.mean([hold(step) for step in steps if (step > 0) == (direction == "out") and step != 0]))


def measure(samples: list[Sample]) -> dict[str, ReconfigurationTime]:
    windows = build_windows(samples)["count"]
    each = divide(windows.tuples_in, windows.batches) * MEAN / windows.replicas.sum(axis=1)
    share = windows.rate * MEAN / windows.replicas.sum(axis=1)
    times = measure_reconfigurations(windows, each, share, ~find_changes(windows), ~windows.replicas_unknown)
    return {one.direction: one for one in times}


def test_extra_seconds_lie_in_their_intervals() -> None:
    """At 95 % confidence: of 60 intervals over 30 seeds four or more may miss the truth by chance once in 8 times."""
    missed, off = 0, {"out": [0.0], "in": [0.0]}
    for seed in range(30):
        changes = draw_changes(seed)
        found = measure(changing_stream(changes, hold, busy, windows=140, seed=seed))
        for name, one in found.items():
            assert one.events >= 4
            assert one.seconds is not None
            truth = find_truth(changes, name)
            missed += not one.seconds.low <= truth <= one.seconds.high
            off[name].append(one.seconds.value - truth)
    assert missed <= 7
    assert np.mean(off["out"]) == pytest.approx(0.0, abs=0.4)
    assert np.mean(off["in"]) == pytest.approx(0.0, abs=0.4)


def test_extra_seconds_grow_with_replicas() -> None:
    found = [measure(changing_stream(draw_changes(s), hold, busy, windows=140, seed=s))["out"] for s in range(12)]
    bases = [one.base_s for one in found if one.base_s is not None]
    slopes = [one.each_s for one in found if one.each_s is not None]
    assert (len(bases), len(slopes)) == (12, 12)
    assert np.mean(bases) == pytest.approx(4.0, abs=1.0)
    assert np.mean(slopes) == pytest.approx(1.5, abs=0.6)
    for one in found:
        assert sum(size.events for size in one.sizes) == one.events
        assert all((size.seconds is None) == (size.events < LEAST_EVENTS) for size in one.sizes)


@pytest.mark.parametrize("shared", [0.0, 2.0])
def test_free_changes_are_not_charged(shared: float) -> None:
    """Nor is an overhead that is another at another number of replicas."""
    found = measure(changing_stream(draw_changes(3, (1,)), lambda _: 0.0, busy, windows=140, shared=shared))
    for one in found.values():
        assert one.seconds is not None
        assert one.seconds.low < 0.0 < one.seconds.high
        assert abs(one.seconds.value) < 1.0


@pytest.mark.parametrize(("spread", "off"), [(False, 0.05), (True, 0.2)])
def test_batch_that_outlasts_windows_is_charged_whole(spread: bool, off: float) -> None:
    """Windows are a minute long: in one or two after each addition no batch ends, but some of its tuples are served."""
    held = changing_stream(draw_changes(2, (1,)), lambda n: 150.0 if n > 0 else 0.0, busy, windows=140, spread=spread)
    found = measure(held)
    assert found["out"].events >= LEAST_EVENTS
    assert found["out"].seconds is not None
    assert found["out"].seconds.value == pytest.approx(150.0, rel=off)


@pytest.mark.parametrize(("usual_s", "passed"), [(5.0, False), (20.0, True)])
def test_window_in_which_a_batch_begins_that_ends_in_the_next_is_passed(usual_s: float, passed: bool) -> None:
    """The batch of 50 s that ends with the third window's begin is the first after the one that ended before the
    second: where triggers are 20 s apart, none is missing.
    """
    times = [40.0, None, 50.0, 40.0]
    samples = [
        Sample(
            "shop", "count", 60.0 * i, 60.0 * (i + 1), "progress", node_type="plain", replicas=3.0,
            batches=None if lasted is None else 1.0, batch_time=lasted,
        )
        for i, lasted in enumerate(times)
    ]  # fmt: skip
    windows = build_windows(samples)["count"]
    found = find_passed(windows, divide(windows.batch_time, windows.batches), usual_s)
    assert found.tolist() == [False, passed, False, False]


def test_two_events_tell_nothing() -> None:
    changes = [(0.0, 3), (1500.0, 4), (3000.0, 3), (4500.0, 4)]
    found = measure(changing_stream(changes, hold, busy, windows=100))
    assert {name: one.events for name, one in found.items()} == {"out": 2, "in": 1}
    assert {(one.seconds, one.base_s, one.each_s) for one in found.values()} == {(None, None, None)}


def test_unclear_events_are_left_out() -> None:
    changes = [(0.0, 3), (1510.0, 4), (1590.0, 3), (3010.0, 5), (4510.0, 3)]
    samples = changing_stream(changes, hold, busy, windows=100)
    assert {name: one.events for name, one in measure(samples).items()} == {"out": 1, "in": 1}
    holed = [s for s in samples if not 4560.0 <= s.start < 4620.0]  # the window after the last change
    blind = [replace(s, batches=None, batch_time=None) if s.start == 3000.0 else s for s in holed]
    assert measure(blind).keys() == {"in"}
    assert measure([replace(s, batches=None, batch_time=None) for s in samples]) == {}


def test_surrogate_keeps_what_changes_cost() -> None:
    changes = draw_changes(1, (1, 2))
    samples = changing_stream(changes, hold, busy, windows=140)
    grown = [
        replace(
            s, state_bytes=5e6 + 40.0 * i, state_partitions=8.0, tuples_in=4.0 if s.tuples_in == 0.0 else s.tuples_in
        )
        for i, s in enumerate(samples)
    ]
    fitted = fit(grown, "shop")
    (operator,) = fitted.operators
    assert [one.direction for one in operator.reconfiguration] == ["out", "in"]
    for one in operator.reconfiguration:
        assert one.seconds is not None
        assert one.seconds.value == pytest.approx(find_truth(changes, one.direction), abs=1.5)
    assert operator.state is not None
    assert (operator.state.bytes, operator.state.partitions) == (5e6 + 40.0 * 139, 8)
    document = to_document(fitted)
    assert from_document(document) == fitted
    for old in document["operators"]:
        del old["state"], old["reconfiguration"]
    assert from_document(document).operators[0].reconfiguration == ()


def test_state_grows_by_tuple_and_loads_take_their_time() -> None:
    samples = [
        Sample(
            "shop", "count", 60.0 * i, 60.0 * i + 60.0, "progress", tuples_in=100.0 + i, state_rows=10.0 * i,
            state_bytes=8.0 * sum(100.0 + j for j in range(i + 1)), state_partitions=16.0,
            store_loads=4.0 if i % 10 == 3 else 0.0, store_load_time=6.0 + i % 3 if i % 10 == 3 else 0.0,
        )
        for i in range(40)
    ]  # fmt: skip
    state = measure_state(build_windows(samples)["count"])
    assert state is not None
    assert (state.partitions, state.rows) == (16, 390.0)
    assert state.growth is not None
    assert state.growth.value == pytest.approx(8.0)
    assert state.load is not None
    assert state.load.low < 7.0 / 4.0 < state.load.high
    stateless = [replace(s, state_bytes=None, state_rows=None, state_partitions=None) for s in samples]
    assert measure_state(build_windows(stateless)["count"]) is None


def test_report_says_what_changes_cost() -> None:
    known = measure(changing_stream(draw_changes(1), hold, busy, windows=140, seed=1))["out"]
    assert known.seconds is not None
    assert re.fullmatch(
        rf"Scale-out: {known.seconds.value:.3g} \[.*\] s of extra batch time, the mean of 6 reconfigurations; "
        r"[\d.]+ s and [\d.]+ s a replica\.",
        describe_reconfigurations(known),
    )
    unknown = replace(known, direction="in", events=2, seconds=None, base_s=None, each_s=None)
    assert describe_reconfigurations(unknown) == (
        "Scale-in: what it costs is not known after 2 reconfigurations; 3 are wanted."
    )
    state = StateSize(2.5e6, 100.0, 8, None, None)
    assert describe_state(state) == "State: 2.5 MB in 8 partitions."


def fit_changes(changes: list[Change], windows: int = 140, state: bool = False) -> OperatorSurrogate:
    samples = changing_stream(changes, hold, busy, windows=windows)
    if state:
        samples = [
            replace(s, state_bytes=6e6 + 4e3 * i, state_partitions=8.0, store_loads=4.0, store_load_time=3.2)
            for i, s in enumerate(samples)
        ]
    return find_operator(fit(samples, "shop"), "count")


def test_replay_holds_what_was_measured() -> None:
    fitted = fit_changes(draw_changes(1, (1, 2)), state=True)
    shape = Operator("count", Moments(1.0, 0.0), k_max=9, stateful=True)
    operator = apply_measured(fitted, shape, False)
    assert operator.hold is not None
    measured = {one.direction: one for one in fitted.reconfiguration}
    assert operator.hold.out == HoldTime(measured["out"].base_s, measured["out"].each_s, measured["out"].events)
    assert (operator.partitions, operator.hold.load_s) == (8, pytest.approx(0.8))
    assert (operator.state_bytes, operator.state_growth > 0.0) == (pytest.approx(6e6 + 4e3 * 139), True)
    nodes, rates = find_infrastructure("A", 1), np.tile([5.0, 40.0], 200)
    setting = Setting(Application((operator,)), nodes, Trace(rates), "threshold-c", 9.0, plant="batches")
    run = simulate(setting, record=True)
    assert run.timeline is not None
    steps = np.diff(run.timeline.replicas(0)[:, 0])
    held = sum(getattr(operator.hold, "out" if s > 0 else "into").seconds(abs(s)) for s in steps.tolist() if s)
    assert np.count_nonzero(steps) > 20
    last = run.timeline.actions[0, -1] != 0  # what was decided in the last slot is held, too
    assert run.held_seconds == pytest.approx(held, abs=10.0 * last)


def test_unknown_direction_is_replayed_by_loads_or_constant() -> None:
    changes = [(0.0, 3), *((600.0 * i, 3 + i) for i in range(1, 5)), (3600.0, 6)]
    for state, seconds, says in (
        (True, 4 * 0.8, "loads of its 8 stores"),
        (False, 5.0, "for pause_s of the run"),
    ):
        fitted = fit_changes(changes, 90, state)
        found = find_hold(fitted)
        assert found is not None
        assert (found.out is not None, found.into) == (True, None)
        operator = apply_measured(fitted, Operator("count", Moments(1.0, 0.0)), False)
        setting = Setting(
            Application((operator,)), find_infrastructure("A", 1), Trace(np.ones(3)), "static", 9.0, plant="batches"
        )
        p = lay_out(tasks(setting)[0])
        plant = fresh_plant(p, np.array([2]), setting.inertia, hold_law(setting, operator))
        disturb(p, plant, np.array([2]), action_of(p, np.array([2]), 0, -1))
        assert plant.hold.sums[HELD_S] == pytest.approx(seconds)
        assert says in list_cost_lines(fitted)[-1]
        assert list_cost_lines(fitted)[-1].startswith("How long a scale-in holds answers was not measured")
    assert find_hold(fit_changes([(0.0, 3)], 60)) is None


def test_orders_carry_the_hold_of_known_directions() -> None:
    fitted = fit_changes([(0.0, 3), *((600.0 * i, 3 + i) for i in range(1, 5)), (3600.0, 6)], 90)
    known = apply_measured(fitted, Operator("count", Moments(1.0, 0.0)), False)
    blind = Operator("parse", Moments(1.0, 0.0))
    trace = Trace(np.ones(3), 30.0)
    inertia = Inertia(30.0)
    application, nodes = Application((blind, known)), find_infrastructure("A", 1)
    setting = Setting(application, nodes, trace, "planner", 9.0, plant="batches", inertia=inertia)
    model = make_model(setting, {})
    sent = {"version": 1, "weights": Weights().to_json(), **json.loads(json.dumps(model.to_json()))}
    for table in sent["operators"].values():
        table["bound"] = 4.0
    tasks_of = {name: to_task(parse_objective(sent), name) for name in ("parse", "count")}
    assert (tasks_of["count"].hold, tasks_of["count"].slot_s) == (known.hold, 30.0)
    assert known.hold is not None
    assert known.hold.into is None
    p = lay_out(tasks_of["count"])
    assert known.hold.out is not None
    assert p.hold_out_s == known.hold.out.base_s + known.hold.out.each_s
    assert np.isnan(p.hold_in_s)
    assert tasks_of["parse"].hold is None
    assert "hold" not in sent["operators"]["parse"]
