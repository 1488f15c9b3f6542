"""`tuner demo`: replay a bundled example under several policies, then tune it."""

from __future__ import annotations

import time
from contextlib import closing
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from scaler.model.errors import BadInput
from scaler.model.files import check_place, write_whole
from tuner.cli.comparison_grid import print_readings, print_table
from tuner.cli.options import file_type
from tuner.cli.simulate_command import replay_scenario
from tuner.cli.tune_command import carry_out, show_ended, show_search
from tuner.scenario.description import read_description
from tuner.scenario.scenario import read_scenario
from tuner.search.local_pool import evaluate_locally
from tuner.search.search_plan import TuneOptions
from tuner.search.tuning_run import start_tuning
from tuner.store.applications import add_application
from tuner.store.connection import open_store

NEXT = """\
Where to go next:
  tuner demo --html demo.html     the same with charts, in two files for the browser
  tuner demo --save mine.toml     the example as a scenario file: put your own rates and operators into it,
  tuner simulate mine.toml        and replay that,
  tuner app add mine mine.toml    or keep it in the database
  tuner tune mine                 and tune it there"""
APP = "clicks"
BUDGET = 24
WEEK = 10_080  # slots of the example that are tuned on


@click.command(
    epilog="\b\nExamples:\n  tuner demo\n  tuner demo --html demo.html\n  tuner demo --save mine.toml",
)
@click.option(
    "--html",
    type=file_type,
    help="Write a page with charts to this file, and one of the tuning beside it (demo.html, demo-tuning.html).",
)
@click.option("--save", type=file_type, help="Write the example's scenario to this file, and stop.")
def demo(html: Path | None, save: Path | None) -> None:
    """Replay a small bundled example, then tune it.

    Two weeks of a made-up click stream: three operators in a row, on a cloud with three kinds of machine.
    """
    with as_file(files("tuner.demo").joinpath("demo.toml")) as example:
        if save is not None:
            save_example(example, save)
        else:
            play_example(example, html)


def save_example(example: Path, place: Path) -> None:
    """Copy the scenario file; one that is there stays as it is."""
    check_place(place)
    if place.exists():
        raise BadInput(f"{place} is there already; name a new file")
    write_whole(place, example.read_text(encoding="utf-8"))
    click.echo(f"Now change {place} and run: tuner simulate {place}")


def play_example(example: Path, html: Path | None) -> None:

    scenario = read_scenario(example)
    trace, application = scenario.settings[0].trace, scenario.settings[0].application
    operators = " -> ".join(operator.name for operator in application.operators)
    click.echo(
        f"{trace.rates.size:,} slots of {trace.step_s:g} s, {trace.rates.min():.0f} to {trace.rates.max():.0f} tuples "
        f"per second, through {operators};\nanswers are due within {1000 * scenario.settings[0].r_max:.0f} ms.\n"
    )
    comparison = replay_scenario(scenario, html)
    print_table(comparison)
    click.echo("\nHow to read it:")
    print_readings(comparison)
    click.echo("\nNow its first week tuned, with the policy `planner`: which latency bounds, which weights?\n")
    tune_example(example, None if html is None else html.with_name(f"{html.stem}-tuning{html.suffix}"))
    click.echo(f"\n{NEXT}")


def tune_example(example: Path, html: Path | None) -> None:
    """Through a database as any application is, one that is gone afterwards."""
    with (
        TemporaryDirectory() as folder,
        closing(open_store(Path(folder, "demo.db"))) as store,
    ):
        with store.begin() as session:
            add_application(session, APP, read_description(example, APP, {}), time.time())
        run = start_tuning(store, APP, {"trace": {"slots": WEEK}}, TuneOptions(budget=BUDGET, batch=2))
        with show_search(run) as on_trial:
            ended = carry_out(store, APP, run, on_trial, None, evaluate_locally)
        show_ended(store, APP, ended, html, as_json=False)
