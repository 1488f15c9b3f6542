"""Spark Streaming's dynamic allocation (its ExecutorAllocationManager): processing time over batch interval.

Over each scaling interval the ratio is averaged. From .9 upwards max(round(ratio), 1) executors are requested on top of
those there are, from .3 downwards one is given back; each interval's request replaces the last one's.

Deviations: where an operator has no batches, utilisation stands for the ratio; the scaling interval is a number of
slots, one of them a minute as in Spark; which executor goes is not drawn at random, as it is of the one type that comes
and goes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.jit import jit
from scaler.model.kernel import Integers, KernelView, Problem
from scaler.model.policy import Start
from scaler.policies.homogeneous import by_node, read_count, read_number, scale_to
from scaler.policies.rules.true_rate import RateWindow, clear, is_full, make_window, mean, push

INTERVAL, UP, DOWN = 1, 0.9, 0.3


class State(NamedTuple):
    kind: int
    up: float
    down: float
    ratio: RateWindow  # of the scaling interval
    wanted: Integers  # [1] parallelism last requested; 0 before the first interval is over


def prepare(start: Start, node_type: int) -> State:
    up, down = read_number(start.options, "up", UP, 0.0, 100.0), read_number(start.options, "down", DOWN, 0.0, 100.0)
    if not down < up:
        raise BadInput(f"option 'down' is {down:g}, and must be less than 'up', which is {up:g}")
    ratio = make_window(read_count(start.options, "interval", INTERVAL))
    return State(node_type, up, down, ratio, np.zeros(1, np.int64))


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    return 0 if s.wanted[0] == 0 else scale_to(p, k, seen.count, s.kind, s.wanted[0])


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    push(s.ratio, seen.batch_ratio if seen.batch_ratio > 0.0 else seen.utilisation)
    if not is_full(s.ratio):
        return
    s.wanted[0] = seen.count + request(p, s, mean(s.ratio))
    clear(s.ratio)


@jit
def request(p: Problem, s: State, ratio: float) -> int:
    """Executors more or less that this ratio calls for."""
    if ratio >= s.up:
        return max(int(min(ratio, float(p.k_max)) + 0.5), 1)
    return -1 if ratio <= s.down else 0


SPARK_RATIO_C, SPARK_RATIO_S, SPARK_RATIO_O, SPARK_RATIO_P = by_node(
    "Spark ratio", prepare, decide, learn, options=("interval", "up", "down"), any_size=True
)
