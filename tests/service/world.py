"""Applications run by real agents, with true service times, rates and a fast clock, that report every slot.

The truth may be another than anybody believes: `truth` are the moments that tuples really take, and `contention` how
many times as long they take on replicas that are busier than `busy`, which nobody sees as long as none is so busy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import numpy as np

from scaler.agent.decider import Decider
from scaler.model.nodes import Deployment, NodeType
from scaler.model.orders import Orders, parse_orders
from scaler.model.policy import Observation
from scaler.model.queueing import mg1_response
from scaler.model.sample import Sample
from scaler.model.task import Moments
from sim.compiler import start_compiling
from tuner.rollout.issued_orders import write_orders
from tuner.store.applications import add_application
from tuner.store.connection import Store
from tuner.store.decisions import save_decisions
from tuner.store.json_fields import write_json
from tuner.store.orders import load_orders
from tuner.store.records import DecisionRecord
from tuner.store.runs import save_retuning
from tuner.store.samples import save_samples

start_compiling()  # hundreds of slots, and the same decisions as interpreted

SLOT_S = 60.0
START = 1_700_000_040.0  # a multiple of SLOT_S
NODES = (NodeType("small", 1.0, 1.0),)
Report = Callable[[str, list[DecisionRecord], list[Sample]], None]


def describe(name: str, operators: Mapping[str, Moments], r_max: float, k_max: int = 8) -> dict[str, Any]:
    """As it is registered; what tuples take is what is believed before anything was seen."""
    names = list(operators)
    return {
        "application": {
            "name": name,
            "operator": [
                {"name": o, "service_time": m.mean, "variance": m.variance, "k_max": k_max}
                for o, m in operators.items()
            ],
            "edge": [{"from": a, "to": b} for a, b in pairwise(names)],
        },
        "infrastructure": {"node": [{"name": n.name, "speedup": n.speedup, "price": n.price} for n in NODES]},
        "qos": {"r_max": r_max, "eta_v": 0.05, "eta_r": 0.2},
        "policy": {"name": "planner"},
    }


@dataclass
class World:
    """One application, all its operators in a chain."""

    app: str
    truth: dict[str, Moments]
    low: float = 60.0
    high: float = 200.0
    day: int = 60  # slots
    contention: float = 1.0
    busy: float = 0.6
    start: tuple[int, ...] = (4,)
    seed: int = 0
    slot: int = 0
    pilots: dict[str, Decider] = field(init=False)
    deployments: dict[str, Deployment] = field(init=False)

    def __post_init__(self) -> None:
        self.chance = np.random.default_rng(self.seed)
        self.pilots = {name: Decider(name, NODES, seed=self.seed) for name in self.truth}
        self.deployments = {name: Deployment(self.start) for name in self.truth}

    @property
    def now(self) -> float:
        """When the slot that comes next begins: all before it is reported."""
        return START + SLOT_S * self.slot

    def rate(self) -> float:
        around, reach = (self.high + self.low) / 2.0, (self.high - self.low) / 2.0
        wave = around - reach * math.cos(2.0 * math.pi * self.slot / self.day)
        return float(max(1.0, wave * (1.0 + 0.03 * self.chance.standard_normal())))

    def respond(self, name: str, rate: float) -> tuple[float, float, Moments]:
        """The response time as it is measured, the utilisation, and what tuples take in this slot."""
        moments, count = self.truth[name], self.deployments[name].parallelism
        if rate / count * moments.mean > self.busy:
            moments = Moments(moments.mean * self.contention, moments.variance * self.contention**2)
        each = rate / count
        response = mg1_response(each, moments.mean, moments.variance, 1.0)
        return response * float(1.0 + 0.02 * self.chance.standard_normal()), min(1.0, each * moments.mean), moments

    def step(self, orders: Orders | None, report: Report) -> None:
        """One slot of every operator."""
        time, rate = self.now, self.rate()
        decisions, samples = [], []
        for name, pilot in self.pilots.items():
            response, utilisation, moments = self.respond(name, rate)
            before = self.deployments[name]
            seen = Observation(time, rate, utilisation, response, before)
            step = pilot.step(seen, orders, time)
            self.deployments[name] = before.after(step.change) if step.change.changes else before
            pilot.actuated(step, step.change)
            decision = step.decision
            decisions.append(DecisionRecord(self.app, name, **decision.to_json()))
            samples.append(self.sample(name, rate, response, before.parallelism, moments))
        self.slot += 1
        report(self.app, decisions, samples)

    def sample(self, name: str, rate: float, response: float, replicas: int, moments: Moments) -> Sample:
        n = rate * SLOT_S
        mean = moments.mean + math.sqrt(moments.variance / n) * float(self.chance.standard_normal())
        spread = moments.variance * (1.0 + math.sqrt(2.0 / n) * float(self.chance.standard_normal()))
        known = {} if math.isinf(response) else {"response_n": n, "response_sum": n * response}
        return Sample(
            self.app, name, self.now, self.now + SLOT_S, "records", node_type=NODES[0].name,
            arrived=n, tuples_in=n, tuples_out=n, service_n=n, service_sum=n * mean,
            service_squares=n * (spread + mean**2), replicas=float(replicas), **known,
        )  # fmt: skip


def register(store: Store, app: str, document: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    from tuner.rollout.retuning_settings import read_settings

    with store.begin() as session:
        add_application(session, app, document, START)
        save_retuning(session, app, read_settings(settings), START)


def into(store: Store) -> Report:
    """Reports that go straight into the database."""

    def report(app: str, decisions: list[DecisionRecord], samples: list[Sample]) -> None:
        with store.begin() as session:
            save_decisions(session, decisions)
            save_samples(session, samples)

    return report


def orders_of(store: Store, app: str) -> Orders | None:
    """What the scalers are told now."""
    with store.read() as session:
        orders = load_orders(session, app)
    return None if orders is None else parse_orders(write_orders(orders))


def over_http(client: httpx.Client) -> Report:
    """Reports as scalers send them: one an operator."""

    def report(app: str, decisions: list[DecisionRecord], samples: list[Sample]) -> None:
        for decision in decisions:
            own = [plain(sample) for sample in samples if sample.operator == decision.operator]
            said = {k: v for k, v in plain(decision).items() if k != "operator"}
            body = {"instance": "driver", "operator": decision.operator, "revision": None, "samples": own,
                    "decisions": [said], "detail": {}}  # fmt: skip
            content = write_json(body).encode()
            answer = client.post(
                f"/v1/applications/{app}/reports", content=content, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 200, answer.text

    return report


def plain(row: DecisionRecord | Sample) -> dict[str, Any]:
    """What is known of it, without what the address says already."""
    return {k: v for k, v in asdict(row).items() if k != "application" and v is not None}


def live(
    world: World, store: Store, slots: int, report: Report | None = None, look: Callable[[], object] = lambda: None
) -> None:
    """So many slots, and what is to be done after each."""
    for _ in range(slots):
        world.step(orders_of(store, world.app), report or into(store))
        look()
