"""Windows folded from fine samples of every kind, against a plain fold sample by sample."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from scaler.model.errors import BadInput
from scaler.model.sample import EVIDENCE, Sample
from tests.pipeline.engines import assert_same_rows, drop_unknown
from tests.pipeline.frames import make_frame, to_cell
from tuner.pipeline.local.columns import SCHEMA
from tuner.pipeline.local.engine import check_samples as check_here
from tuner.pipeline.local.engine import read_parts, write_part
from tuner.pipeline.local.fold import fold as fold_here
from tuner.pipeline.sources.sample_schema import (
    AT_THE_END,
    BLOCKS,
    LEVELS,
    MEASURED,
    SPREAD,
    STATE_LEVELS,
    merge_types,
)
from tuner.pipeline.windows import FAULTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")
NOW = 1_700_000_000.0
Windows = dict[tuple[str, str | None, float], Sample]


def fold_all(spark: SparkSession, samples: list[Sample], window_s: float = 60.0) -> Windows:
    """By Spark and in this process, which comes to the same."""
    from tuner.pipeline.fold import check_samples, fold, select_sound

    folded = fold(select_sound(check_samples(make_frame(spark, samples), NOW)), window_s)
    here = fold_here(read_sound(samples), window_s).to_pylist()
    assert_same_rows([*map(drop_unknown, here)], [drop_unknown(row.asDict()) for row in folded.collect()])
    return collect(folded)


def read_sound(samples: list[Sample]) -> pa.Table:
    """Sound samples as a table, as an ingest in this process writes them."""
    table = pa.Table.from_pylist([{name: to_cell(value) for name, value in asdict(s).items()} for s in samples], SCHEMA)
    with TemporaryDirectory() as folder:
        part, _ = write_part(table, NOW, Path(folder), "1-a")
        return read_parts(Path(folder), [part] if part else [])


def collect(folded: DataFrame) -> Windows:
    rows = [Sample(**row.asDict()) for row in folded.collect()]
    found = {(row.operator, row.node_type, row.start): row for row in rows}
    assert len(found) == len(rows), "a window has two rows"
    return found


def progress(start: float, end: float, **figures: Any) -> Sample:
    return Sample("shop", "parse", start, end, "progress", key=f"b{start}", **figures)


def task(start: float, end: float, key: str, **figures: Any) -> Sample:
    return Sample("shop", "parse", start, end, "tasks", key=key, node_type="fast", **figures)


def test_a_sample_is_split_over_its_windows_by_time(spark: SparkSession) -> None:
    found = fold_all(spark, [progress(30.0, 150.0, tuples_in=120.0, backlog=7.0, batches=1.0, batch_time=120.0)])
    rows = [found["parse", None, start] for start in (0.0, 60.0, 120.0)]
    assert [row.tuples_in for row in rows] == [30.0, 60.0, 30.0]
    assert [row.completeness for row in rows] == [0.5, 1.0, 0.5]
    assert [row.backlog for row in rows] == [None, None, 7.0]
    assert [row.batches for row in rows] == [None, None, 1.0]
    assert [(row.end, row.key) for row in rows] == [(60.0, None), (120.0, None), (180.0, None)]
    assert len(found) == 3


def test_sketches_are_split_added_and_never_taken_from_two_sources(spark: SparkSession) -> None:
    split = progress(30.0, 90.0, responses={"10": 60.0})
    found = fold_all(spark, [split, progress(90.0, 120.0, responses={"10": 5.0, "-3": 1.0}), progress(120.0, 130.0)])
    sketches = [json.loads(str(found["parse", None, start].responses)) for start in (0.0, 60.0)]
    assert sketches == [{"10": 30.0}, {"10": 35.0, "-3": 1.0}]
    assert found["parse", None, 120.0].responses is None
    table = Sample("shop", "parse", 0.0, 60.0, "table", responses={"7": 1.0})
    both = fold_all(spark, [progress(0.0, 60.0, responses={"10": 60.0}), table])["parse", None, 0.0]
    assert json.loads(str(both.responses)) == {"7": 1.0}  # measured, where progress only works it out
    one = replace(task(0.0, 60.0, "a", responses={"1": 2.0}), key=None)
    (merged,) = merge_types([one, replace(one, node_type="slow", responses={"1": 1.0, "2": 4.0})])
    assert merged.responses == {"1": 3.0, "2": 4.0}


def test_state_counts_where_its_batch_ends(spark: SparkSession) -> None:
    first = progress(0.0, 70.0, state_bytes=5e6, store_loads=4.0, store_load_time=8.0)
    found = fold_all(spark, [first, progress(80.0, 90.0, state_bytes=4e6, store_loads=0.0, store_load_time=0.0)])
    before, after = found["parse", None, 0.0], found["parse", None, 60.0]
    assert (before.state_bytes, before.store_loads) == (None, None)
    assert (after.state_bytes, after.store_loads, after.store_load_time) == (5e6, 4.0, 8.0)


def test_missing_is_not_zero_and_zero_is_not_missing(spark: SparkSession) -> None:
    found = fold_all(spark, [progress(0.0, 60.0, tuples_in=0.0), progress(180.0, 240.0, tuples_in=5.0)])
    assert {start for _, _, start in found} == {0.0, 180.0}
    assert (found["parse", None, 0.0].tuples_in, found["parse", None, 0.0].arrived) == (0.0, None)


def test_the_most_complete_of_a_repeated_sample_counts_once(spark: SparkSession) -> None:
    half = replace(progress(0.0, 60.0, tuples_in=30.0), completeness=0.5)
    done = progress(0.0, 60.0, tuples_in=60.0)
    for given in ([half, done, done], [done, half, half, done]):
        assert fold_all(spark, given)["parse", None, 0.0].tuples_in == 60.0


def test_samples_without_a_key_repeat_when_they_lie_in_the_same_time(spark: SparkSession) -> None:
    line = Sample("shop", "parse", 0.0, 30.0, "table", tuples_in=3.0)
    other = replace(line, start=30.0, end=60.0)
    assert fold_all(spark, [line, line, other])["parse", None, 0.0].tuples_in == 6.0


def test_two_sources_of_the_same_thing_are_never_added(spark: SparkSession) -> None:
    timed = Sample("shop", "parse", 0.0, 60.0, "records", key="r", tuples_in=58.0, service_n=58.0, service_sum=1.0)
    seen = progress(0.0, 60.0, tuples_in=60.0, arrived=70.0)
    table = Sample("shop", "parse", 0.0, 60.0, "table", tuples_in=61.0, tuples_out=9.0, service_n=5.0, service_sum=9.0)
    row = fold_all(spark, [table, seen, timed])["parse", None, 0.0]
    assert (row.tuples_in, row.arrived, row.tuples_out) == (58.0, 70.0, 9.0)
    assert (row.service_n, row.service_sum, row.evidence) == (58.0, 1.0, "records")


def test_who_saw_more_of_a_window_counts_it(spark: SparkSession) -> None:
    timed = Sample("shop", "parse", 0.0, 20.0, "records", key="r", tuples_in=20.0, service_n=20.0, service_sum=1.0)
    row = fold_all(spark, [timed, progress(0.0, 60.0, tuples_in=60.0)])["parse", None, 0.0]
    assert (row.tuples_in, row.service_n, row.completeness) == (60.0, 20.0, 1.0)


def test_overlapping_samples_cover_a_window_once(spark: SparkSession) -> None:
    tasks = [task(0.0, 20.0, "a"), task(10.0, 30.0, "b"), task(12.0, 14.0, "c"), task(50.0, 60.0, "d")]
    assert fold_all(spark, tasks)["parse", "fast", 0.0].completeness == pytest.approx(40.0 / 60.0)


def test_replicas_are_a_mean_over_the_time_that_they_are_known_for(spark: SparkSession) -> None:
    lives = [task(0.0, 60.0, "e1", replicas=1.0), task(30.0, 60.0, "e2", replicas=1.0)]
    assert fold_all(spark, [*lives, task(0.0, 5.0, "t", busy=5.0)])["parse", "fast", 0.0].replicas == 1.5
    told = [progress(0.0, 15.0, replicas=2.0), progress(15.0, 30.0, replicas=4.0)]
    assert fold_all(spark, told)["parse", None, 0.0].replicas == 3.0


def test_a_moment_counts_whole_where_it_lies(spark: SparkSession) -> None:
    found = fold_all(spark, [task(60.0, 60.0, "a", tuples_in=4.0), task(59.0, 60.0, "b", tuples_in=2.0)])
    assert {place[2]: row.tuples_in for place, row in found.items()} == {0.0: 2.0, 60.0: 4.0}


def test_a_clock_set_back_loses_no_tuples(spark: SparkSession) -> None:
    found = fold_all(spark, [task(70.0, 50.0, "a", tuples_in=4.0)])
    assert [(place[2], row.tuples_in, row.completeness) for place, row in found.items()] == [(0.0, 4.0, 0.0)]


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"start": NOW + 7200.0, "end": NOW + 7260.0}, "future"),
        ({"end": math.nan}, "untimed"),
        ({"start": math.nan}, "untimed"),
        ({"start": -1.0}, "untimed"),
        ({"end": math.inf}, "untimed"),
        ({"end": 40 * 86_400.0}, "long"),
        ({"evidence": "guess"}, "evidence"),
        ({"operator": ""}, "unnamed"),
        ({"busy": -1.0}, "negative"),
        ({"tuples_in": math.inf}, "negative"),
        ({"backlog": math.nan}, "negative"),
        ({"completeness": 1.5}, "partial"),
        ({"start": 70.0}, "turned"),
        ({}, None),
        ({"start": NOW + 1800.0, "end": NOW + 1860.0}, None),
    ],
)
def test_what_is_wrong_with_a_sample_is_said(wrong: dict[str, Any], fault: str | None, spark: SparkSession) -> None:
    from tuner.pipeline.fold import check_samples

    sample = replace(progress(0.0, 60.0), **wrong)
    judged = check_samples(make_frame(spark, [sample]), NOW)
    assert [row["fault"] for row in judged.collect()] == [fault]
    (here,) = check_here(pa.Table.from_pylist([asdict(sample)], SCHEMA), NOW)
    assert [*FAULTS, None][here] == fault


@pytest.mark.parametrize("window_s", [0.0, -60.0, math.nan, math.inf])
def test_a_window_that_cannot_be_is_refused(window_s: float, spark: SparkSession) -> None:
    from tuner.pipeline.fold import fold

    with pytest.raises(BadInput, match=r"the window is .* and must be from"):
        fold(make_frame(spark), window_s)


def make_mess(seed: int, count: int = 400) -> list[Sample]:
    """Samples of every kind of evidence, of two operators and three node types, overlapping and with holes."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        evidence = EVIDENCE[rng.integers(len(EVIDENCE))]
        start = round(float(rng.uniform(0.0, 900.0)), 3)
        known = {column: round(float(rng.uniform(0.0, 100.0)), 2) for column in MEASURED if rng.random() < 0.4}
        made.append(
            Sample(
                "shop",
                ("parse", "count")[rng.integers(2)],
                start,
                round(start + float(rng.exponential(40.0)), 3),
                evidence,
                f"k{i}",
                (None, "fast", "slow")[rng.integers(3)],
                **known,
                completeness=float(rng.choice([1.0, 0.5])),
            )
        )
    return made


def fold_plainly(samples: list[Sample], window_s: float) -> Windows:
    """The oracle: window by window, one sample after the other."""
    kinds: dict[Any, list[tuple[Sample, float, float]]] = defaultdict(list)
    for sample in samples:
        slot = math.floor(sample.start / window_s)
        while slot * window_s < sample.end or slot * window_s == sample.start:
            begin, finish = max(sample.start, slot * window_s), min(sample.end, (slot + 1) * window_s)
            place = (sample.operator, sample.node_type, slot * window_s, sample.evidence)
            kinds[place].append((sample, begin, finish))
            slot += 1
    windows: dict[Any, list[Sample]] = defaultdict(list)
    for (operator, node_type, start, evidence), parts in kinds.items():
        figures = {column: add_column(column, parts, start + window_s) for column in MEASURED}
        figures["replicas"] = average_replicas(parts)
        cover = cover_of([(begin, finish, s.completeness) for s, begin, finish in parts]) / window_s
        row = Sample("shop", operator, start, start + window_s, evidence, None, node_type, **figures)
        windows[operator, node_type, start].append(replace(row, completeness=min(1.0, cover)))
    return {place: merge_plainly(rows) for place, rows in windows.items()}


def add_column(column: str, parts: list[tuple[Sample, float, float]], until: float) -> float | None:
    if column == "backlog":
        told = [(s.end, s.backlog) for s, _, finish in parts if s.backlog is not None and finish == s.end]
        return max((backlog for end, backlog in told if end == max(told)[0]), default=None)
    known = [(s, begin, finish) for s, begin, finish in parts if getattr(s, column) is not None]
    if column in STATE_LEVELS:
        return max((getattr(s, column) for s, _, finish in known if finish == s.end), default=None)
    if column in AT_THE_END:
        known = [(s, s.start, s.end) for s, _, finish in known if finish == s.end]
    shares = [getattr(s, column) * (finish - begin) / (s.end - s.start) for s, begin, finish in known]
    return math.fsum(shares) if shares else None


def average_replicas(parts: list[tuple[Sample, float, float]]) -> float | None:
    known = [(s, begin, finish) for s, begin, finish in parts if s.replicas is not None]
    if not known:
        return None
    return math.fsum(s.replicas * (finish - begin) for s, begin, finish in known if s.replicas is not None) / cover_of(
        [(begin, finish, 1.0) for _, begin, finish in known]
    )


def cover_of(pieces: list[tuple[float, float, float]]) -> float:
    covered, reached = 0.0, -math.inf
    for begin, finish, weight in sorted(pieces, key=lambda piece: (piece[0], -piece[2], piece[1])):
        covered += max(0.0, finish - max(begin, reached)) * weight
        reached = max(reached, finish)
    return covered


def merge_plainly(rows: list[Sample]) -> Sample:
    rows = sorted(rows, key=lambda row: EVIDENCE.index(row.evidence))
    figures: dict[str, float | None] = {}
    for block in BLOCKS:
        knowing = [row for row in rows if any(getattr(row, c) is not None for c in block.columns)]
        if block.total:
            knowing.sort(key=lambda row: -math.floor(row.completeness * 10.0 + 0.5))
        if block.columns[0] == "response_n":  # of a progress it is only worked out
            knowing.sort(key=lambda row: row.evidence == "progress")
        figures |= {column: getattr(knowing[0], column) if knowing else None for column in block.columns}
    return replace(rows[0], **figures, completeness=max(row.completeness for row in rows))


def assert_same(found: Windows, wanted: Windows) -> None:
    assert found.keys() == wanted.keys()
    for place, row in wanted.items():
        assert found[place].evidence == row.evidence
        for column in (*MEASURED, "completeness"):
            value, right = getattr(found[place], column), getattr(row, column)
            assert value == (right if right is None else pytest.approx(right, rel=1e-9)), (place, column)


@pytest.mark.parametrize(("seed", "window_s"), [(0, 60.0), (1, 7.5)])
def test_any_mess_folds_as_sample_by_sample(seed: int, window_s: float, spark: SparkSession) -> None:
    mess = make_mess(seed)
    found = fold_all(spark, [*mess, *mess[::3]], window_s)
    assert_same(found, fold_plainly(mess, window_s))
    for column in SPREAD:
        assert column not in LEVELS


def test_totals_are_kept(spark: SparkSession) -> None:
    mess = [replace(s, evidence="tasks", arrived=1.0 + i) for i, s in enumerate(make_mess(2))]
    found = fold_all(spark, mess)
    total = math.fsum(row.arrived for row in found.values() if row.arrived is not None)
    assert total == pytest.approx(math.fsum(1.0 + i for i in range(len(mess))), rel=1e-12)


def test_rows_of_node_types_and_the_one_without_are_never_added() -> None:
    plain = Sample("shop", "parse", 0.0, 60.0, "progress", tuples_in=100.0, batches=2.0)
    fast = Sample("shop", "parse", 0.0, 60.0, "tasks", None, "fast", tuples_in=60.0, busy=30.0, replicas=2.0)
    slow = replace(fast, node_type="slow", tuples_in=45.0, replicas=1.0)
    (row,) = merge_types([fast, plain, slow])
    assert (row.tuples_in, row.busy, row.replicas, row.batches) == (100.0, 60.0, 3.0, 2.0)
    assert (row.node_type, row.evidence) == (None, "progress")
