"""Self-tuning thresholds (Heinze et al., "Online parameter optimization for elastic stream processing", 2015).

The rule is that of threshold.py with a duration: out above an upper threshold, in when the load of one replica fewer
has stayed under `slack` times it for so many slots. Its three parameters are searched for what they would have cost on
the rates of an adaptive window: weighted violations, resources and changes, with violations from the response times
that a queueing model predicts, which is what makes the cost aware of latency. The search is recursive random search (Ye
and Kalyanaraman, SIGMETRICS 2003): uniform samples find a promising place, a shrinking neighbourhood of the best is
sampled on.

Deviations: one candidate a slot, on a copy of the window, so that a decision stays cheap and all candidates of a round
meet the same rates; only the thresholds and the duration of a scale-in are searched, for load is one number here and a
scale-out waits for nothing; parameters change only for a clear gain on that copy; the model is the one given,
corrected by what is seen (planner/capacity.py); replicas are taken to be all of the type that comes and goes.

The adaptive window (ADWIN, Bifet and Gavalda, SDM 2007) has the recent rates that still resemble the present: it grows
until the mean of its newer part differs from that of its older part, which is then dropped. Deviations: cuts are
examined SHORTEST_WINDOW slots from the end and at twice, four times ... that, every SLOTS_PER_CHECK slots;
SLOTS_PER_SAMPLE neighbouring slots count as one independent sample; the window never gets shorter than SHORTEST_WINDOW.

Notation: H the longest window; a point is (upper, slack, duration), each in units of its range, from 0 to 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit, uniform
from scaler.model.kernel import Floats, Integers, KernelView, Problem, lay_out
from scaler.model.policy import Start
from scaler.policies.homogeneous import by_node, read_count, read_number, scale_to
from scaler.policies.planner.capacity import Capacity, expect_capacity, observe_capacity
from scaler.policies.rules.threshold import SLACK, THRESHOLD

SHORTEST_WINDOW = 240  # slots
SLOTS_PER_CHECK = 16
SLOTS_PER_SAMPLE = 15.0
LOG_CONFIDENCE = math.log(2.0 / 0.002)  # at confidence .002

NEXT, LENGTH, TAKEN = range(3)


class AdaptiveWindow(NamedTuple):
    rates: Floats  # [H] ring
    place: Integers  # [3] where the next goes, the window's length, slots seen


@jit
def remember(w: AdaptiveWindow, rate: float) -> None:
    """Take a rate in, and drop what it no longer resembles."""
    longest = w.rates.shape[0]
    w.rates[w.place[NEXT]] = rate
    w.place[NEXT] = (w.place[NEXT] + 1) % longest
    w.place[LENGTH] = min(w.place[LENGTH] + 1, longest)
    w.place[TAKEN] += 1
    if w.place[TAKEN] % SLOTS_PER_CHECK == 0:
        w.place[LENGTH] = find_cut(w)


@jit
def past(w: AdaptiveWindow, age: int) -> float:
    """The rate of so many slots ago."""
    longest = w.rates.shape[0]
    return w.rates[(w.place[NEXT] - 1 - age + longest) % longest]


@jit
def find_cut(w: AdaptiveWindow) -> int:
    """The length that the window should have: up to the newest cut at which its parts differ, else all of it."""
    length = w.place[LENGTH]
    total = 0.0
    squares = 0.0
    for age in range(length):
        rate = past(w, age)
        total += rate
        squares += rate * rate
    average = total / length
    variance = max(0.0, squares / length - average * average)
    newer = 0.0
    edge = SHORTEST_WINDOW
    for age in range(length - SHORTEST_WINDOW + 1):
        if age == edge:
            older = length - age
            if abs(newer / age - (total - newer) / older) > tolerance(age, older, variance, average):
                return age
            edge *= 2
        newer += past(w, age)
    return length


@jit
def tolerance(newer: int, older: int, variance: float, scale: float) -> float:
    """How far two means of so many slots may lie apart by chance: their epsilon, with the mean for the rates' range."""
    samples = 1.0 / (SLOTS_PER_SAMPLE / newer + SLOTS_PER_SAMPLE / older)
    return math.sqrt(2.0 * variance * LOG_CONFIDENCE / samples) + 2.0 * scale * LOG_CONFIDENCE / (3.0 * samples)


LONGEST_WINDOW = 1440  # slots
REQUIRED_GAIN = 0.02  # share of the cost that a change of parameters must save
LOWEST, HIGHEST = (0.2, 0.2, 1.0), (0.98, 0.98, 61.0)
EXPLORATION_STEPS = 44  # ln(1 - .99) / ln(1 - .1): with 99 % one of them is among the best tenth
FAILURES_TO_SHRINK = 3  # failures before the neighbourhood shrinks: ln(1 - .99) / ln(1 - .8)
FIRST_SPAN, SHRINK, LAST_SPAN = 0.46, 0.5, 0.05  # .1 ^ (1 / 3): a tenth of the space

SLOTS, QUIET, FROZEN, STEP, FAILURES = range(5)
CURRENT_COST, BEST_COST, SPAN = range(3)


class State(NamedTuple):
    kind: int
    seed: int
    capacity: Capacity
    current: Floats  # [3] parameters in use: upper, slack, duration
    window: AdaptiveWindow
    frozen: Floats  # [H] the window's rates at the beginning of the round, oldest first
    best: Floats  # [3] best point of the round
    tried: Floats  # [3] point being tried
    round: Floats  # [3] cost of the parameters in use, of the best point; width of the neighbourhood
    clock: Integers  # [5] slots seen, of quiet, of the copied window; step of the round, failures in a row


def prepare(start: Start, node_type: int) -> State:
    longest = read_count(start.options, "longest", LONGEST_WINDOW, low=SHORTEST_WINDOW)
    threshold = read_number(start.options, "threshold", THRESHOLD, LOWEST[0], HIGHEST[0])
    return State(
        kind=node_type,
        seed=start.seed,
        capacity=expect_capacity(lay_out(start.task), start.model),
        current=np.array([threshold, SLACK, 1.0]),
        window=AdaptiveWindow(np.zeros(longest), np.zeros(3, np.int64)),
        frozen=np.zeros(longest),
        best=np.zeros(3),
        tried=np.zeros(3),
        round=np.zeros(3),
        clock=np.zeros(5, np.int64),
    )


@jit
def is_quiet(s: State, seen: KernelView) -> bool:
    """Whether one replica fewer would stay well below the threshold."""
    return seen.count > 1 and seen.utilisation * seen.count / (seen.count - 1) < s.current[1] * s.current[0]


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    if seen.utilisation > s.current[0]:
        return scale_to(p, k, seen.count, s.kind, seen.count + 1)
    if is_quiet(s, seen) and max(s.clock[QUIET], 1) >= math.floor(s.current[2]):
        return scale_to(p, k, seen.count, s.kind, seen.count - 1)
    return 0


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    if s.clock[SLOTS] == 0:
        observe_capacity(p, s.capacity, before)
    observe_capacity(p, s.capacity, seen)
    if action != 0:
        s.clock[QUIET] = 0
    s.clock[QUIET] = s.clock[QUIET] + 1 if is_quiet(s, seen) else 0
    remember(s.window, seen.rate)
    search(p, s)
    s.clock[SLOTS] += 1


@jit
def search(p: Problem, s: State) -> None:
    """One step of a round: begin it, or try one point and end the round once the neighbourhood is small."""
    if s.clock[STEP] == 0:
        if s.window.place[LENGTH] >= SHORTEST_WINDOW:
            begin(p, s)
        return
    draw_point(s)
    cost = cost_of(p, s, s.tried)
    if cost < s.round[BEST_COST]:
        s.round[BEST_COST] = cost
        for i in range(3):
            s.best[i] = s.tried[i]
        s.clock[FAILURES] = 0
    elif s.clock[STEP] > EXPLORATION_STEPS:
        s.clock[FAILURES] += 1
        if s.clock[FAILURES] == FAILURES_TO_SHRINK:
            s.round[SPAN] *= SHRINK
            s.clock[FAILURES] = 0
    s.clock[STEP] += 1
    if s.round[SPAN] < LAST_SPAN:
        finish(s)


@jit
def begin(p: Problem, s: State) -> None:
    """Copy the window and cost the parameters in use on it."""
    length = s.window.place[LENGTH]
    for i in range(length):
        s.frozen[i] = past(s.window, length - 1 - i)
    s.clock[FROZEN] = length
    for i in range(3):
        s.tried[i] = (s.current[i] - LOWEST[i]) / (HIGHEST[i] - LOWEST[i])
        s.best[i] = s.tried[i]
    s.round[CURRENT_COST] = cost_of(p, s, s.tried)
    s.round[BEST_COST] = s.round[CURRENT_COST]
    s.round[SPAN] = FIRST_SPAN
    s.clock[STEP] = 1
    s.clock[FAILURES] = 0


@jit
def draw_point(s: State) -> None:
    """A point anywhere while exploring, then one in the neighbourhood of the best."""
    for i in range(3):
        u = uniform(s.seed, 3 * s.clock[SLOTS] + i)
        if s.clock[STEP] > EXPLORATION_STEPS:
            u = min(max(s.best[i] + s.round[SPAN] * (u - 0.5), 0.0), 1.0)
        s.tried[i] = u


@jit
def finish(s: State) -> None:
    """End the round; take the best over if it is clearly better."""
    s.clock[STEP] = 0
    if s.round[BEST_COST] < (1.0 - REQUIRED_GAIN) * s.round[CURRENT_COST]:
        for i in range(3):
            s.current[i] = parameter(i, s.best[i])


@jit
def parameter(i: int, share: float) -> float:
    return LOWEST[i] + share * (HIGHEST[i] - LOWEST[i])


@jit
def cost_of(p: Problem, s: State, point: Floats) -> float:
    """What the rule at this point would have cost on the copied rates."""
    upper, duration = parameter(0, point[0]), math.floor(parameter(2, point[2]))
    lower = upper * parameter(1, point[1])
    service, each = s.capacity.service[s.kind], s.capacity.each[s.kind]
    rent = p.w_res * p.price[s.kind]
    count = min(max(1, math.ceil(s.frozen[0] * service / upper)), p.k_max)
    quiet, violations, changes, replicas = 0, 0, 0, 0
    for t in range(s.clock[FROZEN]):
        rate = s.frozen[t]
        load = rate * service
        replicas += count
        if rate > count * each:
            violations += 1
        quiet = quiet + 1 if load < lower * (count - 1) else 0
        if load > upper * count and count < p.k_max:
            count += 1
            changes += 1
            quiet = 0
        elif quiet > 0 and quiet >= duration:
            count -= 1
            changes += 1
            quiet = 0
    return p.w_perf * violations + p.w_rcf * changes + rent * replicas


THRESHOLD_SEARCH_C, THRESHOLD_SEARCH_S, THRESHOLD_SEARCH_O, THRESHOLD_SEARCH_P = by_node(
    "Threshold search",
    prepare,
    decide,
    learn,
    measure=lambda state: state.window.rates.nbytes + state.frozen.nbytes,
    options=("threshold", "longest"),
)
