"""`tuner trace`: export or plot the arrival rates in the samples of an application."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from scaler.model.errors import BadInput
from scaler.model.files import write_whole
from scaler.model.sample import Sample
from sim.trace_file import write_trace
from tuner.cli.options import app_argument, output_type, since_option, store_option, until_option
from tuner.pipeline.flows import Arrivals, build_arrivals, fill, find_gaps, find_sources, format_time
from tuner.pipeline.read_marks import load_links
from tuner.scenario.document import shape_of
from tuner.store.address import DatabaseAddress
from tuner.store.applications import find_application
from tuner.store.connection import Session, open_store
from tuner.store.samples import load_samples

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
@click.argument("file", type=output_type)
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
def export(file: Path, gap: int, **asked: Any) -> None:
    """Write the arrival rates of APP to FILE.

    Its name ends in .csv, .parquet, .txt, .txt.gz or .csv.gz. A few missing windows in a row are interpolated; more of
    them are refused.
    """
    arrivals = find_arrivals(**asked)
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
@click.option("--html", required=True, type=output_type, help="Write a page with charts to this file.")
@operator_option
@since_option
@until_option
@store_option
def plot(html: Path, **asked: Any) -> None:
    """Plot the arrival rates of APP over time, gaps marked."""
    from tuner.views.course_charts import write_arrivals  # jinja2, which the export does without

    arrivals = find_arrivals(**asked)
    write_whole(html, write_arrivals(arrivals))
    click.echo(f"The page is in {html}.{say_doubt(arrivals)}", err=True)


def say_doubt(arrivals: Arrivals) -> str:
    return "" if arrivals.counted else " Only what was taken in is known, not what came to the door."


def find_arrivals(
    app: str, operator: Sequence[str], since: float | None, until: float | None, address: DatabaseAddress
) -> Arrivals:
    """The arrivals at the named operators, or at the sources of the application as it was described."""
    with closing(open_store(address)) as store, store.read() as session:
        stated = share_equally(operator) if operator else read_sources(session, app)
        found = load_one_length(session, app, since, until)
    if not found and (since is not None or until is not None):
        raise BadInput(f"there are no samples of {app!r} in this stretch of time; widen --since and --until")
    return build_arrivals(found, find_sources(stated, found, app))


def load_one_length(session: Session, app: str, since: float | None, until: float | None) -> list[Sample]:
    found = load_samples(session, app, since=since, until=until)
    lengths = sorted({round(sample.end - sample.start, 6) for sample in found})
    if len(lengths) > 1:
        raise BadInput(
            f"the samples of {app!r} have windows of {' and '.join(f'{x:g} s' for x in lengths)}; take a stretch of one"
        )
    return found


def read_sources(session: Session, app: str) -> dict[str, float] | None:
    """Sources by the description, else by the links in the monitoring; None where neither names any."""
    described = find_application(session, app)
    if described:
        return dict(shape_of(described.document).sources)
    links = load_links(session, app)
    first = sorted({upstream for upstream, _ in links} - {downstream for _, downstream in links})
    return share_equally(first) if first else None


def share_equally(names: Sequence[str]) -> dict[str, float]:
    """Sources of which each has a part, whichever, of the external rate, which is their sum."""
    return {name: 1.0 / len(names) for name in names}
