"""Sums of the timers in the same driver, laid over the seconds in which they were timed, by node type.

A tally covers the time of its task, and is laid over these seconds evenly. The timer's own file holds the same sums:
subscribing takes nothing away from it.
"""

from __future__ import annotations

import math
import threading
from dataclasses import replace

from scaler.sensing.executor_usage import UNNAMED_TYPE
from scaler.timing import ServiceTally

MAX_AGE_S = 3600
MAX_TASK_S = 600  # of a task that is laid over its seconds; of longer ones the last ten minutes hold it all


class TimedRecords:
    """Sums of one operator's timers, second by second; bounded, for any thread."""

    def __init__(self, max_age_s: int = MAX_AGE_S) -> None:
        self.max_age_s = max_age_s
        self.lock = threading.Lock()
        self.seconds: dict[int, dict[str, ServiceTally]] = {}  # by second, then node type
        self.newest = 0

    def add(self, tally: ServiceTally) -> None:
        if not (tally.end >= tally.start and math.isfinite(tally.start) and math.isfinite(tally.end)):
            return
        last = int(tally.end)
        first = max(int(tally.start), last - MAX_TASK_S)
        length = tally.end - max(tally.start, float(first))
        node_type = tally.node_type or UNNAMED_TYPE
        with self.lock:
            for second in range(first, last + 1):
                part = min(tally.end, second + 1.0) - max(tally.start, float(second))
                sums = self.seconds.setdefault(second, {}).setdefault(node_type, ServiceTally())
                sums.add(tally, part / length if length > 0.0 else 1.0)
            self.newest = max(self.newest, last)
            if len(self.seconds) > self.max_age_s:
                for second in [s for s in self.seconds if s <= self.newest - self.max_age_s]:
                    del self.seconds[second]

    def copy(self, start: float, end: float) -> TimedRecords:
        """The seconds of a slot, which no later tally changes."""
        found = TimedRecords(self.max_age_s)
        with self.lock:
            for second in range(math.floor(start), math.ceil(end)):
                if second in self.seconds:
                    found.seconds[second] = {name: replace(sums) for name, sums in self.seconds[second].items()}
        return found

    def read(self, start: float, end: float) -> dict[str, ServiceTally]:
        """Sums over [start, end) by node type; empty where nothing was timed."""
        totals: dict[str, ServiceTally] = {}
        for second in range(math.floor(start), math.ceil(end)):
            part = min(end, second + 1.0) - max(start, float(second))
            for node_type, sums in self.seconds.get(second, {}).items():
                totals.setdefault(node_type, ServiceTally()).add(sums, part)
        return {name: sums for name, sums in totals.items() if sums.tuples or sums.busy or sums.response_n}
