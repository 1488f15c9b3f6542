"""`tuner simulate`: replay a scenario under its policies; print a table or JSON, write a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scaler.model.errors import BadInput
from scaler.model.files import write_whole
from scaler.model.task import WEIGHTS
from tuner.cli.interruption import run_interruptibly
from tuner.cli.next_step import warn
from tuner.cli.options import (
    drop_unset,
    file_type,
    html_option,
    json_option,
    option_option,
    parse_pairs,
    print_result,
    quantile_help,
    r_max_help,
    seconds_type,
    share_type,
)
from tuner.cli.progress import show_share
from tuner.scenario.doubtful_bound import doubt_possible
from tuner.scenario.scenario import Scenario, read_scenario
from tuner.simulation.comparison import PolicyComparison, compare
from tuner.simulation.runner import list_jobs, run_replays
from tuner.views.comparison_report import (
    choose_columns,
    describe_comparison,
    explain_standard_error,
    explain_supply,
    list_columns,
    write_comparison,
)
from tuner.views.grid import print_columns, print_lines
from tuner.views.words import Column


def parse_weights(ctx: click.Context, parameter: click.Parameter, text: str | None) -> dict[str, float]:
    if text is None:
        return {}
    try:
        values = [float(part) for part in text.split(",")]
        return dict(zip(WEIGHTS, values, strict=True))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not three numbers with commas between, as in 0.6,0.2,0.2") from None


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner simulate\n"
    "  tuner simulate scenario.toml --policy ql --policy ql-pds-plus --seeds 5\n"
    "  tuner simulate --trace rates.csv --service-rate 180 --r-max 0.05 --html report.html\n"
    "  tuner simulate --trace year.csv --policy ql --floor\n"
    "  tuner simulate --application diamond --infrastructure B --n-res 5 --json | jq .policies"
)
@click.argument("scenario", required=False, type=file_type)
@click.option(
    "--application",
    metavar="NAME|FILE",
    help="Application graph: single, pipeline, diamond, multi-sink or a .toml file (default single).",
)
@click.option(
    "--service-rate",
    type=float,
    help="Service rate of `single`, in tuples per second on a node of speedup 1 (default 180).",
)
@click.option("--k-max", type=int, help="Largest number of replicas of an operator (default 10).")
@click.option(
    "--trace",
    metavar="FILE",
    help="File of arrival rates: .txt, .csv, .parquet, .txt.gz or .csv.gz (default: generated).",
)
@click.option(
    "--generator",
    metavar="NAME",
    help="Generator of arrival rates: diurnal, poisson, mmpp, step or spike (default diurnal).",
)
@click.option(
    "--parameter",
    metavar="KEY=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="Parameter of the generator; repeat it for several.",
)
@click.option(
    "--slots", type=int, help="Number of slots, the first of the trace (default: all; 20160 of generated ones)."
)
@click.option(
    "--highest-rate",
    type=float,
    help="Highest rate that policies distinguish, in tuples/s (default: the trace's highest).",
)
@click.option("--infrastructure", metavar="NAME|FILE", help="Node types: A, B, B2 or a .toml file (default A).")
@click.option(
    "--n-res", type=int, help="Number of node types, the first of the table (default 3 of A, B or B2; all of a file)."
)
@click.option("--r-max", type=seconds_type, help=f"{r_max_help} (default 0.05).")
@click.option("--quantile", type=share_type, help=f"{quantile_help} (default: the mean).")
@click.option(
    "--weights",
    metavar="PERF,RCF,RES",
    callback=parse_weights,
    help="Weights of violations, reconfigurations and resources, which sum to 1 (default 0.6,0.2,0.2).",
)
@click.option(
    "--policy",
    metavar="NAME",
    multiple=True,
    help="Name of a policy; repeat it to compare several (default threshold-c and planner; a wrong name lists all).",
)
@option_option
@click.option("--seed", type=int, multiple=True, help="Random seed of the policies; repeat it for several (default 0).")
@click.option("--seeds", type=int, help="Number of random seeds, 0 to N - 1, instead of --seed.")
@click.option(
    "--plant",
    metavar="NAME",
    help="Plant: memoryless (as in the literature), backlog (queues build up) or batches (micro-batches, of operators "
    "that state them) (default memoryless).",
)
@click.option(
    "--migration",
    metavar="NAME",
    help="Migration of state when replicas change: none (each reconfiguration pauses alike), stop, pause, at-once, "
    "progressive or spark (default none).",
)
@click.option(
    "--floor/--no-floor",
    default=None,
    help="Print the floor that no policy can beat, and costs as its multiples (default: for up to 100,000 slots; more "
    "take minutes).",
)
@json_option
@html_option
def simulate(scenario: Path | None, floor: bool | None, as_json: bool, html: Path | None, **flags: Any) -> None:
    """Replay a trace under one or more policies and compare them.

    SCENARIO is a TOML file (`tuner demo --save` writes one to start from). Flags override it; what neither states has
    the default shown in brackets. A flag that names another application, trace, infrastructure or policy replaces all
    that the file says about it.
    """
    read = read_scenario(scenario, list_flags(**flags))
    warn(doubt_possible(read.settings[0]))
    comparison = replay_scenario(read, html, floor)
    print_result(comparison, as_json, describe_comparison, print_table)


def source_key(named: str, value: str | None) -> str:
    """Whether a flag names something built in or a file."""
    return "file" if value is not None and Path(value).suffix.lower() == ".toml" else named


def list_flags(**flags: Any) -> dict[str, dict[str, Any]]:
    """The flags that were given, laid out as the tables of a scenario."""
    if flags["trace"] and flags["generator"]:
        raise BadInput("--trace and --generator both say where the arrivals come from; give one of them")
    if flags["seed"] and flags["seeds"] is not None:
        raise BadInput("--seed and --seeds both say which seeds; give one of them")
    seeds = list(flags["seed"]) or flags["seeds"]
    tables = {
        "application": {
            source_key("builtin", flags["application"]): flags["application"],
            "service_rate": flags["service_rate"],
            "k_max": flags["k_max"],
        },
        "trace": {
            "file": flags["trace"],
            "generator": flags["generator"],
            "slots": flags["slots"],
            "highest_rate": flags["highest_rate"],
            **flags["parameter"],
        },
        "infrastructure": {
            source_key("name", flags["infrastructure"]): flags["infrastructure"],
            "n_res": flags["n_res"],
        },
        "qos": {"r_max": flags["r_max"], "quantile": flags["quantile"]},
        "weights": flags["weights"],
        "policy": {"names": list(flags["policy"]) or None, "options": flags["options"] or None},
        "run": {"seeds": seeds, "plant": flags["plant"], "migration": flags["migration"]},
    }
    return drop_unset(tables)


def replay_scenario(scenario: Scenario, html: Path | None, floor: bool | None = None) -> PolicyComparison:
    """Every policy with every seed, and the floor if asked for."""
    jobs = list_jobs(scenario, 0 if html is None else choose_columns(scenario))
    with show_share() as on_share:
        replays = run_interruptibly(lambda: run_replays(jobs, on_share))
        comparison = run_interruptibly(lambda: compare(scenario, [replay.run for replay in replays], floor))
    if html is not None:
        write_whole(
            html, write_comparison(comparison, [replay.course for replay in replays if replay.course is not None])
        )
        click.echo(f"The report is in {html}.", err=True)
    return comparison


def print_table(comparison: PolicyComparison) -> None:
    """The policies in the order asked for; the cheapest stands out."""
    rows = comparison.rows
    names = Column("policy", comparison.scenario.policies, "")
    best = rows.index(comparison.best) if len(rows) > 1 else None
    print_columns([names, *list_columns(comparison)], bold=best)
    print_lines(explain_standard_error(comparison.scenario.seeds))
    supply = explain_supply(comparison)
    if supply:
        print_lines(supply)


def print_readings(comparison: PolicyComparison) -> None:
    """One line per column on how to read it."""
    columns = list_columns(comparison)
    width = max(len(column.head) for column in columns)
    print_lines(*(f"  {column.head:<{width}}  {column.reading}" for column in columns))
