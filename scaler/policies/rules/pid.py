"""A PID controller on utilisation, in velocity form (Astrom and Hagglund, PID Controllers, 1995, chapter 3).

The error is counted in replicas, e = (utilisation / setpoint - 1) count: what is missing were load spread evenly, so
that the gains hold at every parallelism. Each slot adds kp (e - e') + ki e + kd (e - 2 e' + e'') to the replicas there
are. Starting from what really runs, and not from what was wanted, is the anti-windup: neither the limits 1 and K nor a
change refused or slower than wanted gathers anything; what rounding leaves over, half a replica at most, is carried on.
Errors within the dead band count for none: half a replica is as near as whole replicas come, and less than that would
make it swing. Utilisation at its cap of 1 hides how much is missing: then the error is at least one replica.

Gains are ours: with them four fifths of an error are answered at once, and the rest without overshoot, for which
(kp + ki)^2 must not exceed ki.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem
from scaler.model.policy import Start
from scaler.policies.homogeneous import by_node, read_number, scale_to
from scaler.policies.rules.true_rate import is_saturated

SETPOINT, KP, KI, KD = 0.7, 0.1, 0.7, 0.0
BAND = 0.6  # replicas


class State(NamedTuple):
    kind: int
    setpoint: float
    gains: Floats  # [3] kp, ki, kd
    errors: Floats  # [2] of the last slot and of the one before
    output: Floats  # [1] parallelism called for, not rounded; 0 before the first slot


def prepare(start: Start, node_type: int) -> State:
    gains = [
        read_number(start.options, name, value, 0.0, 100.0) for name, value in (("kp", KP), ("ki", KI), ("kd", KD))
    ]
    setpoint = read_number(start.options, "setpoint", SETPOINT, 0.01, 1.0)
    return State(node_type, setpoint, np.array(gains), np.zeros(2), np.zeros(1))


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    if s.output[0] == 0.0:
        return 0
    return scale_to(p, k, seen.count, s.kind, math.floor(s.output[0] + 0.5))


@jit
def learn(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    error = (min(seen.utilisation, float(p.k_max)) / s.setpoint - 1.0) * seen.count
    if is_saturated(seen):
        error = max(error, 1.0)
    count = float(seen.count)
    if abs(error) < BAND:
        error = 0.0
        s.output[0] = count
    else:
        left_over = min(max(s.output[0] - count, -0.5), 0.5) if s.output[0] > 0.0 else 0.0
        step = s.gains[0] * (error - s.errors[0]) + s.gains[1] * error
        step += s.gains[2] * (error - 2.0 * s.errors[0] + s.errors[1])
        s.output[0] = min(max(count + left_over + step, 1.0), float(p.k_max))
    s.errors[1] = s.errors[0]
    s.errors[0] = error


PID_C, PID_S, PID_O, PID_P = by_node(
    "PID", prepare, decide, learn, options=("setpoint", "kp", "ki", "kd"), any_size=True
)
