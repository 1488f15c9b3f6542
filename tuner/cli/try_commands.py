"""`tuner try` and `tuner init`: the first answer about a stream from its event logs, and the files to go on with."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from scaler.model.errors import BadInput
from scaler.model.files import make_folder, write_whole
from scaler.model.units import format_count, format_duration, format_number, quote
from sim.trace_file import write_trace
from tuner.cli.options import json_option, print_json, seconds_type, share_type
from tuner.cli.progress import show_share
from tuner.store.applications import check_application_name
from tuner.views.grid import print_grid, print_lines
from tuner.views.stream_draft_text import write_driver, write_scenario
from tuner.views.tried_stream import HEADS, describe_tried, list_tried
from tuner.what_if.recorded_batches import read_queries
from tuner.what_if.recorded_query import RecordedQuery
from tuner.what_if.stream_draft import choose_longest, draft_stream
from tuner.what_if.tried_query import try_query
from tuner.what_if.what_if import check_question

folder_type = click.Path(path_type=Path, file_okay=False)
log_argument = click.argument("log", type=click.Path(path_type=Path), metavar="LOG_OR_FOLDER")


def read_longest(log: Path) -> tuple[list[RecordedQuery], list[str]]:
    with show_share("Reading") as progress:
        queries, notes = read_queries(log, progress)
    return choose_longest(queries), notes


@click.command(
    "try",
    epilog="\b\nExamples:\n  tuner try /var/spark-events\n  tuner try events/ --r-max 10s --price 0.4\n"
    "  tuner try app-20261119093000-0001 --json",
)
@log_argument
@click.option("--r-max", type=seconds_type, help="Latency bound, as 60ms or 2s (default: about as quick as recorded).")
@click.option("--quantile", type=share_type, default=0.95, show_default=True, help="Share of the records within it.")
@click.option("--price", type=float, default=1.0, show_default=True, help="Price of an executor per hour.")
@json_option
def try_log(log: Path, r_max: float | None, quantile: float, price: float, as_json: bool) -> None:
    """Show what event logs say of a stream, and what scaling saves.

    LOG_OR_FOLDER is a file or a folder that Spark wrote with spark.eventLog.enabled=true, of one query or several.
    Nothing is stored or sent, and Spark is not started. `tuner what-if` shows one query in full.
    """
    check_question(r_max, quantile, price)
    queries, notes = read_longest(log)
    tried = [try_query(query, r_max, quantile, price) for query in queries]
    if as_json:
        print_json({"queries": [one.to_json() for one in tried], "notes": notes})
        return
    batches = sum(len(query.batches) for query in queries)
    found = format_count(len(queries), "streaming query", "streaming queries")
    print_lines(f"Found {found} with {format_count(batches, 'batch', 'batches')} in {log}.", "")
    print_grid(HEADS, list_tried(tried), texts=HEADS[-1:])
    print_lines("", *(line for one in tried for line in describe_tried(one)), *notes)
    place = shlex.quote(str(log))
    print_lines("", f"Next: tuner init {place} --app NAME     writes a scenario and the snippet for your driver")
    print_lines(f"      tuner what-if {place} --query {quote(queries[0].name)}     shows a query in full")


@click.command(
    epilog="\b\nExamples:\n  tuner init /var/spark-events --app shop\n"
    "  tuner init events/ --app shop --folder shop && tuner simulate shop/shop.toml"
)
@log_argument
@click.option("--app", required=True, metavar="NAME", help="Name of the application.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Folder of the files (default: this).",
)
@click.option("--force", is_flag=True, help="Replace files that are there.")
def init(log: Path, app: str, folder: Path, force: bool) -> None:
    """Write a commented scenario and the driver snippet of a stream.

    Made from its event logs are NAME.toml, NAME.csv with the arrival rates, and NAME_driver.py.
    """
    check_application_name(app)
    files = [folder / f"{app}.toml", folder / f"{app}.csv", folder / f"{app}_driver.py"]
    there = [file for file in files if file.exists()]
    if there and not force:
        raise BadInput(f"{there[0]} is there already; choose another --app or --folder, or replace it with --force")
    queries, _ = read_longest(log)
    draft = draft_stream(queries, app)
    make_folder(folder)
    write_trace(draft.trace, files[1])
    write_whole(files[0], write_scenario(draft, app, str(log)))
    write_whole(files[2], write_driver(draft, app, str(log)))
    rates = draft.trace.rates
    print_lines(
        f"{files[0]}  the scenario, with operators {', '.join(quote(one.name) for one in draft.operators)}",
        f"{files[1]}  arrival rates, {format_number(float(rates.min()), 3)} to {format_number(float(rates.max()), 3)} "
        f"records/s in slots of {format_duration(draft.trace.step_s)}",
        f"{files[2]}  the snippet for your driver",
        "",
        f"Next: tuner app add {app} {shlex.quote(str(files[0]))}",
        f"      tuner ingest {shlex.quote(str(log))} --app {app} --window {draft.trace.step_s:g}",
        f"      tuner simulate {shlex.quote(str(files[0]))}     replays it without a database",
    )
