"""Floor under a whole application: by brute force where it is exact, below every policy where it is a bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from operator import attrgetter

import numpy as np
import pytest

import sim.application_floor
from scaler.model.kernel import lay_out, two_slowest
from scaler.model.task import Moments
from sim.application import Application, Edge, Operator
from sim.application_floor import application_floor
from sim.floor import clairvoyant_floor
from sim.graphs import find_application
from sim.infrastructure import find_infrastructure
from sim.plant import memoryless
from sim.replicas import Inertia, fresh_plant
from sim.setting import Setting, tasks
from sim.simulate import simulate
from sim.trace import Trace
from tests.examples import make_rates
from tests.oracles.exhaustive import deployments

PAIR = Application(
    (Operator("a", Moments(0.004, 1.6e-5), 2), Operator("b", Moments(0.003, 0.9e-5), 2)), (Edge("a", "b", 0.8),)
)


def make_setting(rates: np.ndarray, one_at_a_time: bool, application: Application = PAIR, **changes: object) -> Setting:
    nodes = find_infrastructure("A", 2)
    fields = {"r_max": 0.03, "one_at_a_time": one_at_a_time} | changes
    return Setting(application, nodes, Trace(rates), "static", **fields)  # type: ignore[arg-type]


def brute(setting: Setting) -> float:
    """The least cost of every course of both operators, slot by slot."""
    stated = tasks(setting)
    problems = [lay_out(task) for task in stated]
    choices = list(product(*(deployments(task) for task in stated)))
    dearest = sum(task.dearest for task in stated)

    def near(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
        return not setting.one_at_a_time or sum(abs(a - b) for a, b in zip(one, other, strict=True)) <= 1

    def cost(joint: tuple[tuple[int, ...], ...], rate: float) -> float:
        total, price = 0.0, 0.0
        for p, k in zip(problems, joint, strict=True):
            held = np.array(k)
            plant = fresh_plant(p, held, Inertia())
            response, output = memoryless(p, plant, held, int(held.sum()), two_slowest(p, held)[0], rate)[1:]
            total, price, rate = total + response, price + float(held @ p.price), output * 0.8
        return 0.6 * (total > setting.r_max) + 0.2 * price / dearest

    def options(joint: tuple[tuple[int, ...], ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
        return (other for other in choices if all(map(near, joint, other)))

    later = dict.fromkeys(choices, 0.0)
    for rate in setting.trace.rates[::-1]:
        later = {
            joint: cost(joint, rate) + min(later[other] + 0.2 * (other != joint) for other in options(joint))
            for joint in choices
        }
    return later[((1, 0), (1, 0))] / len(setting.trace.rates)


@pytest.mark.parametrize("one_at_a_time", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_best_course_of_all_together(seed: int, one_at_a_time: bool) -> None:
    setting = make_setting(make_rates(12, seed, high=480.0), one_at_a_time)
    floor = application_floor(setting)
    assert floor.exact
    assert floor.lower == pytest.approx(brute(setting), rel=1e-12)


def test_one_replica_at_a_time_without_a_neighbour_stays() -> None:
    """With one replica at most there is no neighbour, and no way to another node type."""
    single = find_application("single", service_rate=180.0, k_max=1)
    first = {max(find_infrastructure("A", 2).types, key=attrgetter("price")).name: 1}
    stays, moves = (make_setting(np.full(50, 10.0), one, single, first=first) for one in (True, False))
    assert application_floor(stays).lower == pytest.approx(simulate(stays).cost, rel=1e-12)
    assert application_floor(moves).lower < application_floor(stays).lower


def test_of_one_operator_it_is_that_of_the_published_world() -> None:
    rates = make_rates(200, 1)
    setting = make_setting(rates, True, find_application("single", service_rate=180.0, k_max=4))
    assert application_floor(setting).lower == pytest.approx(
        clairvoyant_floor(tasks(setting)[0], rates).lower, rel=1e-12
    )


@pytest.mark.parametrize("policy", ["threshold-c", "static"])
def test_no_policy_is_below_it_nor_below_the_bound_of_many_operators(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one_at_a_time in (True, False):
        setting = make_setting(make_rates(300, 5, high=480.0), one_at_a_time)
        exact = application_floor(setting)
        cost = simulate(replace(setting, policy=policy)).cost
        monkeypatch.setattr(sim.application_floor, "MOST_STATES", 1)
        bound = application_floor(setting)
        monkeypatch.undo()
        assert not bound.exact
        assert 0.5 * exact.lower < bound.lower <= exact.lower <= cost
