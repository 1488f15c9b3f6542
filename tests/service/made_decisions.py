"""Decisions of agents over a graph of operators, slot by slot: a wave a day, a burst at times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scaler.model.queueing import mg1_response
from scaler.model.sample import Sample
from tuner.store.records import DecisionRecord

NOW = 1_773_325_200.0  # 2026-03-12 14:20 UTC
SLOT, HOUR, DAY = 60.0, 3600.0, 86_400.0
NODES = {"small": (1.0, 1.0), "large": (1.8, 1.6), "spot": (0.7, 0.5)}  # speedup, price
R_MAX = 0.06


@dataclass(frozen=True)
class Graph:
    """Operators by their service rate, and the shares of R_max that they are given."""

    rates: Mapping[str, float]
    edges: tuple[tuple[str, str], ...]
    load: float  # how much comes at most, in tuples per second

    def describe(self, name: str) -> dict[str, Any]:
        return {
            "application": {
                "name": name,
                "operator": [{"name": o, "service_rate": r, "scv": 0.5, "k_max": 12} for o, r in self.rates.items()],
                "edge": [{"from": a, "to": b} for a, b in self.edges],
            },
            "infrastructure": {"node": [{"name": n, "speedup": s, "price": p} for n, (s, p) in NODES.items()]},
            "qos": {"r_max": R_MAX, "eta_v": 0.05, "eta_r": 0.10},
            "trace": {"generator": "diurnal", "slots": 20160},
        }

    def share(self) -> float:
        return R_MAX / (1 + max(len(self.rates) // 2, 1))


CLICKS = Graph(
    {"parse": 500.0, "enrich": 220.0, "check": 150.0, "join": 300.0},
    (("parse", "enrich"), ("parse", "check"), ("enrich", "join"), ("check", "join")),
    900.0,
)
PAYMENTS = Graph({"validate": 260.0, "book": 190.0}, (("validate", "book"),), 420.0)
FRAUD = Graph({"features": 320.0, "score": 120.0}, (("features", "score"),), 300.0)


def decide(
    app: str, graph: Graph, slots: int, versions: list[tuple[float, int]], late: tuple[float, float] = (0.0, 0.0),
    shadow: int | None = None,
) -> Iterator[DecisionRecord]:  # fmt: skip
    """Every operator's decisions in the last so many slots, up to now: a day's wave, a burst now and then."""
    chance = np.random.default_rng(len(app) + slots)
    end = NOW - NOW % SLOT
    times = end - SLOT * np.arange(slots, 0, -1)
    wave = 0.55 - 0.45 * np.cos(2.0 * np.pi * (times - 4 * HOUR) / DAY)
    rates = graph.load * wave * (1.0 + 0.06 * chance.standard_normal(slots)).clip(0.5)
    rates[chance.random(slots) < 0.004] *= 1.9
    for operator, service in graph.rates.items():
        deployment, changed = {"small": 2, "large": 0, "spot": 0}, -math.inf
        for i, (time, rate) in enumerate(zip(times.tolist(), rates.tolist(), strict=True)):
            version = next(v for since, v in reversed(versions) if time >= NOW + since)
            slack = 0.62 if version == 1 else 0.72
            if late[0] <= time - NOW < late[1]:
                slack = 1.04
            response, busy = serve(deployment, rate, service)
            action, kind, reason = choose(deployment, rate, service, slack, time - changed, i)
            shown = None
            if shadow is not None and time >= NOW - 5 * HOUR:
                fast = {**deployment, "spot": deployment["spot"] + 1, "small": max(1, deployment["small"] - 1)}
                shown = {"version": shadow, "action": None, "deployment": fast, "reason": "the planner proposed none"}
                shown |= {"response": serve(fast, rate, service)[0], "bound": graph.share(), "price": cost(fast)}
            held = kind == "HELD"
            seen = {"utilisation": None if held else round(busy, 3), "deployment": dict(deployment)}
            known = (None, None) if held else (round(rate, 2), response)
            yield DecisionRecord(
                *(app, operator, time, kind, reason, action, version, *known, graph.share(), cost(deployment)),
                seen={**seen, "completeness": 0.2 if held else 1.0},
                alternatives={} if held else value(busy),
                shadow=shown,
            )
            if kind == "SCALED" and action is not None:
                deployment[action.split()[1]] += int(action.split()[0])
                changed = time


def serve(deployment: Mapping[str, int], rate: float, service: float) -> tuple[float, float]:
    """The response time and utilisation of the worst replica."""
    share = rate / sum(deployment.values())
    m = 1.0 / service
    worst = max((share * m / NODES[n][0], n) for n, k in deployment.items() if k)
    return mg1_response(share, m, 0.5 * m * m, NODES[worst[1]][0]), worst[0]


def choose(
    deployment: Mapping[str, int], rate: float, service: float, slack: float, since: float, slot: int
) -> tuple[str | None, str, str]:  # fmt: skip
    _, busy = serve(deployment, rate, service)
    if slot % 997 in (5, 6, 7):
        return None, "HELD", "the metrics are 140 s old, and a slot is 60 s: the deployment is held"
    if busy > slack:
        name = "large" if deployment["large"] < 5 else "small"
        if slot % 211 == 0:
            return f"+1 {name}", "ACTUATION_FAILED", f"adding a replica on {name} was decided, no change was done"
        return f"+1 {name}", "SCALED", f"the policy proposed adding a replica on {name}, and no guard objected"
    used = [n for n in ("spot", "small", "large") if deployment[n] > (1 if n == "small" else 0)]
    if used and busy < 0.45 * slack:
        if since < 600.0:
            why = f"cooldown: the last change was {since:.0f} s ago, and in_s is 600"
            return f"-1 {used[-1]}", "BLOCKED", why
        return (
            f"-1 {used[-1]}",
            "SCALED",
            f"the policy proposed removing a replica on {used[-1]}, and no guard objected",
        )
    return None, "NO_CHANGE", "the policy proposed none"


def cost(deployment: Mapping[str, int]) -> float:
    return sum(NODES[name][1] * k for name, k in deployment.items())


def value(busy: float) -> dict[str, float]:
    return {
        "no change": round(busy, 3),
        "+1 small": round(0.9 * busy + 0.08, 3),
        "-1 small": round(1.3 * busy - 0.1, 3),
    }


def sample(app: str, graph: Graph, slots: int, quiet: tuple[float, float] = (0.0, 0.0)) -> Iterator[Sample]:
    """Every operator's samples in the last so many slots, as agents report them; none in the quiet time."""
    chance = np.random.default_rng(len(app))
    end = NOW - NOW % SLOT
    times = end - SLOT * np.arange(slots, 0, -1)
    wave = 0.55 - 0.45 * np.cos(2.0 * np.pi * (times - 4 * HOUR) / DAY)
    for operator, service in graph.rates.items():
        for time, rate in zip(times.tolist(), (graph.load * wave).tolist(), strict=True):
            if quiet[0] <= time - NOW < quiet[1]:
                continue
            arrived = SLOT * rate * float(1.0 + 0.05 * chance.standard_normal())
            took = float(2.0 + arrived / SLOT / service + 0.2 * chance.random())
            yield Sample(
                *(app, operator, time, time + SLOT, "progress"), arrived=arrived, tuples_in=arrived, batches=6.0,
                batch_time=6.0 * took, backlog=max(0.0, rate - 0.9 * graph.load), replicas=4.0,
            )  # fmt: skip
