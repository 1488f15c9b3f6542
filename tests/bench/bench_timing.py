"""What timing every record costs: the share of time added to work of 100 us a record, in plain Python and on Spark.

python -m tests.bench.bench_timing
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from zlib import crc32

from scaler.timing import ServiceTimer, Stopwatch
from tuner.pipeline.session import start_session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

RECORDS, ROUNDS, WORK_US, BUDGET = 10_000, 15, 100.0, 0.02


def make_block(us: float) -> bytes:
    """What to take the checksum of so that it takes so long here.

    Work of a fixed size, for a wait until a moment would swallow what timing costs; and work that makes no objects, for
    the time of that varies by a tenth with where on the heap they happen to come to lie, timed or not.
    """
    size, rounds = 100_000, 200
    block = bytes(size)
    begun = time.process_time()
    for _ in range(rounds):
        crc32(block)
    return bytes(int(us * 1e-6 * size * rounds / (time.process_time() - begun)))


def compare(run: Callable[[bool], float], rounds: int = ROUNDS) -> tuple[float, float]:
    """Added share of time, and half the distance of its quartiles: each round compares both, in turn first."""
    added = []
    for turn in range(rounds + 1):
        took = {timed: run(timed) for timed in ((True, False) if turn % 2 else (False, True))}
        added.append(took[True] / took[False] - 1.0)
    low, middle, high = statistics.quantiles(added[1:], n=4)  # the first one warms up
    return middle, (high - low) / 2


def plain(block: bytes) -> Callable[[bool], float]:
    """Processor time of a loop over tuples."""
    watch = Stopwatch(SimpleNamespace(add=[].append))
    rows = [(i,) for i in range(RECORDS)]

    def run(timed: bool) -> float:
        begun = time.process_time()
        given: Iterable[Any] = watch.each(rows) if timed else rows
        for _ in given:
            crc32(block)
        return time.process_time() - begun

    return run


def on_spark(spark: SparkSession, folder: str, block: bytes) -> Callable[[bool], float]:
    """Processor time that the Python worker spends in one task of mapInPandas, told by the task itself."""
    timer = ServiceTimer(spark, "bench", "work", folder)

    def bare(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas

        begun = time.process_time()
        for batch in batches:
            for _ in batch.itertuples():
                crc32(block)
        yield pandas.DataFrame({"took": [time.process_time() - begun]})

    def watched(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas

        begun = time.process_time()
        for batch in batches:
            for _ in timer.each(batch.itertuples()):
                crc32(block)
        yield pandas.DataFrame({"took": [time.process_time() - begun]})

    rows = spark.range(0, RECORDS, numPartitions=1)
    frames = {True: rows.mapInPandas(timer.whole(watched), "took double"), False: rows.mapInPandas(bare, "took double")}
    return lambda timed: float(frames[timed].collect()[0].took)


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    print(f"{RECORDS} records of {WORK_US:g} us of work, {1e6 / WORK_US:,.0f} a second and core; budget {BUDGET:.0%}")
    for us in (WORK_US, WORK_US / 10):
        added, spread = compare(plain(make_block(us)))
        share = f"{added:+.2%} (half a quartile distance {spread:.2%})"
        print(f"plain Python, {us:g} us a record: timing each adds {share}, {added / BUDGET:.2f} of budget")
    spark = start_session("local[1]")
    with tempfile.TemporaryDirectory() as folder:
        added, spread = compare(on_spark(spark, folder, make_block(WORK_US)))
        share = f"{added:+.2%} (half a quartile distance {spread:.2%})"
        print(f"mapInPandas, {WORK_US:g} us a record: each and whole add {share}, {added / BUDGET:.2f} of budget")
    spark.stop()


if __name__ == "__main__":
    main()
