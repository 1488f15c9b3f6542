"""`tuner tune`: search latency bounds and weights; propose the recommended objective."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from scaler.model.errors import BadInput
from scaler.model.files import write_whole
from scaler.model.units import format_count
from tuner.cli.app_commands import describe_objective, print_objective
from tuner.cli.interruption import run_interruptibly
from tuner.cli.next_step import warn
from tuner.cli.options import (
    app_argument,
    arrivals_since_help,
    drop_unset,
    eta_r_help,
    eta_v_help,
    gap_help,
    html_option,
    json_option,
    make_span_type,
    master_help,
    name_user,
    parse_moment,
    print_json,
    quantile_help,
    r_max_help,
    seconds_type,
    share_type,
    store_option,
    until_option,
)
from tuner.cli.progress import show_bar, start_quietly
from tuner.cli.report_commands import print_tuning, read_tuning
from tuner.cli.signals import raising_on_termination
from tuner.pipeline.flows import LONGEST_GAP
from tuner.scenario.document import shape_of
from tuner.search.evaluation import Evaluation, EvaluationSpec, evaluate_locally, open_spark_pool
from tuner.search.feasibility import Relaxation
from tuner.search.observed_bound import doubt_observed
from tuner.search.search_plan import TuneOptions
from tuner.search.space.space import Parameters
from tuner.search.tuning_run import EvaluateAll, TuningResult, resume_tuning, start_tuning
from tuner.search.tuning_run import tune as run_tuning
from tuner.store.address import DatabaseAddress
from tuner.store.connection import Store, open_store
from tuner.store.records import SEARCH, VERIFY, Trial, TuningRun
from tuner.store.runs import load_run, release_lease
from tuner.store.trials import TrialFilter, count_trials
from tuner.views.tuning_page import write_tuning
from tuner.views.tuning_summary import describe_tuning

INFEASIBLE = 1
STEP_S = 3.0  # that Ctrl-C waits for the evaluation under way, which may as well be made again
WIDTH = 46  # of what stands before the bar


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner demo --save shop.toml && tuner app add shop shop.toml && tuner tune shop\n"
    "  tuner tune shop --budget 100 --policy ql-pds-plus\n"
    "  tuner tune shop --seconds 30 --html tuning.html\n"
    "  tuner tune shop --resume\n\n"
    "Exit code 1: no trial kept the constraints; shown are the nearest one and the constraints to relax."
)
@app_argument
@click.option("--budget", type=click.IntRange(1), default=60, show_default=True, help="Number of evaluations.")
@click.option(
    "--engine", metavar="NAME", default="gp", show_default=True, help="Name of the engine; a wrong name lists all."
)
@click.option(
    "--seconds",
    type=make_span_type(0.001),
    help="Seconds, or as 2m, after which no evaluation starts (default: no limit).",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Resume the newest interrupted run, with the options it began with.",
)
@click.option("--cold", is_flag=True, help="Ignore earlier runs.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@click.option(
    "--batch", type=click.IntRange(1), help="Number of evaluations at a time (default 1; all cores with --master)."
)
@click.option("--policy", metavar="NAME", help="Name of the policy (default: the one described, else planner).")
@click.option("--trace", metavar="FILE", help="File of arrival rates (default: those described or monitored).")
@click.option("--slots", type=click.IntRange(1), help="Number of slots, the first of the trace (default: all).")
@click.option("--since", metavar="TIME", callback=parse_moment, help=f"{arrivals_since_help} (default: the earliest).")
@until_option
@click.option("--gap", type=click.IntRange(0), default=LONGEST_GAP, show_default=True, help=f"{gap_help}.")
@click.option("--r-max", type=seconds_type, help=f"{r_max_help} (default: as described).")
@click.option("--quantile", type=share_type, help=f"{quantile_help} (default: as described, else the mean).")
@click.option("--eta-v", type=share_type, help=f"{eta_v_help} (default: as described).")
@click.option("--eta-r", type=share_type, help=f"{eta_r_help} (default: as described).")
@click.option(
    "--held-out",
    type=share_type,
    default=0.2,
    show_default=True,
    help="Share of the trace held out for the verification, 0 to 1.",
)
@click.option(
    "--as-described", is_flag=True, help="Use the service times of the description instead of the surrogate's."
)
@click.option("--master", metavar="URL", help=f"{master_help}, to evaluate on (default: this process).")
@html_option
@json_option
@store_option
@click.pass_context
def tune(
    ctx: click.Context, /, app: str, resume: bool, seconds: float | None, master: str | None, html: Path | None,
    as_json: bool, address: DatabaseAddress, **asked: Any,
) -> None:  # fmt: skip
    """Search the latency bounds of APP's operators and its weights.

    Every trial replays the agents over the trace. The recommendation is the cheapest trial that keeps the constraints
    on fresh seeds and on the last part of the trace, which the search does not see; it is stored as a proposed
    objective. An interruption at any time loses no finished trial.
    """
    with raising_on_termination(), closing(open_store(address)) as store, open_spread(master, asked) as spread:
        run = choose_run(ctx, store, app, resume, asked)
        try:
            doubt_demand(store, app, run)
            with show_search(run) as on_trial:
                ended = carry_out(store, app, run, on_trial, seconds, spread)
        except (KeyboardInterrupt, SystemExit):  # the latter: by a SIGTERM, or as the terminal closes
            release_lease(store, run)  # which the search's own thread does not come to where it is left behind
            click.echo(f"\n{describe_interrupted(store, app, run)}", err=True)
            raise
        show_ended(store, app, ended, html, as_json)
    if ended.objective is not None and not as_json:
        print_objective("proposed", describe_objective(ended.objective))
        click.echo(f'Push it: tuner push {app} {ended.objective.version} --why "..."')
        click.echo(f"See more: tuner report {app} --html FILE")
    ctx.exit(0 if ended.objective is not None else INFEASIBLE)


def describe_interrupted(store: Store, app: str, run: TuningRun) -> str:
    """What an interrupted run left, and the command that shows it or goes on."""
    with store.read() as session:
        state = load_run(session, run.id or 0).state
        count = count_trials(session, TrialFilter(app, run.id))
    if state == "done":
        return f"Tuning run {run.ordinal} had ended before the interruption; show it with: tuner report {app}"
    kept = f"{format_count(count, 'finished trial is', 'finished trials are')} kept" if count else "no trial had ended"
    return f"Tuning run {run.ordinal} is interrupted; {kept}. Resume it with: tuner tune {app} --resume"


class Stopped(BaseException):
    """The search was to stop, and stands between two steps."""


def carry_out(
    store: Store,
    app: str,
    run: TuningRun,
    on_trial: Callable[[Trial, Sequence[Trial]], None],
    seconds: float | None,
    spread: EvaluateAll,
) -> TuningResult:
    """Carry the run to its end; Ctrl-C or SIGTERM stops it before the next evaluation, or once a trial is stored."""
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise Stopped

    def report(trial: Trial, trials: Sequence[Trial]) -> None:
        on_trial(trial, trials)
        check()

    def evaluate(spec: EvaluationSpec, parameters: Sequence[Parameters], ceiling: float) -> Iterator[Evaluation]:
        check()
        yield from spread(spec, parameters, ceiling)

    limit = math.inf if seconds is None else seconds
    return run_interruptibly(lambda: run_tuning(store, app, run, report, limit, evaluate), stop, STEP_S)


def choose_run(ctx: click.Context, store: Store, app: str, resume: bool, asked: dict[str, Any]) -> TuningRun:
    """The run to carry on with, or a new one."""
    if not resume:
        names = ("engine", "budget", "seed", "held_out", "cold", "as_described", "since", "until", "gap")
        options = TuneOptions(**{name: asked[name] for name in names}, batch=asked["batch"] or 1)
        return start_tuning(store, app, list_flags(asked), options, who=name_user())
    given = [
        f"--{name.replace('_', '-')}"
        for name in asked
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise BadInput(
            f"--resume uses the options that the run began with; remove {', '.join(given)}, or start a new run without "
            "--resume"
        )
    return resume_tuning(store, app)


def doubt_demand(store: Store, app: str, run: TuningRun) -> None:
    """Warn where R_max is far from the response times that were observed, as a wrong unit makes it."""
    with store.read() as session:
        shape, r_max = shape_of(run.settings["document"]), run.settings["qos"]["r_max"]
        doubt = doubt_observed(session, app, shape, r_max)
    warn(doubt)


def list_flags(asked: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The flags laid over the description, as tables of a scenario."""
    tables = {
        "trace": {"file": asked["trace"] and str(Path(asked["trace"]).resolve()), "slots": asked["slots"]},
        "qos": {name: asked[name] for name in ("r_max", "quantile", "eta_v", "eta_r")},
        "policy": {"name": asked["policy"]},
    }
    return drop_unset(tables)


@contextmanager
def open_spread(master: str | None, asked: dict[str, Any]) -> Iterator[EvaluateAll]:
    """Where evaluations run: here, or on a Spark cluster, whose cores a batch should fill."""
    if master is None:
        yield evaluate_locally
        return
    if find_spec("pyspark") is None:
        raise BadInput("--master needs Spark; install it with: pip install 'stream-scaler[spark]'")

    with open_spark_pool(lambda: start_quietly(master, {})) as fleet:
        asked["batch"] = asked["batch"] or fleet.batch
        yield fleet.spread


@contextmanager
def show_search(run: TuningRun) -> Iterator[Callable[[Any, Any], None]]:
    """A bar on the terminal, with the best feasible cost, what its constraints leave, and how many were evaluated."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with show_bar(*columns, total=run.budget) as update:
        update(description=f"{'Starting':<{WIDTH}}")

        def report(trial: Trial, trials: Sequence[Trial]) -> None:
            searched = [one for one in trials if one.about.purpose == SEARCH]
            update(completed=len(searched), description=f"{say_standing(trial, searched):<{WIDTH}}")

        yield report


def say_standing(newest: Trial, searched: Sequence[Trial]) -> str:
    if newest.about.purpose == VERIFY:
        return "Verifying candidates on fresh seeds"
    feasible = [trial for trial in searched if trial.feasible and trial.price is not None]
    if not feasible:
        slack = max((trial.slack for trial in searched if trial.slack is not None), default=math.nan)
        return "Nothing feasible yet" + ("" if math.isnan(slack) else f", nearest by {-100.0 * slack:.0f} %")
    best = min(feasible, key=lambda trial: trial.price or math.inf)
    return f"Best {best.price:.4g} per hour, slack {100.0 * (best.slack or 0.0):.0f} %"


def show_ended(store: Store, app: str, ended: TuningResult, html: Path | None, as_json: bool) -> None:
    """Print the run's report, and which relaxation would be feasible where nothing was."""
    with store.read() as session:
        tuning = read_tuning(session, app, ended.run.ordinal)
    if html is not None:
        write_whole(html, write_tuning(tuning))
        click.echo(f"The report is in {html}.", err=True)
    saved = sum(trial.about.slots_saved for trial in ended.trials)
    used = sum(trial.slots or 0 for trial in ended.trials)
    if as_json:
        further = {"slots": used, "slots_saved": saved, "relief": [*map(say_relief, ended.relief)]}
        print_json(describe_tuning(tuning) | further)
        return
    print_tuning(tuning)
    click.echo(f"\n{used:,} slots were replayed; short looks and single seeds saved {saved:,} more.")
    if ended.relief:
        click.echo(f"What would have to give, by itself, with trial {ended.nearest.ordinal if ended.nearest else '-'}:")
        for relief in ended.relief:
            click.echo(f"  {say_relief(relief)}")


def say_relief(relief: Relaxation) -> str:
    seen = relief.outcome
    if seen is None:
        return relief.what
    shares = f"violations {seen.violations:.2%}, reconfigurations {seen.reconfigurations:.2%}"
    return f"{relief.what}: {shares}, {seen.price:.4g} per hour"
