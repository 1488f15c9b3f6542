"""Serve records of a counted stream by sleeping; imported by executors, so that it loads next to nothing."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from scaler.timing import ServiceTimer

KEYS = 17
Batches = Iterator[pa.RecordBatch]


def make_work(timer: ServiceTimer, costs: Sequence[float]) -> Callable[[Batches], Batches]:
    """Sums of a part of a batch, each record served at its known cost; those of all so far are Spark's state."""

    def work(batches: Batches) -> Batches:
        speed = float(os.environ["NODE_SPEED"])
        for batch in batches:
            parts, deadline = Counter[int](), time.perf_counter()
            for number in timer.each(batch.column("id").to_pylist()):
                deadline += costs[number % len(costs)] / speed  # what a sleep overshoots is taken off the next
                time.sleep(max(0.0, deadline - time.perf_counter()))
                parts[number % KEYS] += 1
            rows = [{"key": key, "n": n} for key, n in sorted(parts.items())]
            yield pa.RecordBatch.from_pylist(rows, pa.schema({"key": pa.int64(), "n": pa.int64()}))

    return work


def pass_on(batches: Batches) -> Batches:
    """Pins the stage that keeps the state, too."""
    yield from batches
