"""Simulate an operator as an M/G/1 queue: its sensor and its actuator in one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scaler.acting.actuator import Room
from scaler.model.errors import Retry
from scaler.model.nodes import NodeType
from scaler.model.orders import Orders, parse_orders
from scaler.model.queueing import mg1_response
from scaler.model.task import Moments
from scaler.sensing.driver import StreamOperator
from scaler.sensing.reading import Reading, SlotNote

SLOT_S = 60.0
NODES = (NodeType("small", 1.0, 1.0), NodeType("fast", 2.0, 2.2))
MOMENTS = Moments(0.001, 1e-6)


class Plant:
    """Replicas come `delay` slots after they were asked for; `broken` and `full` make the cluster misbehave."""

    def __init__(self, rate: Callable[[float], float], delay: float = 0.0) -> None:
        self.rate, self.delay = rate, delay
        self.target: dict[str, int] = {"small": 1, "fast": 0}
        self.serving = dict(self.target)
        self.asked: list[dict[str, int]] = []
        self.since = -math.inf
        self.now = 0.0
        self.full = False  # nothing comes any more
        self.stays = False  # nothing goes any more
        self.lost = False  # no machine is there
        self.refuses = ""
        self.room: Callable[[Mapping[str, int]], Room] = Room
        self.notes: tuple[SlotNote, ...] = ()
        self.silent = False
        self.timed = True  # its records are timed one by one
        self.dark = False  # a batch outlasts the slot: no report, and executors at work

    def at(self, now: float) -> None:
        self.now = now
        if self.lost:
            self.serving = dict.fromkeys(self.serving, 0)
        elif now - self.since >= self.delay:
            self.serving = {name: self.follow(n, self.serving[name]) for name, n in self.target.items()}

    def follow(self, wanted: int, there: int) -> int:
        return min(wanted, there) if self.full else max(wanted, there) if self.stays else wanted

    def read(self, operator: str, start: float, end: float) -> Reading:
        if self.silent:
            raise OSError("no sensor")
        if self.dark:
            replicas = {name: float(n) for name, n in self.serving.items()}
            return Reading(
                operator, start, end, utilisation=1.0, replicas=replicas, completeness=0.0, running_time=SLOT_S
            )
        rate = self.rate(start)
        if not any(self.serving.values()):
            return Reading(operator, start, end, arrival_rate=rate)
        speeds = [node.speedup for node in NODES if self.serving.get(node.name)]
        each = rate / sum(self.serving.values())
        response = float(mg1_response(each, MOMENTS.mean, MOMENTS.variance, min(speeds)))
        used = each * MOMENTS.mean / min(speeds)
        n, one = rate * (end - start), MOMENTS.mean / min(speeds)
        return Reading(
            operator,
            start,
            end,
            arrival_rate=rate,
            tuples_in=rate * (end - start),
            backlog=0.0,
            response=response,
            utilisation=min(1.0, used),  # as sensors see it
            service_n=n if self.timed else None,
            service_sum=n * one if self.timed else None,
            service_squares=n * 2.0 * one * one if self.timed else None,
            replicas={name: float(n) for name, n in self.serving.items()},
            notes=self.notes,
        )

    can_count = True

    def prepare(self) -> None:
        pass

    def watch(self, operator: StreamOperator) -> None:
        pass

    def deployed(self, operator: str) -> Mapping[str, int]:
        return dict(self.serving)

    def find_starts(self, operator: str) -> Mapping[str, Sequence[float]] | None:
        return None

    def check_room(self, operator: str, more: Mapping[str, int]) -> Room:
        return self.room(more)

    def apply(self, operator: str, target: Mapping[str, int]) -> None:
        if self.refuses:
            raise Retry(self.refuses)
        self.asked.append(dict(target))
        self.target, self.since = dict(target), self.now

    def close(self) -> None:
        pass


class Desk:
    """An office that records."""

    def __init__(self, policy: str = "threshold-c", **guards: Any) -> None:
        self.told: dict[float, dict[str, Any]] = {}  # by slot: what is told twice counts once
        self.samples: list[dict[str, Any]] = []
        self.orders_now: Orders | None = parse_orders(make_orders(policy, guards))

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def orders(self) -> Orders | None:
        return self.orders_now

    def report(
        self,
        operator: str,
        decisions: Sequence[Mapping[str, Any]] = (),
        samples: Sequence[Mapping[str, Any]] = (),
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        self.told |= {one["time"]: dict(one) for one in decisions}
        self.samples += map(dict, samples)

    def kinds(self) -> list[str]:
        return [one["kind"] for one in self.told.values()]


def make_orders(policy: str, guards: Mapping[str, Any]) -> dict[str, Any]:
    target = {"bound": 0.005, "mean": MOMENTS.mean, "variance": MOMENTS.variance, "k_max": 8, "highest_rate": 4000.0}
    objective = {
        "version": 3,
        "weights": {"perf": 0.6, "rcf": 0.1, "res": 0.3},
        "policy": policy,
        "nodes": [{"name": node.name, "speedup": node.speedup, "price": node.price} for node in NODES],
        "operators": {"parse": target},
    }
    return {"application": "shop", "revision": 1, "slot_s": SLOT_S, "objective": objective, "guards": {"": guards}}
