"""Read and write traces as text, CSV or Parquet.

Text holds one rate a line; CSV and Parquet hold a column `rate` and, where the start and the step are to be known from
the file, a column `time` (ISO 8601, taken as UTC where it names no offset, or seconds since 1970).
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.bounded_file import (
    CHUNK,
    ReadLimits,
    bound_text,
    check_size,
    measure_parquet,
    open_regular,
    read_gzip,
)
from scaler.model.errors import BadInput
from scaler.model.files import replacing
from sim.trace import A_RATE, EPOCH, Trace, acceptable, time_of

MAX_ROWS = 10_000_000  # 19 years of minutes
LIMITS = ReadLimits(text_bytes=256 << 20, remedy="write it at a longer step, or the part of it that matters")
MICROSECOND = timedelta(microseconds=1)
A_TIME = "and must be ISO 8601 or seconds since 1970, in the form of the first"


class TraceColumns(NamedTuple):
    """What a file says; None where it does not say it."""

    rates: NDArray[np.float64]
    start: datetime | None = None
    step_s: float | None = None


Place = Callable[[int], str]  # where the user finds the row with this index


def read_trace(path: Path | str, step_s: float = 60.0, start: datetime = EPOCH) -> Trace:
    """The trace in a file; `step_s` and `start` hold where the file has no times."""
    path = Path(path)
    suffix = find_suffix(path)
    data = read_bytes(path, suffix.endswith(".gz"))
    if not data.strip():
        raise BadInput(f"{path} is empty; it must hold at least one rate")
    read = FORMATS[suffix][0](data, path)
    name = path.name[: -len(suffix)]
    return Trace(read.rates, step_s if read.step_s is None else read.step_s, read.start or start, name)


def write_trace(trace: Trace, path: Path | str) -> None:
    """Put a trace into a file, whole or not at all; text keeps neither step nor start."""
    path = Path(path)
    suffix = find_suffix(path)
    data = FORMATS[suffix][1](trace)
    try:
        with replacing(path, private=False) as part:
            part.write_bytes(gzip.compress(data, compresslevel=6, mtime=0) if suffix.endswith(".gz") else data)
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}); name a file in a folder that can") from error


def find_suffix(path: Path) -> str:
    for suffix in FORMATS:
        if path.name.lower().endswith(suffix):
            if suffix == ".parquet" and find_spec("pyarrow") is None:
                raise BadInput(f"{path} needs pyarrow, which is not installed; install it, or make the trace CSV")
            return suffix
    raise BadInput(f"{path}: the suffix is not that of a trace, and must be one of {', '.join(FORMATS)}")


def read_bytes(path: Path, zipped: bool) -> bytes:
    """The text of a file, unpacked, as long as it is no longer than a trace may be."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            chunks = read_gzip(file) if zipped else iter(lambda: file.read(CHUNK), b"")
            data = b"".join(bound_text(chunks, path, size, LIMITS))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path} is not a whole gzip file ({error}); compress the trace again") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); name a trace file") from error
    if not path.name.lower().endswith(".parquet"):
        refuse_many(data.count(b"\n"), path)
    return data


def refuse_many(rows: int, path: Path) -> None:
    if rows > MAX_ROWS:
        raise BadInput(f"{path} has {rows:,} rows, and a trace may have {MAX_ROWS:,}; {LIMITS.remedy}")


def take_rate(value: Any, place: str) -> float:
    """One value as a rate, or the sentence that refuses it."""
    try:
        rate = float(value)
    except (TypeError, ValueError):
        rate = math.nan
    if not 0.0 <= rate < math.inf:
        raise BadInput(f"{place}: the rate is {show(value)}, {A_RATE}")
    return rate


def show(value: Any) -> str:
    """A wrong value as the user wrote it, cut to what fits a sentence."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else "" if value is None else str(value)
    return repr(text[:40]) if text.strip() else "missing"


def convert(values: Sequence[Any]) -> NDArray[np.float64] | None:
    """All values as rates at once; None if there is one that is not a rate."""
    try:
        rates = np.fromiter(map(float, values), np.float64, len(values))
    except (TypeError, ValueError):
        return None
    return rates if acceptable(rates).all() else None


def parse_text(data: bytes, path: Path) -> TraceColumns:
    lines = data.removeprefix(b"\xef\xbb\xbf").rstrip().split(b"\n")
    rates = convert(lines)
    return TraceColumns(walk_lines(lines, path) if rates is None else rates)


def walk_lines(lines: Sequence[bytes], path: Path) -> NDArray[np.float64]:
    """Rates line by line: the way with comments, and the one that finds the wrong line."""
    rates = []
    blank = 0
    for number, line in enumerate(lines, 1):
        text, comment, _ = line.partition(b"#")
        if text.strip():
            if blank:
                raise BadInput(f"{path}, line {blank}: the rate is missing, {A_RATE}")
            rates.append(take_rate(text.strip(), f"{path}, line {number}"))
        elif not comment:
            blank = blank or number
    if not rates:
        raise BadInput(f"{path} holds comments alone; it must hold at least one rate")
    return np.array(rates, dtype=np.float64)


def parse_csv(data: bytes, path: Path) -> TraceColumns:
    lines, rows = split_rows(data, path)
    header = [name.strip() for name in rows[0]]
    check_columns(header, f"{path}, line {lines[0]}")
    for line, row in zip(lines, rows, strict=True):
        if len(row) != len(header):
            raise BadInput(f"{path}, line {line}: there are {len(row)} fields; write {len(header)}, as in the header")

    def column(name: str) -> list[str]:
        return [row[header.index(name)] for row in rows[1:]]

    times = column("time") if "time" in header else None
    return assemble(column("rate"), times, path, lambda i: f"{path}, line {lines[i + 1]}")


def split_rows(data: bytes, path: Path) -> tuple[list[int], list[list[str]]]:
    """The rows of a CSV file, and the line on which each ends."""
    try:
        text = data.decode("utf-8-sig").rstrip()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path}, line {line}: there are bytes that are no text; the file must be UTF-8") from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    lines, rows = [], []
    try:
        for row in reader:
            lines.append(reader.line_num)
            rows.append(row)
    except csv.Error as error:
        raise BadInput(f"{path}, line {reader.line_num}: this is not CSV ({error}); correct the quotes") from error
    return lines, rows


def check_columns(names: Sequence[str], place: str) -> None:
    if "rate" not in names:
        raise BadInput(f"{place}: the columns are {show(', '.join(names))}, and one must be named 'rate'")
    for name in ("rate", "time"):
        if names.count(name) > 1:
            raise BadInput(f"{place}: {names.count(name)} columns are named {name!r}, and only one may be")


def parse_parquet(data: bytes, path: Path) -> TraceColumns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        refuse_many(file.metadata.num_rows, path)
        check_size(measure_parquet(file.metadata), path, len(data), LIMITS)
        kinds = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
        check_columns(file.schema_arrow.names, str(path))
        table = file.read(columns=[name for name in ("rate", "time") if name in kinds])
        times = table.column("time") if "time" in kinds else None
        if times is not None and pa.types.is_timestamp(times.type):
            times = times.cast(pa.timestamp("us", times.type.tz), safe=False).cast(pa.string())
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path} is not a whole Parquet file; write the trace again") from error
    kind = kinds["rate"]
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise BadInput(f"{path}: the column 'rate' holds {kind}, and must hold numbers")
    instants = None if times is None else times.to_pylist()
    return assemble(table.column("rate").to_pylist(), instants, path, lambda i: f"{path}, row {i + 1}")


def assemble(values: Sequence[Any], times: Sequence[Any] | None, path: Path, place: Place) -> TraceColumns:
    """Columns to rates, start and step."""
    if not values:
        raise BadInput(f"{path} holds a header alone; it must hold at least one rate")
    rates = convert(values)
    if rates is None:
        rates = np.array([take_rate(value, place(i)) for i, value in enumerate(values)])
    if times is None:
        return TraceColumns(rates)
    instants = take_times(times, place)
    return TraceColumns(rates, instants[0], find_step(instants, place))


def take_times(values: Sequence[Any], place: Place) -> list[datetime]:
    """Every time in the form of the first, so that no year is taken for seconds."""
    seconds = is_number(values[0])
    times = []
    for i, value in enumerate(values):
        try:
            times.append(EPOCH + timedelta(seconds=float(value)) if seconds else take_iso(value))
        except (TypeError, ValueError, OverflowError) as error:
            raise BadInput(f"{place(i)}: the time is {show(value)}, {A_TIME}") from error
    return times


def is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def take_iso(value: Any) -> datetime:
    time = datetime.fromisoformat(str(value).strip())
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def find_step(times: Sequence[datetime], place: Place) -> float | None:
    """The step in seconds, equal throughout but for rounding to the microsecond; None for a single slot."""
    if len(times) == 1:
        return None
    instants = np.fromiter(((time - EPOCH) // MICROSECOND for time in times), np.int64, len(times))
    gaps = np.diff(instants)
    usual = int(np.sort(gaps)[(gaps.size - 1) // 2])
    odd = np.flatnonzero((np.abs(gaps - usual) > 2) | (gaps <= 0))
    if odd.size:
        gap, wanted = gaps[odd[0]] / 1e6, f"{usual / 1e6:.10g} s after it like the others" if usual > 0 else "later"
        raise BadInput(f"{place(odd[0] + 1)}: the time is {gap:.10g} s after the one before, and must be {wanted}")
    return int(instants[-1] - instants[0]) / gaps.size / 1e6


def format_rates(trace: Trace) -> list[str]:
    return [repr(rate).removesuffix(".0") for rate in trace.rates.tolist()]


def format_text(trace: Trace) -> bytes:
    return "".join(f"{rate}\n" for rate in format_rates(trace)).encode()


def format_csv(trace: Trace) -> bytes:
    rows = (f"{time_of(trace, i).isoformat()},{rate}\n" for i, rate in enumerate(format_rates(trace)))
    return ("time,rate\n" + "".join(rows)).encode()


def format_parquet(trace: Trace) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    zone = f"{trace.start:%z}"
    offsets = np.rint(np.arange(trace.rates.size) * trace.step_s * 1e6).astype(np.int64)
    times = pa.array((trace.start - EPOCH) // MICROSECOND + offsets, pa.timestamp("us", f"{zone[:3]}:{zone[3:5]}"))
    sink = io.BytesIO()
    pq.write_table(pa.table({"time": times, "rate": trace.rates}), sink)
    return sink.getvalue()


FORMATS: dict[str, tuple[Callable[[bytes, Path], TraceColumns], Callable[[Trace], bytes]]] = {
    ".txt": (parse_text, format_text),
    ".txt.gz": (parse_text, format_text),
    ".csv": (parse_csv, format_csv),
    ".csv.gz": (parse_csv, format_csv),
    ".parquet": (parse_parquet, format_parquet),
}
