"""Read tables (CSV, Parquet) and timers' JSON lines, whose columns are named as the fields of a sample.

Of a table, needed are `operator`, `start` and `end`, and one thing measured; `application` where it is not given
otherwise. Also understood: `time` for start, `window_seconds` for the time from start to end, `rate` for the arrivals
of a second. Times are seconds since 1970 or ISO 8601 (UTC where it names no offset). Other columns are passed over.
"""

from __future__ import annotations

import csv
import io
import os
import zlib
from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from scaler.model.bounded_file import (
    CHUNK,
    OversizedText,
    bound_text,
    check_size,
    measure_parquet,
    open_regular,
    read_gzip,
)
from scaler.model.errors import BadInput
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.log_file import LONGEST
from tuner.pipeline.sources.sample_schema import MEASURED, SourceResult, ddl, no_links, shape_frame, unite

TEXTS = ("application", "operator", "key", "node_type")
TIMES = ("start", "end", "time")
NUMBERS = (*MEASURED, "completeness", "window_seconds", "rate")
KNOWN = (*TEXTS, *TIMES, *NUMBERS)
SHOWN = 40  # characters of a wrong value in a sentence
LINE_LIMIT = "mapreduce.input.linerecordreader.line.maxlength"  # Spark's readers pass over a longer line
Header = Mapping[str, str]  # our name -> the file's


def read_table(spark: SparkSession, found: Sequence[InputFile], application: str | None, strict: bool) -> SourceResult:
    """Read tables; files with the same columns are read together."""
    groups: dict[tuple[bool, tuple[str, ...]], list[str]] = {}
    for file in found:
        parquet = file.path.lower().endswith(".parquet") or not file.path.lower().endswith((".csv", ".csv.gz"))
        names = read_parquet_names(file) if parquet else read_header(file)
        check_names(names, file.path, application)
        groups.setdefault((parquet, names), []).append(file.path)
    frames = []
    for (parquet, names), paths in groups.items():
        rows = spark.read.parquet(*paths) if parquet else read_csv(spark, paths)
        frames.append(make_samples(rows, {name.strip().lower(): name for name in names}, application))
    return SourceResult(unite(frames), no_links(spark))


def read_csv(spark: SparkSession, paths: list[str]) -> DataFrame:
    return spark.read.option(LINE_LIMIT, LONGEST).csv(paths, header=True, multiLine=False)


def read_header(file: InputFile) -> tuple[str, ...]:
    """The columns of a CSV file, of which no line is longer than Spark is to hold."""
    packed = file.path.lower().endswith(".gz")
    try:
        if packed:
            check_lines(file)
        with open_regular(file.path) as opened:
            head = (next(read_gzip(opened), b"") if packed else opened.read(CHUNK)).removesuffix(b"\r")
        if len(head) >= CHUNK - 1 and b"\n" not in head and b"\r" not in head:
            raise BadInput(f"{file.path}: the header has more than {CHUNK >> 10} KiB; write the table again")
        text = getincrementaldecoder("utf-8-sig")().decode(head)
        return tuple(next(csv.reader(io.StringIO(text, newline=""), strict=True), ()))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        raise BadInput(f"{file.path} is not CSV in UTF-8 ({error}); write the table again") from error


def check_lines(file: InputFile) -> None:
    """Unpack a table once, a chunk at a time, so that Spark is not given one that would fill its memory."""
    length = 0
    with open_regular(file.path) as opened:
        for chunk in bound_text(read_gzip(opened), file.path, os.fstat(opened.fileno()).st_size, file.limits):
            last = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
            length = length + len(chunk) if last < 0 else len(chunk) - last - 1
            if length > LONGEST:
                raise OversizedText(f"{file.path} has a line of more than {LONGEST >> 20} MiB; write the table again")


def read_parquet_names(file: InputFile) -> tuple[str, ...]:
    """The columns, each of a type that can hold what it must."""
    path = file.path
    try:
        with open_regular(path) as opened:
            metadata = pq.read_metadata(opened)
            size = os.fstat(opened.fileno()).st_size
        schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path} is not a whole Parquet file; write the table again") from error
    check_size(measure_parquet(metadata), path, size, file.limits)
    for field in schema:
        name, kind = field.name.strip().lower(), field.type
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        textual = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
        fits = numeric if name in NUMBERS else numeric or textual or (name in TIMES and pa.types.is_timestamp(kind))
        if name in KNOWN and not fits and not pa.types.is_null(kind):
            wanted = "numbers" if name in NUMBERS else "times" if name in TIMES else "text"
            raise BadInput(f"{path}: the column {field.name!r} holds {kind}, and must hold {wanted}")
    return tuple(schema.names)


def check_names(given: Sequence[str], path: str, application: str | None) -> None:
    names = [name.strip().lower() for name in given]
    listed = ", ".join(given)[:200]
    for name in KNOWN:
        if names.count(name) > 1:
            raise BadInput(f"{path}: {names.count(name)} columns are named {name!r}, and only one may be")
    needed = [("operator",), ("start", "time"), ("end", "window_seconds"), (*MEASURED, "rate")]
    if not application:
        needed.append(("application",))
    for choice in needed:
        if not set(choice) & set(names):
            wanted = " or ".join(repr(name) for name in choice[:3])
            raise BadInput(f"{path}: the columns are {listed!r}, and one must be named {wanted}")


def make_samples(rows: DataFrame, header: Header, application: str | None) -> DataFrame:
    def given(name: str) -> Column:
        return f.col(f"`{header[name].replace('`', '``')}`")

    texts = {name: f.nullif(f.trim(given(name).cast("string")), f.lit("")) for name in KNOWN if name in header}
    values = {name: texts[name].try_cast("double") for name in NUMBERS if name in header}
    values |= {
        name: read_moment(given(name), rows.schema[header[name]].dataType.typeName())
        for name in TIMES
        if name in header
    }
    start = values.get("start", values.get("time"))
    assert start is not None  # check_names saw to it
    end = values["end"] if "end" in values else start + values["window_seconds"]
    refuse_wrong(rows, texts, values, [name for name in ("start", "time", "end", "window_seconds") if name in header])
    columns = {name: values[name] for name in (*MEASURED, "completeness") if name in values}
    if "rate" in values and "arrived" not in values:
        columns["arrived"] = values["rate"] * (end - start)
    columns |= {name: texts[name] for name in TEXTS if name in texts}
    if application:
        columns["application"] = f.lit(application)
    if "completeness" in columns:
        columns["completeness"] = f.coalesce(columns["completeness"], f.lit(1.0))
    return shape_frame(rows.select("*"), {**columns, "start": start, "end": end, "evidence": f.lit("table")})


def read_moment(column: Column, kind: str) -> Column:
    if kind.startswith("timestamp"):
        return f.unix_micros(column.cast("timestamp")) / 1e6
    text = f.trim(column.cast("string"))
    return f.coalesce(text.try_cast("double"), f.unix_micros(text.try_cast("timestamp")) / 1e6)


def refuse_wrong(
    rows: DataFrame, texts: Mapping[str, Column], values: Mapping[str, Column], needed: Sequence[str]
) -> None:
    """The first cell that cannot be read, or is missing where it must not be, in a sentence."""
    wrong = []
    for name, value in values.items():
        stated = f.concat(f.lit(f"{name}="), f.coalesce(texts[name], f.lit("")))
        wrong.append(f.when(value.isNull() & (texts[name].isNotNull() | f.lit(name in needed)), stated))
    named = [name for name in ("operator", "application") if name in texts]
    wrong += [f.when(texts[name].isNull(), f.lit(f"{name}=")) for name in named]
    judged = rows.select(f.col("_metadata.file_path").alias("path"), f.coalesce(*wrong).alias("wrong"))
    found = judged.where("wrong is not null").first()
    if found is not None:
        name, _, value = found["wrong"].partition("=")
        path = unquote(urlparse(found["path"]).path)
        what = "the text" if name in TEXTS else "a time" if name in TIMES else "a number"
        said = repr(value[:SHOWN]) if value else "missing"
        form = ", in seconds since 1970 or ISO 8601" if name in TIMES else ""
        raise BadInput(f"{path}: in the column {name!r} a value is {said}, and must be {what}{form}")


DAMAGED = "_damaged"


def read_records(
    spark: SparkSession, found: Sequence[InputFile], application: str | None, strict: bool
) -> SourceResult:
    reader = spark.read.schema(f"{ddl()}, {DAMAGED} string").option("columnNameOfCorruptRecord", DAMAGED)
    lines = reader.option(LINE_LIMIT, LONGEST).json([file.path for file in found])
    placed = f.col("operator").isNotNull() & f.col("start").isNotNull() & f.col("end").isNotNull()
    named = f.lit(bool(application)) | f.col("application").isNotNull()
    sound = placed & named & f.col(DAMAGED).isNull()
    good, all_lines = lines.select(f.count_if(sound), f.count(f.lit(1))).first() or (0, 0)
    where = found[0].path if len(found) == 1 else f"{found[0].path} and {len(found) - 1} more"
    if not good and strict:
        raise BadInput(f"{where}: no line says application, operator, start and end; give the lines that a timer wrote")
    left_out = f"{where}: {all_lines - good} of {all_lines} lines are no samples of a timer and were left out"
    columns = {
        "application": f.lit(application) if application else f.col("application"),
        "evidence": f.lit("records"),
        "completeness": f.coalesce("completeness", f.lit(1.0)),
    }
    return SourceResult(
        shape_frame(lines.where(sound), columns), no_links(spark), (left_out,) if good < all_lines else ()
    )
