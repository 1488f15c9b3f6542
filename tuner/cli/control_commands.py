"""`tuner control`: pin, lock, block and lift; pause, resume and stop retuning, as the page and the API do."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any, get_args

import click

from scaler.model.errors import BadInput
from scaler.model.units import format_moment
from tuner.cli.agent_commands import why_option
from tuner.cli.lazy_group import Words
from tuner.cli.options import (
    SPAN,
    app_argument,
    json_option,
    name_user,
    parse_span,
    print_json,
    read_time,
    store_option,
)
from tuner.rollout.steering import Action, TuningRequest, lift_control, request_action, set_control
from tuner.store.address import DatabaseAddress
from tuner.store.applications import load_application
from tuner.store.connection import open_store
from tuner.store.orders import list_controls
from tuner.store.records import Control
from tuner.views.grid import print_grid

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
SETTABLE = ("pin", "direction_lock", "blocked_hours")
operator_option = click.option("--operator", metavar="NAME", default="", help="Name of the operator (default: all).")


def parse_until(ctx: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """A moment to come: a date and time, or a length of time from now."""
    if text is None:
        return None
    return time.time() + parse_span("--until", text) if SPAN.fullmatch(text.strip()) else read_time(text)


until_option = click.option(
    "--until",
    metavar="TIME",
    callback=parse_until,
    help="End of the control, ISO 8601 in UTC or from now as in 6h (default: until it is lifted).",
)


def put_control(
    app: str, operator: str, kind: str, settings: Mapping[str, Any], why: str, until: float | None,
    address: DatabaseAddress,
) -> None:  # fmt: skip
    control = Control(app, operator, kind, dict(settings), name_user(), time.time(), why, until)
    with closing(open_store(address)) as store, store.begin() as session:
        set_control(session, control)
    scope = f"operator {operator}" if operator else "all operators"
    end = "until it is lifted" if until is None else f"until {format_moment(until)}"
    click.echo(f"{app}: {kind} stands for {scope} {end}; lift it with: tuner control lift {app} {kind}")


@click.command(epilog='\b\nExample:\n  tuner control pin shop --operator parse --until 6h --why "release at noon"')
@app_argument
@operator_option
@until_option
@why_option
@store_option
def pin(app: str, operator: str, until: float | None, why: str, address: DatabaseAddress) -> None:
    """Pin the deployment of APP."""
    put_control(app, operator, "pin", {}, why, until, address)


@click.command(epilog='\b\nExample:\n  tuner control lock shop out --until 2d --why "sale"')
@app_argument
@click.argument("direction", type=Words(("out", "in")))
@operator_option
@until_option
@why_option
@store_option
def lock(app: str, direction: str, operator: str, until: float | None, why: str, address: DatabaseAddress) -> None:
    """Let agents of APP scale only out, or only in."""
    put_control(app, operator, "direction_lock", {"only": direction}, why, until, address)


@click.command(epilog='\b\nExample:\n  tuner control block shop 08:00 18:30 --days mon,fri --why "office hours"')
@app_argument
@click.argument("start")
@click.argument("end")
@click.option("--days", metavar="LIST", default=",".join(DAYS), help="Days of the week, as in mon,fri (default: all).")
@click.option("--zone", metavar="NAME", default="UTC", show_default=True, help="Time zone, as in Europe/Vienna.")
@operator_option
@until_option
@why_option
@store_option
def block(
    app: str, start: str, end: str, days: str, zone: str, operator: str, until: float | None, why: str,
    address: DatabaseAddress,
) -> None:  # fmt: skip
    """Block changes of APP's replicas at some hours."""
    listed = [day.strip() for day in days.split(",")]
    if unknown := [day for day in listed if day not in DAYS]:
        raise BadInput(f"--days has {unknown[0]!r}, and may have {', '.join(DAYS)}")
    put_control(
        app, operator, "blocked_hours", {"from": start, "to": end, "days": listed, "zone": zone}, why, until, address
    )


@click.command(epilog='\b\nExample:\n  tuner control lift shop pin --operator parse --why "released"')
@app_argument
@click.argument("kind", type=Words(SETTABLE))
@operator_option
@why_option
@store_option
def lift(app: str, kind: str, operator: str, why: str, address: DatabaseAddress) -> None:
    """Lift a control of APP."""
    with closing(open_store(address)) as store, store.begin() as session:
        lift_control(session, app, operator, kind, name_user(), time.time(), why)
    click.echo(f"{app}: {kind} is lifted for {f'operator {operator}' if operator else 'all operators'}.")


@click.command("list", epilog="\b\nExample:\n  tuner control list shop --json")
@app_argument
@json_option
@store_option
def list_all(app: str, as_json: bool, address: DatabaseAddress) -> None:
    """List the controls that stand for APP."""
    with closing(open_store(address)) as store, store.read() as session:
        load_application(session, app)
        standing = list_controls(session, app, at=time.time())
    if as_json:
        print_json([asdict(one) for one in standing])
    elif standing:
        heads = ("control", "operator", "settings", "who", "since", "until", "why")
        print_grid(heads, [describe_row(one) for one in standing], len(heads), heads)
    else:
        click.echo(f"No control stands for {app!r}.", err=True)


def describe_row(one: Control) -> list[str]:
    settings = ", ".join(f"{key} {value}" for key, value in one.settings.items()) or "-"
    end = "-" if one.until is None else format_moment(one.until)
    return [one.kind, one.operator or "all", settings, one.who, format_moment(one.since), end, one.note or "-"]


@click.command(
    epilog='\b\nExamples:\n  tuner control retuning shop pause --why "new release"\n'
    '  tuner control retuning shop tune --why "new prices"'
)
@app_argument
@click.argument("action", type=Words(get_args(Action)))
@why_option
@store_option
def retuning(app: str, action: Action, why: str, address: DatabaseAddress) -> None:
    """Tune APP now; pause, resume or stop its retuning.

    The service or daemon that runs next does what was asked for.
    """
    with closing(open_store(address)) as store, store.begin() as session:
        load_application(session, app)
        request_action(session, app, action, TuningRequest(name_user(), time.time(), why))
    click.echo(f"{app}: asked for; the service or daemon that is running next does it (tuner events {app}).")
