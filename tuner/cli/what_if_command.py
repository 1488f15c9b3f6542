"""`tuner what-if`: other numbers of executors and other triggers for a stream, from one event log."""

from __future__ import annotations

from pathlib import Path

import click

from scaler.model.errors import BadInput, suggest
from scaler.model.units import quote
from tuner.cli.options import json_option, print_json, seconds_type, share_type
from tuner.cli.progress import show_share
from tuner.views.grid import print_grid, print_lines
from tuner.views.what_if_table import HEADS, describe_answer, describe_record, list_rows
from tuner.what_if.recorded_batches import SHORT_ID, read_queries
from tuner.what_if.recorded_query import RecordedQuery
from tuner.what_if.what_if import ask, check_question, parse_numbers

WIDEST = 12  # executors at least up to which the table goes
TWICE = 2  # or so many times as many as recorded


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner what-if /var/spark-events/app-20261119093000-0001\n"
    "  tuner what-if events/ --r-max 10 --quantile 0.99\n"
    "  tuner what-if events/ --query orders --executors 1,2,4,8 --json"
)
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--query", metavar="NAME", help="Streaming query, by name or by id (default: the only one).")
@click.option("--executors", metavar="NUMBERS", help="Numbers of executors, as in 1:24 or 1,2,4,8 (default: 1 to 12).")
@click.option(
    "--r-max", type=seconds_type, help="Latency bound in seconds or as 60ms (default: about as quick as recorded)."
)
@click.option(
    "--quantile", type=share_type, default=0.95, show_default=True, help="Share of the records that must keep to it."
)
@click.option("--price", type=float, default=1.0, show_default=True, help="Price of an executor per hour.")
@json_option
def what_if(
    log: Path,
    query: str | None,
    executors: str | None,
    r_max: float | None,
    quantile: float,
    price: float,
    as_json: bool,
) -> None:
    """Replay one event log on other numbers of executors: latency and price of each.

    LOG is a file or a folder that Spark wrote with spark.eventLog.enabled=true, compressed or not. The recorded tasks
    are placed on other numbers of executors, and the stream is played again with its recorded arrivals. Nothing is
    fitted, stored or sent.
    """
    numbers = parse_numbers(executors) if executors is not None else None
    check_question(r_max, quantile, price)
    with show_share("Reading") as progress:
        queries, notes = read_queries(log, progress)
    found, more = choose_query(queries, query)
    numbers = numbers or range(1, max(WIDEST, TWICE * found.executors) + 1)
    answer = ask(found, numbers, r_max, quantile, price)
    if as_json:
        print_json({**answer.to_json(), "notes": [*more, *notes]})
        return
    print_lines(describe_record(answer))
    print_grid(HEADS, list_rows(answer), texts=("note",))
    print_lines(*describe_answer(answer), *more, *notes)


def choose_query(queries: list[RecordedQuery], name: str | None) -> tuple[RecordedQuery, list[str]]:
    """The run with the most batches, of the query that is named or the only one; a note where it ran several times."""
    names = list(dict.fromkeys(query.name for query in queries))
    if name is None and len(names) > 1:
        raise BadInput(f"the log has the queries {', '.join(map(quote, names))}; choose one with --query NAME")
    found = [query for query in queries if name is None or query.name in (name, name[:SHORT_ID])]
    if not found:
        near = suggest(str(name), names, "it has {}")
        raise BadInput(f"the log has no query {name!r}; {near}")
    longest = max(found, key=lambda query: len(query.batches))
    notes = [f"The query was started {len(found)} times; the run with the most batches is shown."]
    return longest, notes if len(found) > 1 else []
