"""`tuner push`, `tuner roll-back`, `tuner orders`: move an objective through its roll-out."""

from __future__ import annotations

import time
from contextlib import closing

import click

from scaler.model.errors import BadInput
from tuner.cli.options import app_argument, name_user, print_json, store_option
from tuner.rollout.issued_orders import write_orders
from tuner.rollout.push import push as push_to
from tuner.rollout.push import roll_back as take_back
from tuner.store.address import DatabaseAddress
from tuner.store.applications import load_application
from tuner.store.connection import Session, open_store
from tuner.store.objectives import find_full_objective, list_objectives, load_objective
from tuner.store.orders import load_orders

STAGES = ("shadow", "canary", "full")
why_option = click.option(
    "--why", required=True, metavar="SENTENCE", help="Reason of the change, recorded in the audit log."
)


@click.command(
    epilog="\b\nExamples:\n"
    '  tuner push shop --why "as tuned on Monday"\n'
    '  tuner push shop 3 --stage full --why "looked at its replay by hand"\n\n'
    "From shadow on, daemons move it to canary and full by evidence, and back where QoS worsens."
)
@app_argument
@click.argument("version", type=click.IntRange(1), required=False)
@click.option(
    "--stage", type=click.Choice(STAGES), default="shadow", show_default=True, help="Stage of the roll-out to enter."
)
@why_option
@store_option
def push(app: str, version: int | None, stage: str, why: str, address: DatabaseAddress) -> None:
    """Push objective VERSION of APP to a stage of its roll-out.

    VERSION is the newest proposed objective unless it is stated.
    """
    check_why(why)
    with closing(open_store(address)) as store, store.begin() as session:
        chosen = find_proposed(session, app) if version is None else version
        before = load_objective(session, app, chosen).state
        made = push_to(session, app, chosen, stage, name_user(), why, time.time())
    told = "was there already" if before == made.state else f"was {before}"
    click.echo(f"{app}: objective {made.version} is in {made.state} now; it {told}.")


@click.command(
    "roll-back",
    epilog='\b\nExample:\n  tuner roll-back shop --why "answers came late since noon"\n\n'
    "What was rolled back does not come back by itself; propose it anew to try it again.",
)
@app_argument
@why_option
@store_option
def roll_back(app: str, why: str, address: DatabaseAddress) -> None:
    """Roll back the newest pushed objective of APP.

    That is its candidate; without one, the objective in full use, which the one before it replaces.
    """
    check_why(why)
    with closing(open_store(address)) as store, store.begin() as session:
        made = take_back(session, app, name_user(), why, time.time())
        standing = find_full_objective(session, app)
    now = "nothing is pursued now" if standing is None else f"objective {standing.version} is pursued"
    click.echo(f"{app}: objective {made.version} was rolled back, and {now}.")


@click.command(
    epilog="\b\nExamples:\n  tuner orders shop\n  tuner orders shop > objective.json\n\n"
    "scaler.attach(..., orders='objective.json') follows such a file where there is no manager."
)
@app_argument
@store_option
def orders(app: str, address: DatabaseAddress) -> None:
    """Print the orders of APP's agents as JSON.

    Orders are objective, candidate, guards and controls.
    """
    with closing(open_store(address)) as store, store.read() as session:
        load_application(session, app)
        found = load_orders(session, app)
    if found is None:
        raise BadInput(f"the scalers of {app!r} are told nothing yet; tune it, then: tuner push {app}")
    print_json(write_orders(found))


def check_why(why: str) -> None:
    if not why.strip():
        raise BadInput("--why is empty; say in a sentence why, for it is kept with what you did")


def find_proposed(session: Session, app: str) -> int:
    load_application(session, app)
    newest = next(iter(list_objectives(session, app, ("proposed",), limit=1)), None)
    if newest is None or newest.version is None:
        raise BadInput(f"no objective of {app!r} is proposed; find one with: tuner tune {app}")
    return newest.version
