"""`tuner live demo`: an auto-scaled stream on a Spark cluster of this machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from rich.console import Console

from scaler.model.errors import BadInput
from scaler.model.files import write_whole
from scaler.model.units import format_share
from tuner.cli.options import file_type, json_option, output_type, print_json
from tuner.cli.signals import raising_on_termination
from tuner.demo.demo_plan import ETA_R, ETA_V, LARGE, NODES, OPERATORS, SLOT_S, Plan, count_static
from tuner.demo.demo_run import Scene, read_scene, run_demo
from tuner.demo.demo_view import showing, write_page
from tuner.views.grid import open_console


def read_places(context: click.Context, option: click.Parameter, words: tuple[str, ...]) -> dict[str, str]:
    """Node types by operator."""
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


@click.command(
    "demo",
    epilog="\b\nExamples:\n  tuner live demo\n  tuner live demo --minutes 10 --html live.html\n"
    "  tuner live demo --on parse=small --on count=large\n"
    "  tuner live demo --keep run && tuner ingest run/progress run/timings --app demo",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0.5, 60.0),
    default=Plan().minutes,
    show_default=True,
    callback=read_minutes,
    help="Length of the stream and of its day, in minutes.",
)
@click.option(
    "--on",
    multiple=True,
    metavar="OPERATOR=TYPE",
    callback=read_places,
    help="Node type of an operator; repeat it for the other (default: any).",
)
@click.option("--html", type=output_type, help="Write a page with charts to this file, and all decisions.")
@json_option
@click.option(
    "--keep",
    type=file_type,
    metavar="FOLDER",
    help="Folder for logs, progress and the database (default: a temporary one).",
)
def live_demo(minutes: float, on: Mapping[str, str], html: Path | None, as_json: bool, keep: Path | None) -> None:
    """Start a Spark cluster here and an auto-scaled stream.

    The demo has a master, a worker of each of two node types, a manager, and a stream of two operators whose arrival
    rate is that of a day with a spike in its afternoon, compressed into minutes. It listens on loopback alone, and ends
    with this command. It takes a minute more than --minutes, two cores and 5 GB of memory.
    """
    import_module("pyspark")  # refused before anything is started
    view = Console(quiet=True, force_terminal=False) if as_json else open_console()
    with raising_on_termination(), workplace(keep) as folder, showing(view) as show:
        end = run_demo(folder, Plan(minutes, on=on), show)
    scene = read_scene(end)
    if scene is None or not scene.moments:
        raise BadInput(f"the replay was over before a slot of {SLOT_S:g} s was; give it more --minutes")
    if html is not None:
        write_whole(html, write_page(scene, end.totals, count_static(), LARGE.price))
    figures = sum_up(scene, end.totals)
    if as_json:
        print_json(figures)
    else:
        print_end(figures, html)
    if not figures["ended"]:
        raise click.ClickException("the stream did not end in time; run again with --keep FOLDER to see its log")
    if not figures["exact"]:
        raise click.ClickException("what was counted is not what was written; run again with --keep FOLDER to see why")


@contextmanager
def workplace(keep: Path | None) -> Iterator[Path]:
    """A folder that is gone afterwards, unless it was named."""
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


def sum_up(scene: Scene, totals: Mapping[str, Any]) -> dict[str, Any]:
    static = scene.static_cost(count_static(), LARGE.price)
    return {
        **totals,
        "slots": round(scene.seconds / scene.slot_s),
        "changes": scene.changes,
        "changed": scene.changed_share,
        "limits": {"eta_v": ETA_V, "eta_r": ETA_R},
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
        f"{name} {'not known' if share is None else format_share(share)}" for name, share in figures["late"].items()
    )
    limits = figures["limits"]
    click.echo(f"Late slots, of which {format_share(limits['eta_v'])} are allowed: {late}.")
    click.echo(
        f"Slots with a reconfiguration, of which {format_share(limits['eta_r'])} are allowed: "
        f"{format_share(figures['changed'])} ({figures['changes']} changes of replicas in {figures['slots']} slots)."
    )
    share = f", {format_share(figures['cost'] / static['cost'])} of it" if static["cost"] else ""
    many = ", ".join(f"{count} for {name}" for name, count in static["replicas"].items())
    click.echo(f"Cost {figures['cost']:.4f}; static large ({many}) {static['cost']:.4f}{share}.")
    if html is not None:
        click.echo(f"Charts and all decisions: {html}")
