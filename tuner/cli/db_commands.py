"""`tuner db`: the database's path or URL in; its schema, its health, a copy of it or less of it out."""

from __future__ import annotations

import re
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scaler.model.errors import BadInput

if TYPE_CHECKING:
    from tuner.store.connection import Store

UNITS = {"h": 3600.0, "d": 86400.0, "w": 604800.0}
WRONG = 1

store_option = click.option(
    "--store",
    "address",
    metavar="PATH|URL",
    envvar="TUNER_STORE",
    show_envvar=True,
    help="A SQLite file or postgresql://USER@HOST/DATABASE (~/.local/share/stream-scaler/tuner.db).",
)


@click.group(
    epilog="\b\nExamples:\n  tuner db check\n  tuner db upgrade --store postgresql://tuner@localhost/tuner\n"
    "  tuner db export backup.db\n  tuner db prune --older-than 90d --dry-run"
)
def db() -> None:
    """Look after the database of samples, surrogates, trials, objectives and decisions."""


@db.command(epilog="\b\nExample:\n  tuner db upgrade --store postgresql://tuner@localhost/tuner")
@store_option
def upgrade(address: str | None) -> None:
    """Bring the tables up to what this program needs; nothing is done twice.

    A SQLite file is brought up by whichever command opens it first. A PostgreSQL database is only when this is asked
    for, since programs of an older version may be using it.
    """
    from tuner.store.connection import connect_unprepared, upgrade_store

    with closing(connect_unprepared(address)) as store:
        before, after = upgrade_store(store)
        shown = store.address.shown
    if before == after:
        click.echo(f"{shown} is up to date (schema {after}).")
    elif before is None:
        click.echo(f"{shown} was empty and has schema {after} now.")
    else:
        click.echo(f"{shown} went from schema {before} to {after}.")


@db.command(epilog="\b\nExample:\n  tuner db check && echo all well")
@store_option
@click.pass_context
def check(ctx: click.Context, address: str | None) -> None:
    """Say what is in the database and whether anything is wrong with it; exit code 1 if so."""
    from tuner.store.checkup import check_store
    from tuner.store.connection import connect_unprepared
    from tuner.store.export import count_rows

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


@db.command(epilog="\b\nExamples:\n  tuner db export everything.jsonl\n  tuner db export backup.db")
@click.argument("file", type=click.Path(path_type=Path))
@store_option
def export(file: Path, address: str | None) -> None:
    """Write all of the database to FILE: .jsonl for a line of JSON per row, .db for a SQLite database.

    Others may go on working meanwhile: the file shows one moment. It replaces a file of that name when it is whole.
    """
    from tuner.cli.progress_bar import show_progress
    from tuner.store.connection import open_store
    from tuner.store.export import check_target, count_rows, export_store

    with closing(open_store(address)) as store:
        check_target(store, file)
        with store.read() as session:
            counts = count_rows(session)
        with show_progress(sum(counts.values()), "Writing") as tell:
            export_store(store, file, tell)
    click.echo(f"{file} has " + describe_counts(counts, "all there was: nothing") + ".")


@db.command(
    epilog="\b\nExamples:\n  tuner db optuna studies.db\n"
    "  tuner db optuna shop.db --app shop && optuna-dashboard sqlite:///shop.db"
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--app", metavar="NAME", help="Only the runs of this application.")
@store_option
def optuna(file: Path, app: str | None, address: str | None) -> None:
    """Write tuning runs and their trials to FILE, a new SQLite database of Optuna's own, for its dashboard.

    A run is a study. Others may go on working meanwhile: the file shows one moment, and is there when it is whole.
    """
    from tuner.cli.progress_bar import show_progress
    from tuner.store.connection import open_store
    from tuner.store.optuna_export import check_target, export_to_optuna
    from tuner.store.trials import TrialFilter, count_trials

    check_target(file)
    with closing(open_store(address)) as store:
        with store.read() as session:
            total = count_trials(session, TrialFilter(app))
        with show_progress(total, "Writing") as tell:
            written = export_to_optuna(store, app, file, tell)
    counts = {"runs": written.studies, "trials": written.trials}
    click.echo(f"{file} has {describe_counts(counts, 'no study, for nothing was tuned yet')}.", err=True)
    click.echo(f"optuna-dashboard sqlite:///{file}")


@db.command(epilog="\b\nExamples:\n  tuner db prune --older-than 90d --dry-run\n  tuner db prune --older-than 26w")
@click.option("--older-than", "age", metavar="AGE", required=True, help="As in 12h, 90d or 26w.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@store_option
def prune(age: str, dry_run: bool, address: str | None) -> None:
    """Take out samples, decisions, ended tuning runs with their trials, and surrogates that are older than AGE.

    Kept whatever their age: objectives, runs with a trial that became one, what these were made of, runs that have
    not ended, every application's newest surrogate, and how far sources were read.
    """
    from tuner.store.connection import open_store
    from tuner.store.prune import prune as prune_rows

    before = time.time() - parse_age(age)
    with closing(open_store(address)) as store, store.read() if dry_run else store.begin() as session:
        counts = prune_rows(session, before, dry_run)
    gone = describe_counts(counts, "nothing")
    click.echo(f"Of what is older than {age}, {gone} would go." if dry_run else f"Took out {gone}.")
    if store.address.path is not None and not dry_run and any(counts.values()):
        click.echo(
            "The file keeps its size for what comes; `tuner db export smaller.db` makes a copy without the room."
        )


def parse_age(text: str) -> float:
    """Seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw])", text.strip())
    if found is None:
        raise BadInput(f"--older-than is {text!r}, and must be a number of hours, days or weeks, as in 12h, 90d or 26w")
    return float(found[1]) * UNITS[found[2]]


def describe_counts(counts: dict[str, int], none: str) -> str:
    told = [f"{count:,} {name_of(table, count)}" for table, count in counts.items() if count]
    if not told:
        return none
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def name_of(table: str, count: int) -> str:
    words = table.replace("_", " ")
    return words.removesuffix("es" if words.endswith("ches") else "s") if count == 1 else words


def describe_size(store: Store) -> str:
    path = store.address.path
    if path is None:
        return ""
    parts = [part for part in (path, path.with_name(f"{path.name}-wal")) if part.exists()]
    return f" ({sum(part.stat().st_size for part in parts) / 2**20:.1f} MiB)"
