"""`tuner ingest` and `tuner trace`: read monitoring into samples; export or plot the arrival rates in them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scaler.model.errors import BadInput, Retry
from scaler.model.files import check_place, write_whole
from scaler.model.sample import Sample
from sim.trace_file import write_trace
from tuner.cli.options import app_argument, file_type, master_help, since_option, store_option, until_option
from tuner.cli.progress import refuse_failures, show_steps, start_quietly
from tuner.pipeline.flows import Arrivals, build_arrivals, fill, find_gaps, find_sources, format_time
from tuner.pipeline.fold import FAULTS, check_window
from tuner.pipeline.ingest import STEPS, IngestSummary, IngestTarget
from tuner.pipeline.ingest import forget as forget_all
from tuner.pipeline.ingest import ingest as take_in
from tuner.pipeline.read_marks import load_links
from tuner.pipeline.sources import InputFile, SourceResult, detect, examine
from tuner.scenario.document import shape_of
from tuner.store.address import DatabaseAddress
from tuner.store.applications import list_applications
from tuner.store.connection import Session, open_store
from tuner.store.samples import load_samples
from tuner.views.course_charts import write_arrivals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "64"}


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner ingest /var/log/spark-events --app shop\n"
    "  tuner ingest eventlog_v2_app-1 progress.jsonl --app shop --window 30\n"
    "  tuner ingest http://driver:8000/progress.json --app shop --watch --every 60\n"
    "  tuner ingest measured.csv --app shop && tuner samples shop"
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH|URL...")
@click.option("--app", required=True, metavar="NAME", help="Name of the application whose samples these are.")
@click.option(
    "--window", "window_s", type=float, default=60.0, show_default=True, help="Length of a window, in seconds."
)
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C.")
@click.option(
    "--every",
    type=click.FloatRange(1.0),
    default=30.0,
    show_default=True,
    help="Seconds between two repetitions of --watch.",
)
@click.option("--again", is_flag=True, help="Read files that were read before too; nothing counts twice.")
@click.option("--forget", is_flag=True, help="Delete all samples of this application first.")
@click.option("--master", default="local[*]", show_default=True, help=f"{master_help}.")
@click.option(
    "--history",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the fine samples, on storage that the whole cluster sees (default: beside the database).",
)
@store_option
def ingest(
    paths: tuple[str, ...],
    app: str,
    window_s: float,
    watch: bool,
    every: float,
    again: bool,
    forget: bool,
    master: str,
    history: Path | None,
    address: DatabaseAddress,
) -> None:
    """Read the monitoring of a stream into samples by operator and window.

    PATH is a file or a folder of Spark event logs, progress JSON, timers' lines or tables (CSV, Parquet). A file that
    was read before and has not grown is skipped. A second run over more files gives the same samples as one run over
    all of them.
    """
    if find_spec("pyspark") is None:
        raise BadInput("reading monitoring needs Spark; install it with: pip install 'stream-scaler[spark]'")

    check_window(window_s)
    if not watch:
        detect(*paths)  # refused before Spark is started
    with closing(open_store(address)) as store:
        place = IngestTarget(store, app, (history or store.address.history).absolute(), window_s)
        if forget:
            forget_all(place)
        if watch:
            keep_watching(place, paths, again, master, every)
        else:
            say(place, run_once(place, paths, again, master, True))


def run_once(place: IngestTarget, paths: tuple[str, ...], again: bool, master: str, strict: bool) -> IngestSummary:
    """One look at the files, with a bar."""
    found = detect(*paths)
    with show_steps(STEPS) as (report, doing):

        def start() -> SparkSession:
            report("Starting Spark", 0)
            spark = start_quietly(master, SETTINGS)
            doing.tracker = spark.sparkContext.statusTracker()
            return spark

        def read(spark: SparkSession, fresh: Sequence[InputFile]) -> SourceResult:
            return examine(spark, fresh, place.application, strict and len(fresh) == len(found))

        return refuse_failures(lambda: take_in(start, place, found, read, again, report=report))


def keep_watching(place: IngestTarget, paths: tuple[str, ...], again: bool, master: str, every: float) -> None:
    """Look, wait, look again; Ctrl-C ends it as asked for, and what was not finished is read the next time."""
    click.echo(f"Watching every {every:g} s; Ctrl-C ends it.", err=True)
    told = ""
    try:
        while True:
            try:
                result = run_once(place, paths, again, master, False)
                again, told = False, ""
                if result.read:
                    say(place, result)
            except (BadInput, Retry, click.ClickException) as error:
                if str(error) != told:
                    click.echo(f"{error}; trying again.", err=True)
                told = str(error)
            time.sleep(every)
    except KeyboardInterrupt:
        click.echo("Stopped.", err=True)


def say(place: IngestTarget, result: IngestSummary) -> None:
    """What was read, what was left alone, what is wrong."""
    size = {state.path: state.size for state in result.files}
    total = sum(size[file.path] for file in result.read)
    idle = len(result.files) - len(result.read)
    click.echo(
        f"{place.application}: {count(len(result.read), 'file')} read ({total / 1e6:,.1f} MB), {idle:,} unchanged; "
        f"{count(result.samples, 'sample')}, {count(result.windows, 'window')} of {place.window_s:g} s "
        f"in {result.seconds:.1f} s."
    )
    if result.first is not None and result.last is not None:
        click.echo(f"They reach from {format_time(result.first)} to {format_time(result.last)}.")
    for fault, number in result.faults.items():
        click.echo(f"{count(number, 'sample')} {FAULTS[fault]}.")
    for note in result.notes:
        click.echo(f"Note: {note}.")
    for state in result.files:
        if state.known == "replaced":
            click.echo(f"Note: {state.path} is another file than the one read before under this name.")
    if result.windows:
        click.echo(f"See them with: tuner samples {place.application}", err=True)


def count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


operator_option = click.option(
    "--operator",
    metavar="NAME",
    multiple=True,
    help="Name of a source; repeat it for several (default: the sources of the application).",
)


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner trace export shop rates.csv\n"
    "  tuner trace export shop week.parquet --since 7d --gap 30\n"
    "  tuner trace export shop rates.csv && tuner simulate --trace rates.csv"
)
@app_argument
@click.argument("file", type=file_type)
@operator_option
@since_option
@until_option
@click.option(
    "--gap",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Largest number of missing windows in a row to interpolate.",
)
@store_option
def export(
    app: str,
    file: Path,
    operator: tuple[str, ...],
    since: float | None,
    until: float | None,
    gap: int,
    address: DatabaseAddress,
) -> None:
    """Write the arrival rates of APP to FILE.

    Its name ends in .csv, .parquet, .txt, .txt.gz or .csv.gz. A few missing windows in a row are interpolated; more of
    them are refused.
    """
    check_place(file)
    arrivals = find_arrivals(app, operator, since, until, address)
    filled = fill(arrivals, gap)
    write_trace(filled, file)
    bridged = sum(last - first for first, last in find_gaps(arrivals.rates))
    click.echo(
        f"{file}: {filled.rates.size:,} windows of {filled.step_s:g} s from {format_time(arrivals.start)}"
        f"{f', {bridged:,} of them bridged' if bridged else ''}.{say_doubt(arrivals)}",
        err=True,
    )


@click.command(epilog="\b\nExample:\n  tuner trace plot shop --html arrivals.html")
@app_argument
@click.option("--html", required=True, type=file_type, help="Write a page with charts to this file.")
@operator_option
@since_option
@until_option
@store_option
def plot(
    app: str, html: Path, operator: tuple[str, ...], since: float | None, until: float | None, address: DatabaseAddress
) -> None:
    """Plot the arrival rates of APP over time, gaps marked."""
    check_place(html)
    arrivals = find_arrivals(app, operator, since, until, address)

    write_whole(html, write_arrivals(arrivals))
    click.echo(f"The page is in {html}.{say_doubt(arrivals)}", err=True)


def say_doubt(arrivals: Arrivals) -> str:
    return "" if arrivals.counted else " Only what was taken in is known, not what came to the door."


def find_arrivals(
    app: str, operators: Sequence[str], since: float | None, until: float | None, address: DatabaseAddress
) -> Arrivals:
    """The arrivals at the named operators, or at the sources of the application as it was described."""
    with closing(open_store(address)) as store, store.read() as session:
        stated = share_equally(operators) if operators else read_sources(session, app)
        found = load_one_length(session, app, since, until)
    if not found and (since is not None or until is not None):
        raise BadInput(f"there are no samples of {app!r} in this stretch of time; widen --since and --until")
    return build_arrivals(found, find_sources(stated, found, app))


def load_one_length(session: Session, app: str, since: float | None, until: float | None) -> list[Sample]:
    first, last = -math.inf if since is None else since, math.inf if until is None else until
    found = load_samples(session, app, since=first, until=last)
    lengths = sorted({round(sample.end - sample.start, 6) for sample in found})
    if len(lengths) > 1:
        raise BadInput(
            f"the samples of {app!r} have windows of {' and '.join(f'{x:g} s' for x in lengths)}; take a stretch of one"
        )
    return found


def read_sources(session: Session, app: str) -> dict[str, float] | None:
    """The sources as `tuner app add` described them, or as the monitoring's own links tell; None where neither does."""
    described = [version for version in list_applications(session) if version.application == app]
    if described:
        return dict(shape_of(described[0].document).sources)
    links = load_links(session, app)
    first = sorted({upstream for upstream, _ in links} - {downstream for _, downstream in links})
    return share_equally(first) if first else None


def share_equally(names: Sequence[str]) -> dict[str, float]:
    """Sources of which each has a part, whichever, of the external rate, which is their sum."""
    return {name: 1.0 / len(names) for name in names}
