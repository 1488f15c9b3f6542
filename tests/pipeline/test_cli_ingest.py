"""`tuner ingest`, `samples` and `trace`: tables, files, pages, or one sentence and an exit code."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner, Result

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from sim.trace_file import read_trace
from tests.pipeline import logs
from tuner.cli.samples_commands import ingest, samples
from tuner.cli.trace_commands import export, plot
from tuner.store.applications import add_application
from tuner.store.connection import open_store
from tuner.store.records import SourceMark
from tuner.store.samples import save_marks, save_samples
from tuner.views.html_document import read_scripts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
START = 1_777_636_800.0  # 2026-05-01T12:00:00Z


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A database with two hours of two operators, of which ten minutes are missing."""
    path = tmp_path / "tuner.db"
    store = open_store(path)
    one = Sample("shop", "parse", 0.0, 0.0, "progress", arrived=60.0, tuples_in=60.0, service_n=60.0, service_sum=0.6)
    rows = []
    for i in (*range(40), *range(50, 120)):
        start = START + 60.0 * i
        rows.append(replace(one, start=start, end=start + 60.0, arrived=60.0 * (1 + i % 3)))
        rows.append(replace(rows[-1], operator="count", node_type="fast", arrived=None, replicas=2.0, busy=60.0))
    with store.begin() as session:
        save_samples(session, rows)
    store.close()
    return path


def run(command: click.Command, *arguments: object, db: Path) -> Result:
    return CliRunner().invoke(command, [*map(str, arguments), "--store", str(db)])


def succeed(command: click.Command, *arguments: object, db: Path) -> str:
    result = run(command, *arguments, db=db)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def refuse(command: click.Command, *arguments: object, db: Path) -> str:
    result = run(command, *arguments, db=db)
    assert isinstance(result.exception, BadInput), (result.output, result.exception)
    return str(result.exception)


def ingest_without_spark(path: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; sys.modules['pyspark'] = None; from tuner.cli import main; main()"
    command = [sys.executable, "-c", code, "ingest", str(path), "--app", "shop", "--store", str(tmp_path / "tuner.db")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_without_spark_a_table_is_refused_with_what_to_install(tmp_path: Path) -> None:
    table = tmp_path / "rates.csv"
    table.write_text("operator,start,end,rate\nparse,0,60,5\n")
    done = ingest_without_spark(table, tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip().endswith("install it with: pip install 'stream-scaler[spark]'")


def test_without_spark_a_log_is_read(tmp_path: Path) -> None:
    done = ingest_without_spark(logs.write(tmp_path / "log", logs.large(0.3)), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "shop: 1 file read (0.3 MB), 0 unchanged;" in done.stdout


def test_help_of_ingest_needs_no_spark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; from tuner.cli import main; main()"
    command = [sys.executable, "-c", code, "ingest", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--watch" in done.stdout


def test_samples_are_a_table_that_lines_up(db: Path) -> None:
    head, rule, *rows = succeed(samples, "shop", "--limit", 4, db=db).splitlines()
    assert len(rows) == 4
    assert {len(row.rstrip()) for row in rows} == {len(rule)} == {len(head.rstrip())}
    assert " ".join(rows[0].split()) == "2026-05-01 13:58:00 UTC count fast progress - 1 - - 10 2 50 - 100"
    assert " ".join(rows[1].split()).startswith("2026-05-01 13:58:00 UTC parse - progress 2 1 ")
    for name in ("arrived/s", "service ms", "seen %"):
        end = head.index(name) + len(name)
        assert all(row[end - 1] not in " " and (len(row) == end or row[end] == " ") for row in rows)


def test_samples_can_be_chosen_by_operator_and_time(db: Path) -> None:
    text = succeed(
        *(samples, "shop", "--operator", "parse", "--csv"),
        *("--since", "2026-05-01T12:05", "--until", "2026-05-01T14:07+02:00"),
        db=db,
    )
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [float(row["start"]) - START for row in rows] == [300.0, 360.0]
    assert {row["operator"] for row in rows} == {"parse"}
    assert (rows[0]["tuples_out"], rows[0]["completeness"]) == ("", "1.0")


def test_samples_as_json_are_all_there_is(db: Path) -> None:
    rows = json.loads(succeed(samples, "shop", "--limit", 0, "--json", db=db))
    assert len(rows) == 220
    assert rows[0]["node_type"] == "fast"
    assert rows[0]["backlog"] is None
    assert "key" not in rows[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none"], "there are no samples of 'none'; read some with: tuner ingest PATH --app none"),
        (
            ["shop", "--operator", "sort"],
            "there are no samples of operator 'sort' in 'shop'; there are of count, parse",
        ),
        (["shop", "--json", "--csv"], "--json and --csv both say how to print; give one of them"),
    ],
)
def test_samples_that_cannot_be_shown_are_refused(arguments: list[str], said: str, db: Path) -> None:
    assert refuse(samples, *arguments, db=db) == said


def test_a_time_that_is_none_is_refused(db: Path) -> None:
    result = run(samples, "shop", "--since", "lately", db=db)
    assert result.exit_code == 2
    assert "'lately' is no time; write ISO 8601" in result.stderr.replace("\n", " ")
    assert len(succeed(samples, "shop", "--since", "9999d", db=db).splitlines()) == 52


@pytest.mark.parametrize("name", ["r.csv", "r.parquet", "r.txt.gz"])
def test_an_exported_trace_is_one_that_the_simulator_reads(name: str, db: Path, tmp_path: Path) -> None:
    path = tmp_path / name
    result = run(export, "shop", path, "--operator", "parse", "--gap", 10, db=db)
    assert result.exit_code == 0, result.output
    assert result.stderr == f"{path}: 120 windows of 60 s from 2026-05-01T12:00:00Z, 10 of them bridged.\n"
    read = read_trace(path)
    assert read.rates.size == 120
    assert read.rates[:6].tolist() == [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]
    assert name.endswith(".txt.gz") or read.start.timestamp() == START


def test_a_trace_with_a_long_gap_is_refused_and_nothing_written(db: Path, tmp_path: Path) -> None:
    said = refuse(export, "shop", tmp_path / "r.csv", "--operator", "parse", db=db)
    assert said.endswith("take a stretch without that by --since or --until, or bridge it by --gap 10")
    assert not (tmp_path / "r.csv").exists()
    assert "name its sources with --operator: count, parse" in refuse(export, "shop", tmp_path / "r.csv", db=db)
    said = refuse(export, "shop", tmp_path / "r.csv", "--since", "2027-01-01", db=db)
    assert said == "there are no samples of 'shop' in this stretch of time; widen --since and --until"


def test_the_sources_are_those_of_the_application_as_it_is_described(db: Path, tmp_path: Path) -> None:
    operators = [{"name": name, "service_time": 0.01, "scv": 1.0} for name in ("parse", "count")]
    graph: dict[str, Any] = {"operator": operators, "edge": [{"from": "parse", "to": "count"}]}
    store = open_store(db)
    with store.begin() as session:
        add_application(session, "shop", {"application": {**graph, "sources": {"parse": 0.5}}}, START)
    store.close()
    succeed(export, "shop", tmp_path / "r.csv", "--gap", 10, db=db)
    assert read_trace(tmp_path / "r.csv").rates[:3].tolist() == [2.0, 4.0, 6.0]


def test_the_sources_are_those_that_nothing_is_seen_to_feed(db: Path, tmp_path: Path) -> None:
    from tuner.pipeline.read_marks import HISTORY, Ledger

    store = open_store(db)
    with store.begin() as session:
        save_marks(session, [SourceMark("shop", HISTORY, 0, START, asdict(Ledger(60.0, links=(("parse", "count"),))))])
    store.close()
    succeed(export, "shop", tmp_path / "r.csv", "--gap", 10, db=db)
    assert read_trace(tmp_path / "r.csv").rates[:3].tolist() == [1.0, 2.0, 3.0]


def test_a_plot_is_a_page_of_its_own(db: Path, tmp_path: Path) -> None:
    succeed(plot, "shop", "--html", tmp_path / "a.html", "--operator", "parse", db=db)
    page = (tmp_path / "a.html").read_text()
    assert 'class="chart"' in page
    assert "2026-05-01 12:40:00 UTC" in page
    assert "http" not in page.replace(read_scripts(), "")


def test_windows_of_two_lengths_are_not_mixed(db: Path, tmp_path: Path) -> None:
    store = open_store(db)
    with store.begin() as session:
        save_samples(session, [Sample("shop", "parse", START, START + 30.0, "progress", arrived=1.0)])
    store.close()
    said = refuse(export, "shop", tmp_path / "r.csv", "--operator", "parse", db=db)
    assert said == "the samples of 'shop' have windows of 30 s and 60 s; take a stretch of one"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["README.md"], "README.md: nothing there is known"),
        ([".", "--window", "0"], "the window is 0.0 s, and must be from 1 s to 31 days"),
    ],
)
def test_what_cannot_be_ingested_is_refused_before_spark_starts(arguments: list[str], said: str, db: Path) -> None:
    code = "import sys; from tuner.cli.samples_commands import ingest; ingest(standalone_mode=False)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}", *arguments, "--app", "shop", "--store", str(db)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"scaler.model.errors.BadInput: {said}" in done.stderr
    assert "Setting default log level" not in done.stderr


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_an_event_log_becomes_samples_once(spark: SparkSession, tmp_path: Path) -> None:
    db = tmp_path / "tuner.db"
    log = logs.write(tmp_path / "log", logs.large(1.0))
    first = succeed(ingest, log, "--app", "shop", "--master", "local[2]", db=db)
    assert "shop: 1 file read (1.0 MB), 0 unchanged;" in first
    shown = succeed(samples, "shop", "--json", db=db)
    rows = json.loads(shown)
    assert rows[0]["operator"] == "words"
    triggers = log.read_text().count("QueryProgressEvent")
    arrived = sum(row["arrived"] or 0.0 for row in rows)
    assert arrived == pytest.approx(400.0 * (triggers - 1))  # what came before the first, nobody knows
    assert (tmp_path / "tuner-history" / "application=shop").is_dir()
    again = succeed(ingest, log, "--app", "shop", "--master", "local[2]", db=db)
    assert "shop: 0 files read (0.0 MB), 1 unchanged; 0 samples" in again
    twice = succeed(ingest, log, "--app", "shop", "--master", "local[2]", "--again", db=db)
    assert "1 file read" in twice
    assert succeed(samples, "shop", "--json", db=db) == shown


@pytest.mark.slow
def test_watching_takes_in_what_comes_and_ends_on_ctrl_c(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    command = [
        sys.executable,
        "-c",
        "from tuner.cli.samples_commands import ingest; ingest()",
        str(folder),
        "--app",
        "shop",
    ]
    process = subprocess.Popen(
        [*command, "--watch", "--every", "1", "--master", "local[1]", "--store", str(tmp_path / "tuner.db")],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert process.stdout is not None
    try:
        assert process.stderr.readline() == "Watching every 1 s; Ctrl-C ends it.\n"
        logs.write(folder / "one", logs.large(0.3))
        assert "shop: 1 file read" in process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, err
    assert err.endswith("Stopped.\n")
    assert "Traceback" not in err
