"""Actuator: bring an operator to its target replicas by node type, and count those that serve.

Targets are absolute, so that sending one twice is harmless. `apply` returns at once: replicas come and go in their own
time, and the agent compares targets with what serves. `Calls` is for receivers that may be slow, gone or wrong: an
operator's newest target is sent, one call at a time, with the same key after pauses that double, until it is accepted,
refused or replaced. A receiver that accepted an order may lose its result: the same target is then a new order, with a
key of its own.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from scaler.model.errors import BadInput, Retry, find_pause


@dataclass(frozen=True, slots=True)
class Room:
    """How many replicas of those asked for may be ordered, by node type."""

    places: Mapping[str, int]
    why: str = ""  # there are fewer than asked for: a quota, no worker left

    def is_enough(self, more: Mapping[str, int]) -> bool:
        return all(self.places.get(name, 0) >= count for name, count in more.items())


class Actuator(Protocol):
    @property
    def can_count(self) -> bool:
        """Whether `deployed` is ever known."""

    def prepare(self) -> None:
        """Called once before anything else, where targets are to be applied."""

    def deployed(self, operator: str) -> Mapping[str, int] | None:
        """Replicas that serve now by node type; None where that is not known."""

    def find_starts(self, operator: str) -> Mapping[str, Sequence[float]] | None:
        """When each replica that there is started, in seconds since 1970, by node type; None where not known."""

    def check_room(self, operator: str, more: Mapping[str, int]) -> Room:
        """Room for so many more replicas by node type, all of them together; for all where nothing is known."""

    def apply(self, operator: str, target: Mapping[str, int]) -> None:
        """Bring the operator to these replicas; `Retry` where the cluster did not accept it."""

    def close(self) -> None:
        """Leave the cluster as it stands."""


class NoActuator:
    """No actuator: nothing is known of replicas, and nothing can be applied."""

    can_count = False

    def prepare(self) -> None:
        pass

    def deployed(self, operator: str) -> Mapping[str, int] | None:  # noqa: ARG002
        return None

    def find_starts(self, operator: str) -> Mapping[str, Sequence[float]] | None:  # noqa: ARG002
        return None

    def check_room(self, operator: str, more: Mapping[str, int]) -> Room:  # noqa: ARG002
        return Room(more)

    def apply(self, operator: str, target: Mapping[str, int]) -> None:  # noqa: ARG002
        raise BadInput(f"operator {operator!r} has no actuator")

    def close(self) -> None:
        pass


LOG = logging.getLogger("scaler.agent")


@dataclass(frozen=True, slots=True)
class TargetOrder:
    """A target for an operator; the key is the same whenever this very order is sent again."""

    app: str
    operator: str
    target: Mapping[str, int]
    key: str

    def document(self, verb: str = "scale") -> dict[str, Any]:
        document = {"verb": verb, "application": self.app, "operator": self.operator}
        return document if verb == "deployed" else {**document, "target": dict(self.target), "key": self.key}


class RetryAfter(Retry):
    """A passing fault, and for how many seconds the receiver asked not to be called."""

    def __init__(self, message: str, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(slots=True)
class OrderQueue:
    """An operator's newest order and its state."""

    order: TargetOrder
    thread: threading.Thread | None = None
    number: int = 0  # of the order
    closed: int = 0  # number of the last order that was accepted or refused
    fault: str | None = None


class Calls:
    """Pass orders to `send`, on a thread for each operator; `Retry` means again, `BadInput` not again."""

    def __init__(
        self, app: str, send: Callable[[TargetOrder], None], pause: float = 1.0, longest: float = 60.0,
        run: str | None = None,
    ) -> None:  # fmt: skip
        self.app, self.send, self.pause, self.longest = app, send, pause, longest
        self.run = run or uuid.uuid4().hex  # so that keys of an earlier driver are not taken for ours
        self.queues: dict[str, OrderQueue] = {}
        self.changed = threading.Condition()
        self.ended = False

    def put(self, operator: str, target: Mapping[str, int]) -> None:
        """Queue a target; one that is under way is not sent twice, one that was accepted or refused is sent anew."""
        with self.changed:
            if self.ended:
                raise Retry("the actuator is closed")
            queue = self.queues.get(operator)
            if queue is not None and queue.closed < queue.number and dict(queue.order.target) == dict(target):
                return
            number = 1 if queue is None else queue.number + 1
            order = TargetOrder(self.app, operator, dict(target), self.make_key(operator, number))
            if queue is None:
                queue = self.queues[operator] = OrderQueue(order)
                name = f"scaler-calls-{operator}"
                queue.thread = threading.Thread(target=self.run_queue, args=(queue,), name=name, daemon=True)
                queue.thread.start()
            queue.order, queue.number = order, number
            self.changed.notify_all()

    def make_key(self, operator: str, number: int) -> str:
        text = "\n".join((self.app, operator, self.run, str(number)))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def check_room(self, operator: str, more: Mapping[str, int]) -> Room:
        """While an order is not accepted no larger one follows it; a refused one only another can show to be mended."""
        with self.changed:
            queue = self.queues.get(operator)
            fault = None if queue is None or queue.closed == queue.number else queue.fault
        return Room(more) if fault is None else Room(dict.fromkeys(more, 0), fault)

    def run_queue(self, queue: OrderQueue) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.ended or queue.number > queue.closed)
                if self.ended:
                    return
                order, number = queue.order, queue.number
            self.send_until_closed(queue, order, number)

    def send_until_closed(self, queue: OrderQueue, order: TargetOrder, number: int) -> None:
        """Repeat an order until it is accepted, refused or replaced, or all is closed."""
        failures = 0
        while True:
            failure = self.try_once(order)
            with self.changed:
                if queue.number == number:
                    queue.fault = None if failure is None else str(failure)
                    if failure is None or isinstance(failure, BadInput):
                        queue.closed = number
                        return
                failures += 1
                pause = find_pause(failures, self.pause, self.longest)
                wait = max(pause, failure.seconds if isinstance(failure, RetryAfter) else 0.0)
                self.changed.wait_for(lambda: self.ended or queue.number > number, wait)
                if self.ended or queue.number > number:
                    return

    def try_once(self, order: TargetOrder) -> BadInput | Retry | None:
        """Send an order once; no fault may end the thread."""
        try:
            self.send(order)
        except (BadInput, Retry) as error:
            LOG.warning("%s", error)
            return error
        except Exception as error:
            LOG.exception("a call for operator %r failed", order.operator)
            return Retry(f"a call for operator {order.operator!r} failed: {error}")
        return None

    def close(self, timeout: float = 2.0) -> None:
        """Begin no further call; one under way ends by itself."""
        with self.changed:
            self.ended = True
            self.changed.notify_all()
            threads = [queue.thread for queue in self.queues.values() if queue.thread is not None]
        for thread in threads:
            thread.join(timeout)


def read_replicas(document: Any) -> dict[str, int] | None:
    """Replicas by node type of an answer: `{"small": 2}`, or `{"deployed": {"small": 2}}`; None where it is neither."""
    if isinstance(document, dict) and isinstance(document.get("deployed"), dict):
        document = document["deployed"]
    if not isinstance(document, dict):
        return None
    if not all(isinstance(name, str) and type(count) is int and count >= 0 for name, count in document.items()):
        return None
    return dict(document)
