"""Tables and lines of timers, against their samples or the sentence that names the cell."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from tests.pipeline.frames import make_frame
from tuner.pipeline import sources
from tuner.pipeline.sources.sample_schema import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def read(spark: SparkSession, *paths: Path, application: str | None = "shop") -> list[Sample]:
    rows = sources.examine(spark, sources.detect(*paths), application).samples.collect()
    return sorted((Sample(**row.asDict()) for row in rows), key=lambda sample: (sample.start, sample.operator))


def put(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_frame_holds_samples_as_they_are(spark: SparkSession) -> None:
    sample = Sample("a", "o", 1.0, 2.0, "table", arrived=3.0)
    frame = make_frame(spark, [sample])
    assert [Sample(**row.asDict()) for row in frame.collect()] == [sample]
    assert tuple(make_frame(spark).columns) == COLUMNS


def test_csv_with_the_names_of_a_sample(spark: SparkSession, tmp_path: Path) -> None:
    text = "Operator, start ,end,arrived,busy,colour,node_type\nx,0,60,5,,red,\ny,60,120.5,,1e-3,,fast\n"
    plain = put(tmp_path / "a.csv", "\ufeff" + text)
    packed = tmp_path / "b.csv.gz"
    packed.write_bytes(gzip.compress(text.encode(), mtime=0))
    for path in (plain, packed):
        assert read(spark, path) == [
            Sample("shop", "x", 0.0, 60.0, "table", arrived=5.0),
            Sample("shop", "y", 60.0, 120.5, "table", busy=0.001, node_type="fast"),
        ]


def test_times_windows_and_rates(spark: SparkSession, tmp_path: Path) -> None:
    rows = ["b,x,2024-01-01T00:00:00Z,60,2", "b,x,2024-01-01 01:01:00+01:00,60,"]
    text = "\n".join(["application,operator,time,window_seconds,rate", *rows])
    begun = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    wanted = [
        Sample("b", "x", begun, begun + 60, "table", arrived=120.0),
        Sample("b", "x", begun + 60, begun + 120, "table"),
    ]
    assert read(spark, put(tmp_path / "a.csv", text), application=None) == wanted
    times = pa.array([begun * 1e6, (begun + 60) * 1e6]).cast(pa.int64()).cast(pa.timestamp("us", "UTC"))
    columns = {"application": ["b", "b"], "operator": ["x", "x"], "time": times}
    pq.write_table(pa.table({**columns, "window_seconds": [60, 60], "rate": [2.0, None]}), tmp_path / "a.parquet")
    assert read(spark, tmp_path / "a.parquet", application=None) == wanted


def test_files_of_different_columns_are_read_together(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "operator,start,end,arrived\nx,0,60,5\n")
    put(tmp_path / "b.csv", "arrived,operator,start,end\n6,x,60,120\n")
    pq.write_table(pa.table({"operator": ["x"], "start": [120], "end": [180], "arrived": [7]}), tmp_path / "c.parquet")
    assert [sample.arrived for sample in read(spark, tmp_path)] == [5.0, 6.0, 7.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "operator,start,end,arrived\nx,0,60,five\n",
            "in the column 'arrived' a value is 'five', and must be a number",
        ),
        (
            "operator,start,end,arrived\nx,soon,60,5\n",
            "in the column 'start' a value is 'soon', and must be a time, in",
        ),
        ("operator,start,end,arrived\nx,,60,5\n", "in the column 'start' a value is missing, and must be a time"),
        ("operator,start,end,arrived\n,0,60,5\n", "in the column 'operator' a value is missing, and must be the text"),
        ("operator,start,end\nx,0,60\n", "the columns are 'operator, start, end', and one must be named 'arrived' or"),
        ("operator,start,arrived\nx,0,6\n", "and one must be named 'end' or 'window_seconds'"),
        ("start,end,arrived\n0,6,1\n", "and one must be named 'operator'"),
        ("operator,start,end,end,arrived\nx,0,1,1,1\n", "2 columns are named 'end', and only one may be"),
    ],
)
def test_a_wrong_table_is_refused_in_a_sentence(text: str, said: str, spark: SparkSession, tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", text)
    with pytest.raises(BadInput) as refused:
        read(spark, path)
    assert str(refused.value).startswith(f"{path}: ")
    assert said in str(refused.value)
    with pytest.raises(BadInput, match=r"one must be named 'application'|must be|only one may be"):
        read(spark, path, application=None)


def test_a_wrong_parquet_file_is_refused_in_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"operator": ["x"], "start": [0], "end": [1], "arrived": ["5"]}), path)
    with pytest.raises(BadInput, match=r"a\.parquet: the column 'arrived' holds string, and must hold numbers"):
        read(spark, path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BadInput, match=r"a\.parquet is not a whole Parquet file; write the table again"):
        read(spark, path)


def line(**more: Any) -> str:
    return json.dumps({"application": "shop", "operator": "x", "start": 1.0, "end": 2.0, "key": "k", **more}) + "\n"


def test_lines_of_a_timer(spark: SparkSession, tmp_path: Path) -> None:
    text = line(service_n=2, service_sum=0.5, service_squares=0.25, host="h") + line(start=3, end=4, node_type="fast")
    path = put(tmp_path / "a.jsonl", text + '{"operator":"y","start":1}\n' + line()[:30])
    reading = sources.examine(spark, sources.detect(path))
    samples = sorted((Sample(**row.asDict()) for row in reading.samples.collect()), key=lambda s: s.start)
    timed = {"service_n": 2.0, "service_sum": 0.5, "service_squares": 0.25}
    assert samples == [
        Sample("shop", "x", 1.0, 2.0, "records", "k", **timed),  # type: ignore[arg-type]
        Sample("shop", "x", 3.0, 4.0, "records", "k", "fast"),
    ]
    assert reading.notes == (f"{path}: 2 of 4 lines are no samples of a timer and were left out",)
    with pytest.raises(BadInput, match=r"b\.jsonl: no line says application, operator, start and end"):
        read(spark, put(tmp_path / "b.jsonl", '{"operator":"y","start":1}\n'))


def test_the_registry_names_what_there_is() -> None:
    from importlib import import_module

    for place in sources.SOURCES.values():
        module, _, name = place.partition(":")
        assert callable(getattr(import_module(module), name))
