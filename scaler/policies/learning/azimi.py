"""Azimi's learner for Spark Streaming (Azimi Gehraz 2018): SARSA on levels of latency and the direction of the load.

Every `interval` slots it looks at the mean latency and the mean arrivals of a window, rewards its last action
(latency_levels.py), chooses the next one and moves Q towards reward + discount Q(next state, action chosen). Actions
that cannot be carried out are left out of the choice, and those that monotonicity bars. How many replicas a change is
of, an executor strategy says:

    static   out and in: step
    linear   step x c, c the number of changes in this direction, one after another
    queue    out: what waits beyond the target, in batches, at least 1; in: step

Latency is a batch's, from its cut to its end: half a trigger less than that of its tuples, as the target is than the
bound. With `clock = "batch"` it hears of each batch at its end and decides by the times at which batches were cut, as
the original does, which in overload lag behind; otherwise each slot's mean is known at its end. With `train` it spends
so many slots on samples and then sets Q by value iteration (sampled_values.py). The first decision is to do nothing.

Deviations: levels beyond the table share its last one, where the original would fail; which replica goes is not drawn
at random, for those of one type are alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.jit import jit, uniform
from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.model.policy import Start
from scaler.model.task import Task
from scaler.policies.homogeneous import by_node, read_count, read_number, scale_to
from scaler.policies.learning.batch_clock import SLOT, Heard, ServedBatches, fresh_clock, hear, pass_slot
from scaler.policies.learning.latency_levels import (
    IN,
    NOTHING,
    OUT,
    REWARDS,
    STARTS,
    Sight,
    first_values,
    is_barred,
    reward,
    row_of,
)
from scaler.policies.learning.sampled_values import Samples, iterate_values, no_samples, sample
from scaler.policies.rules.true_rate import RateWindow, make_window, mean, push

LEVELS = 64  # of latency that are told apart
STRATEGIES = ("static", "linear", "queue")
CHOICES = ("greedy", "epsilon", "decreasing")
CLOCKS = ("slot", "batch")
QUEUE, LINEAR = 2, 1
IGNORED = 3  # batches at the start
OPTIONS = (
    *("granularity", "window", "interval", "alpha", "discount", "start", "strategy", "step", "choice", "epsilon"),
    *("epsilon_step", "reward", "messages", "train", "sweeps", "as_published", "clock"),
)
# The last decision's level, count of rising steps, queue and action; what happened so far; what is chosen now.
LEVEL, RISING, MESSAGES, ACTION, HEARD, DECIDED, DRAWN, OUTS, INS, CHANGE, TRAINING = range(11)
EPSILON, LAST_QUEUE = range(2)


class Rule(NamedTuple):
    """What is fixed."""

    kind: int  # node type that comes and goes
    seed: int
    trigger: float  # 0: no batches
    granularity: float
    interval: int
    alpha: float
    discount: float
    strategy: int
    step: int
    choice: int
    epsilon_step: float
    prefers: int
    messages: float
    train: int
    sweeps: int
    as_published: bool
    by_batch: bool


class State(NamedTuple):
    rule: Rule
    q: Floats  # [2 levels, 3]
    latencies: RateWindow
    loads: RateWindow  # tuples of a batch
    samples: Samples
    clock: ServedBatches
    course: Integers  # [11], as named above
    reals: Floats  # [2] epsilon, queue at the last decision


def prepare(start: Start, node_type: int) -> State:
    o, task = start.options, start.task
    trigger = task.batches.trigger_s if task.batches is not None else 0.0
    rule = Rule(
        kind=node_type,
        seed=start.seed,
        trigger=trigger,
        granularity=read_number(o, "granularity", find_target(task.bound, trigger) / 3.0, 1e-9, 1e9),
        interval=read_count(o, "interval", 1),
        alpha=read_number(o, "alpha", 0.7, 0.0, 1.0),
        discount=read_number(o, "discount", 0.9, 0.0, 0.999999),
        strategy=read_name(o, "strategy", STRATEGIES, STRATEGIES[QUEUE]),
        step=read_count(o, "step", 1),
        choice=read_name(o, "choice", CHOICES, CHOICES[0]),
        epsilon_step=read_number(o, "epsilon_step", 0.05, 0.0, 1.0),
        prefers=read_name(o, "reward", REWARDS, REWARDS[0]),
        messages=read_number(o, "messages", 50.0, 1e-9, 1e12),
        train=read_count(o, "train", 0, low=0),
        sweeps=read_count(o, "sweeps", 11),
        as_published=read_flag(o, "as_published"),
        by_batch=CLOCKS[read_name(o, "clock", CLOCKS, CLOCKS[0])] == "batch",
    )
    check_clock(rule, task)
    danger = level_of_target(task.bound, rule.trigger, rule.granularity)
    window = read_count(o, "window", 2)
    course = np.zeros(11, np.int64)
    course[LEVEL] = -1
    return State(
        rule=rule,
        q=first_values(STARTS[read_name(o, "start", STARTS, STARTS[0])], LEVELS, danger, start.seed),
        latencies=make_window(window),
        loads=make_window(window),
        samples=no_samples(2 * LEVELS, 3) if rule.train > 0 else no_samples(0, 3),
        clock=fresh_clock(),
        course=course,
        reals=np.array([read_number(o, "epsilon", 0.1, 0.0, 1.0), 0.0]),
    )


def check_clock(rule: Rule, task: Task) -> None:
    """Refuse to hear of batches where slots are not each one."""
    b = task.batches
    if rule.by_batch and (b is None or b.merge or b.trigger_s != task.slot_s):
        raise BadInput("clock = 'batch' needs batches that are not merged, one cut every slot; leave it out elsewhere")


def read_name(options: Any, name: str, known: Sequence[str], default: str) -> int:
    """The place of the option of this name among those known."""
    value = options.get(name, default)
    if value not in known:
        raise BadInput(f"option {name!r} is {value!r}, and must be one of {', '.join(known)}")
    return known.index(value)


def read_flag(options: Any, name: str) -> bool:
    value = options.get(name, False)
    if not isinstance(value, bool):
        raise BadInput(f"option {name!r} is {value!r}, and must be true or false")
    return value


@jit
def find_target(bound: float, trigger: float) -> float:
    """What a batch may take of the bound on its tuples, which came half a trigger before its cut on average."""
    return bound - trigger / 2.0 if bound > trigger / 2.0 else bound


@jit
def level_of_target(bound: float, trigger: float, granularity: float) -> int:
    """The first level in danger; at least 1."""
    return min(LEVELS - 1, max(1, int(find_target(bound, trigger) / granularity + 1e-9)))


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    return scale_to(p, k, seen.count, s.rule.kind, seen.count + s.course[CHANGE])


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    s.course[CHANGE] = 0
    if s.clock.order[SLOT] == 0:
        pass_slot(s.clock, before.arrivals)  # its batch is empty
    pass_slot(s.clock, seen.arrivals)
    more = True
    while more:
        heard = hear(s.clock, seen.batch_ratio) if s.rule.by_batch else hear_slot(p, s, seen)
        more = s.rule.by_batch and heard.cut >= 0
        if heard.cut >= 0:
            take_in(p, s, seen, heard)


@jit
def period_of(p: Problem, s: State) -> float:
    """Seconds from batch to batch; a slot's where there are none."""
    return s.rule.trigger if s.rule.trigger > 0.0 else p.slot_s


@jit
def hear_slot(p: Problem, s: State, seen: KernelView) -> Heard:
    """A slot as one batch."""
    latency = min(1e9, max(0.0, seen.response - s.rule.trigger / 2.0))
    queue = float(math.floor(latency / period_of(p, s)))
    return Heard(s.course[HEARD], latency / p.slot_s, seen.arrivals, queue)


@jit
def take_in(p: Problem, s: State, seen: KernelView, heard: Heard) -> None:
    """Take a batch in, and decide where that is due."""
    s.course[HEARD] += 1
    if s.rule.by_batch and s.course[HEARD] <= IGNORED:
        return
    push(s.latencies, min(heard.latency * p.slot_s, LEVELS * s.rule.granularity))
    push(s.loads, heard.rate * period_of(p, s))
    if heard.cut >= s.course[DECIDED] + s.rule.interval:
        s.course[DECIDED] = heard.cut
        consider(p, s, seen, heard.queue)


@jit
def consider(p: Problem, s: State, seen: KernelView, queue: float) -> None:
    """Learn from what the last action came to, and choose the next."""
    c, rule = s.course, s.rule
    level = min(LEVELS - 1, int(mean(s.latencies) / rule.granularity))
    load = int(mean(s.loads) / rule.messages)
    now = Sight(level, load > c[MESSAGES] and c[LEVEL] >= 0, queue)
    choice = NOTHING
    if c[LEVEL] >= 0:
        before = Sight(c[LEVEL], c[RISING] == 1, s.reals[LAST_QUEUE])
        danger = level_of_target(p.bound, rule.trigger, rule.granularity)
        worth = reward(before, c[ACTION], now, danger, seen.count, p.k_min, p.k_max, rule.prefers)
        choice = choose(p, s, seen.count, now)
        absorb(s, row_of(before), c[ACTION], worth, row_of(now), choice)
    c[LEVEL], c[RISING], c[MESSAGES], c[ACTION] = level, 1 if now.rising else 0, load, choice
    s.reals[LAST_QUEUE] = queue
    c[CHANGE] = size(p, s, choice, seen.count, queue)


@jit
def absorb(s: State, row: int, action: int, worth: float, following: int, choice: int) -> None:
    """Move Q; while training, count a sample instead."""
    rule, q = s.rule, s.q
    if s.course[DECIDED] <= rule.train:
        sample(s.samples, row, action, worth, following)
        s.course[TRAINING] = 1
        return
    if s.course[TRAINING] == 1:
        finish_training(s)
    q[row, action] += rule.alpha * (worth + rule.discount * q[following, choice] - q[row, action])


@jit
def finish_training(s: State) -> None:
    """Set Q to what the samples say."""
    s.course[TRAINING] = 0
    iterate_values(s.samples, s.q, s.rule.discount, s.rule.sweeps, s.rule.as_published)


@jit
def choose(p: Problem, s: State, count: int, now: Sight) -> int:
    """The action of the highest value among those that may be taken, or one at random."""
    c = s.course
    if s.rule.choice > 0 or c[DECIDED] <= s.rule.train:
        c[DRAWN] += 2
        explores = uniform(s.rule.seed, c[DRAWN]) < s.reals[EPSILON]
        if s.rule.choice != 1:
            s.reals[EPSILON] -= s.rule.epsilon_step
        if explores:
            if count <= p.k_min or count >= p.k_max:
                return OUT if count <= p.k_min else IN
            return OUT if uniform(s.rule.seed, c[DRAWN] + 1) < 0.5 else IN
    row, best = row_of(now), NOTHING
    for action in (OUT, IN):
        possible = count < p.k_max if action == OUT else count > p.k_min
        if possible and not is_barred(action, c[ACTION], c[LEVEL], now.level) and s.q[row, action] > s.q[row, best]:
            best = action
    return best


@jit
def size(p: Problem, s: State, choice: int, count: int, queue: float) -> int:
    """Replicas more, or fewer, by the executor strategy."""
    c, rule = s.course, s.rule
    if choice == NOTHING:
        return 0
    if choice == OUT:
        c[OUTS], c[INS] = c[OUTS] + 1, 0
    else:
        c[OUTS], c[INS] = 0, c[INS] + 1
    many = rule.step
    if rule.strategy == LINEAR:
        many = rule.step * max(c[OUTS], c[INS])
    elif rule.strategy == QUEUE and choice == OUT:
        many = max(1, int(queue - find_target(p.bound, rule.trigger) / period_of(p, s)))
    return min(many, p.k_max - count) if choice == OUT else -min(many, count - p.k_min)


def measure(state: State) -> int:
    """Bytes of Q and of the samples."""
    return int(state.q.nbytes + sum(table.nbytes for table in state.samples))


AZIMI_C, AZIMI_S, AZIMI_O, AZIMI_P = by_node(
    "Azimi", prepare, decide, learn, measure=measure, options=OPTIONS, any_size=True
)
