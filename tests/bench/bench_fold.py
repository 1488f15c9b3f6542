"""Time to fold the fine samples of many operators into windows, and how it grows with their number.

python -m tests.bench.bench_fold [operators, 10000] [share of a day, 1.0]

Samples are made by Spark itself, one a minute and operator, each with a key, and kept as Parquet first; what is timed
begins with reading them. Half the operators are measured first: the ratio says whether time grows in proportion.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.pipeline.fold import check_samples, fold, select_sound
from tuner.pipeline.session import start_session
from tuner.pipeline.sources.sample_schema import shape_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPERATORS, MINUTES, EACH = 10_000, 1440, 10  # EACH operators an application
START = 1_780_012_800  # a midnight
MEAN, OVERHEAD = 0.004, 0.08
SETTINGS = {
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "64",
    "spark.log.level": "OFF",
}


def make_samples(spark: SparkSession, operators: int, minutes: int) -> DataFrame:
    """Eight tasks a minute and operator, of 50 to 250 records each."""
    from pyspark.sql import functions as f

    rows = spark.range(operators * minutes).withColumns(
        {"number": f.expr(f"id div {minutes}"), "minute": f.expr(f"id % {minutes}")}
    )
    drawn = rows.withColumns({"n": 50.0 + f.floor(f.rand(1) * 201.0), "m": 50.0 + f.floor(f.rand(2) * 201.0)})
    t = {name: OVERHEAD + f.col(name) * MEAN for name in "nm"}  # half of the tasks like the one, half like the other

    def both(of: str) -> object:
        return 4.0 * (
            f.expr(of.format(n="n", t=f"({OVERHEAD} + n * {MEAN})"))
            + f.expr(of.format(n="m", t=f"({OVERHEAD} + m * {MEAN})"))
        )

    records = 4.0 * (f.col("n") + f.col("m"))
    start = START + 60.0 * f.col("minute")
    return shape_frame(
        drawn,
        {
            "application": f.format_string("app%04d", f.expr(f"number div {EACH}")),
            "operator": f.format_string("operator%d", f.expr(f"number % {EACH}")),
            "start": start,
            "end": start + 60.0,
            "evidence": f.lit("tasks"),
            "key": f.concat_ws("/", "number", "minute"),
            "arrived": records,
            "tuples_in": records,
            "tuples_out": 0.5 * records,
            "task_n": f.lit(8.0),
            "task_records": records,
            "task_time": 4.0 * (t["n"] + t["m"]),
            "task_inverse": both("1 / {n}"),
            "task_rates": both("{t} / {n}"),
            "task_squares": both("{t} * {t} / {n}"),
            "busy": 4.0 * (t["n"] + t["m"]),
            "replicas": f.lit(2.0),
        },
    )  # fmt: skip


def measure(samples: Path, windows: Path, spark: SparkSession) -> float:
    """Seconds of the fold."""
    began = time.perf_counter()
    fold(select_sound(check_samples(spark.read.parquet(str(samples)), time.time()))).write.parquet(str(windows))
    return time.perf_counter() - began


class Peak:
    """The most memory that the Java process had at a time."""

    def __init__(self, pid: int) -> None:
        self.pid, self.java, self.over = pid, 0, threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        while not self.over.wait(0.5):
            status = Path(f"/proc/{self.pid}/status").read_text()
            self.java = max(self.java, int(status.partition("VmRSS:")[2].split()[0]))


def spent(pid: int) -> float:
    """Seconds of processor time that a process has used: what counts where others work on the machine too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    operators = int(sys.argv[1]) if len(sys.argv) > 1 else OPERATORS
    minutes = round(MINUTES * (float(sys.argv[2]) if len(sys.argv) > 2 else 1.0))
    spark = start_session("local[2]", SETTINGS)
    java = spark.sparkContext._gateway.proc.pid
    peak = Peak(java)
    taken = []
    with tempfile.TemporaryDirectory() as folder:
        for share in (2, 1):
            count = operators // share
            samples, windows = Path(folder, f"samples{share}"), Path(folder, f"windows{share}")
            make_samples(spark, count, minutes).write.parquet(str(samples))
            before = spent(java)
            folding = measure(samples, windows, spark)
            cores = spent(java) - before
            rows = count * minutes
            taken.append(cores)
            print(
                f"{count:,} operators x {minutes:,} minutes, {rows / 1e6:.1f} M samples: "
                f"{folding / 60:.2f} min, {rows / folding:,.0f} samples/s; {cores / 60:.2f} minutes of processor time, "
                f"{rows / cores:,.0f} samples a second of it",
                flush=True,
            )
    peak.over.set()
    python = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"twice the samples take {taken[1] / taken[0]:.2f} times as much processor time")
    print(
        f"at most {peak.java / 1024:,.0f} MB in Java (driver and both task slots) and {python / 1024:,.0f} MB in Python"
    )
    spark.stop()


if __name__ == "__main__":
    main()
