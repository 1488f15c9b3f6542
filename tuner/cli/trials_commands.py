"""`tuner trials` and `tuner trial`: the trials of tuning runs as a table, CSV, JSON or a scenario."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from scaler.model.errors import BadInput
from scaler.model.files import check_place, write_whole
from scaler.model.units import (
    format_fixed,
    format_flag,
    format_milliseconds,
    format_moment,
    format_number,
    format_percentage,
)
from sim.toml_table import format_document
from tuner.cli.options import (
    TIME_FORMS,
    app_argument,
    csv_option,
    file_type,
    json_option,
    parse_moment,
    print_json,
    store_option,
    until_option,
)
from tuner.search.trial_records import restate
from tuner.store.address import DatabaseAddress
from tuner.store.applications import load_application, load_version
from tuner.store.connection import open_store
from tuner.store.records import Trial, TuningRun
from tuner.store.runs import list_runs, load_run
from tuner.store.trials import TrialFilter, count_trials, list_trials, load_trial
from tuner.views.grid import print_grid
from tuner.views.words import to_finite

SORTS = ("id", "number", "price", "violations", "reconfigurations", "slack", "seconds", "ended")
STATES = ("complete", "pruned", "failed")
DOCUMENTS = ("parameters", "detail")  # of a trial; a table has their parts or nothing of them


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner trials shop\n"
    "  tuner trials shop --feasible --sort cost --limit 10\n"
    "  tuner trials shop --run 3 --since 6h --limit 0 --csv > trials.csv"
)
@app_argument
@click.option("--run", "run_id", type=click.IntRange(1), help="Number of the tuning run (default: all).")
@click.option(
    "--feasible/--infeasible",
    default=None,
    help="Keep trials that met both constraints, or that did not (default: both).",
)
@click.option("--state", type=click.Choice(STATES), help="State of the trials (default: all).")
@click.option(
    "--since",
    metavar="TIME",
    callback=parse_moment,
    help=f"First time of their end, {TIME_FORMS} (default: the earliest).",
)
@until_option
@click.option("--sort", type=click.Choice(SORTS), help="Column to sort by (default: time of the end, the newest last).")
@click.option("--descending", is_flag=True, help="Sort the highest first.")
@click.option("--limit", type=click.IntRange(0), default=50, show_default=True, help="Number of trials; 0 for all.")
@json_option
@csv_option
@store_option
def trials(
    app: str,
    run_id: int | None,
    feasible: bool | None,
    state: str | None,
    since: float | None,
    until: float | None,
    sort: str | None,
    descending: bool,
    limit: int,
    as_json: bool,
    as_csv: bool,
    address: DatabaseAddress,
) -> None:
    """List the trials of APP's tuning runs.

    Price is per hour; violations and reconfigurations are per cent of the slots. Slack is the unused share of the
    tighter constraint; below 0 it is broken. - is a missing value.
    """
    if as_json and as_csv:
        raise BadInput("--json and --csv both say how to print; give one of them")
    chosen = TrialFilter(app, run_id, state, feasible, since, until)
    found, count = find_trials(chosen, sort, descending, limit, address)
    if as_json:
        print_json([to_finite(describe(trial)) for trial in found])
    elif as_csv:
        click.echo(write_csv(found), nl=False)
    elif found:
        print_grid(HEADS, [list_cells(trial) for trial in found], left=LEFT)
    if not count and not as_json:
        click.echo(f"There are no such trials of {app!r}.", err=True)
    elif count > len(found) and not as_json and not as_csv:
        click.echo(f"{len(found)} of {count:,}; --limit 0 shows all.", err=True)


def find_trials(
    chosen: TrialFilter, sort: str | None, descending: bool, limit: int, address: DatabaseAddress
) -> tuple[list[Trial], int]:
    """So many of the chosen trials, and how many there are."""
    with closing(open_store(address)) as store, store.read() as session:
        load_application(session, chosen.application or "")
        if chosen.run_id is not None:
            check_run(session, chosen)
        count = count_trials(session, chosen)
        if sort is None:  # the newest, in the order in which they ended unless asked otherwise
            found = list_trials(session, chosen, "id", descending=True, limit=limit or None)
            return (found if descending else found[::-1]), count
        return list_trials(session, chosen, sort, descending, limit or None), count


def check_run(session: Any, chosen: TrialFilter) -> None:
    """Refuse a run that is none of the application's."""
    known = [run.id for run in list_runs(session, chosen.application)]
    if chosen.run_id not in known:
        told = f"its runs are {', '.join(map(str, known[:10]))}" if known else "it was not tuned yet"
        raise BadInput(f"application {chosen.application!r} has no run {chosen.run_id}; {told}")


def describe(trial: Trial) -> dict[str, Any]:
    return {**asdict(trial), "purpose": purpose_of(trial)}


def purpose_of(trial: Trial) -> str:
    return str(trial.detail.get("purpose", "search"))


def write_csv(found: Sequence[Trial]) -> str:
    """A column per figure, then one per parameter."""
    rows = [flatten(trial) for trial in found]
    names = dict.fromkeys(name for row in rows for name in row) if rows else dict.fromkeys(HEADS_OF_NONE)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def flatten(trial: Trial) -> dict[str, Any]:
    plain = {name: value for name, value in describe(trial).items() if name not in DOCUMENTS}
    parameters = trial.parameters
    shares = {f"share {name}": share for name, share in parameters.get("shares", {}).items()}
    weights = {f"weight {name}": weight for name, weight in parameters.get("weights", {}).items()}
    return {"id": plain.pop("id"), **plain, **shares, **weights}


HEADS_OF_NONE = ("id", "run_id", "number", "state", "price", "violations", "reconfigurations", "feasible")
LEFT = 1
HEADS = (
    *("id", "run", "number", "state", "purpose", "price/h", "±", "violations %", "reconfigurations %"),
    *("feasible", "slack", "slots", "seconds", "ended"),
)


def list_cells(trial: Trial) -> list[str]:
    return [
        *map(str, (trial.id, trial.run_id, trial.number)),
        trial.state,
        purpose_of(trial),
        format_fixed(trial.price),
        format_fixed(trial.price_error),
        format_percentage(trial.violations),
        format_percentage(trial.reconfigurations),
        format_flag(trial.feasible),
        format_fixed(trial.slack),
        "-" if trial.slots is None else f"{trial.slots:,}",
        format_fixed(trial.seconds, 2),
        format_moment(trial.ended),
    ]


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner trial 17\n"
    "  tuner trial 17 --json | jq .detail.note\n"
    "  tuner trial 17 --toml trial.toml && tuner simulate trial.toml"
)
@click.argument("number", type=click.IntRange(1))
@click.option("--toml", type=file_type, help="Write the scenario that replays it to this file.")
@json_option
@store_option
def trial(number: int, toml: Path | None, as_json: bool, address: DatabaseAddress) -> None:
    """Show one trial in full.

    NUMBER is the id that `tuner trials` lists. Shown are parameters, figures, and how to replay it.
    """
    with closing(open_store(address)) as store, store.read() as session:
        known = gather(session, number)
    if toml is not None:
        write_scenario(known, toml)
    if as_json:
        run = {"engine": known["run"].engine, "seed": known["run"].seed, "settings": known["run"].settings}
        document = {**describe(known["trial"]), "application": known["application"], "run": run}
        print_json(to_finite(document))
    else:
        print_trial(known)


def gather(session: Any, number: int) -> dict[str, Any]:
    """The trial, its run, and the application's version that this searched for."""
    found = load_trial(session, number)
    run = load_run(session, found.run_id)
    version = load_version(session, run.application_version_id)
    return {
        "trial": found,
        "run": run,
        "application": version.application,
        "version": version.number,
        "described": version.document,
    }


def write_scenario(known: dict[str, Any], path: Path) -> None:
    check_place(path)
    found = known["trial"]
    head = f"# Trial {found.number} of run {found.run_id} of {known['application']}; `tuner simulate` replays it."
    write_whole(path, f"{head}\n\n" + format_document(restate(found, known["run"], known["described"])))


def print_trial(known: Mapping[str, Any]) -> None:
    trial, run = known["trial"], known["run"]
    demanded = run.settings.get("qos", {})
    click.echo(describe_place(trial, run, known))
    if trial.failure:
        click.echo(f"It failed: {trial.failure}")
    print_parameters(trial, demanded.get("r_max"))
    print_figures(trial, demanded)
    print_replicas(trial)
    click.echo(describe_replay(trial, run))
    click.echo(f"Replay it: tuner trial {trial.id} --toml trial.toml && tuner simulate trial.toml")


def describe_place(trial: Trial, run: TuningRun, known: Mapping[str, Any]) -> str:
    purpose = trial.detail.get("purpose", "search")
    of = f" of number {trial.detail['of']}" if trial.detail.get("of") is not None else ""
    surrogate = "the described service times" if trial.surrogate_id is None else f"surrogate id {trial.surrogate_id}"
    ended = f"ended {format_moment(trial.ended)} after {format_number(trial.seconds, 3)} s of work"
    return (
        f"Trial {trial.id}: number {trial.number} of run {trial.run_id} ({run.engine}, seed {run.seed}) of "
        f"{known['application']}, version {known['version']}, on {surrogate}.\n"
        f"{trial.state}, for {purpose}{of}, {ended}."
    )


def print_parameters(trial: Trial, r_max: float | None) -> None:
    """By operator, in the order of its path; weights below."""
    shares, weights = trial.parameters.get("shares"), trial.parameters.get("weights")
    click.echo()
    if shares is None or weights is None:
        click.echo(f"Parameters: {dict(trial.parameters)}")
        return
    rows = [
        [name, f"{share:.4f}", "-" if r_max is None else format_milliseconds(share * r_max)]
        for name, share in shares.items()
    ]
    print_grid(("operator", "share of R_max", "bound ms"), rows)
    click.echo("weights: " + ", ".join(f"{name} {weight:.4f}" for name, weight in weights.items()))


def print_figures(trial: Trial, demanded: Mapping[str, Any]) -> None:
    """Each with its standard error, against what is allowed."""
    rows = [["price/h", format_fixed(trial.price), format_fixed(trial.price_error), "-"]]
    for name, limit in (("violations", demanded.get("eta_v")), ("reconfigurations", demanded.get("eta_r"))):
        figures = (getattr(trial, name), getattr(trial, f"{name}_error"), limit)
        rows.append([f"{name} %", *(format_fixed(None if x is None else 100.0 * x) for x in figures)])
    click.echo()
    print_grid(("figure", "mean", "±", "at most"), rows)
    click.echo(f"feasible: {format_flag(trial.feasible)}, slack {format_fixed(trial.slack)}")


def print_replicas(trial: Trial) -> None:
    """On average over the slots."""
    replicas = trial.detail.get("replicas")
    if not replicas:
        return
    types = dict.fromkeys(name for held in replicas.values() for name in held)
    rows = [[operator, *(format_fixed(held.get(name)) for name in types)] for operator, held in replicas.items()]
    click.echo()
    print_grid(("mean replicas", *types), rows)


def describe_replay(trial: Trial, run: TuningRun) -> str:
    seeds = trial.detail.get("seeds") or run.settings.get("seeds") or [trial.seed]
    policy = trial.detail.get("policy") or run.settings.get("policy") or "its policy"
    slots = "-" if trial.slots is None else f"{trial.slots:,}"
    saved = trial.detail.get("slots_saved")
    told = f"\nReplayed {slots} slots under {policy} with {'seed' if len(seeds) == 1 else 'seeds'} "
    told += ", ".join(map(str, seeds)) + (f"; {saved:,} slots saved" if saved else "") + "."
    held_out = trial.detail.get("held_out")
    if held_out:
        figures = ", ".join(
            f"{name} {format_number(value)}" for name, value in held_out.items() if isinstance(value, float)
        )
        told += f"\nOn the part of the trace that was held out: {figures}."
    return told
