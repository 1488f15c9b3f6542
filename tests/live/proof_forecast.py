"""Predict a proof in the simulator, from what changes took on the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.model.kernel import Floats, Integers
from scaler.model.task import Moments, Weights
from sim.application import Application, Operator
from sim.infrastructure import Infrastructure
from sim.replicas import Inertia
from sim.setting import Setting, Shift
from sim.simulate import simulate
from sim.trace import Trace
from tests.live.proof_source import Levels
from tests.live.proof_stream import OPERATOR, SCV, Setup


@dataclass(frozen=True, slots=True)
class Forecast:
    """Slot by slot."""

    slot_s: float
    bound: float  # on the whole response time
    responses: Floats  # [T] whole, seconds
    backlog: Floats  # [T] records that wait when the slot ends
    replicas: Integers  # [T, N]

    def recovered(self, since: float) -> float:
        """Seconds from `since` until slots keep the bound again."""
        return find_end(self.responses > self.bound, self.slot_s, since)

    def drained(self, since: float) -> float:
        """Seconds from `since` until nothing waits when a slot ends."""
        return find_end(self.backlog > 1.0, self.slot_s, since)


def find_end(odd: NDArray[np.bool_], slot_s: float, since: float) -> float:
    """Seconds from `since` to the end of the first run of odd slots that is not over by then; 0 if there is none."""
    late = np.flatnonzero(odd)
    late = late[(late + 1) * slot_s > since]
    ends = [] if late.size == 0 else np.split(late, np.flatnonzero(np.diff(late) > 1) + 1)
    return 0.0 if len(ends) == 0 else float((ends[0][-1] + 1) * slot_s - since)


def make_moments(mean: float) -> Moments:
    return Moments(mean, SCV * mean**2)


def forecast(
    setup: Setup, objective: Mapping[str, Any], start_s: float, truth: Sequence[tuple[float, Moments]] = ()
) -> Forecast:
    """The same policy on the same trace under the same objective, replicas coming after `start_s`.

    `truth`: what a record really takes from which second on, where that is not what the objective believes.
    """
    target = objective["operators"][OPERATOR]
    believed = Moments(target["mean"], target["variance"])
    rates = np.array(Levels(tuple(setup.levels)).rates(setup.slot_s))
    setting = Setting(
        application=describe(setup, believed),
        infrastructure=Infrastructure("proof", setup.node_types(), max(price for _, _, price in setup.nodes)),
        trace=Trace(rates, setup.slot_s),
        policy=objective["policy"],
        r_max=target["bound"],
        weights=Weights(*(objective["weights"][name] for name in ("perf", "rcf", "res"))),
        highest_rate=target["highest_rate"],
        plant="backlog",
        inertia=Inertia(setup.slot_s, 0.0, start_s),
    )
    shifts = [
        Shift(max(1, round(second / setup.slot_s)), replace(setting, application=describe(setup, real)), False)
        for second, real in truth
    ]
    line = simulate(setting, seed=0, record=True, shifts=shifts).timeline
    assert line is not None
    means = np.full(len(rates), believed.mean)
    for second, real in truth:
        means[round(second / setup.slot_s) :] = real.mean
    queue = fill(rates, line.replicas(0), [speedup for _, speedup, _ in setup.nodes], means, setting.inertia)
    constant = target["constant"]
    return Forecast(setup.slot_s, target["bound"] + constant, line.responses[0] + constant, queue, line.replicas(0))


def describe(setup: Setup, moments: Moments) -> Application:
    return Application((Operator(OPERATOR, moments, setup.k_max, stateful=True),))


def fill(rates: Floats, replicas: Integers, speedups: list[float], means: Floats, inertia: Inertia) -> Floats:
    """Records that wait at each slot's end, of a fluid: what the run's time line leaves out."""
    steps, waiting, left = 100, 0.0, np.zeros(len(rates))
    for slot, rate in enumerate(rates):
        for step in range(steps):
            before = max(0, slot - int(np.ceil((inertia.start_s - step * inertia.slot_s / steps) / inertia.slot_s)))
            serving = np.minimum(replicas[slot], replicas[before : slot + 1].min(axis=0))
            pace = (
                serving.sum() * min((s for s, n in zip(speedups, serving, strict=True) if n), default=0.0) / means[slot]
            )
            waiting = max(0.0, waiting + (rate - pace) * inertia.slot_s / steps)
        left[slot] = waiting
    return left
