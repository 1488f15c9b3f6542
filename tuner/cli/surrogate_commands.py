"""`tuner surrogate`: fit and show the surrogate of an application."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scaler.model.files import write_whole
from sim.infrastructure import find_infrastructure
from sim.toml_table import format_document
from tuner.cli.next_step import name_next, warn_of_names
from tuner.cli.options import (
    TIME_FORMS,
    app_argument,
    html_option,
    json_option,
    number_type,
    output_type,
    parse_moment,
    print_json,
    quantile_help,
    share_type,
    store_option,
    until_option,
)
from tuner.pipeline.flows import estimate_edges
from tuner.scenario.description import tables_of
from tuner.scenario.document import format_application, shape_of
from tuner.scenario.scenario import make_infrastructure, make_qos
from tuner.store.address import DatabaseAddress
from tuner.store.applications import find_application, load_application, load_surrogate, save_surrogate
from tuner.store.connection import Session, open_store
from tuner.store.decisions import list_supply
from tuner.store.samples import load_samples
from tuner.surrogate.fit import check_drift_since
from tuner.surrogate.fit import fit as fit_surrogate
from tuner.surrogate.fitted_application import apply_speeds, apply_supply, build_application
from tuner.surrogate.supply import measure_supply
from tuner.surrogate.surrogate import Surrogate, from_record, is_fit_for_tuning, to_document, to_record
from tuner.views.grid import open_console, print_columns, print_lines
from tuner.views.surrogate_report import (
    draw_text,
    format_model,
    list_cost_lines,
    list_supply_lines,
    list_surrogate_columns,
    summarise_surrogate,
    write_surrogate,
)
from tuner.views.words import to_finite

UNFIT = 1  # the exit code where a check failed
COLOURS = {"pass": "green", "warn": "yellow", "fail": "red"}


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner surrogate fit shop\n"
    "  tuner surrogate fit shop --since 7d --infrastructure nodes.toml --json\n\n"
    "Exit code 1: a check failed, and nothing should be tuned on the surrogate (it is kept all the same)."
)
@app_argument
@click.option(
    "--holdout",
    type=click.FloatRange(0.05, 0.9),
    default=0.3,
    show_default=True,
    help="Share of the samples held out for the checks, 0.05 to 0.9.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the bootstrap.")
@click.option("--since", metavar="TIME", callback=parse_moment, help=f"Fit on samples from here on: {TIME_FORMS}.")
@until_option
@click.option(
    "--infrastructure",
    metavar="NAME|FILE",
    help="Table of node types with their speedups, those without samples too: A, B, B2 or a .toml file.",
)
@click.option("--quantile", type=share_type, help=f"{quantile_help} (default: as described, else the mean).")
@html_option
@json_option
@store_option
@click.pass_context
def fit(
    ctx: click.Context,
    app: str,
    holdout: float,
    seed: int,
    since: float | None,
    until: float | None,
    infrastructure: str | None,
    quantile: float | None,
    html: Path | None,
    as_json: bool,
    address: DatabaseAddress,
) -> None:
    """Fit the surrogate of APP to its samples, store it and show it."""
    node_types = find_infrastructure(infrastructure).types if infrastructure else ()
    with closing(open_store(address)) as store:
        with store.read() as session:
            samples = load_samples(session, app, since=since, until=until)
            supply = measure_supply(list_supply(session, app, since, until))
            if quantile is None and (described := find_application(session, app)) is not None:
                quantile = make_qos(tables_of(described.document)["qos"]).quantile
        fitted = fit_surrogate(samples, app, holdout, seed, node_types, quantile)
        fitted = replace(fitted, supply=supply)
        with store.begin() as session:
            number = save_surrogate(session, to_record(fitted, time.time())).number
            following = name_next(session, app)
            warn_of_names(session, app)
    show_all(fitted, number, html, as_json)
    if not as_json:
        click.echo(f"Next: {following}", err=True)
    ctx.exit(0 if is_fit_for_tuning(fitted.checks) else UNFIT)


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner surrogate show shop\n"
    "  tuner surrogate show shop --number 3 --html surrogate.html\n"
    "  tuner surrogate show shop --toml shop.toml && tuner simulate --application shop.toml\n"
    "  tuner surrogate show shop --nodes nodes.toml\n\n"
    "Exit code 1: a check failed, and nothing should be tuned on the surrogate."
)
@app_argument
@click.option("--number", type=number_type, help="Number of the surrogate (default: the newest).")
@click.option("--toml", type=output_type, help="Write the application of the simulation to this file.")
@click.option(
    "--nodes",
    type=output_type,
    help="Write its node types, with speeds, start-up times and losses as seen, to this file.",
)
@html_option
@json_option
@store_option
@click.pass_context
def show(
    ctx: click.Context,
    app: str,
    number: int | None,
    toml: Path | None,
    nodes: Path | None,
    html: Path | None,
    as_json: bool,
    address: DatabaseAddress,
) -> None:
    """Show a surrogate of APP: figures, checks, and drift since."""
    with closing(open_store(address)) as store, store.read() as session:
        record = load_surrogate(session, app, number)
        fitted = from_record(record)
        fitted = check_drift_since(fitted, load_samples(session, app, since=fitted.end))
        if toml:
            write_application(session, fitted, toml)
        if nodes:
            write_nodes(session, fitted, nodes)
    show_all(fitted, record.number, html, as_json)
    ctx.exit(0 if is_fit_for_tuning(fitted.checks) else UNFIT)


def write_application(session: Session, fitted: Surrogate, toml: Path) -> None:
    """With the edges of the application as it was described, where somebody did."""
    described = find_application(session, fitted.application)
    shape = shape_of(described.document) if described else None
    edges = [] if shape is None else [(edge.upstream, edge.downstream) for edge in shape.edges]
    samples = load_samples(session, fitted.application, since=fitted.start, until=fitted.end)
    write_whole(toml, format_application(build_application(fitted, shape, estimate_edges(samples, edges))))


def write_nodes(session: Session, fitted: Surrogate, path: Path) -> None:
    """The node types of the description, as they were seen where they were; what it states of supply stays."""
    table = tables_of(load_application(session, fitted.application).document)["infrastructure"]
    seen = apply_supply(apply_speeds(make_infrastructure(table), fitted), fitted)
    stated = {node["name"]: node for node in table.get("node", [])}
    nodes = [
        node.to_json() | {key: value for key, value in stated.get(node.name, {}).items() if key == "prices"}
        for node in seen.types
    ]
    document = {"name": fitted.application, "normaliser_price": seen.normaliser_price, "node": nodes}
    write_whole(path, format_document(document))


def show_all(fitted: Surrogate, number: int | None, html: Path | None, as_json: bool) -> None:
    if html is not None:
        write_whole(html, write_surrogate(fitted))
    if as_json:
        print_json(to_finite({"number": number, **to_document(fitted)}))
    else:
        print_surrogate(fitted, number)


def print_surrogate(fitted: Surrogate, number: int | None) -> None:
    """The table, then each operator's checks and plot."""
    console = open_console()
    print_lines(f"Surrogate {number} of {fitted.application}: {summarise_surrogate(fitted)}")
    print_columns(list_surrogate_columns(fitted))
    print_lines(*list_supply_lines(fitted))
    for operator in fitted.operators:
        print_lines("", f"{operator.operator}, {format_model(operator)}", *list_cost_lines(operator))
        print_checks(console, fitted, operator.operator)
        print_lines(draw_text(operator.points, console.options.ascii_only))


def print_checks(console: Console, fitted: Surrogate, operator: str) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    for check in fitted.checks:
        if check.operator == operator:
            verdict = Text(check.verdict, style=COLOURS[check.verdict])
            table.add_row(Text("  ") + verdict, Text(check.name), Text(check.says))
    console.print(table)
