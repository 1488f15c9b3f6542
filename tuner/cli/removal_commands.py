"""`tuner app remove` and `tuner app rename`: take back an application or its name."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import click

from scaler.model.errors import BadInput
from scaler.model.units import join_words
from tuner.cli.agent_commands import why_option
from tuner.cli.options import app_argument, name_user, store_option
from tuner.rollout.removal import remove as remove_application
from tuner.rollout.removal import rename as rename_application
from tuner.store.address import DatabaseAddress
from tuner.store.connection import open_store

force_option = click.option("--force", is_flag=True, help="Do it though agents have orders.")


def find_history(address: DatabaseAddress, app: str) -> Path:
    """The folder of the application's fine samples."""
    return address.history / f"application={quote(app, safe='')}"


@click.command(
    epilog='\b\nExample:\n  tuner app remove sohp --yes --why "misspelt"\n\n'
    "What was done to it stays in the audit log. `tuner db backup FILE` makes a copy before."
)
@app_argument
@click.option("--yes", is_flag=True, help="Confirm the removal.")
@force_option
@why_option
@store_option
def remove(app: str, yes: bool, force: bool, why: str, address: DatabaseAddress) -> None:
    """Remove APP with all that is stored of it.

    Samples, surrogates, tuning runs, objectives and decisions go; what was done stays in the audit log. A name is
    enough that only samples have.
    """
    if not yes:
        raise BadInput(f"this deletes all samples, runs and objectives of {app!r} for good; confirm it with --yes")
    with closing(open_store(address)) as store, store.begin() as session:
        counts = remove_application(session, app, name_user(), why, time.time(), force)
    shutil.rmtree(find_history(address, app), ignore_errors=True)
    told = join_words([f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items()])
    click.echo(f"{app} is removed: {told or 'nothing but its name'}.")


@click.command(epilog='\b\nExample:\n  tuner app rename sohp shop --why "misspelt"')
@app_argument
@click.argument("new")
@force_option
@why_option
@store_option
def rename(app: str, new: str, force: bool, why: str, address: DatabaseAddress) -> None:
    """Give APP the name NEW, with all that is stored of it."""
    with closing(open_store(address)) as store, store.begin() as session:
        rename_application(session, app, new, name_user(), why, time.time(), force)
    folder = find_history(address, app)
    if folder.is_dir():
        folder.rename(find_history(address, new))
    click.echo(f"{app} is {new} now.")
