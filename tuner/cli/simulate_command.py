"""`tuner simulate`: a scenario file and flags in; a table, a JSON document or a report out."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import click

from scaler.model.errors import BadInput

Tables = dict[str, dict[str, Any]]


def parse_pairs(ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """KEY=VALUE texts as a table; a value is what TOML makes of it, or else the text."""
    table: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE")
        table[key.strip()] = parse_value(value.strip())
    return table


def parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def parse_weights(ctx: click.Context, parameter: click.Parameter, text: str | None) -> dict[str, float]:
    if text is None:
        return {}
    try:
        perf, rcf, res = map(float, text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not three numbers with commas between, as in 0.6,0.2,0.2") from None
    return {"perf": perf, "rcf": rcf, "res": res}


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner simulate\n"
    "  tuner simulate scenario.toml --policy ql --policy ql-pds-plus --seeds 5\n"
    "  tuner simulate --trace rates.csv --service-rate 180 --r-max 0.05 --html report.html\n"
    "  tuner simulate --trace year.csv --policy ql --bound\n"
    "  tuner simulate --app diamond --infrastructure B --n-res 5 --json | jq .policies"
)
@click.argument("scenario", required=False, type=click.Path(path_type=Path))
@click.option("--app", metavar="NAME|FILE", help="single (default), pipeline, diamond, multi-sink or a .toml file.")
@click.option("--service-rate", type=float, help="Of single: tuples per second on a node of speedup 1 (180).")
@click.option("--k-max", type=int, help="The most replicas of an operator (10).")
@click.option("--trace", metavar="FILE", help="Arrival rates: .txt, .csv, .parquet, .txt.gz or .csv.gz.")
@click.option("--generator", metavar="NAME", help="Made-up arrivals: diurnal (default), poisson, mmpp, step or spike.")
@click.option("--parameter", metavar="KEY=VALUE", multiple=True, callback=parse_pairs, help="One of the generator's.")
@click.option("--slots", type=int, help="Only the first so many slots (all; 20160 of made-up ones).")
@click.option("--highest-rate", type=float, help="Of the rates that policies tell apart (the trace's highest).")
@click.option("--infrastructure", metavar="NAME|FILE", help="A (default), B, B2 or a .toml file.")
@click.option("--n-res", type=int, help="Only the first so many node types (3 of A, B or B2; all of a file).")
@click.option("--r-max", type=float, help="Seconds that a response may take (0.05).")
@click.option(
    "--weights",
    metavar="PERF,RCF,RES",
    callback=parse_weights,
    help="Of violations, reconfigurations and resources; they sum to 1 (0.6,0.2,0.2).",
)
@click.option(
    "--policy",
    metavar="NAME",
    multiple=True,
    help="What scales; repeat it to compare several (threshold-c, ql and ql-pds-plus; a wrong name lists all).",
)
@click.option("--option", metavar="KEY=VALUE", multiple=True, callback=parse_pairs, help="One of the policies'.")
@click.option("--seed", type=int, multiple=True, help="Of the policies' random choices; repeat it for several (0).")
@click.option("--seeds", type=int, help="Instead: seeds 0 to N - 1.")
@click.option(
    "--plant", metavar="NAME", help="memoryless (default; as in the literature) or backlog (queues build up)."
)
@click.option(
    "--bound/--no-bound",
    default=None,
    help="The floor that no policy can beat, and costs as multiples of it (up to 100,000 slots; more take minutes).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--html", type=click.Path(path_type=Path), help="Write a report with charts to this file.")
def simulate(scenario: Path | None, bound: bool | None, as_json: bool, html: Path | None, **flags: Any) -> None:
    """Replay a trace under one or more policies and compare them.

    SCENARIO is a TOML file (`tuner demo --save` writes one to start from). Flags override it; what neither states has
    the default shown in brackets. A flag that names another application, trace, infrastructure or policy replaces all
    that the file says about it.
    """
    from tuner.cli.replay_progress import replay_scenario
    from tuner.scenario.scenario import read_scenario

    comparison = replay_scenario(read_scenario(scenario, list_flags(**flags)), html, bound)
    if as_json:
        from tuner.views.plain import describe

        click.echo(json.dumps(describe(comparison), indent=2, allow_nan=False))
    else:
        from tuner.cli.comparison_grid import print_table

        print_table(comparison)


def source_key(named: str, value: str | None) -> str:
    """Whether a flag names something built in or a file."""
    return "file" if value is not None and Path(value).suffix.lower() == ".toml" else named


def list_flags(**flags: Any) -> Tables:
    """The flags that were given, laid out as the tables of a scenario."""
    if flags["trace"] and flags["generator"]:
        raise BadInput("--trace and --generator both say where the arrivals come from; give one of them")
    if flags["seed"] and flags["seeds"] is not None:
        raise BadInput("--seed and --seeds both say which seeds; give one of them")
    seeds = list(flags["seed"]) or flags["seeds"]
    tables: Tables = {
        "application": {
            source_key("builtin", flags["app"]): flags["app"],
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
        "qos": {"r_max": flags["r_max"]},
        "weights": flags["weights"],
        "policy": {"names": list(flags["policy"]) or None, "options": flags["option"] or None},
        "run": {"seeds": seeds, "plant": flags["plant"]},
    }
    given = {name: {k: v for k, v in table.items() if v is not None} for name, table in tables.items()}
    return {name: table for name, table in given.items() if table}
