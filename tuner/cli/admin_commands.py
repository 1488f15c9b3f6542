"""`tuner db` and `tuner token`: upgrade, check, export and prune the database; tokens of agents and people."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from scaler.model.errors import BadInput
from scaler.model.files import write_durably
from scaler.model.units import format_moment, join_words
from tuner.cli.lazy_group import Words
from tuner.cli.options import (
    file_type,
    json_option,
    name_user,
    new_store_option,
    output_type,
    parse_span,
    print_json,
    store_option,
)
from tuner.service.access.token import SCOPES, end_token, expires_soon, is_person, make_token, record_act, rotate_token
from tuner.store.address import DatabaseAddress
from tuner.store.applications import check_application_name, list_names
from tuner.store.audit_log import add_event
from tuner.store.backup import record_copying
from tuner.store.connection import Store, connect_unprepared, open_store, upgrade_store
from tuner.store.export import check_optuna_target as check_studies
from tuner.store.export import check_target, count_rows, export_store, export_to_optuna
from tuner.store.maintenance import check_store
from tuner.store.maintenance import prune as prune_rows
from tuner.store.records import EventRecord, Token
from tuner.store.tokens import list_tokens, readmit_token
from tuner.store.trials import TrialFilter, count_trials
from tuner.views.grid import print_grid

WRONG = 1


@click.command(epilog="\b\nExample:\n  tuner db upgrade --store postgresql://tuner@localhost/tuner")
@new_store_option
def upgrade(address: DatabaseAddress) -> None:
    """Upgrade the tables to the schema of this program.

    Any command upgrades a SQLite file when it opens it. A PostgreSQL database is upgraded by this command alone, since
    programs of an older version may be using it. Those of the schema before go on meanwhile, where the new one only
    adds to it.
    """
    with closing(connect_unprepared(address)) as store:
        before, after = upgrade_store(store)
        shown = store.address.shown
        if before not in (None, after):
            message = f"{name_user()} brought the tables from schema {before} to {after}"
            with store.begin() as session:
                add_event(session, EventRecord("", time.time(), name_user(), "upgraded", message))
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
        say_unrecorded(record_copying(store, name_user(), "exported", file, time.time()))  # the copy has the row, too
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
    click.echo("The dashboard's best is the cheapest, limits or not; ours has the attribute recommended.", err=True)
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
        if any(counts.values()) and not dry_run:
            message = f"{name_user()} deleted what was older than {age}: {describe_counts(counts, '')}"
            add_event(session, EventRecord("", time.time(), name_user(), "pruned", message, counts))
    gone = describe_counts(counts, "nothing")
    click.echo(f"Of what is older than {age}, {gone} would go." if dry_run else f"Took out {gone}.")
    if store.address.path is not None and not dry_run and any(counts.values()):
        click.echo(
            "The file keeps its size for what comes; `tuner db export smaller.db` makes a copy without the room."
        )


def say_unrecorded(fault: str) -> None:
    if fault:
        click.echo(f"The audit log has no row of this: {fault}", err=True)


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


expires_option = click.option(
    "--expires",
    metavar="AGE",
    default="90d",
    show_default=True,
    help="Age at which it expires: 12h, 30d, 26w; or never.",
)


@click.command(
    epilog="\b\nExamples:\n  tuner token make shop-agents --scope report --app shop\n"
    "  TOKEN=$(tuner token make anna --scope tune --scope read --app shop --app bank --expires 30d)\n"
    "  (umask 077; tuner token make prometheus --scope read --all-apps --expires never > prometheus.token)"
)
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=Words(tuple(SCOPES)),
    multiple=True,
    required=True,
    help="Scope of the token; repeat it for several.",
)
@click.option(
    "--app", "apps", metavar="NAME", multiple=True, help="Name of an application that it is for; repeat it for several."
)
@click.option("--all-apps", is_flag=True, help="Make it for all applications, those to come too.")
@expires_option
@new_store_option
def make(
    name: str, scopes: tuple[str, ...], apps: tuple[str, ...], all_apps: bool, expires: str, address: DatabaseAddress
) -> None:
    """Make a token NAME and print its secret once.

    It is for the applications named, which may be registered later. The database has a digest of the secret alone.
    """
    if bool(apps) is all_apps:
        raise BadInput(
            "say what the token is for: --app NAME for one application (repeat it for several), or --all-apps"
        )
    for app in apps:
        check_application_name(app)
    now = time.time()
    end = None if expires == "never" else now + parse_span("--expires", expires)
    with closing(open_store(address)) as store, store.begin() as session:
        made, secret = make_token(session, name, scopes, name_user(), now, end, None if all_apps else apps)
        unknown = sorted(set(apps) - set(list_names(session)))
    tell_token(made)
    if unknown:
        click.echo(f"Not registered yet: {', '.join(unknown)}.", err=True)
    click.echo(secret)


def tell_token(made: Token) -> None:
    until = "until it is revoked" if made.expires is None else f"until {format_moment(made.expires)}"
    of = "all applications" if made.applications is None else join_words(made.applications)
    rights = made.scopes.replace(" ", ", ")
    click.echo(f"{made.name} may {rights} of {of} {until}. Keep the secret: it is not shown again.", err=True)


@click.command(
    epilog="\b\nExamples:\n  tuner token rotate shop-agents --file shop-agents.token\n"
    "  tuner token rotate anna --grace 1h"
)
@click.argument("name")
@click.option(
    "--grace", metavar="AGE", default="1d", show_default=True, help="Time for which the old secret works still."
)
@click.option(
    "--file", "file", type=output_type, help="File for the new secret, its owner's alone, instead of printing it."
)
@store_option
def rotate(name: str, grace: str, file: Path | None, address: DatabaseAddress) -> None:
    """Give the token NAME a new secret, printed or in a file.

    It has the same rights for as long again. The old secret works for a while, for agents to be given the new one:
    those that were attached with the Path of a token's file read it again when it changes.
    """
    span = parse_span("--grace", grace)
    with closing(open_store(address)) as store, store.begin() as session:
        made, secret = rotate_token(session, name, name_user(), time.time(), span)
    if file is None:
        tell_token(made)
        click.echo(secret)
        return
    try:
        write_durably(file, f"{secret}\n".encode())
    except OSError as error:
        raise BadInput(f"{file} cannot be written ({error.strerror}); rotate it again into another file") from None
    click.echo(f"The next secret of {name} is in {file}; the one before works for {grace} still.")


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
        click.echo(
            "There are no tokens yet; make one with: tuner token make NAME --scope read --app APPLICATION", err=True
        )


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
        revoked = end_token(session, name, name_user(), now).revoked
    when = "" if revoked == now else f" It was before, at {format_moment(revoked)}."
    click.echo(f"{name} is revoked.{when}")


@click.command(epilog="\b\nExample:\n  tuner token readmit anna@example.org")
@click.argument("name")
@store_option
def readmit(name: str, address: DatabaseAddress) -> None:
    """Let the person NAME log in again after a revocation.

    People log in at the provider of `tuner serve --oidc`. A token that was revoked stays so.
    """
    with closing(open_store(address)) as store, store.begin() as session:
        person = next((one for one in list_tokens(session) if one.name == name and is_person(one)), None)
        if person is None:
            raise BadInput(f"{name!r} is no person's who logged in at a provider; see them with: tuner token list")
        readmit_token(session, person)
        record_act(session, person, name_user(), "readmitted", time.time())
    click.echo(f"{name} may log in again.")


def describe_token(one: Token, now: float) -> dict[str, Any]:
    state = "revoked" if one.revoked is not None else "live"
    if state == "live" and one.expires is not None and now >= one.expires:
        state = "expired"
    if state == "live" and expires_soon(one.expires, now) and not is_person(one):
        state = "expires soon"
    more = {key: getattr(one, key) for key in ("made_by", "created", "expires", "revoked", "used")}
    return {"name": one.name, "state": state, "scopes": one.scopes.split(), "applications": one.applications, **more}


def print_tokens(rows: list[dict[str, Any]]) -> None:
    heads = ("token", "state", "scopes", "applications", "made by", "made", "expires", "last used")
    cells = [
        [row["name"], row["state"], " ".join(row["scopes"]), name_applications(row["applications"]), row["made_by"]]
        + [format_moment(row[key]) for key in ("created", "expires", "used")]
        for row in rows
    ]
    print_grid(heads, cells)


def name_applications(names: list[str] | None) -> str:
    return "all" if names is None else ", ".join(names)
