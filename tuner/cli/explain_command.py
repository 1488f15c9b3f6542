"""`tuner explain`: an application and a time in; why each scaler did what it did then out."""

from __future__ import annotations

from contextlib import closing

import click

from tuner.cli.completion import app_argument
from tuner.cli.db_commands import store_option
from tuner.cli.moment import READING, parse_moment


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner explain shop\n"
    "  tuner explain shop --at 2026-05-01T08:00 --operator parse\n"
    "  tuner explain shop --at 2h --json | jq '.operators[].compared'"
)
@app_argument
@click.option("--at", callback=parse_moment, metavar="TIME", help=f"The slot at this time (the newest): {READING}.")
@click.option("--operator", metavar="NAME", help="This one alone (all).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@store_option
def explain(app: str, at: float | None, operator: str | None, as_json: bool, address: str | None) -> None:
    """Say why the scalers of APP did what they did, or did nothing.

    For each operator: what was seen, what each alternative was worth (less is better), which guard blocked and who
    set it, which objective was pursued and why that was pushed, what a candidate would have done. Where there is no
    decision, why not.
    """
    from tuner.history.explanation import explain as explain_slot
    from tuner.store.connection import open_store

    with closing(open_store(address)) as store, store.read() as session:
        explained = explain_slot(session, app, at, operator)
    if as_json:
        from tuner.views.plain import to_json

        click.echo(to_json(explained))
        return
    from tuner.cli.comparison_grid import open_console, spell
    from tuner.views.explanation_lines import to_lines

    console = open_console()
    plain = console.options.ascii_only
    for line in to_lines(explained, min(console.width, 120)):
        click.echo(spell(line, plain))
