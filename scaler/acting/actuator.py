"""Actuator: bring an operator to its target replicas by node type, and count those that serve.

Targets are absolute, so that sending one twice is harmless. `ask` returns at once: replicas come and go in their own
time, and the agent compares targets with what serves.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from scaler.model.errors import BadInput, Retry, find_pause


class Actuator(Protocol):
    @property
    def can_count(self) -> bool:
        """Whether `deployed` is ever known."""

    def prepare(self) -> None:
        """Called once before anything else, where targets are to be applied."""

    def deployed(self, operator: str) -> Mapping[str, int] | None:
        """Replicas that serve now by node type; None where that is not known."""

    def check_room(self, operator: str, node_type: str) -> str | None:
        """Why one more of this type could not come (a quota, no worker left), or None."""

    def apply(self, operator: str, target: Mapping[str, int]) -> None:
        """Bring the operator to these replicas; `Retry` where the cluster did not accept it."""

    def close(self) -> None:
        """Leave the cluster as it stands."""


class NoActuator:
    """Of a driver that only watches: nothing is known of replicas, and nothing can be applied."""

    can_count = False

    def prepare(self) -> None:
        pass

    def deployed(self, operator: str) -> Mapping[str, int] | None:  # noqa: ARG002
        return None

    def check_room(self, operator: str, node_type: str) -> str | None:  # noqa: ARG002
        return None

    def apply(self, operator: str, target: Mapping[str, int]) -> None:  # noqa: ARG002
        raise BadInput(f"operator {operator!r} has no actuator")

    def close(self) -> None:
        pass


LOG = logging.getLogger("scaler.agent")


@dataclass(frozen=True, slots=True)
class TargetOrder:
    """What is to be; the key is the same whenever this very order is sent again, so that it can be known by it."""

    app: str
    operator: str
    target: Mapping[str, int]
    key: str

    def document(self, verb: str = "scale") -> dict[str, Any]:
        told = {"verb": verb, "application": self.app, "operator": self.operator}
        return told if verb == "deployed" else {**told, "target": dict(self.target), "key": self.key}


class RetryAfter(Retry):
    """A passing fault, and for how many seconds whoever takes calls asked to be left alone."""

    def __init__(self, message: str, seconds: float = 0.0) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(slots=True)
class OrderQueue:
    """One operator's: its newest order, and what is known of it."""

    order: TargetOrder
    thread: threading.Thread | None = None
    number: int = 0  # of the order
    taken: int = 0  # number of the last order that was taken or refused
    trouble: str | None = None


class Calls:
    """Hands orders to `send`, on a thread for each operator; `Retry` means again, `BadInput` not again."""

    def __init__(
        self, app: str, send: Callable[[TargetOrder], None], pause: float = 1.0, longest: float = 60.0,
        run: str | None = None,
    ) -> None:  # fmt: skip
        self.app, self.send, self.pause, self.longest = app, send, pause, longest
        self.run = run or uuid.uuid4().hex  # so that keys of an earlier driver are not taken for ours
        self.lines: dict[str, OrderQueue] = {}
        self.changed = threading.Condition()
        self.over = False

    def put(self, operator: str, target: Mapping[str, int]) -> None:
        """Returns at once; the target that is under way is not sent twice, one that was taken or refused is anew."""
        with self.changed:
            if self.over:
                raise Retry("the actuator is closed")
            line = self.lines.get(operator)
            if line is not None and line.taken < line.number and dict(line.order.target) == dict(target):
                return
            number = 1 if line is None else line.number + 1
            order = TargetOrder(self.app, operator, dict(target), self.make_key(operator, number))
            if line is None:
                line = self.lines[operator] = OrderQueue(order)
                name = f"scaler-calls-{operator}"
                line.thread = threading.Thread(target=self.run_line, args=(line,), name=name, daemon=True)
                line.thread.start()
            line.order, line.number = order, number
            self.changed.notify_all()

    def make_key(self, operator: str, number: int) -> str:
        text = "\n".join((self.app, operator, self.run, str(number)))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def trouble(self, operator: str) -> str | None:
        """Why the newest target was not taken yet, if a call for it failed."""
        with self.changed:
            line = self.lines.get(operator)
            return None if line is None else line.trouble

    def waiting(self, operator: str) -> str | None:
        """The same, while it is still tried; once refused, only another order can show that the fault is gone."""
        with self.changed:
            line = self.lines.get(operator)
            return None if line is None or line.taken == line.number else line.trouble

    def idle(self, operator: str) -> bool:
        """Whether the newest target was taken, or refused for good."""
        with self.changed:
            line = self.lines.get(operator)
            return line is None or line.taken == line.number

    def run_line(self, line: OrderQueue) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.over or line.number > line.taken)
                if self.over:
                    return
                order, number = line.order, line.number
            self.see_through(line, order, number)

    def see_through(self, line: OrderQueue, order: TargetOrder, number: int) -> None:
        """Until it is taken, refused, overtaken, or we are closed."""
        failures = 0
        while True:
            failure = self.try_once(order)
            with self.changed:
                if line.number == number:
                    line.trouble = None if failure is None else str(failure)
                    if failure is None or isinstance(failure, BadInput):
                        line.taken = number
                        return
                failures += 1
                pause = find_pause(failures, self.pause, self.longest)
                wait = max(pause, failure.seconds if isinstance(failure, RetryAfter) else 0.0)
                self.changed.wait_for(lambda: self.over or line.number > number, wait)
                if self.over or line.number > number:
                    return

    def try_once(self, order: TargetOrder) -> BadInput | Retry | None:
        """Nothing may end the thread."""
        try:
            self.send(order)
        except (BadInput, Retry) as error:
            LOG.warning("%s", error)
            return error
        except Exception as error:
            LOG.exception("a call for operator %r failed", order.operator)
            return Retry(f"a call for operator {order.operator!r} failed: {error}")
        return None

    def close(self, patience: float = 2.0) -> None:
        """A call under way ends by itself; no other begins."""
        with self.changed:
            self.over = True
            self.changed.notify_all()
            threads = [line.thread for line in self.lines.values() if line.thread is not None]
        for thread in threads:
            thread.join(patience)


def read_replicas(document: Any) -> dict[str, int] | None:
    """Replicas by node type of an answer: `{"small": 2}`, or `{"deployed": {"small": 2}}`; None where it is neither."""
    if isinstance(document, dict) and isinstance(document.get("deployed"), dict):
        document = document["deployed"]
    if not isinstance(document, dict):
        return None
    if not all(isinstance(name, str) and type(count) is int and count >= 0 for name, count in document.items()):
        return None
    return dict(document)
