"""`tuner trials`: an application's name in; what its searches tried as a table, CSV or JSON out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from scaler.model.errors import BadInput
from tuner.cli.completion import app_argument
from tuner.cli.db_commands import store_option
from tuner.cli.moment import READING, parse_moment

if TYPE_CHECKING:
    from tuner.store.records import Trial
    from tuner.store.trials import TrialFilter

SORTS = ("id", "number", "cost", "violations", "reconfigurations", "resources", "slack", "seconds", "ended")
STATES = ("complete", "pruned", "failed")
DOCUMENTS = ("parameters", "detail")  # of a trial; a table has their parts or nothing of them


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner trials shop\n"
    "  tuner trials shop --feasible --sort cost --limit 10\n"
    "  tuner trials shop --run 3 --since 6h --limit 0 --csv > trials.csv"
)
@app_argument
@click.option("--run", "run_id", type=click.IntRange(1), help="Only those of this run.")
@click.option("--feasible/--infeasible", default=None, help="Only those that met both constraints, or did not.")
@click.option("--state", type=click.Choice(STATES), help="Only those that ended so.")
@click.option("--since", metavar="TIME", callback=parse_moment, help=f"Ended from here on: {READING}.")
@click.option("--until", metavar="TIME", callback=parse_moment, help="Up to here.")
@click.option("--sort", type=click.Choice(SORTS), help="Which come first (the newest, shown last).")
@click.option("--descending", is_flag=True, help="The highest first.")
@click.option("--limit", type=click.IntRange(0), default=50, show_default=True, help="So many; 0: all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV and nothing else; an empty field is not known.")
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
    address: str | None,
) -> None:
    """List what was tried for APP: what it cost an hour and how often it broke what is demanded.

    Violations and reconfigurations are per cent of the slots. Slack is what is left of the tighter constraint, as a
    part of it; below 0 one is broken. - is what nobody knows.
    """
    from tuner.store.trials import TrialFilter

    if as_json and as_csv:
        raise BadInput("--json and --csv both say how to print; give one of them")
    chosen = TrialFilter(app, run_id, state, feasible, since, until)
    found, count = find_trials(chosen, sort, descending, limit, address)
    if as_json:
        from tuner.views.plain import tame

        click.echo(json.dumps([tame(describe(trial)) for trial in found], indent=2, allow_nan=False))
    elif as_csv:
        click.echo(write_csv(found), nl=False)
    elif found:
        from tuner.cli.grid import print_grid

        print_grid(HEADS, [list_cells(trial) for trial in found], left=LEFT)
    if not count and not as_json:
        click.echo(f"There are no such trials of {app!r}.", err=True)
    elif count > len(found) and not as_json and not as_csv:
        click.echo(f"{len(found)} of {count:,}; --limit 0 shows all.", err=True)


def find_trials(
    chosen: TrialFilter, sort: str | None, descending: bool, limit: int, address: str | None
) -> tuple[list[Trial], int]:
    """So many of the chosen trials, and how many there are."""
    from tuner.store.applications import load_application
    from tuner.store.connection import open_store
    from tuner.store.trials import count_trials, list_trials

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
    from tuner.store.runs import list_runs

    known = [run.id for run in list_runs(session, chosen.application)]
    if chosen.run_id not in known:
        told = f"its runs are {', '.join(map(str, known[:10]))}" if known else "it was not tuned yet"
        raise BadInput(f"application {chosen.application!r} has no run {chosen.run_id}; {told}")


def describe(trial: Trial) -> dict[str, Any]:
    from dataclasses import asdict

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


HEADS_OF_NONE = ("id", "run_id", "number", "state", "cost", "violations", "reconfigurations", "feasible")
LEFT = 1
HEADS = (
    *("id", "run", "number", "state", "purpose", "cost/h", "±", "violations %", "reconfigurations %"),
    *("feasible", "slack", "slots", "seconds", "ended (UTC)"),
)


def list_cells(trial: Trial) -> list[str]:
    from tuner.cli.grid import show_fixed, show_flag, show_moment, show_percent

    return [
        *map(str, (trial.id, trial.run_id, trial.number)),
        trial.state,
        purpose_of(trial),
        show_fixed(trial.cost),
        show_fixed(trial.cost_error),
        show_percent(trial.violations),
        show_percent(trial.reconfigurations),
        show_flag(trial.feasible),
        show_fixed(trial.slack),
        "-" if trial.slots is None else f"{trial.slots:,}",
        show_fixed(trial.seconds, 2),
        show_moment(trial.ended),
    ]
