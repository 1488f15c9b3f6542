"""`tuner ingest` and `tuner samples`: read monitoring into samples; print them as a table, CSV or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from scaler.model.bounded_file import ReadLimits
from scaler.model.errors import BadInput, suggest
from scaler.model.sample import Sample
from scaler.model.units import format_moment, format_number
from scaler.model.wire import write_json
from tuner.cli.options import (
    app_argument,
    csv_option,
    format_csv,
    json_option,
    limit_type,
    make_span_type,
    master_help,
    new_store_option,
    print_json,
    seconds_type,
    since_option,
    store_option,
    until_option,
)
from tuner.store.address import DatabaseAddress
from tuner.store.connection import open_store
from tuner.store.samples import count_samples, load_samples
from tuner.views.grid import print_grid

GIB = 1 << 30
DEFAULT_LIMITS = ReadLimits()


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
    "--window",
    "window_s",
    type=seconds_type,
    default=60.0,
    show_default=True,
    help="Length of a window, in seconds or as 2m.",
)
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C.")
@click.option(
    "--every",
    type=make_span_type(1.0),
    default=30.0,
    show_default=True,
    help="Seconds between two repetitions of --watch, or as 2m.",
)
@click.option("--again", is_flag=True, help="Read files that were read before too; nothing counts twice.")
@click.option("--forget", is_flag=True, help="Delete all samples of this application first.")
@click.option(
    "--max-ratio",
    type=click.FloatRange(1.0),
    default=DEFAULT_LIMITS.ratio,
    show_default=True,
    help="Largest size of a packed file's text, in times the file's own size (256 MiB are always read).",
)
@click.option(
    "--max-text",
    type=click.FloatRange(min=0, min_open=True),
    default=DEFAULT_LIMITS.text_bytes / GIB,
    show_default=True,
    help="Largest size of a packed file's text, in GiB.",
)
@click.option("--master", default="local[*]", show_default=True, help=f"{master_help}.")
@click.option(
    "--history",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the fine samples, on storage that the whole cluster sees (default: beside the database).",
)
@new_store_option
def ingest(max_ratio: float, max_text: float, **asked: Any) -> None:
    """Read the monitoring of a stream into samples by operator and window.

    PATH is a file or a folder of Spark event logs, progress JSON, timers' lines or tables (CSV, Parquet). A file that
    was read before and has not grown is skipped. A second run over more files gives the same samples as one run over
    all of them.
    """
    from tuner.cli.ingestion import run_ingestion  # Spark, which this command's help does without
    from tuner.pipeline.sources.codec import LIMITS

    run_ingestion(limits=replace(LIMITS, ratio=max_ratio, text_bytes=int(max_text * GIB)), **asked)


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner samples shop\n"
    "  tuner samples shop --operator parse --since 6h\n"
    "  tuner samples shop --limit 0 --csv > samples.csv"
)
@app_argument
@click.option(
    "--operator", metavar="NAME", multiple=True, help="Name of an operator; repeat it for several (default: all)."
)
@since_option
@until_option
@click.option(
    "--limit",
    type=limit_type,
    default=50,
    show_default=True,
    help="Number of samples, the newest ones; 0 for all.",
)
@json_option
@csv_option
@store_option
def samples(as_json: bool, as_csv: bool, **asked: Any) -> None:
    """List the samples of an application, window by window.

    - is a missing value.
    """
    if as_json and as_csv:
        raise BadInput("--json and --csv both say how to print; give one of them")
    found = find_samples(**asked)
    if as_json:
        print_json([describe(sample) for sample in found])
    elif as_csv:
        click.echo(format_csv([describe_flat(sample) for sample in found], NAMES), nl=False)
    else:
        print_grid(HEADS, [list_cells(sample) for sample in found], left=4)


def find_samples(
    app: str, operator: Sequence[str], since: float | None, until: float | None, limit: int, address: DatabaseAddress
) -> list[Sample]:
    """The newest so many, the oldest of them first; none at all is bad input."""
    with closing(open_store(address)) as store, store.read() as session:
        counts = count_samples(session, app)
        if not counts:
            raise BadInput(f"there are no samples of {app!r}; read some with: tuner ingest PATH --app {app}")
        for name in operator:
            if name not in counts:
                raise BadInput(
                    f"there are no samples of operator {name!r} in {app!r}; {suggest(name, counts, 'there are of {}')}"
                )
        found = load_samples(
            session, app, operators=operator or None, since=since, until=until, limit=limit or None, newest=True
        )
    return sorted(found, key=lambda sample: (sample.start, sample.operator, sample.node_type or ""))


def describe(sample: Sample) -> dict[str, object]:
    """All but the key, which a folded sample has not."""
    return {name: value for name, value in asdict(sample).items() if name in NAMES}


def describe_flat(sample: Sample) -> dict[str, object]:
    """The same with JSON in the one cell that a text cannot hold otherwise."""
    sketch = sample.responses
    return describe(sample) | {"responses": None if sketch is None else write_json(dict(sketch))}


NAMES = [name for name in Sample.__dataclass_fields__ if name != "key"]
HEADS = (
    *("window", "operator", "node", "evidence"),
    *("arrived/s", "in/s", "out/s", "waiting", "service ms", "replicas", "busy %", "response s", "seen %"),
)


def list_cells(sample: Sample) -> list[str]:
    length = sample.end - sample.start
    seen = length * sample.completeness
    mean, spare = ratio(sample.service_sum, sample.service_n), ratio(sample.task_time, sample.task_records)
    service = f"{1000.0 * mean:.4g}" if mean is not None else "-" if spare is None else f"<{1000.0 * spare:.4g}"
    busy = ratio(sample.busy, None if sample.replicas is None else sample.replicas * seen)
    return [
        format_moment(sample.start),
        sample.operator,
        sample.node_type or "-",
        sample.evidence,
        *(format_number(ratio(value, seen)) for value in (sample.arrived, sample.tuples_in, sample.tuples_out)),
        format_number(sample.backlog),
        service,
        format_number(sample.replicas),
        format_number(None if busy is None else 100.0 * busy, 3),
        format_number(ratio(sample.response_sum, sample.response_n)),
        f"{100.0 * sample.completeness:.0f}",
    ]


def ratio(upper: float | None, lower: float | None) -> float | None:
    return None if upper is None or not lower else upper / lower
