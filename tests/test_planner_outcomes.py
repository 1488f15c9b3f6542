"""The planner's lists of seen outcomes: sweeps over them equal, to the digit, sweeps over all outcomes."""

from __future__ import annotations

import numpy as np
import pytest

from scaler.model.kernel import Floats, Problem, lay_out
from scaler.model.policy import Start, flatten
from scaler.policies.planner.planner import PLANNER
from scaler.policies.planner.replica_worth import POOL_PRIOR_VISITS, PRIOR_VISITS, Worth, appraise, clip
from scaler.policies.planner.state import State
from scaler.policies.planner.workload import OUTCOMES, POOL_VISITS_TO_HALVE, V, Workload, X, Y, count
from tests.examples import make_rates, make_task, replay

TASK = make_task(types=2, k_max=4)
THRESHOLDS = 6


@pytest.fixture(scope="module")
def state() -> State:
    """Of a planner that has seen a load for a while."""
    return replay(TASK, make_rates(4000), PLANNER).state


def appraise_all(p: Problem, v: Worth, w: Workload, view: int, b: int, price: float, everywhere: bool) -> Floats:
    """Worth [F] after one sweep as its equation is written, over every outcome whether it was seen or not."""
    worth = v.by_situation[view, b].copy()
    for y in range(Y - 1, -1, -1):
        for x in range(X):
            f = y * X + x
            if not everywhere and w.visits[view, b, f] == 0:
                continue
            prior = max(POOL_PRIOR_VISITS, float(w.width[y]))
            scale = PRIOR_VISITS / (w.pool_visits[view, f] + prior)
            above = scale * prior * w.hazard[f]
            loop = scale * prior - above
            rest = above * clip(worth[x], p.w_rcf + v.late_in[b, x], p.w_rcf + v.late_out[b, x])
            for to in range(OUTCOMES * X):
                outcome, height = divmod(to, X)
                weight = w.counts[view, b, f, to] + scale * w.pool[view, f, to]
                after = height if outcome == 0 else min(y + outcome - 1, Y - 1) * X + height
                above += weight * (outcome == 0)
                if after == f:
                    loop += weight
                else:
                    rest += weight * clip(worth[after], p.w_rcf + v.late_in[b, height], p.w_rcf + v.late_out[b, height])
            total = w.visits[view, b, f] + PRIOR_VISITS
            worth[f] = (p.w_perf * above - p.w_res * price * total + rest) / (total - loop)
    return worth


@pytest.mark.parametrize("view", range(V))
@pytest.mark.parametrize("b", [0, THRESHOLDS - 1])
@pytest.mark.parametrize("everywhere", [True, False])
def test_a_sweep_is_that_over_all_outcomes(state: State, view: int, b: int, everywhere: bool) -> None:
    p = lay_out(TASK)
    wanted = appraise_all(p, state.worth, state.workload, view, b, p.price[b // 3], everywhere)
    appraise(p, state.worth, state.workload, view, b, p.price[b // 3], everywhere)
    np.testing.assert_allclose(state.worth.by_situation[view, b], wanted, rtol=1e-11)


def list_seen(w: Workload) -> list[list[int]]:
    """What is listed of every situation that was met."""
    return [w.known[v, f, : w.many[v, f]].tolist() for v, f in np.argwhere(w.pool_visits > 0).tolist()]


def test_outcomes_that_were_seen_are_listed_once_and_in_order(state: State) -> None:
    w = state.workload
    wanted = [np.flatnonzero(w.pool[v, f]).tolist() for v, f in np.argwhere(w.pool_visits > 0).tolist()]
    assert list_seen(w) == wanted
    assert max(map(len, wanted)) > 3


def test_what_fades_from_the_pool_stays_listed_for_the_thresholds_that_saw_it() -> None:
    w = PLANNER.prepare(Start(TASK, TASK)).workload
    f = int(w.situation[0, 0])
    count(w, 0, 0, 0, 5)
    w.pool_visits[0, f] = POOL_VISITS_TO_HALVE - 1
    w.situation[0, 0] = f
    count(w, 0, 0, 1, 2)
    assert w.pool[0, f].sum() == 0
    w.situation[0, 0] = f
    count(w, 0, 0, 0, 5)
    assert w.known[0, f, : w.many[0, f]].tolist() == [5, X + 2]
    assert w.counts[0, 0, f, X + 2] == 1


def test_a_checkpoint_without_lists_is_loaded_with_them(state: State) -> None:
    arrays = {name: array for name, array in flatten(state).items() if name not in ("workload.known", "workload.many")}
    loaded = PLANNER.load(PLANNER.prepare(Start(TASK, TASK)), arrays)
    assert list_seen(loaded.workload) == list_seen(state.workload)


def test_a_planner_for_another_bound_lists_what_it_inherits(state: State) -> None:
    own = PLANNER.prepare(Start(TASK, TASK))
    inherited = PLANNER.inherit(TASK, own, TASK, state)
    assert list_seen(inherited.workload) == list_seen(state.workload)
