"""The backlog plant against a brute-force fluid, and the laws it keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model.kernel import lay_out, two_slowest
from scaler.model.nodes import NodeType
from scaler.model.queueing import CATCH_UP_SLOTS
from sim.application import Application, Operator
from sim.infrastructure import Infrastructure
from sim.plant import backlog, fluid_queue, memoryless, no_queue
from sim.replicas import Inertia, disturb, fresh_plant
from sim.setting import Setting
from sim.simulate import simulate
from sim.trace import Trace
from tests.examples import make_task
from tests.oracles.fluid import Fluid
from tests.oracles.slots import answer

TASK = make_task(k_max=6)
P = lay_out(TASK)


def serve(plant, k, rate):
    slowest, _ = two_slowest(P, k)
    return backlog(P, plant, k, int(k.sum()), slowest, rate)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.floats(0.0, 900.0), st.integers(0, 6)), min_size=1, max_size=6),
    st.floats(0.0, 40.0),
    st.floats(0.0, 90.0),
)
def test_backlog_equals_a_fluid_in_tiny_steps(slots, pause_s: float, start_s: float) -> None:
    inertia = Inertia(30.0, pause_s, start_s)
    k = np.array([1, 1, 0])
    plant = fresh_plant(P, k, inertia)
    fluid = Fluid(TASK, [1, 1, 0])
    # each change may come a step late, at most two steps' worth of the fastest pace a slot
    coarse = 2 * len(slots) * inertia.slot_s / fluid.steps * P.k_max * P.speedup.max() / P.mean
    for rate, action in slots:
        _, _, output = serve(plant, k, rate)
        served, _ = fluid.slot(rate, inertia.slot_s)
        assert output * inertia.slot_s == pytest.approx(served, abs=coarse)
        assert plant.queue[0] == pytest.approx(fluid.waiting, abs=coarse)
        if action > 3 and k.sum() < P.k_max:
            disturb(P, plant, k, action)
            k[action - 4] += 1
            fluid.pause += pause_s
            fluid.starting.append((start_s, action - 4))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0.0, 900.0), st.integers(0, 6)), min_size=1, max_size=60))
def test_no_tuple_is_lost_and_no_replica_either(slots) -> None:
    inertia = Inertia(60.0, 5.0, 100.0)
    k = np.array([1, 0, 0])
    plant = fresh_plant(P, k, inertia)
    came = went = 0.0
    for rate, action in slots:
        utilisation, response, output = serve(plant, k, rate)
        came += rate * inertia.slot_s
        went += output * inertia.slot_s
        assert utilisation >= (1.0 if plant.queue[0] > 0.0 else 0.0)
        assert utilisation <= 1.0 or plant.queue[0] > 0.0
        assert response > 0.0
        assert plant.serving.min() >= 0
        assert 1 <= plant.serving.sum() <= k.sum() + plant.leaving.sum()
        assert plant.serving.sum() - plant.leaving.sum() + plant.booting[0] == k.sum()
        removable = 0 < action <= 3 and k[action - 1] > 0 and k.sum() > 1
        addable = action > 3 and k.sum() < P.k_max
        if removable or addable:
            disturb(P, plant, k, action)
            k[(action - 1) % 3] += 1 if addable else -1
    assert came == pytest.approx(went + plant.queue[0], rel=1e-9, abs=1e-6)


def test_without_inertia_or_overload_backlog_is_memoryless() -> None:
    k = np.array([2, 1, 0])
    plant = fresh_plant(P, k, Inertia(60.0, 0.0, 0.0))
    slowest, _ = two_slowest(P, k)
    for rate in (0.0, 10.0, 100.0, 300.0):
        now = serve(plant, k, rate)
        assert now == pytest.approx(memoryless(P, plant, k, 3, slowest, rate), rel=1e-9)
        assert now[:2] == pytest.approx(answer(TASK, (2, 1, 0), rate)[:2], rel=1e-9)


def test_an_overload_asks_for_what_memoryless_says_of_all_that_is_to_be_served() -> None:
    k = np.array([1, 1, 0])
    plant = fresh_plant(P, k, Inertia(60.0, 0.0, 0.0))
    slowest, _ = two_slowest(P, k)
    for rate in (300.0, 500.0, 900.0):
        used = serve(plant, k, rate)[0]
        assert used > 1.0
        assert used == pytest.approx(memoryless(P, plant, k, 2, slowest, rate + fluid_queue(plant)[0])[0])


def test_an_overload_must_be_caught_up_with() -> None:
    k = np.array([1, 0, 0])
    plant = fresh_plant(P, k, Inertia(60.0, 0.0, 0.0))
    serve(plant, k, 270.0)  # 90 tuples per second too many for 60 s
    assert plant.queue[0] == pytest.approx(90.0 * 60.0)
    first = serve(plant, k, 90.0)  # drains 90 per second: 60 s to go
    assert plant.queue[0] == pytest.approx(0.0, abs=1e-6)
    assert first[1] > TASK.bound
    assert serve(plant, k, 90.0)[1] < TASK.bound


def test_what_waits_is_asked_for_beside_what_comes() -> None:
    k = np.array([1, 0, 0])
    plant = fresh_plant(P, k, Inertia(60.0, 0.0, 0.0))
    assert fluid_queue(plant)[0] == 0.0
    serve(plant, k, 270.0)
    assert fluid_queue(plant)[0] == pytest.approx(90.0 / CATCH_UP_SLOTS)  # what 60 s left behind, in so many times 60 s
    assert no_queue(plant) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("policy", ["planner", "lohrmann-c"])
def test_an_outage_is_caught_up_with_by_replicas_that_go_again(policy: str) -> None:
    """A replica serves 180 a second, and 150 come; in slots 200 to 209 they are ten times as many."""
    rates = np.full(400, 150.0)
    rates[200:210] = 1500.0
    setting = Setting(
        application=Application((Operator("count", TASK.moments, 6),)),
        infrastructure=Infrastructure("one", (NodeType("small", 1.0, 1.0),), 1.0),
        trace=Trace(rates, 60.0),
        policy=policy,
        r_max=TASK.bound,
        highest_rate=1500.0,
        plant="backlog",
        inertia=Inertia(60.0, 0.0, 10.0),
    )
    line = simulate(setting, record=True).timeline
    assert line is not None
    k, late = line.replicas(0)[:, 0], line.responses[0] > TASK.bound
    assert k[205:215].max() == 6
    assert not late[230:].any()  # with those that 150 a second need, it would take more than a hundred slots
    assert k[300:].max() <= 2
