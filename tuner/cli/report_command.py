"""`tuner report`: a tuning run in words, as JSON or as a page."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from scaler.model.errors import BadInput
from scaler.model.files import check_place, write_whole
from tuner.cli.options import app_argument, html_option, json_option, print_json, store_option
from tuner.store.address import DatabaseAddress
from tuner.store.applications import load_application, load_version
from tuner.store.connection import Session, open_store
from tuner.store.objectives import list_objectives
from tuner.store.records import ObjectiveRecord, Trial, TuningRun
from tuner.store.runs import list_runs, load_run
from tuner.store.trials import load_history
from tuner.views.grid import print_columns, print_lines
from tuner.views.tuning import Tuning, gather_tuning
from tuner.views.tuning_page import write_tuning
from tuner.views.tuning_summary import describe_run, describe_tuning, list_measures, summarise, write_title


@click.command(
    epilog="\b\nExamples:\n  tuner report shop\n  tuner report shop --html tuning.html\n"
    "  tuner report shop --run 7 --json"
)
@app_argument
@click.option("--run", "number", type=click.IntRange(1), help="Number of the tuning run (default: the newest of APP).")
@html_option
@json_option
@click.pass_context
@store_option
def report(
    ctx: click.Context, app: str, number: int | None, html: Path | None, as_json: bool, address: DatabaseAddress
) -> None:
    """Report a tuning run of APP: settings, recommendation, gain.

    The page of --html shows every trial, the latency bounds on the application's graph, and the recommendation beside
    the baseline of equal shares and weights. It is one file, and needs no network.
    """
    if html is not None:
        check_place(html)
    with closing(open_store(address)) as store, store.read() as session:
        tuning = read_tuning(session, app, number)
    if html is not None:
        write_whole(html, write_tuning(tuning))
    if as_json:
        print_json(describe_tuning(tuning))
    else:
        print_tuning(tuning)


def read_tuning(session: Session, app: str, number: int | None) -> Tuning:
    """The run of this number, or the newest of the application."""
    run = choose_run(session, app, number)
    assert run.id is not None
    trials = load_history(session, run.id)
    if not trials:
        raise BadInput(f"tuning run {run.id} of {app!r} has no trial yet; there is nothing to report")
    version = load_version(session, run.application_version_id)
    return gather_tuning(app, run, version.document, trials, find_objective(session, app, run, trials))


def choose_run(session: Session, app: str, number: int | None) -> TuningRun:
    if number is None:
        load_application(session, app)  # refuses a name that there is not
        found = list_runs(session, app, limit=1)
        if not found:
            raise BadInput(f"application {app!r} was not tuned yet; tune it with: tuner tune {app}")
        return found[0]
    run = load_run(session, number)
    owner = load_version(session, run.application_version_id).application
    if owner != app:
        raise BadInput(f"tuning run {number} is of application {owner!r}, not of {app!r}")
    return run


def find_objective(session: Session, app: str, run: TuningRun, trials: list[Trial]) -> ObjectiveRecord | None:
    """The newest that the run proposed."""
    mine = {trial.id for trial in trials}
    proposed = list_objectives(session, app)
    return next((o for o in proposed if o.trial_id in mine or o.evidence.get("run") == run.id), None)


def print_tuning(tuning: Tuning) -> None:
    """The sentences, what was asked, and the table of baseline beside tuned."""
    facts = describe_run(tuning)
    width = max(map(len, facts))
    listed = [f"  {key:<{width}}  {value}" for key, value in facts.items()]
    print_lines(write_title(tuning), *summarise(tuning), "", *listed)
    if tuning.baseline is not None and tuning.tuned is not None:
        click.echo()
        print_columns(list_measures(tuning))
