"""Coordinators: a whole application sized at once, by the authors' test vectors and on a chain of three."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from scaler.model.errors import BadInput
from scaler.model.kernel import KernelView, delta_of, lay_out, two_slowest, view_deployment
from scaler.model.nodes import NodeType
from scaler.model.queueing import mgk_response
from scaler.model.task import Moments, Task
from scaler.policies import COORDINATORS, find_coordinator
from scaler.policies.coordinator import CoordinatorStart, lay_out_dataflow, start_coordinator
from scaler.policies.rules.drs_graph import share_out
from scaler.policies.rules.pid_delay import share_total, slowest_path
from sim.plant import backlog, fluid_queue
from sim.replicas import Inertia, disturb, fresh_plant
from tests.examples import make_rates, make_task

ONE = (NodeType("one", 1.0, 1.0),)
CHAIN = ((0, 1, 1.0), (1, 2, 1.0))


def serving(rate: float, k_max: int = 100) -> Task:
    """An operator whose replicas get through so many tuples per second, without variance."""
    return Task(types=ONE, k_max=k_max, moments=Moments(1.0 / rate, 0.0), bound=1.0, highest_rate=1e4)


class Application:
    """Operators on the plant with backlog under one coordinator; each gets what is got through upstream."""

    def __init__(self, name: str, start: CoordinatorStart, ks: Sequence[Sequence[int]]):
        self.coordinator, self.start = find_coordinator(name), start
        self.state = start_coordinator(self.coordinator, start)
        self.problems = [lay_out(task) for task in start.tasks]
        self.ks = [np.array(k, np.int64) for k in ks]
        self.plants = [fresh_plant(p, k, Inertia()) for p, k in zip(self.problems, self.ks, strict=True)]

    def step(self, external: float, obey: bool = True) -> list[int]:
        """Serve a slot, decide and act; the parallelism of each operator then."""
        views: list[KernelView] = []
        output: list[float] = []
        for i, (p, k, plant) in enumerate(zip(self.problems, self.ks, self.plants, strict=True)):
            rate = external * self.start.sources[i]
            rate += sum(selectivity * output[a] for a, b, selectivity in self.start.edges if b == i)
            utilisation, response, out = backlog(p, plant, k, int(k.sum()), two_slowest(p, k)[0], rate)
            catch_up, waiting, _ = fluid_queue(plant)
            views.append(view_deployment(p, k, rate + catch_up, utilisation, response, rate, waiting))
            output.append(out)
        actions = self.coordinator.decide(self.state, self.problems, self.ks, views)
        for p, k, plant, action in zip(self.problems, self.ks, self.plants, actions, strict=True):
            if obey and action != 0:
                disturb(p, plant, k, action)
                k += np.array([delta_of(p, k, action, i) for i in range(len(k))])
        return [int(k.sum()) for k in self.ks]


def chain(selectivities: Sequence[float], services: Sequence[float], shares: Sequence[float], **options: Any) -> Any:
    """Sources that need no scaling feed operators one after the other."""
    sources = len(shares)
    tasks = tuple(serving(1e4) for _ in shares) + tuple(serving(rate) for rate in services)
    edges = [(i, sources, 1.0) for i in range(sources)]
    edges += [(sources + i, sources + i + 1, s) for i, s in enumerate(selectivities)]
    return CoordinatorStart(tasks, tuple(edges), (*shares, *[0.0] * len(services)), 1.0, 0, options)


@pytest.mark.parametrize(
    ("rate", "shares", "first", "second", "expected"),
    [
        (100.0, (1.0,), (50.0, 400.0), 100.0, [2, 8]),
        (200.0, (1.0,), (40.0, 700.0), 99.0, [5, 36]),
        (200.0, (1.0,), (10.0, 700.0), 201.0, [20, 70]),
        (100.0, (1.0, 1.0), (50.0, 400.0), 100.0, [4, 16]),
    ],
)
def test_ds2_graph_meets_the_vectors_of_its_authors(
    rate: float, shares: tuple[float, ...], first: tuple[float, float], second: float, expected: list[int]
) -> None:
    """True rates of one instance each, processed and pushed, of the first operator; processed, of the second."""
    start = chain([first[1] / first[0]], [first[0], second], shares, activation=1)
    app = Application("ds2-graph-s", start, [(1,)] * len(start.tasks))
    app.step(rate)
    assert app.step(rate)[len(shares) :] == expected


def test_ds2_graph_sizes_a_chain_of_three_in_one_step() -> None:
    """Each operator sees but what the one before gets through; all are right at once, and stay."""
    start = CoordinatorStart((serving(100.0),) * 3, CHAIN, (1.0, 0.0, 0.0), 1.0, 0, {"activation": 1})
    app = Application("ds2-graph-s", start, [(1,)] * 3)
    courses = [app.step(650.0) for _ in range(12)]
    assert courses[0] == [1, 1, 1]
    assert courses[1:] == [[7, 7, 7]] * 11


def test_ds2_graph_provides_for_the_scaling_factor() -> None:
    start = CoordinatorStart((serving(100.0),) * 2, CHAIN[:1], (1.0, 0.0), 1.0, 0, {"activation": 1, "factor": 0.5})
    app = Application("ds2-graph-s", start, [(1,)] * 2)
    assert [app.step(400.0) for _ in range(2)][-1] == [6, 6]


def test_ds2_graph_waits_for_its_activation_time() -> None:
    start = CoordinatorStart((serving(100.0),) * 2, CHAIN[:1], (1.0, 0.0), 1.0, 0, {"activation": 4, "warm_up": 2})
    app = Application("ds2-graph-s", start, [(1,)] * 2)
    first = [app.step(300.0) for _ in range(5)]
    assert first == [[1, 1]] * 4 + [[3, 3]]
    later = [app.step(520.0) for _ in range(6)]  # two of warm-up, four to evaluate
    assert later == [[3, 3]] * 5 + [[6, 6]]


def test_ds2_graph_sums_true_rates_over_mixed_instances() -> None:
    """Of speeds 1 and 1.3, 180 tuples per second each second: 414 in all, 207 on average."""
    task = make_task(types=3, k_max=10, one_at_a_time=False)
    start = CoordinatorStart((task,), (), (1.0,), 1.0, 0, {"activation": 1})
    app = Application("ds2-graph-s", start, [(1, 0, 1)])
    app.step(800.0, obey=False)
    assert app.step(800.0) == [4]  # 800 / 207 = 3.9


def test_drs_graph_is_the_cheapest_by_brute_force() -> None:
    """Of all deployments that keep E[T] within R_max none has fewer replicas than the greedy one."""
    rates, services, r_max, external = (300.0, 600.0, 90.0), (100.0, 250.0, 35.0), 0.045, 300.0
    problems = [lay_out(serving(rate, 12)) for rate in services]

    def sojourn(counts: Sequence[int]) -> float:
        each = zip(problems, rates, counts, strict=True)
        return sum(x * mgk_response(x, p.mean, p.variance, 1.0, k, 1.0) for p, x, k in each) / external

    greedy = share_out(problems, rates, (1.0,) * 3, r_max * external)
    assert sojourn(greedy) <= r_max
    within = [sum(counts) for counts in product(range(1, 13), repeat=3) if sojourn(counts) <= r_max]
    assert sum(greedy) == min(within)


def test_drs_graph_begins_with_what_is_stable_and_ends_where_no_replica_helps() -> None:
    problems = [lay_out(serving(rate, 12)) for rate in (100.0, 50.0)]
    assert share_out(problems, (350.0, 120.0), (1.0, 1.0), math.inf) == [4, 3]
    assert share_out(problems, (350.0, 2000.0), (1.0, 1.0), 350.0) == [4, 12]  # the second cannot be stable
    assert share_out(problems, (350.0, 120.0), (1.0, 1.0), 0.0) == [12, 12]  # out of reach: as near as may be


def test_drs_graph_sizes_a_chain_at_once_from_what_comes_in() -> None:
    start = CoordinatorStart((serving(100.0),) * 3, CHAIN, (1.0, 0.0, 0.0), 0.04)
    app = Application("drs-graph-s", start, [(1,)] * 3)
    courses = [app.step(650.0) for _ in range(6)]
    assert len(set(map(tuple, courses))) == 1
    assert len(set(courses[0])) == 1
    assert courses[0][0] >= 7


def test_dhalion_graph_resolves_the_initiator_first() -> None:
    """Two bottlenecks, the second behind the first: the second grows first, then the other, one at a time."""
    start = CoordinatorStart(
        (serving(100.0), serving(40.0), serving(900.0)), CHAIN, (1.0, 0.0, 0.0), 1.0, 0, {"window": 2}
    )
    app = Application("dhalion-graph-s", start, [(1,), (1,), (1,)])
    courses = [app.step(150.0) for _ in range(30)]
    steps = [after for before, after in pairwise(courses) if before != after]
    assert steps[0] == [1, 2, 1]
    assert all(sum(a != b for a, b in zip(before, after, strict=True)) <= 1 for before, after in pairwise(courses))
    assert courses[-1][0] >= 2
    assert courses[-1][1] >= 4
    assert courses[-1][2] == 1


def test_dhalion_graph_shrinks_the_operator_that_works_least() -> None:
    start = CoordinatorStart((serving(100.0), serving(200.0)), CHAIN[:1], (1.0, 0.0), 1.0, 0, {"window": 2})
    app = Application("dhalion-graph-s", start, [(5,), (5,)])
    courses = [app.step(20.0) for _ in range(4)]
    assert next(counts for counts in courses if counts != [5, 5]) == [5, 4]


def test_pid_delay_sees_the_slowest_path_alone() -> None:
    edges = ((0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 1.0))
    flow = lay_out_dataflow(CoordinatorStart((serving(100.0),) * 4, edges, (1.0, 0, 0, 0), 1.0))
    assert slowest_path(flow, [1.0, 2.0, 5.0, 0.5]) == 6.5
    assert slowest_path(flow, [1.0, math.inf, 5.0, 0.5]) == math.inf


def test_pid_delay_shares_out_by_useful_time() -> None:
    problems = [lay_out(serving(100.0, 10)) for _ in range(3)]
    assert share_total(problems, [4.0, 2.0, 2.0], 8) == [4, 2, 2]
    assert share_total(problems, [90.0, 1.0, 1.0], 15) == [10, 3, 2]  # no more than an operator may have
    assert share_total(problems, [0.0, 0.0, 0.0], 2) == [1, 1, 1]
    assert share_total(problems, [1.0, 1.0, 1.0], 99) == [10, 10, 10]


def test_pid_delay_answers_a_step_and_then_holds_still() -> None:
    start = CoordinatorStart((serving(100.0, 40),) * 3, CHAIN, (1.0, 0.0, 0.0), 0.1)
    app = Application("pid-delay-s", start, [(2,)] * 3)
    courses = [app.step(650.0) for _ in range(80)]
    assert all(count >= 7 for count in courses[-1])
    assert courses[-1] == courses[-20]
    assert sum(courses[-1]) <= 45


@pytest.mark.parametrize("name", COORDINATORS)
def test_a_coordinator_keeps_within_limits_and_repeats_itself(name: str) -> None:
    task = make_task(types=3, k_max=6, k_min=2, one_at_a_time=False)
    start = CoordinatorStart((task,) * 3, ((0, 1, 0.5), (0, 2, 2.0)), (1.0, 0.0, 0.0), 0.2)
    runs = []
    for _ in range(2):
        app = Application(name, start, [(2, 0, 0), (1, 1, 0), (0, 0, 2)])
        runs.append([app.step(float(rate)) for rate in make_rates(150)])
        assert all(2 <= count <= 6 for counts in runs[-1] for count in counts)
        assert min(k.min() for k in app.ks) >= 0
    assert runs[0] == runs[1]
    assert len({tuple(counts) for counts in runs[0]}) > 3


@pytest.mark.parametrize("name", COORDINATORS)
def test_a_coordinator_refuses_unknown_options_and_cycles(name: str) -> None:
    tasks = (serving(100.0),) * 2
    with pytest.raises(BadInput, match="no option 'nonsense'"):
        start_coordinator(find_coordinator(name), CoordinatorStart(tasks, (), (1.0, 1.0), 1.0, 0, {"nonsense": 1}))
    circle = CoordinatorStart(tasks, ((0, 1, 1.0), (1, 0, 1.0)), (1.0, 0.0), 1.0)
    with pytest.raises(BadInput, match="feed each other in a cycle"):
        start_coordinator(find_coordinator(name), circle)


def test_unknown_coordinators_are_refused_by_name() -> None:
    with pytest.raises(BadInput, match="no coordinator 'magic'; choose one of ds2-graph-c"):
        find_coordinator("magic")
