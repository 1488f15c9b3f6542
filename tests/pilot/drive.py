"""Drive a Decider through slots of a wandering arrival rate, and collect its decisions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from scaler.agent.decider import Decider
from scaler.agent.record import conclude
from scaler.model.decision import Decision, Step
from scaler.model.nodes import Deployment, NodeType, Reconfiguration
from scaler.model.orders import Orders, parse_orders
from scaler.model.policy import Observation
from scaler.model.queueing import mg1_response
from tests.examples import SPEEDS, make_rates

NODES = tuple(NodeType(f"A{i + 1}", s, s) for i, s in enumerate(SPEEDS[:3]))
MEAN, VARIANCE, BOUND, CONSTANT, K_MAX = 1 / 180, (1 / 180) ** 2 / 2, 0.05, 0.01, 4
SLOT = 60.0
Act = Callable[[Step], Reconfiguration]


def make_objective(version: int = 1, policy: str = "threshold-p", **changes: Any) -> dict[str, Any]:
    target = {"bound": BOUND, "constant": CONSTANT, "mean": MEAN, "variance": VARIANCE, "k_max": K_MAX}
    return {
        "version": version,
        "weights": {"perf": 0.6, "rcf": 0.2, "res": 0.2},
        "policy": policy,
        "levels": 10,
        "nodes": [{"name": n.name, "speedup": n.speedup, "price": n.price} for n in NODES],
        "operators": {"parse": target | {"highest_rate": 650.0}},
    } | changes


def make_orders(
    objective: dict[str, Any] | None = None, candidate: dict[str, Any] | None = None, **guards: Any
) -> Orders:
    return parse_orders(
        {
            "application": "shop",
            "revision": 1,
            "slot_s": SLOT,
            "objective": objective,
            "candidate": candidate,
            "guards": {"": guards},
        }
    )


def observe(deployment: Deployment, rate: float, time: float) -> Observation:
    """A slot as a real operator would have it."""
    speed = min(n.speedup for n, k in zip(NODES, deployment.replicas, strict=True) if k)
    share = rate / deployment.parallelism
    response = mg1_response(share, MEAN, VARIANCE, speed) + CONSTANT
    return Observation(time, rate, share * MEAN / speed, response, deployment)


SEEN = observe(Deployment((1, 0, 0)), 600.0, 0.0)


def obey(step: Step) -> Reconfiguration:
    return step.change


def drive(
    pilot: Decider,
    orders: Callable[[int], Orders | None] | Orders | None,
    slots: range | int,
    act: Act = obey,
    deployment: Deployment = Deployment((1, 0, 0)),  # noqa: B008
    seed: int = 0,
) -> tuple[list[Decision], Deployment]:
    """Slots on a rate that wanders; every one has a decision with a reason, and keeps within bounds."""
    slots = range(slots) if isinstance(slots, int) else slots
    rates = make_rates(slots.stop, seed).tolist()
    decisions = []
    for t in slots:
        told = orders(t) if callable(orders) else orders
        step = pilot.step(observe(deployment, rates[t], SLOT * t), told, SLOT * t)
        done = act(step)
        pilot.actuated(step, done)
        decision = conclude(step, done, "", pilot.names)
        assert decision.time == SLOT * t
        assert decision.reason
        json.dumps(decision.to_json())
        decisions.append(decision)
        deployment = deployment.after(done)
        assert 1 <= deployment.parallelism <= K_MAX
        assert min(deployment.replicas) >= 0
    return decisions, deployment


def real(decisions: list[Decision]) -> list[Decision]:
    return [replace(decision, shadow=None) for decision in decisions]
