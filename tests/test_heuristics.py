"""Rules of the literature on situations whose right answer is known from the rule itself."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model.errors import BadInput
from scaler.model.kernel import Integers, KernelView, action_of, delta_of, lay_out, view_deployment
from scaler.model.policy import Kernel, Start
from scaler.model.queueing import mg1_response
from scaler.model.task import Task
from scaler.policies.learning.heinze import HEINZE_C, HEINZE_S, IN, NOTHING, OUT, preset
from scaler.policies.learning.linear import QL_FA, cut_levels, cut_stripes
from scaler.policies.rules.drs import DRS_C, DRS_O, DRS_P, DRS_S, least_replicas
from scaler.policies.rules.lohrmann import LOHRMANN_C, LOHRMANN_S
from tests.examples import make_task

TASK = make_task(types=3, k_max=8, one_at_a_time=False)  # speedups 1.0, 0.7, 1.3: -C is type 1, -S type 2
P = lay_out(TASK)
OUTS, INS = (4, 5, 6), (1, 2, 3)


def see(k: Integers, rate: float, task: Task = TASK) -> KernelView:
    """What a deployment of M/G/1 replicas shows at this rate."""
    p = lay_out(task)
    speed = min(p.speedup[i] for i in range(len(k)) if k[i])
    x = rate / int(k.sum())
    return view_deployment(p, k, rate, x * p.mean / speed, mg1_response(x, p.mean, p.variance, speed))


def deploy(*replicas: int) -> Integers:
    return np.array(replicas, dtype=np.int64)


def run(kernel: Kernel, k: Integers, rates: list[float], **options: Any) -> tuple[list[int], Integers, Any]:
    """The actions of a policy slot by slot, where they lead to, and its state then."""
    state = kernel.prepare(Start(TASK, TASK, 0, options))
    actions: list[int] = []
    before = None
    for rate in rates:
        seen = see(k, rate)
        if before is not None:
            kernel.learn(P, state, k, before, actions[-1], seen)
        actions.append(int(kernel.decide(P, state, k, seen)))
        k = k + np.array([delta_of(P, k, actions[-1], i) for i in range(3)])
        assert k.min() >= 0
        assert 1 <= k.sum() <= TASK.k_max
        before = seen
    return actions, k, state


# --- DRS ------------------------------------------------------------------------------------------------------------


def erlang_response(rate: float, mean: float, scv: float, count: int) -> float:
    """M/G/k by the textbook: Erlang C from its sum, times Allen and Cunneen's factor."""
    load = rate * mean
    if load >= count:
        return math.inf
    tail = load**count / math.factorial(count) / (1.0 - load / count)
    waiting = tail / (sum(load**i / math.factorial(i) for i in range(count)) + tail)
    return mean + waiting * mean / (count - load) * (1.0 + scv) / 2.0


@settings(max_examples=200)
@given(rate=st.floats(0.0, 3000.0), speedup=st.floats(0.2, 3.0), scv=st.floats(0.0, 4.0))
def test_drs_wants_the_fewest_replicas_that_meet_the_bound(rate: float, speedup: float, scv: float) -> None:
    mean = TASK.moments.mean
    p = lay_out(replace(TASK, moments=replace(TASK.moments, variance=scv * mean**2)))
    responses = [erlang_response(rate, mean / speedup, scv, k) for k in range(1, TASK.k_max + 1)]
    if any(abs(r / TASK.bound - 1.0) < 1e-9 for r in responses):
        return  # rounding decides
    enough = [k for k, r in enumerate(responses, 1) if r <= TASK.bound]
    assert least_replicas(p, rate, speedup) == (enough[0] if enough else TASK.k_max)


@pytest.mark.parametrize(("kernel", "chosen"), [(DRS_C, 1), (DRS_S, 2)])
@pytest.mark.parametrize("rate", [50.0, 400.0, 700.0])
def test_drs_goes_to_what_it_wants_in_one_step_and_stays(kernel: Kernel, chosen: int, rate: float) -> None:
    actions, k, _ = run(kernel, deploy(1, 0, 0), [rate] * 12)
    slowest = P.speedup[chosen] if k[chosen] and P.speedup[chosen] < 1.0 else 1.0
    wanted = least_replicas(P, rate, slowest)
    assert k.sum() == wanted
    first = least_replicas(P, rate, min(1.0, P.speedup[chosen]))
    assert actions[0] == action_of(P, deploy(1, 0, 0), chosen, first - 1)
    assert set(actions[1:]) == {0}
    few, after, _ = run(kernel, k, [20.0] * 12)
    assert few == [action_of(P, k, chosen, 1 - wanted), *[0] * 11]
    assert after.tolist() == [1, 0, 0]  # the first replica stays, being of another type


def test_drs_sizes_for_arrivals_and_leaves_the_backlog_to_what_is_to_spare() -> None:
    k = deploy(0, 0, 3)
    state = DRS_S.prepare(Start(TASK, TASK))
    plain = see(k, 400.0)
    behind = plain._replace(rate=900.0, backlog=150_000.0, utilisation=1.3)
    assert DRS_S.decide(P, state, k, behind) == DRS_S.decide(P, state, k, plain)


def test_drs_takes_the_type_that_carries_the_highest_rate_for_the_least_money() -> None:
    state = DRS_P.prepare(Start(TASK, TASK))
    prices = {i: math.ceil(650.0 / P.capacity[i]) * P.price[i] for i in range(3)}
    assert prices[state.node_type] == min(prices.values())


def test_o_takes_the_first_type_of_the_table() -> None:
    assert DRS_O.prepare(Start(TASK, TASK)).node_type == 0 != DRS_P.prepare(Start(TASK, TASK)).node_type


# --- Lohrmann ---------------------------------------------------------------------------------------------------------


def test_lohrmann_doubles_at_a_bottleneck_in_one_step_and_comes_back() -> None:
    calm, burst = 60.0, 500.0
    one = deploy(0, 0, 1)
    load = see(one, burst).utilisation
    assert 4 < 2 * load < 5  # so that twice the load takes five
    actions, k, _ = run(LOHRMANN_S, one, [calm, burst] + [calm] * 8)
    five = deploy(0, 0, 5)
    assert actions == [0, action_of(P, one, 2, 4), action_of(P, five, 2, -4)] + [0] * 7
    assert k.tolist() == [0, 0, 1]


def test_lohrmann_doubles_no_further_than_the_most() -> None:
    actions, k, _ = run(LOHRMANN_C, deploy(6, 0, 0), [5000.0] * 5)
    assert actions == [action_of(P, deploy(6, 0, 0), 1, 2), 0, 0, 0, 0]
    assert k.sum() == TASK.k_max


def test_lohrmann_takes_no_backlog_for_a_bottleneck() -> None:
    """Replicas that never rest, while what waits is worked off, are enough by the model; but the wait is seen."""
    k, state = deploy(0, 0, 3), LOHRMANN_S.prepare(Start(TASK, TASK))
    seen = see(k, 450.0)
    behind = seen._replace(rate=700.0, backlog=75_000.0, utilisation=1.0, response=0.4)
    assert LOHRMANN_S.decide(P, state, k, behind) == 0
    LOHRMANN_S.learn(P, state, k, seen, 0, behind)
    assert state.fit[0] > 10.0
    assert LOHRMANN_S.decide(P, state, k, behind) == action_of(P, k, 2, TASK.k_max - 3)


@pytest.mark.parametrize("rate", [100.0, 300.0, 500.0])
def test_lohrmann_holds_the_fewest_that_answer_in_time(rate: float) -> None:
    """On M/G/1 replicas Kingman's formula is exact, so e is 1 and the prediction comes true."""
    _, k, state = run(LOHRMANN_S, deploy(0, 0, 8), [rate] * 10)
    assert state.fit[0] == pytest.approx(1.0)
    assert see(k, rate).response <= TASK.bound
    assert k[2] == 1 or see(k - deploy(0, 0, 1), rate).response > TASK.bound


def test_lohrmann_keeps_its_replicas_while_the_bound_is_violated() -> None:
    k, state = deploy(0, 0, 5), LOHRMANN_S.prepare(Start(TASK, TASK))
    calm = see(k, 60.0)
    assert LOHRMANN_S.decide(P, state, k, calm) == action_of(P, k, 2, -4)
    assert LOHRMANN_S.decide(P, state, k, calm._replace(response=0.4, violated=True)) == 0
    LOHRMANN_S.learn(P, state, k, calm, OUTS[2], calm._replace(response=0.4))  # the pause of a change
    assert state.fit[0] == 1.0


def test_lohrmann_learns_how_much_slower_the_operator_is_than_predicted() -> None:
    state = LOHRMANN_S.prepare(Start(TASK, TASK))
    k, rate = deploy(0, 0, 3), 450.0
    seen = see(k, rate)
    service = P.mean / P.speedup[2]
    assert LOHRMANN_S.decide(P, state, k, seen) == 0
    slow = seen._replace(response=service + 3.0 * (seen.response - service))
    LOHRMANN_S.learn(P, state, k, seen, 0, slow)
    assert state.fit[0] == pytest.approx(3.0)
    LOHRMANN_S.learn(P, state, k, seen, 0, seen._replace(response=math.inf, utilisation=1.2))
    assert state.fit[0] == pytest.approx(3.0)
    tight = see(k, 620.0)
    assert tight.response <= TASK.bound < service + 3.0 * (tight.response - service)
    assert LOHRMANN_S.decide(P, state, k, tight) == OUTS[2]


# --- Heinze -----------------------------------------------------------------------------------------------------------


def test_heinze_starts_as_a_threshold_policy() -> None:
    q = preset(0.7)
    best = q.argmin(axis=1)
    assert set(best[:7]) == {IN}  # below .35
    assert set(best[7:15]) == {NOTHING}  # up to .7
    assert set(best[15:]) == {OUT}
    assert np.sort(q, axis=1).tolist() == [[0.0, 1.0, 1.0]] * 201


@pytest.mark.parametrize("target", [0.5, 0.7])
@pytest.mark.parametrize("rate", [150.0, 420.0, 640.0])
@pytest.mark.parametrize("count", [1, 8])
def test_heinze_heads_straight_for_its_band_on_a_constant_rate(target: float, rate: float, count: int) -> None:
    actions, _, _ = run(HEINZE_S, deploy(0, 0, count), [rate] * 20, target=target)
    moves = actions[: actions.index(0)]
    assert len(set(moves)) <= 1
    settled = count + len(moves) * (1 if OUTS[2] in moves else -1)
    step = int(see(deploy(0, 0, settled), rate).utilisation * 20)
    assert target / 2.0 <= step / 20 + 1e-9
    assert step / 20 <= target + 1e-9


def test_heinze_keeps_its_q_monotone() -> None:
    """After every step: where it scaled out, scaling in is worse than out at all higher utilisations; and mirrored."""
    rng = np.random.default_rng(4)
    state = HEINZE_C.prepare(Start(TASK, TASK))
    k = deploy(2, 2, 0)
    for before, after in rng.uniform(0.0, 800.0, (60, 2)):
        seen = see(k, after)
        following = int(HEINZE_C.decide(P, state, k, seen))
        u = int(see(k, before).utilisation * 20)
        HEINZE_C.learn(P, state, k, see(k, before), 0, seen)
        if following in OUTS:
            np.testing.assert_allclose(state.q[u:, IN], state.q[u:, OUT] + 0.1)
        elif following in INS:
            np.testing.assert_allclose(state.q[: u + 1, OUT], state.q[: u + 1, IN] + 0.1)


def test_heinze_learns_the_cost_of_being_off_target() -> None:
    """One step by hand: alpha .3, and the value of what is chosen next."""
    state = HEINZE_S.prepare(Start(TASK, TASK))
    k = deploy(0, 0, 2)
    before, after = see(k, 500.0), see(k, 300.0)  # utilisations 1.07 and .64
    HEINZE_S.learn(P, state, k, before, OUTS[2], after)
    assert state.q[21, OUT] == pytest.approx(0.3 * abs(0.6 - 0.7))


@pytest.mark.parametrize("target", [0.0, 1.5, "half"])
def test_heinze_refuses_a_target_that_is_no_utilisation(target: object) -> None:
    with pytest.raises(BadInput, match="'target'"):
        HEINZE_S.prepare(Start(TASK, TASK, 0, {"target": target}))


# --- QL+FA ------------------------------------------------------------------------------------------------------------


def test_tiles_take_two_levels_each_and_the_shifted_ones_others() -> None:
    row, shifted = cut_levels(30, 15, 0.0, 30.0), cut_levels(30, 15, -1.0, 31.0)
    assert row.tolist() == [(level + 1) // 2 for level in range(30)]
    assert set(np.diff(shifted)) <= {0, 1}
    assert max(np.bincount(shifted)) <= 3
    assert np.any(np.diff(row) != np.diff(shifted))
    assert max(row.max(), shifted.max()) <= 15


@pytest.mark.parametrize(("k_max", "levels"), [(1, 1), (1, 30), (10, 30), (20, 30), (50, 5)])
def test_stripes_of_slope_two_are_numbered_from_zero(k_max: int, levels: int) -> None:
    stripe = cut_stripes(k_max, levels)[1:]
    assert stripe.min() >= 0
    for count in range(1, k_max):
        np.testing.assert_array_equal(stripe[count - 1, : levels - 2], stripe[count, 2:])


def test_a_step_moves_the_value_by_all_active_weights_or_by_alpha_alone() -> None:
    k = deploy(1, 1, 0)
    before, seen = see(k - deploy(0, 1, 0), 100.0), see(k, 120.0)
    for options, times in (({}, 4.0), ({"shared_step": True}, 1.0)):
        state = QL_FA.prepare(Start(TASK, TASK, 0, options))
        state.rates[:] = 0.25, 0.0
        assert QL_FA.worth is not None
        QL_FA.learn(P, state, k, before, OUTS[1], seen)
        cost = P.w_rcf + P.w_res * 1.7
        value = QL_FA.worth(P, state, k - deploy(0, 1, 0), before, OUTS[1])
        assert value == pytest.approx(0.25 * times * cost)
