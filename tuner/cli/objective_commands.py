"""`tuner objectives`, `propose`, `runs` and `events`: what was found for an application, and what was done about it."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict
from typing import Any

import click

from scaler.model.units import describe_span, format_fixed, format_milliseconds, format_moment, format_number
from scaler.model.wire import read_number, read_table
from tuner.cli.agent_commands import why_option
from tuner.cli.options import (
    app_argument,
    json_option,
    limit_type,
    name_user,
    number_type,
    print_json,
    since_option,
    store_option,
    until_option,
)
from tuner.rollout.push import propose_objective
from tuner.rollout.removal import check_known, discard_run
from tuner.store.address import DatabaseAddress
from tuner.store.applications import load_application
from tuner.store.audit_log import list_events
from tuner.store.connection import open_store
from tuner.store.known_histories import list_histories
from tuner.store.objectives import list_objectives, load_objective
from tuner.store.records import ObjectiveRecord, Trial, TuningRun
from tuner.store.runs import find_state, list_runs
from tuner.store.trials import TrialFilter, count_trials, find_made_of
from tuner.views.grid import print_grid
from tuner.views.tuning_documents import lay_out_objective, lay_out_run
from tuner.views.words import format_ordinal, format_state, to_finite

limit_option = click.option(
    "--limit", type=limit_type, default=50, show_default=True, help="Number of rows, the newest; 0 for all."
)


@click.command(epilog="\b\nExamples:\n  tuner objectives shop\n  tuner objectives shop --json | jq '.[0].bounds'")
@app_argument
@limit_option
@json_option
@store_option
def objectives(app: str, limit: int, as_json: bool, address: DatabaseAddress) -> None:
    """List the objectives of APP.

    Shown are state, prices per hour, QoS, bounds and weights, the newest first. The searched price is that of the trial
    on the slots of the search, the verified one that of its replays on fresh seeds and on the held-out slots.
    """
    with closing(open_store(address)) as store, store.read() as session:
        load_application(session, app)
        found = list_objectives(session, app, limit=limit or None)
        known = list_histories(session, app)
        trials = {one.trial_id: find_made_of(session, one) for one in found}
    if as_json:
        print_json([to_finite(lay_out_objective(one, *trials[one.trial_id])) for one in found])
    elif found:
        heads = (
            *("objective", "state", "since", "trial", "searched/h", "verified/h", "found for", "history"),
            *("bounds ms", "weights"),
        )
        rows = [describe_objective(one, trials[one.trial_id][0], known.get(one.version or 0)) for one in found]
        print_grid(heads, rows, len(heads), heads)
    else:
        click.echo(f"There is no objective of {app!r} yet; find one with: tuner tune {app}", err=True)


def describe_objective(one: ObjectiveRecord, made_of: Trial | None, history_s: float | None) -> list[str]:
    """The cells of one; its history is what the tuner sent to agents with it, - where nothing was replayed."""
    bounds = ", ".join(f"{name} {format_milliseconds(bound)}" for name, bound in one.bounds.items())
    weights = ", ".join(f"{name} {weight:.3g}" for name, weight in one.weights.to_json().items())
    prices = [
        format_fixed(None if made_of is None else made_of.price),
        format_fixed(read_number(one.evidence.get("cost"))),
    ]
    trial = "-" if made_of is None else format_ordinal(made_of)
    state = format_state(one.state)
    history = "-" if history_s is None else describe_span(history_s) if history_s > 0.0 else "none"
    since = format_moment(one.changed)
    return [f"{one.version}", state, since, trial, *prices, describe_qos(one), history, bounds, weights]


def describe_qos(one: ObjectiveRecord) -> str:
    """The QoS that its run searched for; - of one made by hand."""
    qos = read_table(one.evidence.get("qos"))
    r_max = read_number(qos.get("r_max"))
    return "-" if r_max is None else f"R_max {format_milliseconds(r_max)} ms"


@click.command(
    epilog='\b\nExample:\n  tuner propose shop 3 --why "the outage, not the objective, was at fault"\n\n'
    "An objective that was rolled back is tried again under a new version."
)
@app_argument
@click.argument("version", type=number_type)
@why_option
@store_option
def propose(app: str, version: int, why: str, address: DatabaseAddress) -> None:
    """Propose an earlier objective of APP anew.

    The bounds and weights of VERSION become a new version.
    """
    with closing(open_store(address)) as store, store.begin() as session:
        before = load_objective(session, app, version)
        made = propose_objective(session, app, before.weights, before.bounds, name_user(), time.time(), why)
    click.echo(f'{app}: objective {made.version} is proposed, as {version} was; push it: tuner push {app} --why "..."')


@click.command(epilog="\b\nExamples:\n  tuner runs shop\n  tuner runs shop --limit 0 --json")
@app_argument
@limit_option
@json_option
@store_option
def runs(app: str, limit: int, as_json: bool, address: DatabaseAddress) -> None:
    """List the tuning runs of APP."""
    with closing(open_store(address)) as store, store.read() as session:
        load_application(session, app)
        found = list_runs(session, app, limit=limit or None)
        counts = {run.id: count_trials(session, TrialFilter(app, run.id)) for run in found}
    if as_json:
        print_json([to_finite(lay_out_run(run, time.time()) | {"trials": counts[run.id]}) for run in found])
    elif found:
        heads = ("run", "state", "engine", "seed", "budget", "trials", "begun", "ended", "R_max ms")
        print_grid(heads, [describe_run(run, counts[run.id]) for run in found], 3)
    else:
        click.echo(f"{app!r} was not tuned yet; tune it with: tuner tune {app}", err=True)


def describe_run(run: TuningRun, trials: int) -> list[str]:
    r_max = read_number(read_table(run.settings.get("qos")).get("r_max"))
    figures: list[Any] = [run.seed, run.budget, trials]
    times = [format_moment(run.created), "-" if run.ended is None else format_moment(run.ended)]
    return [
        format_ordinal(run),
        find_state(run, time.time()),
        run.engine,
        *map(format_number, figures),
        *times,
        format_milliseconds(r_max),
    ]


@click.command("remove-run", epilog='\b\nExample:\n  tuner remove-run shop 7 --why "tuned with 60 s for 60 ms"')
@app_argument
@click.argument("number", type=number_type)
@why_option
@store_option
def remove_run(app: str, number: int, why: str, address: DatabaseAddress) -> None:
    """Remove a tuning run of APP with its trials.

    One that became an objective stays, as its evidence.
    """
    with closing(open_store(address)) as store, store.begin() as session:
        count = discard_run(session, app, number, name_user(), why, time.time())
    click.echo(f"{app}: run {number} is removed, with {count} trials.")


@click.command(epilog="\b\nExamples:\n  tuner events shop\n  tuner events shop --since 7d --json | jq -r '.[].message'")
@app_argument
@since_option
@until_option
@limit_option
@json_option
@store_option
def events(
    app: str, since: float | None, until: float | None, limit: int, as_json: bool, address: DatabaseAddress
) -> None:
    """List what was done to APP, by whom and why."""
    with closing(open_store(address)) as store, store.read() as session:
        found = list_events(session, app, None, since, until, limit or None)[::-1]
        if not found:
            check_known(session, app)
    if as_json:
        print_json([to_finite(asdict(event)) for event in found])
    elif found:
        heads = ("time", "who", "what", "message")
        rows = [[format_moment(one.time), one.who, one.what, one.message] for one in found]
        print_grid(heads, rows, len(heads), heads)
    else:
        click.echo(f"Nothing was done to {app!r} in this stretch of time.", err=True)
