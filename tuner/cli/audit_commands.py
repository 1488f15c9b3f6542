"""`tuner audit`: show who did what, and check that nobody changed the record of it."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import asdict
from typing import Any

import click

from scaler.model.errors import BadInput
from scaler.model.units import format_count, format_moment
from tuner.cli.options import TIME_FORMS, json_option, limit_type, parse_moment, print_json, store_option, until_option
from tuner.store.address import DatabaseAddress
from tuner.store.audit_log import ChainCheck, check_chain, list_events
from tuner.store.connection import open_store
from tuner.store.records import EventRecord
from tuner.views.grid import print_grid
from tuner.views.words import to_finite

BROKEN = 1
HASH = re.compile(r"[0-9a-f]{64}")


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner audit show --since 7d\n"
    "  tuner audit show --app shop --what pushed --what 'rolled back'\n"
    "  tuner audit show --who anna --limit 0 --json | jq -r '.[].message'"
)
@click.option("--app", metavar="NAME", help="Name of the application (default: all, and what is of none).")
@click.option("--who", metavar="NAME", help="Name of the token, or USER@HOST of the command line (default: all).")
@click.option("--what", metavar="WORD", multiple=True, help="Act, as in the column; repeat it for several.")
@click.option(
    "--since", metavar="TIME", callback=parse_moment, help=f"First time, {TIME_FORMS} (default: the earliest)."
)
@until_option
@click.option("--limit", type=limit_type, default=50, show_default=True, help="Number of rows; 0 for all.")
@json_option
@store_option
def show(
    app: str | None, who: str | None, what: tuple[str, ...], since: float | None, until: float | None, limit: int,
    as_json: bool, address: DatabaseAddress,
) -> None:  # fmt: skip
    """Show who did what, when and why, the newest last.

    Log-ins, tokens, descriptions, controls, pushes, roll-backs, tunings, copies and what was deleted are rows of the
    audit log, done on the page, through the API or on the command line.
    """
    with closing(open_store(address)) as store, store.read() as session:
        found = list_events(session, app, what or None, since, until, limit + 1 if limit else None, who=who)
    rows = (found[:limit] if limit else found)[::-1]
    if as_json:
        print_json([to_finite(asdict(event)) for event in rows])
    elif rows:
        print_grid(HEADS, [describe_row(event) for event in rows], len(HEADS), HEADS)
    else:
        click.echo("There are no such rows.", err=True)
    if len(found) > len(rows) and not as_json:
        click.echo(f"These are the newest {limit}; --limit 0 shows all.", err=True)


HEADS = ("row", "time", "who", "what", "application", "message")


def describe_row(event: EventRecord) -> list[str]:
    number = "-" if event.number is None else f"{event.number}"
    return [number, format_moment(event.time), event.who, event.what, event.application or "-", event.message]


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner audit verify\n"
    "  tuner audit verify --json | jq -r .head > /mnt/elsewhere/audit-head\n"
    "  tuner audit verify --head $(cat /mnt/elsewhere/audit-head)"
)
@click.option("--head", metavar="HASH", help="Hash noted earlier; its row must still be there.")
@json_option
@store_option
@click.pass_context
def verify(ctx: click.Context, head: str | None, as_json: bool, address: DatabaseAddress) -> None:
    """Verify that no row of the audit log was changed, removed or inserted; exit code 1 on a fault.

    The first wrong row is named. That the end was cut off, or all of it written anew from some row on, shows only
    against a hash that was noted where nobody who may write to the database can: note the head that this prints.
    """
    if head is not None and not HASH.fullmatch(head := head.strip().lower()):
        raise BadInput(f"--head is {head[:80]!r}, and must be the 64 hex digits that `tuner audit verify` printed")
    with closing(open_store(address)) as store, store.read() as session:
        checked = check_chain(session, head)
    if as_json:
        print_json(describe_check(checked))
    elif checked.fault is None:
        click.echo(describe_chain(checked))
    if checked.fault is not None:
        click.echo(f"{address.shown}: {checked.fault}.", err=True)
        ctx.exit(BROKEN)


def describe_check(checked: ChainCheck) -> dict[str, Any]:
    return {"intact": checked.fault is None, **asdict(checked)}


def describe_chain(checked: ChainCheck) -> str:
    """What is well, and the head to note."""
    waiting = format_count(checked.unsealed, "row", "rows")
    unsealed = f" {waiting} of an older version will be sealed with the next act." if checked.unsealed else ""
    if checked.time is None:
        return f"The audit log is empty.{unsealed}"
    since = "" if checked.found is None else f" The hash is that of row {checked.found}: what came before it stands."
    rows = format_count(checked.rows, "row is as it was", "rows are as they were")
    return f"{rows} written.{since}{unsealed}\nHead of {format_moment(checked.time)}: {checked.head}"
