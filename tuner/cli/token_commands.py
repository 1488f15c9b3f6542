"""`tuner token`: make, list and revoke tokens of agents and people."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import click

from scaler.model.errors import BadInput
from scaler.model.units import format_moment
from tuner.cli.grid import print_grid
from tuner.cli.options import json_option, name_user, parse_span, print_json, store_option
from tuner.service.access.scopes import SCOPES
from tuner.service.access.token import make_token
from tuner.store.address import DatabaseAddress
from tuner.store.connection import open_store
from tuner.store.records import Token
from tuner.store.tokens import list_tokens, revoke_token


@click.command(
    epilog="\b\nExamples:\n  tuner token make scalers --scope report\n"
    "  TOKEN=$(tuner token make anna --scope report --scope read --expires 30d)"
)
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(tuple(SCOPES)),
    multiple=True,
    required=True,
    help="Scope of the token; repeat it for several.",
)
@click.option("--expires", metavar="AGE", help="Age at which it expires: 12h, 30d, 26w (default: never).")
@store_option
def make(name: str, scopes: tuple[str, ...], expires: str | None, address: DatabaseAddress) -> None:
    """Make a token NAME and print its secret once.

    The database has a digest of the secret alone.
    """
    now = time.time()
    end = None if expires is None else now + parse_span("--expires", expires)
    with closing(open_store(address)) as store, store.begin() as session:
        made, secret = make_token(session, name, scopes, name_user(), now, end)
    until = "until it is revoked" if end is None else f"until {format_moment(end)}"
    rights = made.scopes.replace(" ", ", ")
    click.echo(f"{name} may {rights} {until}. Keep the secret: it is not shown again.", err=True)
    click.echo(secret)


@click.command("list", epilog="\b\nExamples:\n  tuner token list\n  tuner token list --json | jq '.[].name'")
@json_option
@store_option
def list_all(as_json: bool, address: DatabaseAddress) -> None:
    """List all tokens, revoked and expired ones too."""
    with closing(open_store(address)) as store, store.read() as session:
        rows = [describe_token(one, time.time()) for one in list_tokens(session)]
    if as_json:
        print_json(rows)
    elif rows:
        print_rows(rows)
    else:
        click.echo("There are no tokens yet; make one with: tuner token make NAME --scope read", err=True)


@click.command(epilog="\b\nExample:\n  tuner token revoke anna")
@click.argument("name")
@store_option
def revoke(name: str, address: DatabaseAddress) -> None:
    """Revoke the token NAME and its page sessions.

    They are refused within a second. The token stays on record.
    """
    now = time.time()
    with closing(open_store(address)) as store, store.begin() as session:
        if all(one.name != name for one in list_tokens(session)):
            raise BadInput(f"there is no token {name!r}; see them with: tuner token list")
        revoked = revoke_token(session, name, now).revoked
    when = "" if revoked == now else f" It was before, at {format_moment(revoked)}."
    click.echo(f"{name} is revoked.{when}")


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

    heads = ("token", "state", "scopes", "made by", "made", "expires", "last used")
    cells = [
        [row["name"], row["state"], " ".join(row["scopes"]), row["made_by"]]
        + [format_moment(row[key]) for key in ("created", "expires", "used")]
        for row in rows
    ]
    print_grid(heads, cells)
