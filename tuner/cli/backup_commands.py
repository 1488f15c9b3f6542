"""`tuner db backup` and `tuner db restore`: copies of the database, made and brought back under running services."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path

import click

from scaler.model.errors import BadInput
from scaler.model.units import format_moment
from tuner.cli.admin_commands import describe_counts, say_unrecorded
from tuner.cli.options import file_type, name_user, new_store_option, store_option
from tuner.store.address import DatabaseAddress
from tuner.store.backup import back_up, check_copy_target, record_copying
from tuner.store.connection import open_store
from tuner.store.export import count_rows
from tuner.store.restore import restore as restore_copy


@click.command(epilog="\b\nExamples:\n  tuner db backup monday.db\n  tuner serve --backups /var/backups/tuner")
@click.argument("file", type=file_type)
@store_option
def backup(file: Path, address: DatabaseAddress) -> None:
    """Copy the database to FILE while it is in use.

    FILE is a checked SQLite database, of a PostgreSQL too, readable by its owner alone; `tuner db restore` brings it
    back into either. It replaces a file of that name when it is whole. Fine samples (Parquet) are files of their own.
    """
    from tuner.cli.progress import show_progress

    with closing(open_store(address)) as store:
        check_copy_target(store, file)
        say_unrecorded(record_copying(store, name_user(), "backed up", file, time.time()))  # the copy has the row, too
        with store.read() as session:
            counts = count_rows(session)
        with show_progress(sum(counts.values()), "Copying") as tell:
            back_up(store, file, time.time(), tell)
    click.echo(f"{file} has {describe_counts(counts, 'all there was: nothing')}.")


@click.command(
    epilog="\b\nExamples:\n  tuner db restore monday.db\n  tuner db restore monday.db --yes --store tuner.db"
)
@click.argument("file", type=file_type)
@click.option("--yes", is_flag=True, help="Replace what the database holds without a question.")
@new_store_option
def restore(file: Path, yes: bool, address: DatabaseAddress) -> None:
    """Replace the database by FILE, a copy that `tuner db backup` made.

    Services and agents may go on meanwhile: the rows are replaced in one transaction, agents receive the orders of the
    copy at once, and no version of an objective is given twice. What was recorded after the copy is gone, but for the
    audit log where it goes on from the copy's. A SQLite file that is damaged is put aside under another name.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise BadInput("this replaces all that the database holds; say --yes where nobody can be asked")
        click.confirm(f"Replace all that {address.shown} holds by {file}?", abort=True)
    done = restore_copy(file, address, name_user(), time.time())
    epoch = done.epoch
    click.echo(
        f"{address.shown} is as {file} had it at {format_moment(epoch.copied)}: "
        f"{describe_counts(done.counts, 'nothing')}. This begins epoch {epoch.number}."
    )
    if done.aside is not None:
        click.echo(f"What was there could not be read, and is in {done.aside} now.")
    if done.continued:
        click.echo(f"Versions go on after those given since; {done.revoked} tokens stay revoked.")
    else:
        click.echo(
            "What was given since is not known, so that versions go on from higher numbers; tokens that were revoked "
            "since hold again: tuner token list"
        )
