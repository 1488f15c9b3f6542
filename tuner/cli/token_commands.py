"""`tuner token`: names and scopes in; tokens for scalers and people, shown once, listed without their secrets, out."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from scaler.model.errors import BadInput
from tuner.cli.app_commands import as_json_option
from tuner.cli.db_commands import store_option
from tuner.cli.moment import AGO, SECONDS
from tuner.service.access.scopes import SCOPES

if TYPE_CHECKING:
    from tuner.store.records import Token


@click.group(
    epilog="\b\nExamples:\n  tuner token make scalers --scope report\n"
    "  tuner token make anna --scope read --scope tune --scope push --expires 30d\n"
    "  tuner token list\n  tuner token revoke anna"
)
def token() -> None:
    """Let scalers and people in: make, list and revoke the tokens that the service asks for.

    \b
    Scopes:
      report  what a scaler does: send samples and decisions, fetch its orders
      read    look at everything: the page, the lists, the metrics
      tune    describe applications, and start, pause and stop their tuning
      push    change what scalers do: push, roll back, pin, lock, block
    """


@token.command(
    epilog="\b\nExamples:\n  tuner token make scalers --scope report\n"
    "  TOKEN=$(tuner token make anna --scope report --scope read --expires 30d)"
)
@click.argument("name")
@click.option(
    "--scope", "scopes", type=click.Choice(tuple(SCOPES)), multiple=True, required=True, help="Once for each."
)
@click.option("--expires", metavar="AGE", help="When it ends by itself, from now: 12h, 30d, 26w (never).")
@store_option
def make(name: str, scopes: tuple[str, ...], expires: str | None, address: str | None) -> None:
    """Make a token NAME and print its secret, this once: the database keeps only a digest of it."""
    from tuner.cli.grid import show_moment
    from tuner.service.access.token import make_token
    from tuner.store.connection import open_store

    now = time.time()
    end = None if expires is None else now + parse_span(expires)
    with closing(open_store(address)) as store, store.begin() as session:
        made, secret = make_token(session, name, scopes, name_user(), now, end)
    until = "until it is revoked" if end is None else f"until {show_moment(end)} UTC"
    rights = made.scopes.replace(" ", ", ")
    click.echo(f"{name} may {rights} {until}. Keep the secret: it is not shown again.", err=True)
    click.echo(secret)


@token.command("list", epilog="\b\nExamples:\n  tuner token list\n  tuner token list --json | jq '.[].name'")
@as_json_option
@store_option
def list_them(as_json: bool, address: str | None) -> None:
    """List the tokens, those that no longer work too; secrets are nowhere."""
    from tuner.store.connection import open_store
    from tuner.store.tokens import list_tokens

    with closing(open_store(address)) as store, store.read() as session:
        rows = [describe_token(one, time.time()) for one in list_tokens(session)]
    if as_json:
        click.echo(json.dumps(rows, indent=2, allow_nan=False))
    elif rows:
        print_rows(rows)
    else:
        click.echo("There are no tokens yet; make one with: tuner token make NAME --scope read", err=True)


@token.command(epilog="\b\nExample:\n  tuner token revoke anna")
@click.argument("name")
@store_option
def revoke(name: str, address: str | None) -> None:
    """Refuse the token NAME, and the page sessions that it opened, within a second; it stays on record."""
    from tuner.cli.grid import show_moment
    from tuner.store.connection import open_store
    from tuner.store.tokens import list_tokens, revoke_token

    now = time.time()
    with closing(open_store(address)) as store, store.begin() as session:
        if all(one.name != name for one in list_tokens(session)):
            raise BadInput(f"there is no token {name!r}; see them with: tuner token list")
        revoked = revoke_token(session, name, now).revoked
    when = "" if revoked == now else f" It was before, at {show_moment(revoked)} UTC."
    click.echo(f"{name} is revoked.{when}")


def parse_span(text: str) -> float:
    """Seconds."""
    found = AGO.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise BadInput(f"--expires is {text!r}, and must be a length of time above zero, as in 12h, 30d or 26w")
    return float(found[1]) * SECONDS[found[2]]


def name_user() -> str:
    """Whose account this is, for the record."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may know the number alone
        return "unknown"


def describe_token(one: Token, now: float) -> dict[str, Any]:
    state = "revoked" if one.revoked is not None else "live"
    if state == "live" and one.expires is not None and now >= one.expires:
        state = "expired"
    return {
        "name": one.name,
        "state": state,
        "scopes": one.scopes.split(),
        "made_by": one.made_by,
        "created": one.created,
        "expires": one.expires,
        "revoked": one.revoked,
        "used": one.used,
    }


def print_rows(rows: list[dict[str, Any]]) -> None:
    from tuner.cli.grid import print_grid, show_moment

    heads = ("token", "state", "scopes", "made by", "made (UTC)", "expires", "last used")
    cells = [
        [row["name"], row["state"], " ".join(row["scopes"]), row["made_by"]]
        + [show_moment(row[key]) for key in ("created", "expires", "used")]
        for row in rows
    ]
    print_grid(heads, cells)
