"""`tuner db` and `tuner token`: upgrade, check, export and prune the database; tokens of agents and people."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from scaler.model.errors import BadInput
from scaler.model.units import format_moment, join_words
from tuner.cli.options import file_type, json_option, name_user, parse_span, print_json, store_option
from tuner.service.access.token import SCOPES, make_token
from tuner.store.address import DatabaseAddress
from tuner.store.connection import Store, connect_unprepared, open_store, upgrade_store
from tuner.store.export import check_optuna_target as check_studies
from tuner.store.export import check_target, count_rows, export_store, export_to_optuna
from tuner.store.maintenance import check_store
from tuner.store.maintenance import prune as prune_rows
from tuner.store.records import Token
from tuner.store.tokens import list_tokens, revoke_token
from tuner.store.trials import TrialFilter, count_trials
from tuner.views.grid import print_grid

WRONG = 1


@click.command(epilog="\b\nExample:\n  tuner db upgrade --store postgresql://tuner@localhost/tuner")
@store_option
def upgrade(address: DatabaseAddress) -> None:
    """Upgrade the tables to the schema of this program.

    Any command upgrades a SQLite file when it opens it. A PostgreSQL database is upgraded by this command alone, since
    programs of an older version may be using it.
    """
    with closing(connect_unprepared(address)) as store:
        before, after = upgrade_store(store)
        shown = store.address.shown
    if before == after:
        click.echo(f"{shown} is up to date (schema {after}).")
    elif before is None:
        click.echo(f"{shown} was empty and has schema {after} now.")
    else:
        click.echo(f"{shown} went from schema {before} to {after}.")


@click.command(epilog="\b\nExample:\n  tuner db check && echo all well")
@store_option
@click.pass_context
def check(ctx: click.Context, address: DatabaseAddress) -> None:
    """Check the database and count its rows; exit code 1 on a fault."""
    with closing(connect_unprepared(address)) as store:
        path = store.address.path
        if path is not None and not path.exists():
            raise BadInput(f"{path} is not there; name another one, or make it with `tuner db upgrade`")
        wrong = check_store(store)
        if not wrong:
            with store.read() as session:
                counts = count_rows(session)
    for sentence in wrong:
        click.echo(f"{sentence}.", err=True)
    if wrong:
        ctx.exit(WRONG)
    click.echo(f"{store.address.shown} is well{describe_size(store)}.")
    click.echo("It holds " + describe_counts(counts, "nothing yet") + ".")


@click.command(epilog="\b\nExamples:\n  tuner db export everything.jsonl\n  tuner db export backup.db")
@click.argument("file", type=file_type)
@store_option
def export(file: Path, address: DatabaseAddress) -> None:
    """Export the database to FILE (.jsonl or .db).

    .jsonl has a line of JSON per row, .db is a SQLite database. Others may write meanwhile: the file shows one moment.
    It replaces a file of that name when it is whole.
    """
    from tuner.cli.progress import show_progress  # a twentieth of a second that `tuner db check` does not take

    with closing(open_store(address)) as store:
        check_target(store, file)
        with store.read() as session:
            counts = count_rows(session)
        with show_progress(sum(counts.values()), "Writing") as tell:
            export_store(store, file, tell)
    click.echo(f"{file} has " + describe_counts(counts, "all there was: nothing") + ".")


@click.command(
    epilog="\b\nExamples:\n  tuner db optuna studies.log\n"
    "  tuner db optuna shop.log --app shop && optuna-dashboard shop.log"
)
@click.argument("file", type=file_type)
@click.option("--app", metavar="NAME", help="Name of the application (default: all).")
@store_option
def optuna(file: Path, app: str | None, address: DatabaseAddress) -> None:
    """Export tuning runs and trials to FILE, an Optuna journal.

    FILE is a new file for optuna-dashboard; a run is a study. Others may write meanwhile: the file shows one
    moment, and is there when it is whole.
    """
    from tuner.cli.progress import show_progress

    check_studies(file)
    with closing(open_store(address)) as store:
        with store.read() as session:
            total = count_trials(session, TrialFilter(app))
        with show_progress(total, "Writing") as tell:
            written = export_to_optuna(store, app, file, tell)
    counts = {"runs": written.studies, "trials": written.trials}
    click.echo(f"{file} has {describe_counts(counts, 'no study, for nothing was tuned yet')}.", err=True)
    click.echo(f"optuna-dashboard {file}")


@click.command(epilog="\b\nExamples:\n  tuner db prune --older-than 90d --dry-run\n  tuner db prune --older-than 26w")
@click.option(
    "--older-than", "age", metavar="AGE", required=True, help="Smallest age of what goes, as in 12h, 90d or 26w."
)
@click.option("--dry-run", is_flag=True, help="Count what would go, and delete nothing.")
@store_option
def prune(age: str, dry_run: bool, address: DatabaseAddress) -> None:
    """Delete rows that are older than AGE.

    Samples, decisions, ended tuning runs with their trials, and surrogates go. Kept whatever their age: objectives,
    runs with a trial that became one, what these were made of, runs that have not ended, every application's newest
    surrogate, and how far sources were read.
    """
    before = time.time() - parse_span("--older-than", age)
    with closing(open_store(address)) as store, store.read() if dry_run else store.begin() as session:
        counts = prune_rows(session, before, dry_run)
    gone = describe_counts(counts, "nothing")
    click.echo(f"Of what is older than {age}, {gone} would go." if dry_run else f"Took out {gone}.")
    if store.address.path is not None and not dry_run and any(counts.values()):
        click.echo(
            "The file keeps its size for what comes; `tuner db export smaller.db` makes a copy without the room."
        )


def describe_counts(counts: dict[str, int], none: str) -> str:
    return join_words([f"{count:,} {name_of(table, count)}" for table, count in counts.items() if count]) or none


def name_of(table: str, count: int) -> str:
    words = table.replace("_", " ")
    return words.removesuffix("es" if words.endswith("ches") else "s") if count == 1 else words


def describe_size(store: Store) -> str:
    path = store.address.path
    if path is None:
        return ""
    parts = [part for part in (path, path.with_name(f"{path.name}-wal")) if part.exists()]
    return f" ({sum(part.stat().st_size for part in parts) / 2**20:.1f} MiB)"


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
        print_tokens(rows)
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
    more = {key: getattr(one, key) for key in ("made_by", "created", "expires", "revoked", "used")}
    return {"name": one.name, "state": state, "scopes": one.scopes.split(), **more}


def print_tokens(rows: list[dict[str, Any]]) -> None:
    heads = ("token", "state", "scopes", "made by", "made", "expires", "last used")
    cells = [
        [row["name"], row["state"], " ".join(row["scopes"]), row["made_by"]]
        + [format_moment(row[key]) for key in ("created", "expires", "used")]
        for row in rows
    ]
    print_grid(heads, cells)
