"""A PID controller on the delay of a whole application: one signal in, one out, the dataflow a black box.

The output signal is the response time of the slowest path over R_max, the input all replicas together. The error is
counted in replicas, e = (delay / setpoint - 1) total, at most their number in either direction, since delay says little
of how much is missing near saturation. Each slot adds kp (e - e') + ki e + kd (e - 2 e' + e''), from what really runs
(pid.py). The replicas are shared out in proportion to useful time, utilisation times replicas: above 1 a replica where
some are missing. Errors within the dead band count for none, nothing is shared out anew without a change, and the first
slots after one are left out (warm-up): their delay is the change's own.

What control of this family cannot do shows in it: it does not know the bottleneck but by useful time, and how fast it
may go depends on how delay answers, which is steep near saturation and flat elsewhere. Gains are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.policies.coordinator import (
    CoordinatorStart,
    Dataflow,
    coordinate_by_node,
    lay_out_dataflow,
    scale_all,
)
from scaler.policies.homogeneous import read_count, read_number

SETPOINT, KP, KI, KD = 0.7, 0.1, 0.3, 0.0
BAND, WARM_UP = 0.3, 1  # of the setpoint; slots
OPTIONS = ("setpoint", "kp", "ki", "kd", "band", "warm_up")


class State(NamedTuple):
    kinds: tuple[int, ...]  # node type that comes and goes, by operator
    flow: Dataflow
    r_max: float
    setpoint: float
    band: float
    gains: Floats  # [3] kp, ki, kd
    errors: Floats  # [2] of the last slot that counted and of the one before
    warm_up: int
    rest: Integers  # [1] slots of warm-up still to come


def prepare(start: CoordinatorStart, kinds: tuple[int, ...]) -> State:
    o = start.options
    gains = [read_number(o, name, value, 0.0, 100.0) for name, value in (("kp", KP), ("ki", KI), ("kd", KD))]
    setpoint, band = read_number(o, "setpoint", SETPOINT, 0.01, 1.0), read_number(o, "band", BAND, 0.0, 1.0)
    warm_up = read_count(o, "warm_up", WARM_UP, low=0)
    flow = lay_out_dataflow(start)
    return State(kinds, flow, start.r_max, setpoint, band, np.array(gains), np.zeros(2), warm_up, np.zeros(1, np.int64))


def decide(s: State, problems: Sequence[Problem], ks: Sequence[Integers], views: Sequence[KernelView]) -> list[int]:
    """Set the total, and share it out where it changes."""
    counts = [seen.count for seen in views]
    if s.rest[0] > 0:
        s.rest[0] -= 1
        return [0] * len(counts)
    total = sum(counts)
    error = find_error(s, total, slowest_path(s.flow, [seen.response for seen in views]))
    first, second = s.errors.tolist()
    kp, ki, kd = s.gains.tolist()
    step = 0.0 if error == 0.0 else kp * (error - first) + ki * error + kd * (error - 2.0 * first + second)
    s.errors[:] = error, first
    change = math.floor(step + 0.5) if step >= 0.0 else -math.floor(0.5 - step)
    if change == 0:
        return [0] * len(counts)
    s.rest[0] = s.warm_up
    useful = [min(seen.utilisation, float(p.k_max)) * seen.count for p, seen in zip(problems, views, strict=True)]
    return scale_all(s.kinds, problems, ks, views, share_total(problems, useful, total + change))


def find_error(s: State, total: int, delay: float) -> float:
    """Replicas that the delay says are missing."""
    relative = min(delay / (s.r_max * s.setpoint) - 1.0, 1.0)
    return 0.0 if abs(relative) <= s.band else relative * total


def slowest_path(flow: Dataflow, responses: Sequence[float]) -> float:
    """The longest sum of response times from a source to a sink."""
    reached = [0.0] * len(responses)
    for i in flow.order:
        reached[i] = responses[i] + max((reached[j] for j, _ in flow.feeds[i]), default=0.0)
    return max(reached)


def share_total(problems: Sequence[Problem], useful: Sequence[float], total: int) -> list[int]:
    """So many replicas by useful time, within each operator's limits: the next to where there is most each."""
    counts = [p.k_min for p in problems]
    for _ in range(total - sum(counts)):
        open_ = [i for i, p in enumerate(problems) if counts[i] < p.k_max]
        if not open_:
            break
        counts[max(open_, key=lambda i: useful[i] / counts[i])] += 1
    return counts


PID_DELAY_C, PID_DELAY_S, PID_DELAY_O, PID_DELAY_P = coordinate_by_node("PID delay", prepare, decide, OPTIONS)
