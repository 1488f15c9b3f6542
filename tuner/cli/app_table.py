"""Print what is known of an application: operators, paths, node types, objectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from scaler.model.units import format_fixed, format_milliseconds, format_moment, format_number
from tuner.cli.grid import print_grid

Known = Mapping[str, Any]
MOST_PATHS = 20  # that anybody reads


def print_application(known: Known) -> None:
    newest = "the newest" if known["version"] == known["newest"] else f"the newest is {known['newest']}"
    click.echo(
        f"{known['name']}, version {known['version']} ({newest}), described {format_moment(known['described'])}\n"
    )
    print_operators(known)
    print_paths(known)
    print_node_types(known)
    qos = known["qos"]
    click.echo(
        f"\nDemanded{say_assumed(known, 'qos')}: late in at most {qos['eta_v']:.3g} of the slots, replicas changed in "
        f"at most {qos['eta_r']:.3g}."
    )
    click.echo(f"Trace{say_assumed(known, 'trace')}: {describe_trace(known['trace'])}.")
    click.echo(describe_searches(known))
    for key in ("standing", "proposed"):
        print_objective(key, known[key])


def say_assumed(known: Known, table: str) -> str:
    return " (by default)" if table in known["assumed"] else ""


def print_operators(known: Known) -> None:
    heads = ("operator", "next", "service ms", "scv", "k_max", "tuples out", "per tuple", "stateful")
    rows = []
    for operator in known["operators"]:
        mean, name = operator["service_time"], operator["name"]
        after = [f"{e['to']}{say_factor(e['selectivity'])}" for e in known["edges"] if e["from"] == name]
        figures = (mean * 1000.0, operator["variance"] / mean**2, operator["k_max"], operator["selectivity"])
        stateful = "yes" if operator["stateful"] else "no"
        rows.append(
            [name, ", ".join(after) or "-", *map(format_number, figures), format_number(operator["gain"]), stateful]
        )
    print_grid(heads, rows, left=2)


def say_factor(selectivity: float) -> str:
    return "" if selectivity == 1.0 else f" x {selectivity:.4g}"


def print_paths(known: Known) -> None:
    rows = [[title, format_milliseconds(bound)] for title, bound in known["paths"].items()]
    click.echo()
    print_grid(("path", "due in ms"), rows[:MOST_PATHS])
    if len(rows) > MOST_PATHS:
        click.echo(f"... and {len(rows) - MOST_PATHS:,} more; --json has them all")


def print_node_types(known: Known) -> None:
    click.echo()
    rows = [
        [node["name"], format_number(node["speedup"]), format_number(node["price"])] for node in known["node_types"]
    ]
    print_grid((f"node type{say_assumed(known, 'infrastructure')}", "speedup", "price/h"), rows)


def describe_trace(table: Mapping[str, Any]) -> str:
    if "file" in table:
        return str(table["file"])
    told = (f"{key} {value}" for key, value in table.items() if key != "generator")
    return f"{table['generator']}, made up ({', '.join(told)})"


def describe_searches(known: Known) -> str:
    if not known["runs"]:
        return f"It was not tuned yet; do so with: tuner tune {known['name']}"
    runs, trials = known["runs"], known["trials"]
    told = f"{runs} {'run' if runs == 1 else 'runs'} with {trials:,} {'trial' if trials == 1 else 'trials'}"
    if known["best"] is None:
        return f"Searched: {told}, none of them feasible."
    return f"Searched: {told}; the best feasible one costs {format_number(known['best'])} an hour."


def print_objective(key: str, objective: Known | None) -> None:
    if objective is None:
        if key == "standing":
            click.echo("No objective is in full use.")
        return
    evidence, weights = objective["evidence"], objective["weights"]
    what = f"Objective {objective['version']}, {objective['state']} since {format_moment(objective['changed'])}"
    cost, error = evidence.get("cost"), evidence.get("cost_error")
    doubt = f" (standard error {format_fixed(error)})" if error else ""
    told = "" if cost is None else f", costs {format_fixed(cost)} an hour{doubt}"
    click.echo(f"\n{what}{told}:")
    bounds = ", ".join(f"{name} {format_milliseconds(bound)} ms" for name, bound in objective["bounds"].items())
    click.echo(f"  bounds   {bounds}")
    click.echo("  weights  " + ", ".join(f"{name} {weight:.3g}" for name, weight in weights.items()))
