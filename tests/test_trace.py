"""Traces: what any file must keep, what resampling must conserve, and the sentence each bad file gets."""

from __future__ import annotations

import gzip
import itertools
import math
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.model.errors import BadInput
from sim.trace import Trace, time_of, window
from sim.trace_file import FORMATS, read_trace, write_trace

TRACES = Path(__file__).parents[2] / "shared" / "traces"
NUMBERS = itertools.count()

rates = st.lists(st.floats(0.0, 1e9, allow_subnormal=False), min_size=1, max_size=40)
steps = st.sampled_from([0.1, 1 / 3, 1.0, 7.5, 60.0, 300.0, 3600.0])
zones = st.sampled_from([UTC, timezone(timedelta(hours=2)), timezone(-timedelta(hours=3, minutes=30))])
starts = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=zones)
traces = st.builds(Trace, st.builds(np.array, rates), steps, starts)


def put(folder: Path, name: str, content: str | bytes) -> Path:
    """A file with this content, zipped where the name says so."""
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("suffix", FORMATS)
@given(trace=traces)
def test_every_format_gives_back_what_was_put_in(
    suffix: str, trace: Trace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"trace{next(NUMBERS)}{suffix}"
    write_trace(trace, path)
    back = read_trace(path, trace.step_s, trace.start)
    path.unlink()
    np.testing.assert_array_equal(back.rates, trace.rates)
    assert back.step_s == pytest.approx(trace.step_s, abs=1e-6)
    assert (back.start, back.start.utcoffset()) == (trace.start, trace.start.utcoffset())
    assert back.name == path.name.removesuffix(suffix)


@pytest.mark.parametrize("suffix", FORMATS)
def test_writing_leaves_the_trace_and_nothing_else(suffix: str, tmp_path: Path) -> None:
    write_trace(Trace(np.ones(3)), tmp_path / f"t{suffix}")
    assert [path.name for path in tmp_path.iterdir()] == [f"t{suffix}"]


def test_the_same_trace_makes_the_same_file(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        write_trace(Trace(np.arange(9.0)), tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_summer_time_moves_no_slot(suffix: str, tmp_path: Path) -> None:
    trace = Trace(np.arange(48.0), 3600.0, datetime(2024, 3, 30, tzinfo=ZoneInfo("Europe/Rome")))
    assert time_of(trace, 47).isoformat() == "2024-04-01T00:00:00+02:00"
    write_trace(trace, tmp_path / f"t{suffix}")
    back = read_trace(tmp_path / f"t{suffix}")
    assert (back.step_s, back.start) == (3600.0, trace.start)


@given(trace=traces, data=st.data())
def test_windows_cut_anywhere_join_to_the_whole(trace: Trace, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, trace.rates.size - 1))
    tail = window(trace, cut, trace.rates.size)
    head = window(trace, 0, cut).rates if cut else np.empty(0)
    np.testing.assert_array_equal(np.concatenate([head, tail.rates]), trace.rates)
    assert tail.start - trace.start == timedelta(seconds=cut * trace.step_s)


def test_rates_are_a_read_only_copy() -> None:
    given_rates = np.ones(3)
    trace = Trace(given_rates)
    given_rates[0] = 5.0
    assert trace.rates[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        trace.rates[0] = 2.0


def test_traces_are_equal_by_value() -> None:
    one, same, other = Trace(np.arange(3.0)), Trace(np.arange(3.0)), Trace(np.array([0.0, 1.0, 5.0]))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != Trace(np.arange(3.0), 30.0)


def test_text_may_hold_comments_and_end_in_blank_lines(tmp_path: Path) -> None:
    path = put(tmp_path, "t.txt", "\ufeff# counts by the minute\r\n 4\r\n8.5 # an outage\r\n1e2\r\n\r\n# end\r\n\n  \n")
    np.testing.assert_array_equal(read_trace(path).rates, [4.0, 8.5, 100.0])


@pytest.mark.parametrize(
    ("rows", "step_s", "start"),
    [
        ("2024-05-01T00:00:00Z,4\n2024-05-01T00:05:00Z,6", 300.0, "2024-05-01T00:00:00+00:00"),
        ("2024-05-01,4\n2024-05-02,6", 86400.0, "2024-05-01T00:00:00+00:00"),
        ("2024-05-01 10:00+02:00,4\n2024-05-01 09:00+00:00,6", 3600.0, "2024-05-01T10:00:00+02:00"),
        ("1714521600,4\n1714521600.5,6", 0.5, "2024-05-01T00:00:00+00:00"),
        ("1714521600,4", 60.0, "2024-05-01T00:00:00+00:00"),
    ],
)
def test_csv_tells_its_step_and_start(rows: str, step_s: float, start: str, tmp_path: Path) -> None:
    trace = read_trace(put(tmp_path, "t.csv", f"time,rate\n{rows}\n\n"))
    assert (trace.step_s, trace.start.isoformat()) == (step_s, start)
    assert trace.rates[0] == 4.0


def test_csv_may_have_other_columns_and_no_time(tmp_path: Path) -> None:
    path = put(tmp_path, "t.csv.gz", '\ufeffhost, rate\n"a, the\nfirst",4\nb,5\n')
    trace = read_trace(path, 30.0, datetime(2024, 1, 1, tzinfo=UTC))
    assert trace == Trace(np.array([4.0, 5.0]), 30.0, datetime(2024, 1, 1, tzinfo=UTC), "t")


@pytest.mark.parametrize(
    ("times", "start"),
    [
        (pa.array([0, 60], pa.int64()), "1970-01-01T00:00:00+00:00"),
        (pa.array(["2024-05-01T00:00Z", "2024-05-01T00:01Z"]), "2024-05-01T00:00:00+00:00"),
        (pa.array([0, 60_000_000_000], pa.timestamp("ns")), "1970-01-01T00:00:00+00:00"),
        (pa.array([0, 60], pa.timestamp("s", "+02:00")), "1970-01-01T02:00:00+02:00"),
        (pa.array([0, 60_000_000_999], pa.timestamp("ns", "UTC")), "1970-01-01T00:00:00+00:00"),
    ],
)
def test_parquet_takes_times_of_any_kind(times: pa.Array, start: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"rate": pa.array([4, 6], pa.int32()), "time": times}), tmp_path / "t.parquet")
    trace = read_trace(tmp_path / "t.parquet", step_s=1.0)
    assert (trace.rates.tolist(), trace.step_s, trace.start.isoformat()) == ([4.0, 6.0], 60.0, start)


@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz"])
@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        ("4\n8\nx9\n", "line 3", "'x9', and must be a number of tuples per second, 0 or more"),
        ("4\nnan\n", "line 2", "'nan', and must be a number"),
        ("# rates\n4\n-1\n", "line 3", "'-1', and must be a number"),
        ("inf\n4\n", "line 1", "'inf', and must be a number"),
        ("1e999\n", "line 1", "'1e999', and must be a number"),
        ("4\n5 6\n", "line 2", "'5 6', and must be a number"),
        ("4\n\n5\n", "line 2", "missing, and must be a number"),
        ("4\n# a\n\n \n5\n", "line 3", "missing, and must be a number"),
        ("4,5\n", "line 1", "'4,5', and must be a number"),
    ],
)
def test_a_wrong_line_of_text_is_named(name: str, content: str, where: str, what: str, tmp_path: Path) -> None:
    path = put(tmp_path, name, content)
    with pytest.raises(BadInput) as refused:
        read_trace(path)
    assert str(refused.value).startswith(f"{path}, {where}: the rate is {what}")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("time,rate\n0,4\n60,x\n", ", line 3: the rate is 'x', and must be a number"),
        ("time,rate\n0,4\n60,\n120,5\n", ", line 3: the rate is missing, and must be a number"),
        ("rate\n4\n-2\n", ", line 3: the rate is '-2', and must be a number"),
        ("rate\nNaN\n", ", line 2: the rate is 'NaN', and must be a number"),
        ("rate\n4\n\n5\n", ", line 3: there are 0 fields; write 1, as in the header"),
        ("time,rate\n0,4\n60\n", ", line 3: there are 1 fields; write 2, as in the header"),
        ('note,rate\n"a\nb",4\nc,x\n', ", line 4: the rate is 'x', and must be a number"),
        ("4\n5\n", ", line 1: the columns are '4', and one must be named 'rate'"),
        ("rate,rate\n4,5\n", ", line 1: 2 columns are named 'rate', and only one may be"),
        ("time,time,rate\n0,0,5\n", ", line 1: 2 columns are named 'time', and only one may be"),
        ("rate\n", " holds a header alone; it must hold at least one rate"),
        ('rate\n"4\n', ", line 2: this is not CSV"),
        (b"rate\n4\n\xff\n", ", line 3: there are bytes that are no text; the file must be UTF-8"),
        ("time,rate\n0,4\nlater,5\n", ", line 3: the time is 'later', and must be ISO 8601 or seconds since 1970"),
        ("time,rate\n2024-01-01,4\n0,5\n", ", line 3: the time is '0', and must be ISO 8601 or seconds since 1970"),
        ("time,rate\n0,4\n1e300,5\n", ", line 3: the time is '1e300', and must be ISO 8601"),
        ("time,rate\n0,4\nnan,5\n", ", line 3: the time is 'nan', and must be ISO 8601"),
        ("time,rate\n,4\n60,5\n", ", line 2: the time is missing, and must be ISO 8601"),
        (
            "time,rate\n0,4\n60,5\n180,6\n240,6\n",
            ", line 4: the time is 120 s after the one before, and must be 60 s after it like the others",
        ),
        (
            "time,rate\n0,4\n120,5\n180,6\n",
            ", line 3: the time is 120 s after the one before, and must be 60 s after it like the others",
        ),
        ("time,rate\n0,4\n60,5\n120.01,6\n180,6\n240,6\n", ", line 4: the time is 60.01 s after the one before"),
        ("time,rate\n60,4\n0,5\n", ", line 3: the time is -60 s after the one before, and must be later"),
        ("time,rate\n0,4\n0,5\n", ", line 3: the time is 0 s after the one before, and must be later"),
    ],
)
def test_a_wrong_line_of_csv_is_named(name: str, content: str | bytes, said: str, tmp_path: Path) -> None:
    path = put(tmp_path, name, content)
    with pytest.raises(BadInput) as refused:
        read_trace(path)
    assert str(refused.value).startswith(f"{path}{said}")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"rate": [4.0, None, 5.0]}, ", row 2: the rate is missing, and must be a number"),
        ({"rate": [4.0, 5.0, math.nan]}, ", row 3: the rate is 'nan', and must be a number"),
        ({"rate": [-4, 5]}, ", row 1: the rate is '-4', and must be a number"),
        ({"rate": ["4", "5"]}, ": the column 'rate' holds string, and must hold numbers"),
        ({"rate": [True]}, ": the column 'rate' holds bool, and must hold numbers"),
        ({"speed": [4.0]}, ": the columns are 'speed', and one must be named 'rate'"),
        ({"rate": pa.array([], pa.float64())}, " holds a header alone; it must hold at least one rate"),
        ({"rate": [1, 2, 3, 4], "time": [0, 60, 180, 240]}, ", row 3: the time is 120 s after the one before"),
        ({"rate": [1, 2], "time": [0, None]}, ", row 2: the time is missing, and must be ISO 8601"),
        ({"rate": [1], "time": [[0]]}, ", row 1: the time is '[0]', and must be ISO 8601"),
    ],
)
def test_a_wrong_row_of_parquet_is_named(columns: dict[str, object], said: str, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(BadInput) as refused:
        read_trace(path)
    assert str(refused.value).startswith(f"{path}{said}")


def zip_half() -> bytes:
    return gzip.compress(b"4\n" * 1000, mtime=0)[:-12]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("t.txt", b"", " is empty; it must hold at least one rate"),
        ("t.csv", b" \n\n", " is empty; it must hold at least one rate"),
        ("t.parquet", b"", " is empty; it must hold at least one rate"),
        ("t.txt.gz", gzip.compress(b"", mtime=0), " is empty; it must hold at least one rate"),
        ("t.txt", b"# one\n# two\n", " holds comments alone; it must hold at least one rate"),
        ("t.txt.gz", b"4\n5\n", " is not a whole gzip file"),
        ("t.txt.gz", zip_half(), " is not a whole gzip file"),
        ("t.csv.gz", gzip.compress(b"rate\n4\n", mtime=0)[:10] + b"\xff" * 20, " is not a whole gzip file"),
        ("t.parquet", b"PAR1 nothing PAR1", " is not a whole Parquet file; write the trace again"),
        ("t.xls", b"4\n", ": the suffix is not that of a trace, and must be one of .txt, .txt.gz, .csv, .csv.gz, .par"),
        ("t.parquet.gz", b"4\n", ": the suffix is not that of a trace"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(BadInput) as refused:
        read_trace(path)
    assert str(refused.value).startswith(f"{path}{said}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_missing_file_and_a_folder_are_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    with pytest.raises(BadInput, match=r"cannot be read \(No such file or directory\); name a trace file"):
        read_trace(path)
    path.mkdir()
    with pytest.raises(BadInput, match=r"cannot be read \(Is a directory\); name a trace file"):
        read_trace(path)


def test_a_trace_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    trace = Trace(np.ones(3))
    with pytest.raises(BadInput, match=r"cannot be written .*; name a file in a folder that can"):
        write_trace(trace, tmp_path / "none" / "t.txt")
    with pytest.raises(BadInput, match="suffix"):
        write_trace(trace, tmp_path / "t")
    with pytest.raises(BadInput, match="slot 1 lies outside the years 1 to 9999"):
        write_trace(Trace(np.ones(3), 1e12), tmp_path / "t.csv")
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(BadInput, match="cannot be written"):
        write_trace(trace, tmp_path / "folder.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.txt"]


@pytest.mark.parametrize(
    ("values", "step_s", "start", "said"),
    [
        ([], 60.0, datetime(2024, 1, 1, tzinfo=UTC), r"shape \(0,\), and must have a row of at least one"),
        ([[1.0]], 60.0, datetime(2024, 1, 1, tzinfo=UTC), r"shape \(1, 1\)"),
        ([1.0, -1.0], 60.0, datetime(2024, 1, 1, tzinfo=UTC), "slot 1: the rate is -1.0, and must be a number"),
        ([math.nan], 60.0, datetime(2024, 1, 1, tzinfo=UTC), "slot 0: the rate is nan"),
        ([math.inf], 60.0, datetime(2024, 1, 1, tzinfo=UTC), "slot 0: the rate is inf"),
        ([1.0], 0.0, datetime(2024, 1, 1, tzinfo=UTC), "the step is 0.0 s, and must be positive"),
        ([1.0], math.nan, datetime(2024, 1, 1, tzinfo=UTC), "the step is nan s"),
        ([1.0], 60.0, datetime(2024, 1, 1), "the start 2024-01-01 00:00:00 has no time zone"),
    ],
)
def test_what_is_no_trace_is_refused(values: list[float], step_s: float, start: datetime, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Trace(np.array(values), step_s, start)


@pytest.mark.parametrize(("first", "last"), [(-1, 2), (2, 2), (3, 1), (0, 4)])
def test_a_window_outside_the_trace_is_refused(first: int, last: int) -> None:
    with pytest.raises(BadInput, match=f"has 3 slots: a window needs 0 <= {first} < {last} <= 3"):
        window(Trace(np.ones(3)), first, last)


@pytest.mark.skipif(not TRACES.exists(), reason=f"the published traces are not in {TRACES}")
@pytest.mark.parametrize(("name", "slots"), [("taxi", 525_533), ("tweets", 242_960)])
def test_the_published_traces_read_as_they_stand(name: str, slots: int) -> None:
    trace = read_trace(TRACES / f"{name}.txt.gz")
    with gzip.open(TRACES / f"{name}.txt.gz", "rt") as lines:
        assert trace.rates.tolist() == [int(line) for line in lines]
    assert (trace.name, trace.rates.size) == (name, slots)
