"""`tuner push`, `roll-back`, `orders`, `explain` and `live status`: what agents are to do, what they do and why."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import click

from scaler.link.credential import read_token_file
from scaler.model.errors import BadInput
from tuner.cli.lazy_group import BAD_INPUT
from tuner.cli.next_step import name_next
from tuner.cli.options import (
    TIME_FORMS,
    app_argument,
    file_type,
    json_option,
    name_user,
    new_store_option,
    number_type,
    parse_moment,
    print_json,
    require_present,
    store_option,
)
from tuner.history.explanation import explain as explain_slot
from tuner.history.live_status import AgentStatus, ApplicationStatus, Manager, ask_status, read_status
from tuner.rollout.issued_orders import CANDIDATES, write_orders
from tuner.rollout.push import push as push_to
from tuner.rollout.push import roll_back as take_back
from tuner.service.access.token import describe_expiry, expires_soon
from tuner.store.address import DatabaseAddress
from tuner.store.applications import load_application
from tuner.store.connection import Session, open_store
from tuner.store.known_histories import list_histories
from tuner.store.objectives import STAGES, find_full_objective, list_objectives, load_objective
from tuner.store.orders import load_orders
from tuner.views.explanation_lines import to_lines
from tuner.views.grid import open_console, print_lines
from tuner.views.words import describe_history, to_json


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner explain shop\n"
    "  tuner explain shop --at 2026-05-01T08:00 --operator parse\n"
    "  tuner explain shop --at 2h --json | jq '.operators[].compared'"
)
@app_argument
@click.option(
    "--at", callback=parse_moment, metavar="TIME", help=f"Time in the slot, {TIME_FORMS} (default: the newest slot)."
)
@click.option("--operator", metavar="NAME", help="Name of the operator (default: all).")
@json_option
@store_option
@click.pass_context
def explain(
    ctx: click.Context, app: str, at: float | None, operator: str | None, as_json: bool, address: DatabaseAddress
) -> None:
    """Explain the decisions of APP's agents in one slot.

    For each operator: the observation, the estimated cost of each alternative (less is better), the guard that blocked
    and who set it, the objective and why it was pushed, and the decision of the candidate. Where there is no decision,
    the reason.
    """
    with closing(open_store(address)) as store, store.read() as session:
        explained = explain_slot(session, app, at, operator)
    named = explained.known and (operator is None or bool(explained.operators))
    if as_json:
        click.echo(to_json(explained))
        ctx.exit(0 if named else BAD_INPUT)
    if not named:
        raise BadInput(f"{explained.message} {explained.advice}".strip())
    print_lines(*to_lines(explained, min(open_console().width, 120)))


@click.command(
    epilog="\b\nExamples:\n  tuner live status orders\n"
    "  tuner live status orders --manager https://manager:8443 --token-file token --json | jq '.operators[].alive'"
)
@app_argument
@click.option("--manager", metavar="URL", help="URL of a manager to query (default: the database).")
@click.option("--token-file", type=file_type, help="File of the manager's token, which has the scopes read and report.")
@click.option(
    "--authority", type=file_type, metavar="FILE", help="File of the certificates to trust (default: the system's)."
)
@json_option
@new_store_option
@click.pass_context
def status(
    ctx: click.Context,
    app: str,
    manager: str | None,
    token_file: Path | None,
    authority: Path | None,
    as_json: bool,
    address: DatabaseAddress,
) -> None:
    """Show the agents of APP: orders, replicas, decisions.

    A manager shows the newest orders only to a token with the scope report.
    """
    # TUNER_STORE is there for all commands; with --manager it is no mistake
    if manager is not None and ctx.get_parameter_source("address") is click.core.ParameterSource.COMMANDLINE:
        raise BadInput("a manager has a database of its own; leave out --store, or else --manager")
    found = find_status(app, manager, token_file, authority, address)
    if as_json:
        click.echo(to_json(found))
        return
    newest = "not known" if found.revision is None else f"revision {found.revision}"
    click.echo(f"{found.application}: the newest orders are {newest}.")
    for one in found.operators:
        print_operator(one)


def find_status(
    app: str, manager: str | None, token_file: Path | None, authority: Path | None, address: DatabaseAddress
) -> ApplicationStatus:
    if manager is None:
        if token_file is not None or authority is not None:
            raise BadInput("--token-file and --authority are of a manager; name it with --manager")
        with closing(open_store(require_present(address))) as store, store.read() as session:
            return read_status(session, app, time.time())
    if token_file is None:
        raise BadInput("--manager wants to see a token; name the file that holds it with --token-file")
    with closing(Manager(manager, read_token_file(token_file), app, authority)) as caller:
        return ask_status(caller, time.time())


def print_operator(one: AgentStatus) -> None:
    state = "alive" if one.alive else "silent"
    replicas = ", ".join(f"{n} {name}" for name, n in (one.replicas or {}).items() if n) or "not known"
    orders = "no orders" if one.revision is None else f"orders of revision {one.revision}"
    click.echo(f"\n{one.operator}: {state}, heard {one.silent_s:.0f} s ago, under {orders}; replicas: {replicas}")
    if one.last is not None:
        action = f" {one.last.action}" if one.last.action else ""
        click.echo(f"  {one.last.kind}{action}: {one.last.reason}")
    if one.token is not None and expires_soon(one.token_expires, time.time()):
        click.echo(f"  {describe_expiry(one.token, one.token_expires)}")


def check_why(ctx: click.Context, parameter: click.Parameter, why: str) -> str:
    if not why.strip():
        raise BadInput("--why is empty; say in a sentence why, for it is kept with what you did")
    return why


why_option = click.option(
    "--why",
    required=True,
    callback=check_why,
    metavar="SENTENCE",
    help="Reason of the change, recorded in the audit log.",
)


@click.command(
    epilog="\b\nExamples:\n"
    '  tuner push shop --why "as tuned on Monday"\n'
    '  tuner push shop 3 --stage full --why "looked at its replay by hand"\n\n'
    "From shadow on, daemons move it to canary and full by evidence, and back where QoS worsens."
)
@app_argument
@click.argument("version", type=number_type, required=False)
@click.option(
    "--stage",
    type=click.Choice(STAGES[1:]),
    default="shadow",
    show_default=True,
    help="Stage of the roll-out to enter.",
)
@click.option("--force", is_flag=True, help="Push an objective that was found for another QoS than is demanded.")
@why_option
@store_option
def push(app: str, version: int | None, stage: str, force: bool, why: str, address: DatabaseAddress) -> None:
    """Push objective VERSION of APP to a stage of its roll-out.

    VERSION is the newest proposed objective unless it is stated. What the policy learns from the application's history
    goes with it: agents that have learned less begin with that.
    """
    from tuner.rollout.known_history import keep_history  # loads the simulator: not for every command

    with closing(open_store(address)) as store:
        with store.read() as session:
            load_application(session, app)
            chosen = find_proposed(session, app) if version is None else version
            load_objective(session, app, chosen)
            is_known = chosen in list_histories(session, app)
        history = None if is_known else keep_history(store, app, chosen, time.time())
        with store.begin() as session:
            before = load_objective(session, app, chosen).state
            made = push_to(session, app, chosen, stage, name_user(), why, time.time(), force=force)
            following = name_next(session, app)
    told = "was there already" if before == made.state else f"was {before}"
    click.echo(f"{app}: objective {made.version} is in {made.state} now; it {told}.")
    if history is not None:
        click.echo(f"{describe_history(history).capitalize()}.", err=True)
    click.echo(f"Next: {following}", err=True)


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
        raise BadInput(f"the agents of {app!r} have no orders yet; tune it, then: tuner push {app}")
    print_json(write_orders(found))


def find_proposed(session: Session, app: str) -> int:
    load_application(session, app)
    newest = next(iter(list_objectives(session, app, ("proposed",), limit=1)), None)
    candidate = next(iter(list_objectives(session, app, CANDIDATES, limit=1)), None)
    if newest is None and candidate is not None:
        raise BadInput(
            f"objective {candidate.version} of {app!r} is in {candidate.state} already, and no other is proposed; name "
            f"it with a --stage, as in: tuner push {app} {candidate.version} --stage full"
        )
    if newest is None or newest.version is None:
        raise BadInput(f"no objective of {app!r} is proposed; find one with: tuner tune {app}")
    return newest.version
