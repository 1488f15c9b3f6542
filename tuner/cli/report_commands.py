"""`tuner report` and `tuner trial`: a tuning run, or one of its trials, in words, as JSON, a page or a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from scaler.model.errors import BadInput
from scaler.model.files import write_whole
from scaler.model.units import format_fixed, format_flag, format_milliseconds, format_moment, format_number
from sim.toml_table import format_document
from sim.trace_file import write_trace
from tuner.cli.options import (
    app_argument,
    html_option,
    json_option,
    number_type,
    output_type,
    print_json,
    print_result,
    store_option,
)
from tuner.search.replayed_trial import ReplayedTrial, restate_trial
from tuner.search.search_plan import load_plan
from tuner.search.trial_records import restate
from tuner.store.address import DatabaseAddress
from tuner.store.applications import load_application, load_version
from tuner.store.connection import Session, open_store
from tuner.store.records import ApplicationVersion, Trial, TuningRun
from tuner.store.runs import find_run, list_runs, load_run
from tuner.store.trials import Repeats, find_trial, load_history, load_repeats
from tuner.views.grid import print_columns, print_grid, print_lines
from tuner.views.tuning import Tuning, load_tuning, read_limits
from tuner.views.tuning_documents import describe_repeat, hide_ids, lay_out_trial
from tuner.views.tuning_page import write_tuning
from tuner.views.tuning_summary import describe_run, describe_tuning, list_measures, summarise, write_title
from tuner.views.words import to_finite


@click.command(
    epilog="\b\nExamples:\n  tuner report shop\n  tuner report shop --html tuning.html\n"
    "  tuner report shop --run 7 --json"
)
@app_argument
@click.option("--run", "number", type=number_type, help="Number of the tuning run (default: the newest of APP).")
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
    with closing(open_store(address)) as store, store.read() as session:
        tuning = read_tuning(session, app, number)
    if html is not None:
        write_whole(html, write_tuning(tuning))
    print_result(tuning, as_json, describe_tuning, print_tuning)


def read_tuning(session: Session, app: str, number: int | None) -> Tuning:
    """The run of this number, or the newest of the application."""
    run = choose_run(session, app, number)
    trials = load_history(session, run.id or 0)
    if not trials:
        raise BadInput(f"tuning run {run.ordinal} of {app!r} has no trial yet; there is nothing to report")
    version = load_version(session, run.application_version_id)
    return load_tuning(session, app, run, version.document, trials)


def choose_run(session: Session, app: str, number: int | None) -> TuningRun:
    load_application(session, app)  # refuses a name that there is not
    if number is not None:
        return find_run(session, app, number)
    found = list_runs(session, app, limit=1)
    if not found:
        raise BadInput(f"application {app!r} was not tuned yet; tune it with: tuner tune {app}")
    return found[0]


def print_tuning(tuning: Tuning) -> None:
    """The sentences, what was asked, and the table of baseline beside tuned."""
    facts = describe_run(tuning)
    width = max(map(len, facts))
    listed = [f"  {key:<{width}}  {value}" for key, value in facts.items()]
    print_lines(write_title(tuning), *summarise(tuning), "", *listed)
    if tuning.baseline is not None and tuning.tuned is not None:
        click.echo()
        print_columns(list_measures(tuning))


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner trial shop 17\n"
    "  tuner trial shop 17 --json | jq .detail.note\n"
    "  tuner trial shop 17 --toml trial.toml && tuner simulate trial.toml"
)
@app_argument
@click.argument("number", type=number_type)
@click.option("--toml", type=output_type, help="Write the scenario that replays it to this file.")
@json_option
@store_option
def trial(app: str, number: int, toml: Path | None, as_json: bool, address: DatabaseAddress) -> None:
    """Show one trial of APP in full.

    NUMBER is the one that `tuner trials` lists. Shown are parameters, figures, and how to replay it.
    """
    with closing(open_store(address)) as store, store.read() as session:
        load_application(session, app)  # refuses a name that there is not
        found = find_trial(session, app, number)
        run = load_run(session, found.run_id)
        version = load_version(session, run.application_version_id)
        repeats = load_repeats(session, [found.run_id])
        replayed = None if toml is None else find_replayed(session, found, run, version, toml)
    if toml is not None and replayed is not None:
        write_replayed(found, run, version, replayed, toml)
    if as_json:
        document = {**lay_out_trial(found, run, repeats), "application": app}
        search = {"engine": run.engine, "seed": run.seed, "settings": hide_ids(run.settings)}
        print_json(to_finite(document | {"search": search}))
    else:
        print_trial(found, run, version, repeats)


def find_replayed(
    session: Session, trial: Trial, run: TuningRun, version: ApplicationVersion, toml: Path
) -> ReplayedTrial:
    """The scenario of a trial; of a run of an older program, what that wrote down of it."""
    if "proof_seeds" not in run.settings or "shares" not in trial.parameters:
        return ReplayedTrial(restate(trial, run, version.document))
    return restate_trial(load_plan(session, version.application, run), run, trial, toml.with_suffix(".csv"))


def write_replayed(
    trial: Trial, run: TuningRun, version: ApplicationVersion, replayed: ReplayedTrial, toml: Path
) -> None:
    """Write the scenario, and beside it the trace where it is in a file of its own."""
    head = f"# Trial {trial.ordinal} of {version.application}, of run {run.ordinal}; `tuner simulate` replays it.\n"
    taken = max((run.settings.get("constants") or {"": 0.0}).values(), default=0.0)
    if taken:
        head += "# Bounds and R_max are less what triggers and scheduling take, as the search sees them.\n"
    if replayed.trace is not None:
        write_trace(replayed.trace, toml.with_suffix(".csv"))
        click.echo(f"Its trace is in {toml.with_suffix('.csv')}.", err=True)
    write_whole(toml, f"{head}\n" + format_document(replayed.document))


def print_trial(trial: Trial, run: TuningRun, version: ApplicationVersion, repeats: Repeats) -> None:
    demanded = run.settings.get("qos", {})
    click.echo(describe_place(trial, run, version, repeats.find_repeated(trial)))
    if trial.failure:
        click.echo(f"It failed: {trial.failure}")
    print_parameters(trial, read_limits(run, {}).shared)
    print_figures(trial, demanded)
    print_lines(*describe_repeat(trial, repeats))
    print_replicas(trial)
    click.echo(describe_replay(trial, run))
    click.echo(
        f"Replay it: tuner trial {version.application} {trial.ordinal} --toml trial.toml && tuner simulate trial.toml"
    )


def describe_place(trial: Trial, run: TuningRun, version: ApplicationVersion, verified: Trial | None) -> str:
    of = "" if verified is None else f" of trial {verified.ordinal}"
    surrogate = (
        "the described service times"
        if trial.surrogate_id is None
        else f"surrogate {run.settings.get('surrogate_number') or ''}".rstrip()
    )
    ended = f"ended {format_moment(trial.ended)} after {format_number(trial.seconds, 3)} s of work"
    return (
        f"Trial {trial.ordinal}, of run {run.ordinal} ({run.engine}, seed {run.seed}) of "
        f"{version.application}, version {version.number}, on {surrogate}.\n"
        f"{trial.state}, for {trial.about.purpose}{of}, {ended}."
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
    print_grid(("operator", "share", "bound ms"), rows)
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
    replicas = trial.about.replicas
    if not replicas:
        return
    types = dict.fromkeys(name for held in replicas.values() for name in held)
    rows = [[operator, *(format_fixed(held.get(name)) for name in types)] for operator, held in replicas.items()]
    click.echo()
    print_grid(("mean replicas", *types), rows)


def describe_replay(trial: Trial, run: TuningRun) -> str:
    about = trial.about
    seeds = about.seeds or run.settings.get("seeds") or [trial.seed]
    policy = about.policy or run.settings.get("policy") or "its policy"
    slots = "-" if trial.slots is None else f"{trial.slots:,}"
    told = f"\nReplayed {slots} slots under {policy} with {'seed' if len(seeds) == 1 else 'seeds'} "
    told += ", ".join(map(str, seeds)) + (f"; {about.slots_saved:,} slots saved" if about.slots_saved else "") + "."
    if seen := about.held_out:
        figures = (("price", seen.price), ("violations", seen.violations), ("reconfigurations", seen.reconfigurations))
        listed = ", ".join(f"{name} {format_number(value)}" for name, value in figures)
        told += f"\nOn the part of the trace that was held out: {listed}."
    return told
