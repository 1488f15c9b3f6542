"""`tuner explain`: the decisions of an application's agents in one slot, with their reasons."""

from __future__ import annotations

from contextlib import closing

import click

from tuner.cli.grid import open_console, spell
from tuner.cli.options import TIME_FORMS, app_argument, json_option, parse_moment, store_option
from tuner.history.explanation import explain as explain_slot
from tuner.store.address import DatabaseAddress
from tuner.store.connection import open_store
from tuner.views.explanation_lines import to_lines
from tuner.views.plain import to_json


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner explain shop\n"
    "  tuner explain shop --at 2026-05-01T08:00 --operator parse\n"
    "  tuner explain shop --at 2h --json | jq '.operators[].compared'"
)
@app_argument
@click.option(
    "--at", callback=parse_moment, metavar="TIME", help=f"Time in the slot, {TIME_FORMS} (default: the newest slot)."
)
@click.option("--operator", metavar="NAME", help="Name of the operator (default: all).")
@json_option
@store_option
def explain(app: str, at: float | None, operator: str | None, as_json: bool, address: DatabaseAddress) -> None:
    """Explain the decisions of APP's agents in one slot.

    For each operator: the observation, the estimated cost of each alternative (less is better), the guard that blocked
    and who set it, the objective and why it was pushed, and the decision of the candidate. Where there is no decision,
    the reason.
    """
    with closing(open_store(address)) as store, store.read() as session:
        explained = explain_slot(session, app, at, operator)
    if as_json:
        click.echo(to_json(explained))
        return

    console = open_console()
    plain = console.options.ascii_only
    for line in to_lines(explained, min(console.width, 120)):
        click.echo(spell(line, plain))
