"""`tuner app add` and `tuner app show`: store the description of an application, and show it with its objectives."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from scaler.model.files import write_whole
from scaler.model.task import name_quantile
from scaler.model.units import format_count, format_fixed, format_milliseconds, format_moment, format_number
from sim.application import name_path, paths
from sim.setting import gains
from tuner.cli.next_step import say_next, warn
from tuner.cli.options import (
    app_argument,
    drop_unset,
    eta_r_help,
    eta_v_help,
    file_type,
    json_option,
    name_user,
    new_store_option,
    number_type,
    output_type,
    print_result,
    quantile_help,
    r_max_help,
    seconds_type,
    share_type,
    store_option,
)
from tuner.rollout.issued_orders import CANDIDATES
from tuner.rollout.steering import register_application
from tuner.scenario.description import read_description, scenario_of, tables_of
from tuner.scenario.document import describe_application, format_description, shape_of
from tuner.scenario.scenario import make_infrastructure, make_qos
from tuner.search.observed_bound import doubt_described
from tuner.store.address import DatabaseAddress
from tuner.store.applications import check_application_name, list_versions, load_application
from tuner.store.connection import Session, open_store
from tuner.store.objectives import find_full_objective, list_objectives
from tuner.store.records import ApplicationVersion
from tuner.store.trials import TrialCounts, count_trials_by_application
from tuner.views.grid import print_grid
from tuner.views.words import to_finite


@click.command(
    epilog="\b\nExamples:\n  tuner app add shop shop.toml\n  tuner app add shop shop.toml --r-max 0.04 --eta-v 0.01"
)
@app_argument
@click.argument("file", type=file_type)
@click.option("--r-max", type=seconds_type, help=f"{r_max_help} (default: the one in FILE).")
@click.option("--quantile", type=share_type, help=f"{quantile_help} (default: the one in FILE, else the mean).")
@click.option("--eta-v", type=share_type, help=f"{eta_v_help} (default: the one in FILE, else 0.05).")
@click.option("--eta-r", type=share_type, help=f"{eta_r_help} (default: the one in FILE, else 0.1).")
@new_store_option
def add(app: str, file: Path, address: DatabaseAddress, **demanded: float | None) -> None:
    """Store FILE as the newest description of APP.

    `tuner serve` and `tuner daemon` retune it from then on. FILE is a scenario, as `tuner demo --save` writes one, or
    an application alone: [[operator]] and [[edge]] tables. Files that it names are read now, except its trace, which
    stays where it is. Earlier versions are kept.
    """
    check_application_name(app)
    stated = drop_unset({"qos": demanded})
    document = read_description(file, app, stated)
    with closing(open_store(address)) as store:
        with store.begin() as session:
            earlier = list_versions(session, app)
            kept = register_application(session, app, document, name_user(), time.time())
            setting = scenario_of(document, name=app).settings[0]
            doubt = doubt_described(session, app, setting)
        click.echo(f"{app}: {describe_change(earlier[-1] if earlier else None, kept)}")
        warn(doubt)
        say_next(store, app, setting.trace.step_s)


def describe_change(before: ApplicationVersion | None, kept: ApplicationVersion) -> str:
    if before is None:
        return f"version {kept.number}."
    if before.number == kept.number:
        return f"unchanged, version {kept.number}."
    old, new = before.document, kept.document
    changed = ", ".join(name for name in new if old.get(name) != new[name])
    gone = ", ".join(name for name in old if name not in new)
    told = f"version {kept.number}" + (f", with another {changed} than version {before.number}" if changed else "")
    return told + (f", and without its {gone}." if gone else ".")


@click.command(epilog="\b\nExamples:\n  tuner app show shop\n  tuner app show shop --version 1 --toml old.toml")
@app_argument
@click.option("--version", "number", type=number_type, help="Number of the version (default: the newest).")
@click.option(
    "--toml",
    type=output_type,
    help="Write the description to this file, which `tuner app add` and `tuner simulate` read.",
)
@json_option
@store_option
def show(app: str, number: int | None, toml: Path | None, as_json: bool, address: DatabaseAddress) -> None:
    """Show the description of APP, its tuning runs and its objectives."""
    with closing(open_store(address)) as store, store.read() as session:
        version = load_application(session, app, number)
        known = gather(session, version)
    if toml is not None:
        write_whole(toml, format_description(version.document))
    print_result(known, as_json, to_finite, print_application)


def gather(session: Session, version: ApplicationVersion) -> dict[str, Any]:
    """All that `tuner app show` prints."""
    name = version.application
    proposed = next(iter(list_objectives(session, name, ("proposed",), limit=1)), None)
    return {
        "name": name,
        "version": version.number,
        "newest": load_application(session, name).number,
        "described": version.created,
        **lay_out(version.document),
        "document": dict(version.document),
        **asdict(count_trials_by_application(session, name).get(name, TrialCounts())),
        "standing": describe_objective(find_full_objective(session, name)),
        "candidate": describe_objective(next(iter(list_objectives(session, name, CANDIDATES, limit=1)), None)),
        "proposed": describe_objective(proposed),
    }


def lay_out(document: Mapping[str, Any]) -> dict[str, Any]:
    """Operators, paths, QoS and node types, with the defaults of what is not stated."""
    shape = shape_of(document)
    tables = tables_of(document)
    qos = make_qos(tables["qos"])
    described = describe_application(shape)
    titles = [name_path(shape, path) for path in paths(shape)]
    return {
        "operators": [{**o, "gain": gain} for o, gain in zip(described["operator"], gains(shape), strict=True)],
        "edges": described.get("edge", []),
        "sources": described["sources"],
        "paths": {title: qos.paths.get(title, qos.r_max) for title in titles},
        "qos": {"r_max": qos.r_max, "quantile": qos.quantile, "eta_v": qos.eta_v, "eta_r": qos.eta_r},
        "node_types": [node.to_json() for node in make_infrastructure(tables["infrastructure"]).types],
        "trace": dict(tables["trace"]),
        "policy": dict(tables["policy"]),
        "assumed": [name for name in ("infrastructure", "trace", "qos", "policy") if name not in document],
    }


def describe_objective(objective: Any) -> dict[str, Any] | None:
    if objective is None:
        return None
    plain = {**asdict(objective), "weights": objective.weights.to_json()}
    return {name: value for name, value in plain.items() if name not in ("application", "surrogate_id", "id")}


Known = Mapping[str, Any]
MOST_PATHS = 20  # that anybody reads


def print_application(known: Known) -> None:
    newest = "the newest" if known["version"] == known["newest"] else f"the newest is {known['newest']}"
    click.echo(
        f"{known['name']}, version {known['version']} ({newest}), described {format_moment(known['described'])}\n"
    )
    print_operators(known)
    print_paths(known)
    click.echo()
    nodes = [[one["name"], format_number(one["speedup"]), format_number(one["price"])] for one in known["node_types"]]
    print_grid((f"node type{say_assumed(known, 'infrastructure')}", "speedup", "price/h"), nodes)
    qos = known["qos"]
    click.echo(
        f"\nDemanded{say_assumed(known, 'qos')}: late in at most {qos['eta_v']:.3g} of the slots, replicas changed in "
        f"at most {qos['eta_r']:.3g}."
    )
    click.echo(f"Trace{say_assumed(known, 'trace')}: {describe_trace(known['trace'])}.")
    click.echo(describe_searches(known))
    for key in ("standing", "candidate", "proposed"):
        print_objective(key, known[key])


def say_assumed(known: Known, table: str) -> str:
    return " (by default)" if table in known["assumed"] else ""


def print_operators(known: Known) -> None:
    heads = ("operator", "next", "service ms", "scv", "k_max", "tuples out", "per tuple", "stateful")
    rows = []
    for operator in known["operators"]:
        mean, name = operator["service_time"], operator["name"]
        after = [(e["to"], e["selectivity"]) for e in known["edges"] if e["from"] == name]
        told = ", ".join(to if factor == 1.0 else f"{to} x {factor:.4g}" for to, factor in after) or "-"
        figures = (mean * 1000.0, operator["variance"] / mean**2, operator["k_max"], operator["selectivity"])
        stateful = "yes" if operator["stateful"] else "no"
        rows.append([name, told, *map(format_number, (*figures, operator["gain"])), stateful])
    print_grid(heads, rows, left=2)


def print_paths(known: Known) -> None:
    rows = [[title, format_milliseconds(bound)] for title, bound in known["paths"].items()]
    click.echo()
    print_grid(("path", f"{name_quantile(known['qos']['quantile'])} due in ms"), rows[:MOST_PATHS])
    if len(rows) > MOST_PATHS:
        click.echo(f"... and {len(rows) - MOST_PATHS:,} more; --json has them all")


def describe_trace(table: Mapping[str, Any]) -> str:
    if "file" in table:
        return str(table["file"])
    told = (f"{key} {value}" for key, value in table.items() if key != "generator")
    return f"{table['generator']}, made up ({', '.join(told)})"


def describe_searches(known: Known) -> str:
    if not known["runs"]:
        return f"It was not tuned yet; do so with: tuner tune {known['name']}"
    told = f"{format_count(known['runs'], 'run', 'runs')} with {format_count(known['trials'], 'trial', 'trials')}"
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
    told = "" if cost is None else f", costs {format_fixed(cost)} an hour as verified{doubt}"
    click.echo(f"\n{what}{told}:")
    bounds = ", ".join(f"{name} {format_milliseconds(bound)} ms" for name, bound in objective["bounds"].items())
    click.echo(f"  bounds   {bounds}")
    click.echo("  weights  " + ", ".join(f"{name} {weight:.3g}" for name, weight in weights.items()))
