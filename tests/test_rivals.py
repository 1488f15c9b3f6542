"""The rules of other systems, on rates made by hand: each does what its authors say, with their parameters."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from scaler.model.errors import BadInput
from scaler.model.kernel import Floats, KernelView, delta_of, first_step, lay_out, two_slowest, view_deployment
from scaler.model.policy import Policy, Start, build_policy
from scaler.model.task import Task
from scaler.policies import POLICIES, find_policy
from scaler.policies.rules.threshold_search import SHORTEST_WINDOW, cost_of, past
from scaler.policies.rules.true_rate import gauge, make_true_rate, total_rate
from sim.plant import backlog, fluid_queue, memoryless, no_queue
from sim.replicas import Inertia, disturb, fresh_plant
from tests.examples import make_task, replay

RIVALS = ["ds2", "dhalion", "pid", "spark-ratio", "flink", "threshold-search"]
ONE = make_task(types=1, k_max=10, one_at_a_time=False)  # capacity 180 per replica; 50 ms are met up to 164
MEMORYLESS, BACKLOG = "memoryless", "backlog"


class Operator:
    """A policy on a plant, slot by slot."""

    def __init__(self, name: str, task: Task = ONE, plant: str = MEMORYLESS, k: tuple[int, ...] = (1,), **options: Any):
        kernel = find_policy(name)
        self.policy = Policy(kernel, Start(task, task, 0, options))
        self.p, self.k = lay_out(task), np.array(k, np.int64)
        self.plant_kind, self.plant = plant, fresh_plant(self.p, self.k, Inertia())
        self.before: KernelView | None = None
        self.action = 0
        self.obeyed = True

    def step(self, rate: float) -> int:
        """Replicas more, or less, that one slot leads to."""
        serve, measure = (memoryless, no_queue) if self.plant_kind == MEMORYLESS else (backlog, fluid_queue)
        slowest = two_slowest(self.p, self.k)[0]
        utilisation, response, _ = serve(self.p, self.plant, self.k, int(self.k.sum()), slowest, rate)
        catch_up, waiting, ratio = measure(self.plant)
        seen = view_deployment(self.p, self.k, rate + catch_up, utilisation, response, rate, waiting, ratio)
        if self.before is not None:
            self.policy.absorb(self.k, self.before, self.action, seen)
        self.action = self.policy.choose(self.k, seen) if self.obeyed else 0
        if self.p.one_at_a_time:
            self.action = first_step(self.p, self.k, seen.count, self.action)
        self.before = seen
        change = np.array([delta_of(self.p, self.k, self.action, i) for i in range(len(self.k))])
        if self.action != 0 and self.plant_kind == BACKLOG:
            disturb(self.p, self.plant, self.k, self.action)
        self.k += change
        return int(change.sum())

    def run(self, rates: Floats | list[float]) -> list[int]:
        """Parallelism after each slot."""
        counts = []
        for rate in rates:
            self.step(float(rate))
            counts.append(int(self.k.sum()))
        return counts


def at(rate: float, slots: int) -> Floats:
    return np.full(slots, rate)


def test_ds2_adds_what_is_missing_in_one_step_and_stays() -> None:
    operator = Operator("ds2-s")
    assert operator.run(at(880.0, 40)) == [1] + [5] * 39  # 5 replicas of 180; the first slot has none before it


def test_ds2_takes_one_replica_fewer_for_no_change() -> None:
    operator = Operator("ds2-s", k=(5,))
    assert set(operator.run(at(3.5 * 180.0, 20))) == {5}
    assert operator.run(at(2.5 * 180.0, 3)) == [3] * 3


def test_ds2_pursues_its_target_where_replicas_come_one_a_slot() -> None:
    operator = Operator("ds2-s", make_task(types=1, k_max=10, one_at_a_time=True), activation=1)
    assert operator.run(at(880.0, 8)) == [1, 2, 3, 4, 5, 5, 5, 5]


@pytest.mark.parametrize(
    ("choose", "headed_for"), [("latest", [5, 4, 4, 3]), ("highest", [6, 6, 5, 4]), ("median", [6, 5, 4, 4])]
)
def test_ds2_carries_out_the_latest_highest_or_median_evaluation(choose: str, headed_for: list[int]) -> None:
    operator = Operator("ds2-s", k=(8,), choose=choose, activation=3)
    operator.obeyed = False
    courses = []
    for evaluated in (6, 6, 6, 5, 4, 4, 3):  # the first slot has none before it
        operator.step(170.0 * evaluated)
        courses.append(int(operator.policy.state.course[0]))
    assert courses == [0, 0, 0, *headed_for]


def test_ds2_leaves_the_slots_after_a_change_out() -> None:
    operator = Operator("ds2-s", activation=2, warm_up=3)
    assert operator.run(at(500.0, 3)) == [1, 1, 3]
    assert operator.run(at(880.0, 6)) == [3, 3, 3, 3, 5, 5]  # three of warm-up, two evaluations


def test_ds2_scales_in_by_as_much_as_its_evaluations_agree_on() -> None:
    operator = Operator("ds2-s", activation=5, choose="highest")
    operator.run(at(880.0, 20))
    assert operator.run(at(350.0, 12)) == [5] * 4 + [2] * 8
    assert operator.run(at(880.0, 3)) == [5] * 3


def test_ds2_adds_its_scaling_factor() -> None:
    assert Operator("ds2-s", factor=0.5).run(at(500.0, 20))[-1] == math.ceil(500.0 / 180.0 * 1.5)


@pytest.mark.parametrize(("ratio", "count"), [(1.0, 4), (1.2, 3)])
def test_ds2_makes_up_for_what_true_rates_do_not_show(ratio: float, count: int) -> None:
    """Speeds 1, .7, .7 are 432 tuples per second, but an even split gets 378 through: 1.1 times as much arrives."""
    task = make_task(types=2, k_max=10, one_at_a_time=False)
    assert Operator("ds2-c", task, k=(1, 2), ratio=ratio).run(at(415.0, 60))[-1] == count


@pytest.mark.parametrize("count", range(1, 11))
def test_ds2_measures_the_true_rate_whatever_the_utilisation(count: int) -> None:
    for share in (20.0, 100.0, 175.0, 400.0):
        operator = Operator("ds2-s", k=(count,), window=3)
        operator.obeyed = False
        operator.run(at(share * count, 10))
        assert operator.policy.state.sizing.true_rate.each[0] == pytest.approx(180.0)


def test_ds2_sums_true_rates_over_replicas_of_several_types() -> None:
    task = make_task(types=3, k_max=10, one_at_a_time=False)
    operator = Operator("ds2-s", task, k=(1, 0, 1))
    operator.run(at(300.0, 3))
    assert total_rate(operator.p, operator.policy.state.sizing.true_rate, operator.k) == pytest.approx(180.0 * 2.3)


def test_ds2_learns_no_true_rate_from_a_queue_that_grows() -> None:
    operator = Operator("ds2-s", plant=BACKLOG)
    operator.run(at(120.0, 20))
    known = operator.policy.state.sizing.true_rate.each[0]
    assert known == pytest.approx(180.0)
    counts = operator.run(at(850.0, 60))
    assert counts == [5] * 60  # the arrivals' share; what has queued up meanwhile is left to what that has to spare
    assert operator.policy.state.sizing.true_rate.each[0] == pytest.approx(180.0, rel=0.01)


@pytest.mark.parametrize(("processed", "useful_s", "true_rate"), [(20.0, 2.0, 10.0), (200.0, 1.0, 200.0)])
def test_ds2_measures_the_example_of_its_authors(processed: float, useful_s: float, true_rate: float) -> None:
    """One instance in a window of 10 s, of which it was useful for a part."""
    p, t, k = lay_out(ONE), make_true_rate(1, 0), np.array([1])
    seen = view_deployment(p, k, processed / 10.0, useful_s / 10.0, 0.01)
    assert gauge(p, t, seen, 0, seen)
    assert t.each[0] == pytest.approx(true_rate)


def test_ds2_takes_what_gets_through_where_it_never_saw_a_replica_idle() -> None:
    """The backlog fell by as much as was got through beyond the arrivals."""
    p = lay_out(ONE)
    t = make_true_rate(1, 0)
    k = np.array([2])
    before = view_deployment(p, k, 100.0 + 200.0, 1.0, 9.0, 100.0, 60_000.0)  # a backlog of five slots of 200 a second
    seen = view_deployment(p, k, 100.0 + 148.0, 1.0, 9.0, 100.0, 44_400.0)
    assert gauge(p, t, before, 0, seen)
    assert t.each[0] == pytest.approx(180.0)


def test_spark_requests_above_nine_tenths_and_gives_back_below_three() -> None:
    for utilisation, change in ((0.89, 0), (0.91, 1), (0.31, 0), (0.29, -1)):
        operator = Operator("spark-ratio-s", k=(4,))
        assert [operator.step(4 * 180.0 * utilisation) for _ in range(2)] == [0, change]


def test_spark_requests_the_rounded_ratio_once_an_interval() -> None:
    operator = Operator("spark-ratio-s", k=(2,), interval=6)
    counts = operator.run(at(2 * 180.0 * 2.6, 13))  # 3 more; then one, as the ratio is above 1 still
    assert counts == [2] * 6 + [5] * 6 + [6]


def test_spark_averages_over_the_interval() -> None:
    operator = Operator("spark-ratio-s", k=(2,), interval=4)
    rates = 2 * 180.0 * np.array([0.5, 0.5, 1.5, 0.5, 0.5, 0.5, 1.5, 0.5, 0.5])  # means of .75: no reaction
    assert set(operator.run(rates)) == {2}


def test_spark_reads_processing_time_over_the_trigger_where_there_are_batches() -> None:
    """A fixed overhead makes the ratio high though replicas idle; without batches utilisation stands for it."""
    p, k = lay_out(ONE), np.array([4])
    for ratio, wanted in ((2.6, 7), (0.95, 5), (0.5, 4), (0.2, 3), (0.0, 4), (math.nan, 4)):
        policy = build_policy(find_policy("spark-ratio-s"), ONE)
        seen = view_deployment(p, k, 360.0, 0.5, 0.04, 360.0, 0.0, ratio)
        policy.absorb(k, seen, 0, seen)
        action = policy.choose(k, seen)
        assert k[0] + delta_of(p, k, action, 0) == wanted


@pytest.mark.parametrize("one_at_a_time", [False, True])
@pytest.mark.parametrize("setpoint", [0.5, 0.7, 0.85])
@pytest.mark.parametrize("rate", [100.0, 400.0, 777.0, 1000.0])
def test_pid_settles_within_its_band_without_overshoot(setpoint: float, rate: float, one_at_a_time: bool) -> None:
    task = make_task(types=1, k_max=15, one_at_a_time=one_at_a_time)
    operator = Operator("pid-s", task, setpoint=setpoint)
    counts = operator.run(at(rate, 40))
    assert all(b >= a for a, b in pairwise(counts))
    assert len(set(counts[-20:])) == 1
    missing = (rate / (counts[-1] * 180.0) / setpoint - 1.0) * counts[-1]
    assert abs(missing) < 0.6 or counts[-1] == 1


def test_pid_does_not_wind_up() -> None:
    """However long it has been at the limit, or its changes were refused, it turns at once."""
    for slots in (20, 400):
        operator = Operator("pid-s", make_task(types=1, k_max=4))
        operator.run(at(2000.0, slots))
        assert operator.run(at(200.0, 4)) == [3, 2, 2, 2]
        operator = Operator("pid-s", make_task(types=1, k_max=15), k=(4,))
        operator.obeyed = False
        operator.run(at(1500.0, slots))
        operator.obeyed = True
        assert operator.run(at(200.0, 4)) == [3, 2, 2, 2]


def test_pid_sees_more_than_a_saturated_utilisation_shows() -> None:
    operator = Operator("pid-s", plant=BACKLOG)  # (1 / .7 - 1) of one replica is less than its dead band
    assert operator.run(at(400.0, 30))[-1] >= 3


def test_flink_waits_for_its_window_then_goes_to_the_target_at_once() -> None:
    counts = Operator("flink-s").run(at(900.0, 60))  # 900 / 180 / .7 = 7.1
    assert counts == [1] * 15 + [8] * 45


def test_flink_leaves_alone_what_is_within_its_bounds() -> None:
    for utilisation, slots in ((0.98, 300), (0.42, 300)):
        operator = Operator("flink-s", k=(4,))
        assert set(operator.run(at(4 * 180.0 * utilisation, slots))) == {4}


def test_flink_delays_a_scale_in_and_goes_to_the_highest_called_for_meanwhile() -> None:
    operator = Operator("flink-s", k=(8,), window=1, stabilisation=0, scale_down_delay=60)
    rates = np.concatenate([at(500.0, 30), at(700.0, 1), at(500.0, 60)])  # 4 called for, once 6
    counts = operator.run(rates)
    assert counts[:61] == [8] * 61
    assert counts[61:65] == [6, 6, 6, 6]
    operator = Operator("flink-s", k=(8,), window=1, stabilisation=0, scale_down_delay=60)
    rates = np.concatenate([at(200.0, 50), at(1000.0, 1), at(200.0, 60)])  # called off: the delay begins anew
    assert set(operator.run(rates)) == {8}


def test_flink_scales_in_by_its_factor_at_most() -> None:
    operator = Operator("flink-s", k=(10,), window=1, stabilisation=0, scale_down_delay=5)
    assert operator.run(at(20.0, 10)) == [10] * 6 + [4] * 4


def test_flink_takes_no_metrics_while_it_stabilises() -> None:
    operator = Operator("flink-s", k=(2,), window=3, stabilisation=10)
    counts = operator.run(at(460.0, 7))
    assert counts[-1] == 4
    counts = operator.run(at(1260.0, 30))
    assert counts == [4] * 9 + [10] * 21  # ten slots since the change, three of a window


def test_flink_provisions_for_the_lag() -> None:
    """The sooner it is to be caught up with, the more replicas; arrivals and lag are asked for apart."""
    asked = []
    for catch_up in (200.0, 400.0, 30_000.0):
        operator = Operator("flink-s", plant=BACKLOG, k=(3,), window=1, stabilisation=0, catch_up=catch_up)
        operator.obeyed = False
        operator.run(np.concatenate([at(400.0, 5), at(700.0, 6)]))
        operator.obeyed = True
        operator.step(560.0)
        asked.append(int(operator.policy.state.course[0]))
        assert operator.before is not None
        needed = 560.0 / 0.7 + operator.before.backlog / catch_up
        assert asked[-1] == math.ceil(needed / 180.0)
    assert asked[0] > asked[1] > asked[2]


def test_dhalion_grows_by_the_share_of_time_held_back() -> None:
    operator = Operator("dhalion-s", k=(4,))
    counts = operator.run(at(4 * 180.0 * 1.45, 12))
    assert counts == [4] * 5 + [6] * 7  # one slot before the first lesson, five of a window


def test_dhalion_counts_the_backlog_and_not_what_waits_for_its_batch() -> None:
    p, k = lay_out(ONE), np.array([4])
    for waiting, ratio, direction in ((0.0, 0.5, -1), (40.0, 0.5, 0), (0.0, 0.0, 0), (math.nan, 0.5, -1)):
        policy = build_policy(find_policy("dhalion-s"), ONE)
        seen = view_deployment(p, k, 360.0, 0.5, 3.0, 360.0, waiting, ratio)  # a response of 3 s is 270 tuples each
        for _ in range(5):
            policy.absorb(k, seen, 0, seen)
        assert delta_of(p, k, policy.choose(k, seen), 0) == direction


def test_dhalion_shrinks_idle_queues_and_bars_what_did_not_help() -> None:
    operator = Operator("dhalion-s", k=(5,), blacklist=100)
    quiet, busy = 5 * 180.0 * 0.3, 4 * 180.0 * 1.2
    counts = operator.run(np.concatenate([at(quiet, 6), at(busy, 6), at(quiet, 60)]))
    assert counts[5] == 4  # a fifth of five
    assert 5 in counts[6:20]  # backpressure: the scale-in is taken back and judged not to have helped
    back = counts.index(5, 6)
    assert set(counts[back + 2 :]) <= {5, 6}
    assert 4 in operator.run(at(quiet, 100))  # the entry lapses


def test_dhalion_does_not_judge_what_was_not_carried_out() -> None:
    operator = Operator("dhalion-s", k=(4,))
    operator.obeyed = False
    operator.run(at(4 * 180.0 * 1.3, 30))
    assert not operator.policy.state.barred.any()
    operator.obeyed = True
    assert operator.run(at(4 * 180.0 * 1.3, 4))[-1] == 6


def test_dhalion_is_content_between_its_symptoms() -> None:
    assert set(Operator("dhalion-s", k=(4,)).run(at(4 * 180.0 * 0.8, 100))) == {4}


def hold_cost(policy: str, rates: Floats, seed: int) -> float:
    """Mean cost of a slot, compiled."""
    return replay(ONE, rates, find_policy(policy), seed, perturbed=True).cost


def flapping(seed: int) -> Floats:
    """Loads whose noise spans the fixed rule's two thresholds, so that it goes to and fro."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(12_000) < 0.3, rng.uniform(500.0, 560.0, 12_000), rng.uniform(200.0, 260.0, 12_000))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 5))])
def test_searched_thresholds_beat_the_fixed_ones_where_these_are_wrong(seed: int) -> None:
    rates = flapping(seed)
    assert hold_cost("threshold-search-s", rates, seed) < 0.8 * hold_cost("threshold-s", rates, seed)


@pytest.mark.parametrize("seed", range(3))
def test_searched_thresholds_cost_little_where_the_fixed_ones_are_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = np.clip(300.0 + rng.normal(0.0, 5.0, 6000), 0.0, None)
    assert hold_cost("threshold-search-s", rates, seed) <= 1.02 * hold_cost("threshold-s", rates, seed)


def test_the_search_prices_a_rule_as_the_plant_does() -> None:
    """On the model of the plant, the cost of a candidate is what a replay of the threshold rule pays."""
    rates = flapping(7)[:1440]
    operator = Operator("threshold-search-s")
    state, p = operator.policy.state, operator.p
    state.capacity.service[0], state.capacity.each[0] = p.mean, p.capacity[0]
    state.frozen[:] = rates
    state.clock[2] = len(rates)
    point = (np.array([0.75, 0.75, 1.0]) - (0.2, 0.2, 1.0)) / (np.array([0.98, 0.98, 61.0]) - (0.2, 0.2, 1.0))
    k = np.array([int(np.ceil(rates[0] / 180.0 / 0.75))])
    fixed = Operator("threshold-s", k=(int(k[0]),))
    cost = 0.0
    for rate in rates:
        cost += p.w_res * fixed.k[0] * p.price[0] + p.w_perf * (rate > fixed.k[0] * p.capacity[0])
        cost += p.w_rcf * (fixed.step(float(rate)) != 0)
    assert cost_of(p, state, point) == pytest.approx(cost, rel=1e-9)


def test_the_window_drops_what_it_no_longer_resembles() -> None:
    operator = Operator("threshold-search-s")
    operator.run(at(100.0, 701))  # the first slot is learned from with the second
    assert operator.policy.state.window.place[1] == 700
    operator.run(at(500.0, 600))
    window = operator.policy.state.window
    rates = [past(window, age) for age in range(window.place[1])]
    assert rates.count(500.0) == 600
    assert rates.count(100.0) < SHORTEST_WINDOW  # of 700; so few no longer stand out


@pytest.mark.parametrize("choice", ["c", "s", "o"])
@pytest.mark.parametrize("plant", [MEMORYLESS, BACKLOG])
@pytest.mark.parametrize("rival", RIVALS)
def test_every_rule_runs_on_either_plant_from_any_start(rival: str, plant: str, choice: str) -> None:
    """From one replica to K, some of another type: it stays within limits and ends up able to serve what comes."""
    task = make_task(types=3, k_max=6)
    rng = np.random.default_rng(4)
    rates = np.concatenate([rng.uniform(0.0, 900.0, 120), at(0.0, 40), at(380.0, 260)])
    for start in ((1, 0, 0), (0, 1, 0), (1, 2, 0), (2, 2, 2), (0, 0, 6)):
        policy = build_policy(find_policy(f"{rival}-{choice}"), task, 1)
        record, _, _, k, *_ = replay(task, rates, policy, plant=plant, first=start)
        assert 1 <= k.sum() <= task.k_max
        assert k.min() >= 0
        assert record.output[-60:].sum() >= 0.999 * rates[-60:].sum(), start


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("ds2-c", {"activation": 0}, "'activation' is 0, and must be a number from 1 to 100000"),
        ("ds2-c", {"window": 2.5}, "'window' is 2.5, and must be a whole number"),
        ("spark-ratio-c", {"up": 0.2}, "'down' is 0.3, and must be less than 'up'"),
        ("flink-c", {"target": "high"}, "'target' is 'high', and must be a number"),
        ("flink-c", {"target": 0.3}, "'boundary' is 0.3, and must be less than 'target'"),
        ("pid-c", {"setpoint": 0}, "'setpoint' is 0"),
        ("dhalion-c", {"blacklist": -1}, "'blacklist' is -1"),
        ("threshold-search-c", {"longest": 10}, "'longest' is 10, and must be a number from 240"),
    ],
)
def test_wrong_options_are_refused(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as refusal:
        find_policy(name).prepare(Start(ONE, ONE, 0, options))
    assert says in str(refusal.value)


def test_all_rivals_are_in_the_registry() -> None:
    assert {f"{rival}-{choice}" for rival in RIVALS for choice in "csop"} <= set(POLICIES)
