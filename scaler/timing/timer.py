"""Timer of one operator: a thread appends the sums of its tasks to a file as JSON lines.

Spark delivers a task's sums when the task has succeeded, once for each task of a stage: a failed attempt, or the slower
of two speculative ones, adds nothing. What was done twice to the end is counted twice, and really was served twice: a
map stage that is run again because its output was lost, a micro-batch that is run again after a restart. So take
moments from these sums, not numbers of tuples.
"""

from __future__ import annotations

import atexit
import errno
import json
import logging
import os
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scaler.model.errors import BadInput
from scaler.timing.stopwatch import ServiceTally, Stopwatch

LOG = logging.getLogger("scaler.timing")


class TallyInbox:
    """The driver's end of the accumulator: Spark's thread puts in, ours takes out, and neither waits."""

    def __init__(self) -> None:
        self.tallies: deque[ServiceTally] = deque()
        self.listeners: list[Callable[[ServiceTally], None]] = []  # called on Spark's thread, too

    def add(self, tally: ServiceTally) -> None:
        if not isinstance(tally, ServiceTally) or not tally.end >= tally.start:
            return  # a task that timed nothing sends an empty one
        self.tallies.append(tally)
        for listener in tuple(self.listeners):
            try:
                listener(tally)
            except Exception:  # it must not stop what Spark does on its thread
                LOG.debug("a timer's sums could not be read", exc_info=True)

    def drain(self) -> Iterator[ServiceTally]:
        while self.tallies:
            yield self.tallies.popleft()


class TallyParam:
    """Spark's AccumulatorParam by its methods and their names: tallies add up in a task, not in the driver."""

    def zero(self, value: object) -> ServiceTally:  # noqa: ARG002
        return ServiceTally()

    def addInPlace(self, value: Any, term: ServiceTally) -> Any:  # noqa: N802
        value.add(term)
        return value


class ServiceTimer:
    """Timer of one operator of an application; give it, or what it wraps, to the functions that Spark runs."""

    def __init__(
        self,
        spark: Any,
        app: str,
        operator: str,
        folder: str | os.PathLike[str],
        period: float = 10.0,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """`spark`: a session or a SparkContext. A line a node is appended every `period` seconds in which it worked.

        `wait` stands in for the thread's pause between lines, in tests: true means stop.
        """
        context = getattr(spark, "sparkContext", spark)
        if not hasattr(context, "accumulator"):
            raise BadInput(f"a timer needs a Spark session with a SparkContext, and {type(spark).__name__} has none")
        self.app = app
        self.operator = operator
        self.inbox = TallyInbox()
        self.stopwatch = Stopwatch(context.accumulator(self.inbox, TallyParam()))
        self.each, self.whole, self.each_batch = self.stopwatch.each, self.stopwatch.whole, self.stopwatch.each_batch
        self.run = uuid.uuid4().hex[:12]
        self.path = Path(folder) / f"{quote(app, safe='')}.{quote(operator, safe='')}.{self.run}.jsonl"
        self.pending: dict[tuple[str | None, str | None], ServiceTally] = {}  # by node
        self.unwritten: deque[bytes] = deque()
        self.lines = 0
        self.torn = False
        self.complained = False
        self.writing = threading.Lock()
        self.stopped = threading.Event()
        self.thread = threading.Thread(
            target=self.keep_flushing, args=(period, wait or self.stopped.wait), name=f"timer {operator}", daemon=True
        )
        self.thread.start()
        atexit.register(self.close)

    def __reduce__(self) -> tuple[type[Stopwatch], tuple[Any, ...]]:
        """What travels to the executors is the stopwatch alone."""
        return Stopwatch, (self.stopwatch.sums, self.stopwatch.clock, self.stopwatch.now)

    def keep_flushing(self, period: float, wait: Callable[[float], bool]) -> None:
        while not wait(period):
            self.flush()

    def flush(self) -> bool:
        """Append what has come in; true when all of it is in the file. What fails is tried again at the next flush."""
        with self.writing:
            for tally in self.inbox.drain():
                self.pending.setdefault((tally.node_type, tally.host), ServiceTally()).add(tally)
            if not self.unwritten:  # while the file cannot be written, sums add up and memory does not grow
                self.unwritten.extend(self.form_line(tally) for tally in self.pending.values())
                self.pending.clear()
            try:
                self.append_lines()
            except OSError as error:
                if not self.complained:
                    LOG.warning("%s cannot be written (%s); timings are kept until it can", self.path, error.strerror)
                self.complained = True
                return False
            self.complained = False
            return not self.pending

    def form_line(self, tally: ServiceTally) -> bytes:
        evidence = "records" if tally.service_n else "tasks"
        names = {"application": self.app, "operator": self.operator, "evidence": evidence}
        self.lines += 1
        line = {**names, "key": f"{self.run}/{self.lines}", **tally.describe()}
        return json.dumps(line).encode() + b"\n"

    def append_lines(self) -> None:
        """Each line in one write, so that nobody reads half of one; a torn one is closed before the next."""
        if not self.unwritten:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            while self.unwritten:
                line = b"\n" + self.unwritten[0] if self.torn else self.unwritten[0]
                self.torn = os.write(file, line) < len(line)
                if self.torn:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self.unwritten.popleft()
        finally:
            os.close(file)

    def close(self) -> None:
        """Stop the thread and write the rest; what is timed later is not written. Spark's last tasks must be done."""
        atexit.unregister(self.close)
        self.stopped.set()
        if self.thread is not threading.current_thread():
            self.thread.join(timeout=5.0)
        self.flush()
        if not self.flush():
            LOG.warning("timings of %s were lost: %s could not be written", self.operator, self.path)

    def __enter__(self) -> ServiceTimer:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()
