"""`tuner app list` and `tuner trials`: applications, and the trials of tuning runs, as a table, CSV or JSON."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

import click

from scaler.model.errors import BadInput
from scaler.model.units import (
    format_fixed,
    format_flag,
    format_moment,
    format_number,
    format_percentage,
    join_words,
    quote,
)
from tuner.cli.options import (
    TIME_FORMS,
    app_argument,
    csv_option,
    format_csv,
    json_option,
    limit_type,
    number_type,
    parse_moment,
    print_json,
    store_option,
    until_option,
)
from tuner.scenario.document import shape_of
from tuner.store.address import DatabaseAddress
from tuner.store.applications import list_applications, load_application
from tuner.store.connection import open_store
from tuner.store.records import ApplicationVersion, Trial, TuningRun
from tuner.store.removal import list_undescribed
from tuner.store.runs import list_runs
from tuner.store.trials import (
    Repeats,
    TrialCounts,
    TrialFilter,
    count_trials,
    count_trials_by_application,
    list_trials,
    load_repeats,
)
from tuner.views.grid import print_grid
from tuner.views.tuning_documents import lay_out_trial
from tuner.views.words import format_ordinal, to_finite

SORTS = ("trial", "price", "violations", "reconfigurations", "slack", "seconds", "ended")
STATES = ("complete", "pruned", "failed")
NEVER = "it was not tuned yet"
DOCUMENTS = ("parameters", "detail")  # of a trial; a table has their parts or nothing of them


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner trials shop\n"
    "  tuner trials shop --feasible --sort price --limit 10\n"
    "  tuner trials shop --run 3 --since 6h --limit 0 --csv > trials.csv"
)
@app_argument
@click.option("--run", type=number_type, help="Number of the tuning run (default: all).")
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
@click.option("--limit", type=limit_type, default=50, show_default=True, help="Number of trials; 0 for all.")
@json_option
@csv_option
@store_option
def trials(
    app: str, run: int | None, sort: str | None, descending: bool, limit: int, as_json: bool, as_csv: bool,
    address: DatabaseAddress, **chosen: Any,
) -> None:  # fmt: skip
    """List the trials of APP's tuning runs.

    Price is per hour; violations and reconfigurations are per cent of the slots. Slack is the unused share of the
    tighter constraint; below 0 it is broken. - is a missing value.
    """
    if as_json and as_csv:
        raise BadInput("--json and --csv both say how to print; give one of them")
    listed, count, repeats = find_trials(TrialFilter(app, **chosen), run, sort, descending, limit, address)
    if as_json:
        print_json([to_finite(lay_out_trial(*each, repeats)) for each in listed])
    elif as_csv:
        click.echo(format_csv([flatten(*each, repeats) for each in listed], HEADS_OF_NONE), nl=False)
    elif listed:
        rows = [
            [*map(format_ordinal, each), *(cell(each[0]) for cell in COLUMNS.values()), say_repeat(each[0], repeats)]
            for each in listed
        ]
        print_grid(["trial", "run", *COLUMNS, REPEATS], rows)
    if not count and not as_json:
        click.echo(f"There are no such trials of {app!r}.", err=True)
    elif count > len(listed) and not as_json and not as_csv:
        click.echo(f"{len(listed)} of {count:,}; --limit 0 shows all.", err=True)


def find_trials(
    chosen: TrialFilter, number: int | None, sort: str | None, descending: bool, limit: int, address: DatabaseAddress
) -> tuple[list[tuple[Trial, TuningRun]], int, Repeats]:
    """So many of the chosen trials with their runs, how many there are, and which verify which."""
    with closing(open_store(address)) as store, store.read() as session:
        load_application(session, chosen.application or "")
        runs = {run.id: run for run in list_runs(session, chosen.application)}
        if number is not None:
            chosen = replace(chosen, run_id=find_known(chosen.application, runs.values(), number).id)
        count = count_trials(session, chosen)
        if sort is None:  # the newest, in the order in which they ended unless asked otherwise
            found = list_trials(session, chosen, "id", descending=True, limit=limit or None)
            found = found if descending else found[::-1]
        else:
            found = list_trials(session, chosen, {"trial": "ordinal"}.get(sort, sort), descending, limit or None)
        repeats = load_repeats(session, (trial.run_id for trial in found))
        return [(trial, runs[trial.run_id]) for trial in found], count, repeats


def find_known(app: str | None, runs: Collection[TuningRun], number: int) -> TuningRun:
    """The run of this number; a refusal lists those that there are."""
    found = next((run for run in runs if run.ordinal == number), None)
    if found is None:
        listed = join_words([format_ordinal(run) for run in runs][:10])
        raise BadInput(f"application {app!r} has no run {number}; {f'its runs are {listed}' if listed else NEVER}")
    return found


REPEATS = "verified"


def say_repeat(trial: Trial, repeats: Repeats) -> str:
    """Which trial a verification repeats, or the verification of a trial with the price that it came to."""
    if (of := repeats.find_repeated(trial)) is not None:
        return f"of {format_ordinal(of)}"
    by = repeats.find_verification(trial)
    return "-" if by is None else f"by {format_ordinal(by)}: {format_fixed(by.price)}"


def flatten(trial: Trial, run: TuningRun, repeats: Repeats) -> dict[str, Any]:
    """A column per figure, then one per parameter; `verified` and `of` are numbers of trials."""
    whole = lay_out_trial(trial, run, repeats)
    plain = {name: value for name, value in whole.items() if name not in DOCUMENTS}
    plain |= {"verified": (whole["verified"] or {}).get("trial"), "of": whole["detail"].get("of")}
    parameters = trial.parameters
    shares = {f"share {name}": share for name, share in parameters.get("shares", {}).items()}
    weights = {f"weight {name}": weight for name, weight in parameters.get("weights", {}).items()}
    return {**plain, **shares, **weights}


HEADS_OF_NONE = ("trial", "run", "state", "price", "violations", "reconfigurations", "feasible")
COLUMNS: dict[str, Callable[[Trial], str]] = {
    "state": lambda trial: trial.state,
    "purpose": lambda trial: trial.about.purpose,
    "price/h": lambda trial: format_fixed(trial.price),
    "±": lambda trial: format_fixed(trial.price_error),
    "violations %": lambda trial: format_percentage(trial.violations),
    "reconfigurations %": lambda trial: format_percentage(trial.reconfigurations),
    "feasible": lambda trial: format_flag(trial.feasible),
    "slack": lambda trial: format_fixed(trial.slack),
    "slots": lambda trial: "-" if trial.slots is None else f"{trial.slots:,}",
    "seconds": lambda trial: format_fixed(trial.seconds, 2),
    "ended": lambda trial: format_moment(trial.ended),
}


@click.command("list", epilog="\b\nExamples:\n  tuner app list\n  tuner app list --json | jq '.[].name'")
@json_option
@store_option
def list_all(as_json: bool, address: DatabaseAddress) -> None:
    """List applications, tuning runs, and names with samples alone."""
    with closing(open_store(address)) as store, store.read() as session:
        tallies = count_trials_by_application(session)
        rows = [describe_row(version, tallies.get(version.application)) for version in list_applications(session)]
        monitored = list_undescribed(session)
    nothing: dict[str, Any] = {"version": None, "operators": None, **asdict(TrialCounts())}
    rows += [{"name": name, **nothing} for name in monitored]
    if as_json:
        print_json(rows)
    elif rows:
        heads = ("application", "version", "operators", "runs", "trials", "price/h", "last tuned")
        figures = ("version", "operators", "runs", "trials", "best")
        print_grid(heads, [
            [row["name"], *(format_number(row[key]) for key in figures), format_moment(row["tuned"])] for row in rows
        ])  # fmt: skip
    else:
        click.echo("There are no applications yet; add one with: tuner app add NAME FILE.toml", err=True)
    if monitored and not as_json:
        names = join_words([quote(name) for name in monitored[:10]])
        click.echo(
            f"Monitored, and not described yet: {names}; describe one with: tuner app add NAME FILE.toml", err=True
        )


def describe_row(version: ApplicationVersion, tally: Any) -> dict[str, Any]:
    try:
        operators: int | None = len(shape_of(version.document).operators)
    except BadInput:  # an empty description, as older programs let through
        operators = None
    name, number = version.application, version.number
    return {"name": name, "version": number, "operators": operators, **asdict(tally or TrialCounts())}
