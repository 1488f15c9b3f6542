"""Time the user's loop or function in a task, and add the sums to the task's accumulator.

This is the part of a timer that travels to the executors. It adds to the accumulator once a loop or call, not once a
record, so that a record costs two readings of the clock and little else. Sums add up over tasks, batches and nodes.

Notation, as in the tuner's samples: n_i records of a batch took t_i seconds.
"""

from __future__ import annotations

import functools
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

NODE_RESOURCE = "node_"  # a custom resource "node_fast" that the task's profile asks for names the node type "fast"
NODE_TYPE = "SPARK_EXECUTOR_ATTRIBUTE_NODE_TYPE"  # else this does, in the executor's environment; event logs hold both
Row = TypeVar("Row")
Batch = TypeVar("Batch", bound=Sized)
Result = TypeVar("Result")
Clock = Callable[[], float]
RECORDS = ("service_n", "service_sum", "service_squares")
BATCHES = ("task_n", "task_records", "task_time", "task_inverse", "task_rates", "task_squares")
DRIVEN = ("batches", "batch_time")
RESPONSES = ("response_n", "response_sum")


@dataclass(slots=True)
class ServiceTally:
    """Sums timed on one node between two moments of its own clock; a group of sums that stayed empty is unknown."""

    node_type: str | None = None
    host: str | None = None
    start: float = math.inf
    end: float = -math.inf

    service_n: float = 0.0
    service_sum: float = 0.0
    service_squares: float = 0.0

    task_n: float = 0.0
    task_records: float = 0.0
    task_time: float = 0.0
    task_inverse: float = 0.0
    task_rates: float = 0.0
    task_squares: float = 0.0

    batches: float = 0.0
    batch_time: float = 0.0

    response_n: float = 0.0
    response_sum: float = 0.0

    def cover(self, start: float, end: float) -> None:
        """Stretch to hold [start, end)."""
        self.start = min(self.start, start)
        self.end = max(self.end, end)

    def add_batch(self, records: int, spent: float) -> None:
        """One batch timed as a whole; an empty one says nothing of a record's time."""
        if records > 0:
            self.task_n += 1.0
            self.task_records += records
            self.task_time += spent
            self.task_inverse += 1.0 / records
            self.task_rates += spent / records
            self.task_squares += spent * spent / records

    @property
    def tuples(self) -> float:
        return self.service_n or self.task_records

    @property
    def busy(self) -> float:
        """Seconds of service; of whole batches where records were not timed one by one."""
        return self.service_sum if self.service_n else self.task_time

    def add(self, other: ServiceTally, share: float = 1.0) -> None:
        """Add a share of another's sums; both ran on the same node, or it does not matter which."""
        self.node_type, self.host = other.node_type, other.host
        self.cover(other.start, other.end)
        for name in (*RECORDS, *BATCHES, *DRIVEN, *RESPONSES):
            setattr(self, name, getattr(self, name) + share * getattr(other, name))

    def describe(self) -> dict[str, str | float]:
        """The known fields by the names of a sample, and the host beside them."""
        known: dict[str, str | float] = {"start": self.start, "end": max(self.start, self.end)}
        for name in ("node_type", "host"):
            if getattr(self, name) is not None:
                known[name] = getattr(self, name)
        for group in (RECORDS, BATCHES, DRIVEN, RESPONSES):
            if getattr(self, group[0]):
                known |= {name: getattr(self, name) for name in group}
        return known


class TallyAccumulator(Protocol):
    """The part of Spark's accumulator that a stopwatch uses."""

    def add(self, term: ServiceTally, /) -> None: ...


class Stopwatch:
    """Timer of what runs in a task."""

    def __init__(self, sums: TallyAccumulator, clock: Clock = time.perf_counter, now: Clock = time.time) -> None:
        self.sums = sums
        self.clock = clock  # for durations: it never jumps
        self.now = now  # for moments

    def each(self, rows: Iterable[Row], arrived: Callable[[Row], float | None] | None = None) -> Iterator[Row]:
        """Yield the rows, each timed until the next is requested; getting them is not timed.

        `arrived` returns a row's arrival, in seconds since 1970, where its response time is to be known too. A row at
        which the loop is left is not counted.
        """
        clock, tally, begun = self.clock, new_tally(), self.now()
        n, total, squares = 0, 0.0, 0.0
        try:
            for row in rows:
                handed = clock()
                yield row
                spent = clock() - handed
                n += 1
                total += spent
                squares += spent * spent
                if arrived is not None and (stamp := arrived(row)) is not None:
                    tally.response_n += 1.0
                    tally.response_sum += self.now() - stamp
        finally:
            if n:
                tally.service_n, tally.service_sum, tally.service_squares = float(n), total, squares
                tally.cover(begun, self.now())
                self.sums.add(tally)

    def whole(
        self, function: Callable[[Iterator[Batch]], Iterable[Result]]
    ) -> Callable[[Iterator[Batch]], Iterator[Result]]:
        """Wrap a function for mapInPandas or mapInArrow so that each of its input batches is timed as a whole.

        Waiting for input and what happens to its output downstream are not timed. What it does before its first batch
        counts to the first, what it does after the last to the last.
        """

        @functools.wraps(function)
        def timed(batches: Iterator[Batch]) -> Iterator[Result]:
            lap, begun = BatchClock(self.clock), self.now()
            try:
                results = iter(function(lap.feed(batches)))
                while True:
                    lap.resume()
                    try:
                        result = next(results)
                    except StopIteration:
                        return
                    finally:
                        lap.pause()
                    yield result
            finally:
                lap.finish_batch()
                if lap.tally.task_n:
                    lap.tally.cover(begun, self.now())
                    self.sums.add(lap.tally)

        return timed

    def each_batch(
        self, function: Callable[[Any, int], Any], records: Callable[[Any], int] | None = None
    ) -> Callable[[Any, int], None]:
        """Wrap a function for foreachBatch so that each call is timed; it runs in the driver: the node type is unknown.

        How many records there were is what `records` says of the frame, asked after the function and not timed, or
        what the function itself returns if that is an integer. Else the number of calls and their time alone are kept.
        """

        @functools.wraps(function)
        def timed(frame: Any, batch: int) -> None:
            begun, started = self.now(), self.clock()
            n = function(frame, batch)
            spent, tally = self.clock() - started, ServiceTally(batches=1.0)
            tally.batch_time = spent
            tally.cover(begun, begun + spent)
            n = n if records is None else records(frame)
            if isinstance(n, int) and not isinstance(n, bool):
                tally.add_batch(n, spent)
            self.sums.add(tally)

        return timed


class BatchClock:
    """Clock that runs only while the user's function does, read at every batch."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.since: float | None = None
        self.spent = 0.0
        self.records = 0
        self.tally = new_tally()

    def resume(self) -> None:
        self.since = self.clock()

    def pause(self) -> None:
        if self.since is not None:
            self.spent += self.clock() - self.since
            self.since = None

    def finish_batch(self) -> None:
        """Add the batch that was handed out last; time before the first one counts to it."""
        if self.records:
            self.tally.add_batch(self.records, self.spent)
            self.spent, self.records = 0.0, 0

    def feed(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        self.pause()
        for batch in batches:
            self.finish_batch()
            self.records = len(batch)
            self.resume()
            yield batch
            self.pause()
        self.resume()


def new_tally() -> ServiceTally:
    return ServiceTally(find_node_type(os.environ, list_resources()), find_host(os.environ))


def find_host(environ: Mapping[str, str]) -> str:
    """Name of the node as Spark knows it; one machine may be several nodes."""
    return environ.get("SPARK_LOCAL_HOSTNAME") or environ.get("SPARK_LOCAL_IP") or socket.gethostname()


def find_node_type(environ: Mapping[str, str], resources: Iterable[str]) -> str | None:
    """By the resources of the task, else by the environment; None where neither names a type."""
    return name_node_type(resources) or environ.get(NODE_TYPE) or None


def name_node_type(resources: Iterable[str]) -> str | None:
    """The node type that custom resources name; None where there is none."""
    named = sorted(name.removeprefix(NODE_RESOURCE) for name in resources if name.startswith(NODE_RESOURCE))
    return next(filter(None, named), None)


def list_resources() -> list[str]:
    """Custom resources of the task that runs here, none outside of one; in a task Spark has loaded the module."""
    module = sys.modules.get("pyspark.taskcontext")
    context = module.TaskContext.get() if module else None
    return list(context.resources()) if context else []
