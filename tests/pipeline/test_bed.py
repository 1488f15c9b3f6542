"""A real stream of two operators on a real cluster, and what can be known of it from what it left."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scaler.model.sample import Sample
from tests.bed.plan import LINES, SPEEDS, Plan, read_plan
from tests.bed.run import run_bed
from tests.bed.truth import Served, read_truth
from tests.pipeline.engines import assert_same_rows, drop_unknown
from tests.surrogate.measured import measure_samples
from tuner.pipeline.fold import fold
from tuner.pipeline.local.fold import fold as fold_here
from tuner.pipeline.local.reading import examine as read_here
from tuner.pipeline.sources import detect, examine
from tuner.pipeline.sources.sample_schema import merge_types
from tuner.pipeline.windows import read_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # tasks run in this Python, whatever `python3` is

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]

PLAN = Plan(loads=(0.2, 0.5, 0.8), seconds=14.0, swapped=(0.4,), rest=8.0)
FIRST = [("split", "small"), ("count", "large")]  # where the operators spend most of the run


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bed") / "run"
    run_bed(folder, PLAN)
    return folder


@pytest.fixture(scope="module")
def truth(bed: Path) -> list[Served]:
    return read_truth(bed)


def read_timings(folder: Path) -> Iterator[Sample]:
    names = {field.name for field in fields(Sample)}
    for path in sorted((folder / "timings").iterdir()):
        for line in path.read_text().splitlines():
            yield Sample(**{name: value for name, value in json.loads(line).items() if name in names})


def hide_records(sample: Sample) -> Sample:
    """What would be known had no record been timed by itself."""
    return replace(sample, service_n=None, service_sum=None, service_squares=None)


def choose(truth: list[Served], operator: str, node_type: str) -> list[Served]:
    return [record for record in truth if (record.operator, record.speed) == (operator, SPEEDS[node_type])]


def collect(samples: DataFrame) -> list[Sample]:
    return [read_row(row.asDict()) for row in samples.collect()]


def measure(values: list[float]) -> tuple[float, float]:
    """Mean and variance."""
    mean = sum(values) / len(values)
    return mean, sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def test_every_line_and_word_goes_through_both_operators_once(bed: Path, truth: list[Served]) -> None:
    import pyarrow.parquet as pq

    lines = len(read_plan(bed / "plan.json").arrivals())
    assert sorted(record.record for record in truth if record.operator == "split") == list(range(lines))
    expected = Counter(word for line in range(lines) for word in LINES[line % len(LINES)].split())
    assert sorted(record.record for record in truth if record.operator == "count") == list(range(expected.total()))
    counted = Counter[str]()
    for batch in (bed / "channel" / "count" / "_spark_metadata").iterdir():
        for entry in batch.read_text().splitlines()[1:] if batch.name.isdigit() else ():
            for row in pq.read_table(json.loads(entry)["path"].removeprefix("file://")).to_pylist():
                counted[row["word"]] += row["n"]
    assert counted == expected


@pytest.mark.parametrize(("operator", "node_type"), [*FIRST, ("count", "small")])
def test_timed_records_give_the_known_mean_and_variance(
    operator: str, node_type: str, bed: Path, truth: list[Served]
) -> None:
    one, served = measure_samples(read_timings(bed))[operator, node_type], choose(truth, operator, node_type)
    for values in ([record.cost for record in served], [record.spent for record in served]):
        mean, variance = measure(values)
        assert one.mean.value == pytest.approx(mean, rel=0.03)
        assert one.variance is not None
        assert one.variance.value == pytest.approx(variance, rel=0.15)
    assert one.evidence == "records"
    assert one.tuples >= len(served)  # records of a batch that was stopped before its commit were served too


@pytest.mark.parametrize(("operator", "node_type"), FIRST)
def test_whole_batches_timed_give_the_known_mean(operator: str, node_type: str, bed: Path, truth: list[Served]) -> None:
    one = measure_samples(hide_records(sample) for sample in read_timings(bed))[operator, node_type]
    mean, _ = measure([record.cost for record in choose(truth, operator, node_type)])
    assert one.mean.value == pytest.approx(mean, rel=0.08)
    assert (one.evidence, one.variance_trusted) == ("tasks", False)


@pytest.mark.parametrize(("operator", "node_type"), FIRST)
def test_event_logs_alone_give_the_known_mean_and_no_variance_to_trust(
    operator: str, node_type: str, bed: Path, truth: list[Served], spark: SparkSession
) -> None:
    samples = collect(examine(spark, detect(bed / "eventlog")).samples)
    assert {sample.application for sample in samples} == {"bed"}
    one = measure_samples(samples)[operator, node_type]
    mean, _ = measure([record.cost for record in choose(truth, operator, node_type)])
    error = 0.0 if one.mean_trusted else 4.0 * one.mean.error  # how long the run is decides which
    assert one.mean.value == pytest.approx(mean, abs=max(0.08 * mean, error))
    assert (one.evidence, one.variance_trusted) == ("tasks", False)


def test_all_that_it_left_reads_together(bed: Path, truth: list[Served], spark: SparkSession) -> None:
    reading = examine(spark, detect(bed / "eventlog", bed / "progress", bed / "timings"), "bed")
    assert reading.notes == ()
    assert [row.asDict() for row in reading.links.distinct().collect()] == [
        {"application": "bed", "upstream": "split", "downstream": "count"}
    ]
    folded = collect(fold(reading.samples, 10.0))
    here = read_here(detect(bed / "eventlog", bed / "progress", bed / "timings"), "bed")
    both = [fold_here(here.samples, 10.0).to_pylist(), [row.asDict() for row in fold(reading.samples, 10.0).collect()]]
    assert_same_rows(*(list(map(drop_unknown, rows)) for rows in both))
    sums = Counter[str]()
    for sample in merge_types(folded):
        sums[sample.operator] += sample.tuples_in or 0.0
    served = Counter(record.operator for record in truth)  # a batch that was stopped by the swap counts in full or part
    assert dict(sums) == pytest.approx(served, rel=0.05)
    for (operator, node_type), one in measure_samples(folded).items():
        if (operator, node_type) in FIRST:
            mean, variance = measure([record.cost for record in choose(truth, operator, str(node_type))])
            assert one.evidence == "records"
            assert one.mean.value == pytest.approx(mean, rel=0.03)
            assert one.variance is not None
            assert one.variance.value == pytest.approx(variance, rel=0.15)
