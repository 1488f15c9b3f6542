"""`tuner daemon`: a database in; its applications retuned, and what comes of it rolled out, in the background, out."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import click

from tuner.cli.db_commands import store_option

if TYPE_CHECKING:
    from tuner.store.records import RetuningRecord

PATIENCE_S = 3.0


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner daemon --store postgresql://tuner@db/tuner\n"
    "  tuner daemon --once --json\n\n"
    "Several daemons may run against one PostgreSQL: each application is in the hand of one of them at a time, and is\n"
    "taken over within a minute where that one dies. SIGTERM ends it within seconds; what it was at is gone on with."
)
@click.option("--once", is_flag=True, help="Do what is due now, then end.")
@click.option(
    "--every", type=click.FloatRange(0.05), default=0.5, show_default=True, metavar="SECONDS",
    help="Between two looks at what is due.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="With --once, print one JSON document and nothing else.")
@store_option
def daemon(once: bool, every: float, as_json: bool, address: str | None) -> None:
    """Retune the applications that are due, and roll out what is better, stage by stage.

    An application is due by its period, or when its rates, its service times or its response times are no longer those
    that it was tuned for. What a search finds is pushed only where it is better beyond the noise, and goes back by
    itself where QoS worsens. `tuner serve` does the same beside its API.
    """
    from tuner.cli.interruptible import run_interruptibly
    from tuner.retuning.loop import look_once, watch_over
    from tuner.store.connection import open_store

    if as_json and not once:
        raise click.UsageError("--json goes with --once; without it, the API and the page tell what is done")
    stop = threading.Event()
    with closing(open_store(address)) as store:
        if once:
            show(run_interruptibly(lambda: look_once(store, ended=stop.is_set)), as_json)
            return
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        click.echo(f"Watching the applications in {store.address.shown}; Ctrl-C ends it.", err=True)
        over = threading.Event()

        def work() -> None:
            try:
                watch_over(store, wait=stop.wait, ended=stop.is_set, every=every)
            finally:
                over.set()

        try:
            run_interruptibly(work)
        except (KeyboardInterrupt, SystemExit):
            stop.set()
            over.wait(PATIENCE_S)
    click.echo("Ended; what was at hand is gone on with by the next daemon.", err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a search may be in the middle of compiled code, which Python's own end would throw it out of


def show(attended: list[RetuningRecord], as_json: bool) -> None:
    """What was attended to."""
    rows = [
        {"application": w.application, "phase": w.phase, "due": w.due, "says": w.detail.get("says", "")}
        for w in attended
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        click.echo("Nothing was due.")
    for row in rows:
        click.echo(f"{row['application']}: {row['phase']}" + (f" ({row['says']})" if row["says"] else ""))
