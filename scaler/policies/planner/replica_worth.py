"""Value one more replica from how the load behaves around the capacity of those before it.

With replicas of one node type, the (j + 1)-th is needed in the slots whose rate is above what j can answer. Whether to
have it is a choice between on and off, and in situation f (see scaler/policies/planner/workload.py) its worth is

    d(f) = w_perf P(above in the next slot | f) - w_res price + E[ clip(d(f'), -c_in(f'), c_out(f')) ],

the cost of being off minus that of being on. Beyond the next slot the two differ by no more than a change, because one
can always change: hence the clip, and no discount is needed. Off turns on at d > c_out, on turns off at d < -c_in. A
change costs w_rcf and, where its hold was measured, w_perf for each slot's worth of late seconds (scaler/model/hold.py)
under the load at which its situation was last met.

Four models give d: by age and height, in each of the two views; by age alone, which needs less evidence; and one that
knows nothing and keeps a replica until its rent has come to the price of doing without it once and changing twice (rent
or buy, as with skis: never worse than twice the clairvoyant). Each keeps account of what it would have paid at a
threshold; the cheapest speaks there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.hold import late_seconds
from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, Problem
from scaler.model.queueing import CATCH_UP_SLOTS
from scaler.policies.planner.workload import SMOOTHED, V, Workload, X

BY_AGE = V  # the model after those by age and height
MODELS = V + 2
LEARNING_HANDICAP = 1.0  # in slot costs: what those that learn must first make good
PRIOR_VISITS = 10.0  # visits at one threshold that what all thresholds show stands for
POOL_PRIOR_VISITS = 2.0  # visits, and at least one pass, that Laplace's rule stands for among all thresholds
AGE_PRIOR_PASSES = 1.0  # passes through an age class, likewise


class Worth(NamedTuple):
    by_situation: Floats  # [V, B, F] d
    by_age: Floats  # [B, Y] d
    held: Integers  # [B, MODELS] whether each model would hold the replica now
    spent: Floats  # [B, MODELS] what each would have paid, fading
    late_out: Floats  # [B, X] cost of the late answers of scaling out beyond the threshold, by the load's height; 0
    late_in: Floats  # [B, X] where not known; and of scaling in


def make_worth(w: Workload) -> Worth:
    """Nothing is worth a change yet."""
    thresholds = len(w.age)
    return Worth(
        by_situation=np.zeros(w.visits.shape),
        by_age=np.zeros((thresholds, len(w.age_edges))),
        held=np.zeros((thresholds, MODELS), np.int64),
        spent=np.tile([LEARNING_HANDICAP] * (MODELS - 1) + [0.0], (thresholds, 1)),
        late_out=np.zeros((thresholds, len(w.height_edges) + 1)),
        late_in=np.zeros((thresholds, len(w.height_edges) + 1)),
    )


@jit
def price_changes(p: Problem, v: Worth, w: Workload, b: int, number: int, service_s: float, usual_s: float) -> None:
    """Price the late answers of changes across threshold b, of `number` replicas, under the present load.

    Where these do not keep up answers are late in any case, and a hold before there are more adds its own length.
    """
    x, rate, slack = present_height(w, b), w.load[SMOOTHED], p.bound - usual_s
    if p.hold_out_s > 0.0:
        late = p.hold_out_s
        if rate < number / service_s:
            capacity = (number + 1) / service_s
            late = late_seconds(p.hold_out_s, slack, rate, 0.0, capacity, capacity)
        v.late_out[b, x] = p.w_perf * late / p.slot_s
    if p.hold_in_s > 0.0:
        capacity = number / service_s
        late = late_seconds(p.hold_in_s, slack, rate, 0.0, capacity, capacity)
        v.late_in[b, x] = p.w_perf * min(late / p.slot_s, CATCH_UP_SLOTS)


@jit
def present_height(w: Workload, b: int) -> int:
    return int(w.situation[SMOOTHED, b] % X)


@jit
def cost_out(p: Problem, v: Worth, w: Workload, b: int) -> float:
    """Cost of scaling out beyond threshold b now."""
    return p.w_rcf + v.late_out[b, present_height(w, b)]


@jit
def cost_in(p: Problem, v: Worth, w: Workload, b: int) -> float:
    """Cost of scaling in to it now."""
    return p.w_rcf + v.late_in[b, present_height(w, b)]


@jit
def worth_by(p: Problem, v: Worth, w: Workload, b: int, price: float, model: int) -> float:
    """Worth of the replica beyond threshold b now, as one of the models has it."""
    if model < BY_AGE:
        return v.by_situation[model, b, w.situation[model, b]]
    if model == BY_AGE:
        return v.by_age[b, w.age_class[b]]
    if w.age[b] == 0:
        return 2.0 * p.w_rcf + v.late_out[b, present_height(w, b)]
    return min(0.0, p.w_perf + cost_out(p, v, w, b) - p.w_res * price * w.age[b])


@jit
def worth_now(p: Problem, v: Worth, w: Workload, b: int, price: float) -> float:
    """The same by the model that has done best at this threshold."""
    best = 0
    for model in range(1, MODELS):
        if v.spent[b, model] < v.spent[b, best]:
            best = model
    return worth_by(p, v, w, b, price, best)


@jit
def keep_account(p: Problem, v: Worth, w: Workload, b: int, price: float, above: bool, memory: float) -> None:
    """One slot of each model at threshold b: pay for it, then change as it says."""
    into, out, rent = cost_in(p, v, w, b), cost_out(p, v, w, b), p.w_res * price
    held, spent = v.held[b], v.spent[b]
    for model in range(MODELS):
        d = worth_by(p, v, w, b, price, model)
        cost = 0.0
        if held[model] == 1:
            cost += rent
            if d < -into:
                held[model] = 0
                cost += into
        else:
            if above:
                cost += p.w_perf
            if d > out:
                held[model] = 1
                cost += out
        spent[model] = memory * spent[model] + cost


@jit
def appraise(p: Problem, v: Worth, w: Workload, view: int, b: int, price: float, everywhere: bool) -> None:
    """One sweep over a view's situations, old ages first; staying in a situation is solved for, not iterated.

    `everywhere`: also over those in which the load never was at this threshold.
    """
    heights, ages, rent = w.height_edges.shape[0] + 1, w.age_edges.shape[0], p.w_res * price
    worth, visits, counts = v.by_situation[view, b], w.visits[view, b], w.counts[view, b]
    pool, pool_visits, known, many = w.pool[view], w.pool_visits[view], w.known[view], w.many[view]
    late_in, late_out = v.late_in[b], v.late_out[b]
    for y in range(ages - 1, -1, -1):
        pool_prior = max(POOL_PRIOR_VISITS, float(w.width[y]))
        for x in range(heights):
            f = y * heights + x
            if visits[f] == 0 and not everywhere:
                continue
            back = clip(worth[x], p.w_rcf + late_in[x], p.w_rcf + late_out[x])
            if many[f] == 0:  # nothing but Laplace's rule
                worth[f] = p.w_perf - rent / w.hazard[f] + back
                continue
            scale = PRIOR_VISITS / (pool_visits[f] + pool_prior)
            above = scale * pool_prior * w.hazard[f]
            loop = scale * pool_prior - above
            rest = above * back
            for n in range(many[f]):
                to = int(known[f, n])
                weight = counts[f, to] + scale * pool[f, to]
                outcome = to // X
                x2 = to - outcome * X
                base = 0
                if outcome == 0:
                    above += weight
                else:
                    base = min(y + outcome - 1, ages - 1) * heights
                if base + x2 == f:
                    loop += weight
                else:
                    rest += weight * clip(worth[base + x2], p.w_rcf + late_in[x2], p.w_rcf + late_out[x2])
            total = visits[f] + PRIOR_VISITS
            worth[f] = (p.w_perf * above - rent * total + rest) / (total - loop)


@jit
def appraise_ages(p: Problem, v: Worth, w: Workload, b: int, price: float) -> None:
    """One sweep over the ages alone; changes cost what they do at the present height."""
    rent = p.w_res * price
    into, out = cost_in(p, v, w, b), cost_out(p, v, w, b)
    last = w.age_edges.shape[0] - 1
    for y in range(last, -1, -1):
        laplace = 1.0 - (w.age_edges[y] + 2.0) / (w.age_edges[y] + w.width[y] + 2.0)
        passes = w.age_pool[y, 0] + w.age_pool[y, 2] + 1.0
        returned = AGE_PRIOR_PASSES * (w.age_pool[y, 0] + laplace) / passes
        above = w.ages[b, y, 0] + returned
        older = w.ages[b, y, 2] + AGE_PRIOR_PASSES - returned
        slots = w.ages[b, y, 0] + w.ages[b, y, 1] + w.ages[b, y, 2]
        slots += AGE_PRIOR_PASSES * (1.0 + w.age_pool[y, 1] + w.width[y]) / passes
        total = p.w_perf * above - rent * slots
        leaves = 0.0
        if y > 0:
            total += above * clip(v.by_age[b, 0], into, out)
            leaves += above
        if y < last:
            total += older * clip(v.by_age[b, y + 1], into, out)
            leaves += older
        v.by_age[b, y] = total / leaves


@jit
def clip(x: float, into: float, out: float) -> float:
    return min(max(x, -into), out)
