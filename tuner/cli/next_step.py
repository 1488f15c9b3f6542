"""Name the command that comes next for an application by what the database has of it; warn of what is odd there."""

from __future__ import annotations

import shlex
from contextlib import suppress

import click

from scaler.model.errors import BadInput, suggest
from scaler.model.units import quote
from tuner.scenario.document import shape_of
from tuner.scenario.layout import SLOT_S
from tuner.store.applications import find_application, list_names, list_surrogates
from tuner.store.connection import Session, Store
from tuner.store.objectives import list_objectives
from tuner.store.samples import count_samples
from tuner.views.operator_names import compare_operators

PUSHED = ("shadow", "canary", "full")


def say_next(store: Store, app: str, slot_s: float = SLOT_S) -> None:
    """Print it on stderr, beside a command's own output; slots of the described trace are so long."""
    with store.read() as session:
        warn_of_names(session, app)
        click.echo(f"Next: {name_next(session, app, slot_s)}", err=True)


def warn_of_names(session: Session, app: str) -> None:
    """Warn on stderr where the operators that were monitored are others than those described."""
    described, observed = find_application(session, app), count_samples(session, app)
    if described is None and (near := suggest(app, list_names(session), "")):
        warn(f"no application is described under the name {quote(app)}; {near}")
    if described is None or not observed:
        return
    with suppress(BadInput):  # of a description without operators, other commands tell
        operators = [operator.name for operator in shape_of(described.document).operators]
        warn(compare_operators(app, operators, observed))


def warn(doubt: str | None) -> None:
    """Print the sentence of a doubt on stderr, where there is one."""
    if doubt is not None:
        click.echo(f"Warning: {doubt}{'' if doubt.endswith('?') else '.'}", err=True)


def name_next(session: Session, app: str, slot_s: float = SLOT_S) -> str:
    """Describe, ingest, fit, tune, push, attach: the first of these that was not done."""
    name, window = shlex.quote(app), "" if slot_s == SLOT_S else f" --window {slot_s:g}"
    described = find_application(session, app)
    if described is None:
        return f"tuner init LOG_OR_FOLDER --app {name}     drafts a description of it, for `tuner app add`"
    if list_objectives(session, app, PUSHED, limit=1):
        return (
            "tuner guide driver     attaches the agents, which follow what was pushed; `tuner serve` is their manager"
        )
    if list_objectives(session, app, ("proposed",), limit=1):
        return f'tuner push {name} --why "..."     hands the proposed objective to the agents, as a shadow'
    if not count_samples(session, app):
        return (
            f"tuner ingest LOG_OR_FOLDER --app {name}{window}     reads monitoring for a surrogate\n"
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
