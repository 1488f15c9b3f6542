"""`tuner live`: a demo on a real cluster of this machine, and how the scalers of an application stand."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scaler.model.errors import BadInput
from tuner.cli.completion import app_argument
from tuner.cli.db_commands import store_option

if TYPE_CHECKING:
    from tuner.history.scene import Scene

file_type = click.Path(path_type=Path)


def read_places(context: click.Context, option: click.Parameter, words: tuple[str, ...]) -> dict[str, str]:
    """Node types by operator."""
    from tuner.demo.demo_plan import NODES, OPERATORS

    places: dict[str, str] = {}
    for word in words:
        operator, _, node_type = word.partition("=")
        types = [node.name for node in NODES]
        if operator not in OPERATORS or node_type not in types:
            known = f"the operators are {', '.join(OPERATORS)}, the node types {', '.join(types)}"
            raise BadInput(f"--on takes OPERATOR=TYPE and was given {word!r}; {known}")
        if operator in places:
            raise BadInput(f"--on names {operator} twice; an operator is kept on one node type, so name it once")
        places[operator] = node_type
    return places


def read_minutes(context: click.Context, option: click.Parameter, minutes: float) -> float:
    """A range of click's lets pass what is no number, for it is neither below nor above."""
    if math.isnan(minutes):
        raise BadInput("--minutes is nan, which is no number; write one from 0.5 to 60")
    return minutes


@click.group(epilog="\b\nExamples:\n  tuner live demo --html live.html\n  tuner live status orders")
def live() -> None:
    """Watch scalers at work: a demo on a real cluster of this machine, or those of an application."""


@live.command(
    epilog="\b\nExamples:\n  tuner live demo\n  tuner live demo --minutes 5 --html live.html\n"
    "  tuner live demo --on parse=small --on count=large\n"
    "  tuner live demo --keep run && tuner ingest run/progress run/timings --app demo"
)
@click.option(
    "--minutes",
    type=click.FloatRange(0.5, 60.0),
    default=3.0,
    show_default=True,
    callback=read_minutes,
    help="How long the stream runs.",
)
@click.option(
    "--on",
    multiple=True,
    metavar="OPERATOR=TYPE",
    callback=read_places,
    help="Keep an operator on one node type; else it may be on any.",
)
@click.option("--html", type=file_type, help="Write charts and all decisions to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--keep", type=file_type, metavar="FOLDER", help="Leave logs, progress and the database in this folder.")
def demo(minutes: float, on: Mapping[str, str], html: Path | None, as_json: bool, keep: Path | None) -> None:
    """Start a real Spark cluster on this machine, and a stream that scales itself on it.

    A master and a worker of each of two node types, a manager, and a stream of two operators, whose rate triples and
    falls back. All of it is heard on loopback alone, and ends with this command. It takes a minute more than asked
    for, two cores and 5 GB of memory.
    """
    from scaler.model.files import check_place, write_whole
    from tuner.cli.interruptible import hearing_termination
    from tuner.demo.demo_plan import SLOT_S, Plan
    from tuner.demo.demo_run import run_demo
    from tuner.demo.demo_view import read_scene, showing

    if html is not None:
        check_place(html)
    with hearing_termination(), workplace(keep) as folder, showing(open_view(as_json)) as show:
        end = run_demo(folder, Plan(minutes, on=on), show)
    scene = read_scene(end)
    if scene is None or not scene.moments:
        raise BadInput(f"the replay was over before a slot of {SLOT_S:g} s was; give it more --minutes")
    if html is not None:
        write_whole(html, draw_page(scene, end.totals))
    figures = sum_up(scene, end.totals)
    if as_json:
        click.echo(json.dumps(figures, indent=2, allow_nan=False))
    else:
        print_end(figures, html)
    if not figures["ended"]:
        raise click.ClickException("the stream did not end in time; run again with --keep FOLDER to see its log")
    if not figures["exact"]:
        raise click.ClickException("what was counted is not what was written; run again with --keep FOLDER to see why")


@contextmanager
def workplace(keep: Path | None) -> Iterator[Path]:
    """A folder that is gone afterwards, unless it was named."""
    from tempfile import TemporaryDirectory

    if keep is None:
        with TemporaryDirectory(prefix="tuner-live-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise BadInput(f"--keep names {keep}, which is not empty; name a new folder")
    except OSError as error:
        raise BadInput(f"--keep names {keep}, which cannot be a folder ({error.strerror}); name another") from error
    yield keep.absolute()


def open_view(as_json: bool) -> Any:
    from rich.console import Console

    from tuner.cli.comparison_grid import open_console

    return Console(quiet=True, force_terminal=False) if as_json else open_console()


def draw_page(scene: Scene, totals: Mapping[str, Any]) -> str:
    from tuner.demo.demo_page import write_page
    from tuner.demo.demo_plan import LARGE, count_static

    return write_page(scene, totals, count_static(), LARGE.price)


def sum_up(scene: Scene, totals: Mapping[str, Any]) -> dict[str, Any]:
    from tuner.demo.demo_plan import LARGE, count_static

    static = scene.static_cost(count_static(), LARGE.price)
    return {
        **totals,
        "slots": round(scene.seconds / scene.slot_s),
        "changes": scene.changes,
        "late": {operator: scene.late_share(operator) for operator in scene.operators},
        "cost": scene.cost,
        "static_large": {"cost": static, "replicas": count_static()},
    }


def print_end(figures: Mapping[str, Any], html: Path | None) -> None:
    static = figures["static_large"]
    exact = "each word counted once" if figures["exact"] else f"{figures['counted']:,} of them counted"
    exact += "" if figures["ended"] else " when time was up"
    click.echo(f"{figures['lines']:,} lines of {figures['words']:,} words: {exact}.")
    late = ", ".join(
        f"{name} {'not known' if share is None else f'{share:.0%}'}" for name, share in figures["late"].items()
    )
    click.echo(f"{figures['changes']} changes of replicas in {figures['slots']} slots; late slots: {late}.")
    share = f", {figures['cost'] / static['cost']:.0%} of it" if static["cost"] else ""
    many = ", ".join(f"{count} for {name}" for name, count in static["replicas"].items())
    click.echo(f"Cost {figures['cost']:.4f}; static large ({many}) {static['cost']:.4f}{share}.")
    if html is not None:
        click.echo(f"Charts and all decisions: {html}")


@live.command(
    epilog="\b\nExamples:\n  tuner live status orders\n"
    "  tuner live status orders --manager https://manager:8443 --token-file token --json | jq '.operators[].alive'"
)
@app_argument
@click.option("--manager", metavar="URL", help="Ask this manager, instead of looking into the database.")
@click.option("--token-file", type=file_type, help="A file with the token to show it; one that may read and report.")
@click.option("--authority", type=file_type, metavar="FILE", help="Certificates to trust instead of the system's.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@store_option
@click.pass_context
def status(
    ctx: click.Context,
    app: str,
    manager: str | None,
    token_file: Path | None,
    authority: Path | None,
    as_json: bool,
    address: str | None,
) -> None:
    """Show the scalers of APP: which are alive, under which orders, on which replicas, and what each did last and why.

    The newest orders are not known from a manager whose token may read alone.
    """
    # TUNER_STORE is there for all commands; with --manager it is no mistake
    if manager is not None and ctx.get_parameter_source("address") is click.core.ParameterSource.COMMANDLINE:
        raise BadInput("a manager has a database of its own; leave out --store, or else --manager")
    found = find_status(app, manager, token_file, authority, address)
    if as_json:
        click.echo(json.dumps(found, indent=2, allow_nan=False))
        return
    newest = "not known" if found["revision"] is None else f"revision {found['revision']}"
    click.echo(f"{found['application']}: the newest orders are {newest}.")
    for one in found["operators"]:
        print_operator(one)


def find_status(
    app: str, manager: str | None, token_file: Path | None, authority: Path | None, address: str | None
) -> dict[str, Any]:
    from tuner.demo.manager_process import read_token_file
    from tuner.history.live_status import ask_status, read_status
    from tuner.history.manager_client import Manager
    from tuner.store.connection import open_store

    if manager is None:
        if token_file is not None or authority is not None:
            raise BadInput("--token-file and --authority are of a manager; name it with --manager")
        with closing(open_store(address)) as store, store.read() as session:
            return read_status(session, app, time.time())
    if token_file is None:
        raise BadInput("--manager wants to see a token; name the file that holds it with --token-file")
    with closing(Manager(manager, read_token_file(token_file), app, authority)) as caller:
        return ask_status(caller, time.time())


def print_operator(one: Mapping[str, Any]) -> None:
    state = "alive" if one["alive"] else "silent"
    replicas = ", ".join(f"{n} {name}" for name, n in (one["replicas"] or {}).items() if n) or "not known"
    orders = "no orders" if one["revision"] is None else f"orders of revision {one['revision']}"
    click.echo(f"\n{one['operator']}: {state}, heard {one['silent_s']:.0f} s ago, under {orders}; replicas: {replicas}")
    if one["last"] is not None:
        action = f" {one['last']['action']}" if one["last"]["action"] else ""
        click.echo(f"  {one['last']['kind']}{action}: {one['last']['reason']}")
