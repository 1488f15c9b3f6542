"""Sums of the timers in the same driver, laid over the seconds in which they were timed, by node type.

A tally covers the time of its task, and is laid over these seconds evenly. The timer's own file holds the same sums:
subscribing takes nothing away from it.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scaler.sensing.executor_usage import UNNAMED_TYPE
from scaler.timing import ServiceTally, ServiceTimer

LOG = logging.getLogger("scaler.agent")
MAX_AGE_S = 3600
MAX_TASK_S = 600  # of a task that is laid over its seconds; of longer ones the last ten minutes hold it all
SUM_NAMES = ("service_n", "service_sum", "service_squares", "task_records", "task_time", "response_n", "response_sum")


@dataclass(frozen=True, slots=True)
class TimedSums:
    """Timed sums; zero where nothing was timed."""

    service_n: float = 0.0
    service_sum: float = 0.0
    service_squares: float = 0.0
    task_records: float = 0.0
    task_time: float = 0.0
    response_n: float = 0.0
    response_sum: float = 0.0

    @property
    def tuples(self) -> float:
        return self.service_n or self.task_records

    @property
    def busy(self) -> float:
        """Seconds of service; of whole batches where records were not timed one by one."""
        return self.service_sum if self.service_n else self.task_time


@dataclass(frozen=True, slots=True)
class TimedSeconds:
    """Timed sums of some seconds, by node type in the order of `SUM_NAMES`."""

    seconds: Mapping[int, Mapping[str, Sequence[float]]] = field(default_factory=dict)

    def read(self, start: float, end: float) -> dict[str, TimedSums]:
        """Sums over [start, end) by node type; empty where nothing was timed."""
        totals: dict[str, list[float]] = {}
        for second in range(math.floor(start), math.ceil(end)):
            part = min(end, second + 1.0) - max(start, float(second))
            for node_type, sums in self.seconds.get(second, {}).items():
                total = totals.setdefault(node_type, [0.0] * len(SUM_NAMES))
                for i, amount in enumerate(sums):
                    total[i] += part * amount
        return {node_type: TimedSums(*total) for node_type, total in totals.items() if any(total)}


class TimedRecords:
    """Sums of one operator's timers, second by second; bounded, for any thread."""

    def __init__(self, max_age_s: int = MAX_AGE_S) -> None:
        self.max_age_s = max_age_s
        self.lock = threading.Lock()
        self.seconds: dict[int, dict[str, list[float]]] = {}  # by second, then node type
        self.newest = 0

    def add(self, tally: ServiceTally) -> None:
        if not (tally.end >= tally.start and math.isfinite(tally.start) and math.isfinite(tally.end)):
            return
        last = int(tally.end)
        first = max(int(tally.start), last - MAX_TASK_S)
        amounts = [getattr(tally, name) for name in SUM_NAMES]
        length = tally.end - max(tally.start, float(first))
        node_type = tally.node_type or UNNAMED_TYPE
        with self.lock:
            for second in range(first, last + 1):
                part = min(tally.end, second + 1.0) - max(tally.start, float(second))
                weight = part / length if length > 0.0 else 1.0
                sums = self.seconds.setdefault(second, {}).setdefault(node_type, [0.0] * len(SUM_NAMES))
                for i, amount in enumerate(amounts):
                    sums[i] += weight * amount
            self.newest = max(self.newest, last)
            if len(self.seconds) > self.max_age_s:
                for second in [s for s in self.seconds if s <= self.newest - self.max_age_s]:
                    del self.seconds[second]

    def copy(self, start: float, end: float) -> TimedSeconds:
        """The seconds of a slot, which no later tally changes."""
        slot = range(math.floor(start), math.ceil(end))
        with self.lock:
            known = {second: self.seconds[second] for second in slot if second in self.seconds}
            return TimedSeconds(
                {second: {name: tuple(sums) for name, sums in types.items()} for second, types in known.items()}
            )


def sum_timed(parts: Mapping[str, TimedSums]) -> TimedSums:
    return TimedSums(*(math.fsum(getattr(part, name) for part in parts.values()) for name in SUM_NAMES))


def subscribe_timer(timer: ServiceTimer, records: TimedRecords) -> Callable[[], None]:
    """Add the timer's sums to `records`, too, until what is returned is called."""
    inbox: Any = timer.inbox
    before = inbox.add

    def add(tally: ServiceTally) -> None:
        before(tally)
        try:
            if isinstance(tally, ServiceTally):
                records.add(tally)
        except Exception:  # it runs on Spark's thread, and must not stop what Spark does there
            LOG.debug("a timer's sums could not be read", exc_info=True)

    inbox.add = add

    def leave() -> None:
        if inbox.add is add:
            inbox.add = before

    return leave
