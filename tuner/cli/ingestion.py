"""Ingest the monitoring of a stream, once or again and again; what was read, in sentences."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scaler.model.bounded_file import ReadLimits
from scaler.model.errors import BadInput, Retry
from scaler.model.units import format_count
from tuner.cli.next_step import say_next
from tuner.cli.progress import refuse_failures, show_steps, start_quietly
from tuner.pipeline.engine import IngestEngine
from tuner.pipeline.engines.choose_engine import start_engine
from tuner.pipeline.flows import format_time
from tuner.pipeline.ingest import STEPS, IngestSummary, IngestTarget
from tuner.pipeline.ingest import forget as forget_all
from tuner.pipeline.ingest import ingest as take_in
from tuner.pipeline.sources.found import InputFile, detect
from tuner.pipeline.windows import FAULTS, check_window
from tuner.store.address import DatabaseAddress
from tuner.store.connection import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "64"}


def run_ingestion(
    paths: tuple[str, ...], app: str, window_s: float, watch: bool, every: float, again: bool, forget: bool,
    master: str, history: Path | None, address: DatabaseAddress, limits: ReadLimits,
) -> None:  # fmt: skip
    """Ingest once, or every so many seconds."""
    check_window(window_s)
    if not watch:
        detect(*paths, limits=limits)  # refused before Spark is started
    with closing(open_store(address)) as store:
        place = IngestTarget(store, app, (history or store.address.history).absolute(), window_s)
        if forget:
            forget_all(place)
        if watch:
            keep_watching(place, paths, limits, again, master, every)
        else:
            say(place, run_once(place, paths, limits, again, master, True))
            say_next(store, app)


def run_once(
    place: IngestTarget, paths: tuple[str, ...], limits: ReadLimits, again: bool, master: str, strict: bool
) -> IngestSummary:
    """One look at the files, with a bar."""
    found = detect(*paths, limits=limits)
    with show_steps(STEPS) as (report, doing):

        def start() -> SparkSession:
            report("Starting Spark", 0)
            spark = start_quietly(master, SETTINGS)
            doing.tracker = spark.sparkContext.statusTracker()
            return spark

        def choose(fresh: Sequence[InputFile], rows: int) -> IngestEngine:
            return start_engine(fresh, rows, master, place.application, strict and len(fresh) == len(found), start)

        return refuse_failures(lambda: take_in(choose, place, found, again, report=report))


def keep_watching(
    place: IngestTarget, paths: tuple[str, ...], limits: ReadLimits, again: bool, master: str, every: float
) -> None:
    """Look, wait, look again; Ctrl-C ends it as asked for, and what was not finished is read the next time."""
    click.echo(f"Watching every {every:g} s; Ctrl-C ends it.", err=True)
    told = ""
    try:
        while True:
            try:
                result = run_once(place, paths, limits, again, master, False)
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
    files, idle = format_count(len(result.read), "file", "files"), len(result.files) - len(result.read)
    windows = format_count(result.windows, "window", "windows")
    click.echo(
        f"{place.application}: {files} read ({total / 1e6:,.1f} MB), {idle:,} unchanged; "
        f"{format_count(result.samples, 'sample', 'samples')}, {windows} of {place.window_s:g} s "
        f"in {result.seconds:.1f} s."
    )
    if result.first is not None and result.last is not None:
        click.echo(f"They reach from {format_time(result.first)} to {format_time(result.last)}.")
    for fault, number in result.faults.items():
        click.echo(f"{format_count(number, 'sample', 'samples')} {FAULTS[fault]}.")
    for note in result.notes:
        click.echo(f"Note: {note}.")
    for state in result.files:
        if state.known == "replaced":
            click.echo(f"Note: {state.path} is another file than the one read before under this name.")
    if result.windows:
        click.echo(f"See them with: tuner samples {shlex.quote(place.application)}", err=True)
