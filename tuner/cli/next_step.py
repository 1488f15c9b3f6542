"""Name the command that comes next for an application, by what the database has of it."""

from __future__ import annotations

import shlex

import click

from tuner.store.applications import find_application, list_surrogates
from tuner.store.connection import Session, Store
from tuner.store.objectives import list_objectives
from tuner.store.samples import count_samples

PUSHED = ("shadow", "canary", "full")


def say_next(store: Store, app: str) -> None:
    """Print it on stderr, beside a command's own output."""
    with store.read() as session:
        click.echo(f"Next: {name_next(session, app)}", err=True)


def name_next(session: Session, app: str) -> str:
    """Describe, ingest, fit, tune, push, attach: the first of these that was not done."""
    name = shlex.quote(app)
    if find_application(session, app) is None:
        return f"tuner init LOG_OR_FOLDER --app {name}     drafts a description of it, for `tuner app add`"
    if list_objectives(session, app, PUSHED, limit=1):
        return (
            "tuner guide driver     attaches the agents, which follow what was pushed; `tuner serve` is their manager"
        )
    if list_objectives(session, app, ("proposed",), limit=1):
        return f'tuner push {name} --why "..."     hands the proposed objective to the agents, as a shadow'
    if not count_samples(session, app):
        return (
            f"tuner ingest LOG_OR_FOLDER --app {name}     reads monitoring for a surrogate\n"
            f"      tuner tune {name}     tunes on the description alone"
        )
    fitted = list_surrogates(session, app, limit=1)
    if not fitted:
        return f"tuner surrogate fit {name}     makes and checks the model that it is tuned on"
    if fitted[0].health == "fail":
        return (
            f"tuner ingest LOG_OR_FOLDER --app {name}     reads more of what the failed checks miss; then fit again\n"
            f"      tuner tune {name} --as-described     tunes on the description alone"
        )
    return f"tuner tune {name}     searches the cheapest settings within its limits"
