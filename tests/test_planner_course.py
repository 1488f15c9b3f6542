"""Changes of any size: the level follows ramps, capacities follow shifts, lateness is learned of what overloads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scaler.model.hold import HoldTime, HoldTimes
from scaler.model.kernel import lay_out, view_deployment
from scaler.model.nodes import Deployment
from scaler.model.policy import Observation, Transition, build_policy
from scaler.policies.planner.capacity import expect_capacity, observe_capacity, shows_service
from scaler.policies.planner.deployment_plan import make_course, note_lateness, price_in, price_out
from scaler.policies.planner.load_chain import (
    begin_level,
    make_chain,
    observe_level,
    share_overloaded,
    share_slightly_late,
    slightly_late,
)
from scaler.policies.planner.planner import PLANNER
from tests.examples import interpreted, make_task

RAMP_PER_SLOT = 1.06
FULL, HALF = 500.0, 250.0
NOISE = 0.03


def test_level_keeps_up_with_a_ramp() -> None:
    rng = np.random.default_rng(0)
    chain, rate = make_chain(2000.0), 60.0
    begin_level(chain, rate)
    for _ in range(40):
        rate *= RAMP_PER_SLOT
        observe_level(chain, rate * (1.0 + NOISE * rng.standard_normal()))
    assert chain.level[0] == pytest.approx(rate, rel=RAMP_PER_SLOT - 1.0)


def test_level_is_calmer_than_noise() -> None:
    rng = np.random.default_rng(0)
    chain, levels = make_chain(200.0), []
    begin_level(chain, 100.0)
    for _ in range(1000):
        observe_level(chain, 100.0 * (1.0 + NOISE * rng.standard_normal()))
        levels.append(chain.level[0])
    assert np.std(levels[100:]) < 0.6 * 100.0 * NOISE


def scale(rates: list[float]) -> list[int]:
    """Replicas after each of these slots, of an operator that had four under a load that needs them."""
    task = make_task(types=1, k_max=6, one_at_a_time=False)
    with interpreted():
        policy = build_policy(PLANNER, task)
    deployment, before, replicas = Deployment((4,)), None, []
    rng = np.random.default_rng(3)
    for slot, rate in enumerate([FULL * float(x) for x in rng.uniform(0.97, 1.03, 60)] + rates):
        x, m = rate / deployment.parallelism, task.moments.mean
        seen = Observation(60.0 * slot, rate, x * m, m + x * 0.75 * m * m / (1.0 - x * m), deployment)
        if before is not None:
            policy.learn(Transition(before, seen))
        deployment, before = deployment.after(policy.decide(seen)), seen
        replicas.append(deployment.parallelism)
    assert replicas[59] == 4
    return replicas[60:]


def test_a_load_that_falls_silent_gives_nothing_away_until_it_stays_away() -> None:
    """An upstream whose replicas were taken away puts out nothing, then what it is back for a part of the slot."""
    assert scale([0.0, 0.0, 0.0, 0.0])[:2] == [4, 4]
    assert scale([0.0, 0.0, 0.0, 0.0])[-1] < 4
    assert scale([0.0, HALF, FULL, FULL]) == [4, 4, 4, 4]
    assert scale([HALF, HALF])[-1] < 4  # a load that is only less is followed as ever


def test_a_mixed_deployment_that_is_late_is_left_at_once() -> None:
    """A change of the next slot seemed as good as one now, slot after slot: the slot that it takes was not counted."""
    task = make_task(types=2, k_max=6, one_at_a_time=False)
    with interpreted():
        policy = build_policy(PLANNER, task)
    mixed, rate, m = Deployment((1, 1)), 242.0, task.moments.mean / 0.7
    x, before = rate / 2.0, None
    for slot in range(4):
        seen = Observation(60.0 * slot, rate, x * m, m + x * 0.75 * m * m / (1.0 - x * m), mixed)
        if before is not None:
            policy.learn(Transition(before, seen))
        before = seen
    assert seen.response > task.bound
    assert mixed.after(policy.decide(seen)) == Deployment((2, 0))


def test_slower_service_is_known_within_slots() -> None:
    """A shift once seen outweighs what was learned before, so that the last tenth does not take a day."""
    task = make_task(types=1, k_max=4)
    p, k, h = lay_out(task), np.array([2]), task.moments.mean
    capacity = expect_capacity(p, task)
    for mean, slots in ((h, 100), (1.25 * h, 12)):
        for _ in range(slots):
            observe_capacity(p, capacity, view_deployment(p, k, 0.5 * 2 / mean, 0.5, mean))
    assert capacity.service[0] == pytest.approx(1.25 * h, rel=0.02)


@pytest.mark.parametrize(("response", "overloaded"), [(0.04, 0), (0.06, 1)])
def test_added_replicas_that_serve_at_once_leave_no_overload(response: float, overloaded: int) -> None:
    p = lay_out(make_task(types=1, k_max=4))
    course, k = make_course(p, 1, 1), np.array([2])
    course.overloads[4] = 10.0  # the capacity before one replica was added
    before = course.overloads[2]
    note_lateness(course, view_deployment(p, k, 15.0, 0.75, response), 15.0, 20.0, 0.0)
    assert (course.overloads[2] > before) == overloaded


@pytest.mark.parametrize(("rate", "class_of"), [(11.0, 0), (13.0, 2)])
def test_slots_are_late_for_the_last_overload(rate: float, class_of: int) -> None:
    """Noise that batches bear is told from jumps, which make several slots late."""
    p, k = lay_out(make_task(types=1, k_max=4)), np.array([1])
    course = make_course(p, 1, 1)
    before = course.overloads.copy()
    note_lateness(course, view_deployment(p, k, rate, 1.1, 0.04), rate, 10.0, 0.2)
    for _ in range(2):
        note_lateness(course, view_deployment(p, k, 5.0, 1.0, 0.06), 5.0, 10.0, 0.2)
    late = course.overloads[1:4:2] - before[1:4:2]
    assert late[class_of // 2] == pytest.approx(2.0, abs=0.03)
    assert late[1 - class_of // 2] == 0.0


@pytest.mark.parametrize("tolerance", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("capacity", [80.0, 95.0, 105.0, 130.0])
def test_shares_of_late_slots_are_means_over_rates(capacity: float, tolerance: float) -> None:
    rates = np.linspace(90.0, 120.0, 20_001)
    slight = float(np.mean([slightly_late(rate, capacity, tolerance) for rate in rates]))
    assert share_slightly_late(90.0, 120.0, capacity, tolerance) == pytest.approx(slight, abs=1e-3)
    beyond = float(np.mean(rates > (1.0 + tolerance) * capacity))
    assert share_overloaded(90.0, 120.0, capacity, tolerance) == pytest.approx(beyond, abs=1e-3)


SLOT = {"rate": 100.0, "utilisation": 0.5, "replicas": 2, "batch_ratio": 0.6, "backlog": 0.0}


@pytest.mark.parametrize(
    ("before", "seen", "shows"),
    [
        ({}, {}, True),
        ({"replicas": 1}, {}, False),  # the second may be starting
        ({"batch_ratio": 1.5}, {}, False),  # what had waited was worked off
        ({"backlog": 50.0}, {}, False),
        ({"rate": 300.0}, {}, False),  # the first batch has tuples of the slot before
        ({"rate": 300.0, "batch_ratio": 0.0}, {"batch_ratio": 0.0}, True),  # no batches
        ({"backlog": 50.0}, {"utilisation": 1.2, "batch_ratio": 1.5}, True),  # more came than was served
    ],
)
def test_service_shows_in_slots_of_their_own(before: dict[str, float], seen: dict[str, float], shows: bool) -> None:
    p = lay_out(make_task(types=1, k_max=4))
    slots = []
    for changed in (before, seen):
        slot: dict[str, float] = SLOT | changed
        figures = {name: slot[name] for name in ("rate", "utilisation", "batch_ratio", "backlog")}
        slots.append(view_deployment(p, np.array([int(slot["replicas"])]), response=0.01, **figures))
    assert shows_service(*slots) == shows


def test_a_change_costs_the_more_the_more_replicas_start_in_it() -> None:
    """Of holds of .5 s and 2.7 s a replica, with a slack of 3 s: one is a little late, and three by most of a slot."""
    hold = HoldTimes(out=HoldTime(0.5, 2.7), into=HoldTime(0.5))
    task = replace(make_task(types=1, k_max=4), bound=5.0, slot_s=10.0, hold=hold)
    p = lay_out(task)
    one, three = (price_out(p, 10.0, 20.0, 2.0, added) for added in (1, 3))
    assert p.w_rcf < one < p.w_rcf + 0.3 * p.w_perf
    assert three > p.w_rcf + p.w_perf
    assert price_in(p, 10.0, 20.0, 2.0, 3) == p.w_rcf
