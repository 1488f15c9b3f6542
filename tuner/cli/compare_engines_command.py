"""`tuner compare-engines`: settings in; what each engine recommends in each, judged by fresh replays, out."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scaler.model.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim.trace import Trace
    from tuner.lab.engine_benchmark import EngineResults

TRACES = Path("../shared/traces")
APPLICATIONS = ("pipeline", "diamond", "multi-sink")
MADE_SLOTS = 200_000


@click.command(
    "compare-engines",
    epilog="\b\nExamples:\n"
    "  tuner compare-engines --app pipeline --n-res 1 --seeds 1\n"
    "  tuner compare-engines --traces ../shared/traces --seeds 10 --keep matches.jsonl\n"
    "  tuner compare-engines --engine gp --engine random --budget 60 --json",
)
@click.option("--engine", metavar="NAME", multiple=True, help="Repeat it for several (skopt, gp and naive).")
@click.option("--app", metavar="NAME|FILE", multiple=True, help="Repeat it (pipeline, diamond and multi-sink).")
@click.option("--n-res", type=click.IntRange(1), multiple=True, help="So many node types of A; repeat it (1 and 3).")
@click.option("--r-max", type=float, multiple=True, help="Seconds; repeat it (0.04 and 0.05).")
@click.option("--eta-v", type=float, multiple=True, help="Violations allowed; repeat it (0.01, 0.05 and 0.1).")
@click.option("--eta-r", type=float, multiple=True, help="Reconfigurations allowed; repeat it (0.05 and 0.1).")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Of the searches: 0 to N - 1.")
@click.option("--budget", type=click.IntRange(1), help="Evaluations of the others (half of what skopt took, else 60).")
@click.option("--same-slots", is_flag=True, help="Let skopt's evaluations see the slots that the others' see.")
@click.option("--policy", metavar="NAME", default="ql-pds-plus", show_default=True, help="What the scalers run.")
@click.option("--traces", type=click.Path(path_type=Path), help="Folder with taxi.txt.gz (a made-up trace).")
@click.option("--keep", type=click.Path(path_type=Path), help="A file that matches are added to, and not held again.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def compare_engines(as_json: bool, keep: Path | None, traces: Path | None, **asked: Any) -> None:
    """Let engines search the same settings, and judge what they recommend.

    skopt is the yardstick: Algorithm 4 of the paper, 25 evaluations of 50,000 slots a phase, until two rounds bring no
    gain. The others search as `tuner tune` does, with half as many evaluations. The judge replays every recommendation
    over the whole trace with seeds that no search uses.
    """
    from tuner.cli.interruptible import run_interruptibly
    from tuner.cli.progress_bar import show_progress
    from tuner.lab.engine_benchmark import Rules, list_cells, run_engine_benchmark
    from tuner.search.engines import find_engine

    engines = asked["engine"] or ("skopt", "gp", "naive")
    for name in engines:
        find_engine(name)
    trace, highest = choose_trace(traces)
    rules = Rules(engines, trace, asked["policy"], 10, highest, asked["budget"], asked["same_slots"])
    cells = list_cells(
        asked["app"] or APPLICATIONS,
        asked["n_res"] or (1, 3),
        asked["r_max"] or (0.04, 0.05),
        asked["eta_v"] or (0.01, 0.05, 0.1),
        asked["eta_r"] or (0.05, 0.1),
        asked["seeds"],
    )
    check_cells(rules, cells)
    with show_progress(len(cells), "Searching") as tell:
        matches = run_interruptibly(lambda: run_engine_benchmark(rules, cells, tell, keep))
    show(matches, as_json)


def choose_trace(folder: Path | None) -> tuple[Trace, float | None]:
    """The paper's taxi trace, or one that is made for want of it."""
    if folder is not None:
        from tuner.lab.published.cells import WORKLOADS, load_workload

        return load_workload("taxi", folder), WORKLOADS["taxi"].highest_rate
    from sim.arrivals import generate

    return generate("diurnal", low=50.0, high=600.0, slots=MADE_SLOTS, seed=0, noise=50.0), None


def check_cells(rules: Any, cells: Sequence[Any]) -> None:
    """Refuse what cannot be searched before anything is."""
    from scaler.policies import find_policy
    from tuner.lab.engine_benchmark import make_setting
    from tuner.scenario.qos import QoS
    from tuner.search.space.space import make_space

    find_policy(rules.policy)
    for cell in cells:
        setting, qos = make_setting(rules, cell), QoS(cell.r_max, cell.eta_v, cell.eta_r)
        make_space(setting.application, setting.infrastructure, qos)


def show(matches: Sequence[EngineResults], as_json: bool) -> None:
    from dataclasses import asdict

    from tuner.lab.engine_summary import list_settings, summarise_engines
    from tuner.views.plain import tame

    lines, rows = summarise_engines(matches), list_settings(matches)
    if as_json:
        document = {"engines": [asdict(line) for line in lines], "settings": rows, "matches": [*map(asdict, matches)]}
        click.echo(json.dumps(tame(document), indent=2, allow_nan=False))
        return
    if not lines:
        raise BadInput("no engine kept the constraints in any setting; allow a larger --r-max, --eta-v or --eta-r")
    print_settings(rows)
    print_lines(lines)


def print_settings(rows: Sequence[dict[str, Any]]) -> None:
    from tuner.cli.grid import print_grid

    names = [key for key, value in rows[0].items() if isinstance(value, dict)]
    heads = ["application", "N_res", "R_max", "eta_V", "eta_R"]
    heads += [head for name in names for head in (f"{name} cost", "kept", "ratio")]
    table = []
    for row in rows:
        cells = [row["application"], str(row["n_res"]), f"{1000 * row['r_max']:.0f} ms"]
        cells += [f"{row['eta_v']:.0%}", f"{row['eta_r']:.0%}"]
        for name in names:
            one = row[name]
            cells += [say(one["cost"], ".2f"), f"{one['kept']}/{row['seeds']}", say(one["ratio"], ".3f")]
        table.append(cells)
    print_grid(heads, table, 1)
    click.echo("")


def print_lines(lines: Sequence[Any]) -> None:
    from tuner.cli.grid import print_grid

    heads = ["engine", "kept", "settings kept", "cost / skopt", "worst", "no higher in", "evaluations"]
    heads += ["Mslots", "ms a suggestion", "s a search"]
    table = [
        [
            line.engine,
            f"{line.kept:.1%}",
            f"{line.settings_kept:.1%}",
            say(line.ratio, ".3f"),
            say(line.worst, ".3f"),
            "-" if math.isnan(line.no_higher) else f"{line.no_higher:.1%} of {line.compared}",
            f"{line.evaluations:.0f}",
            f"{line.slots / 1e6:.1f}",
            f"{line.asking_ms:.0f}",
            f"{line.seconds:.1f}",
        ]
        for line in lines
    ]
    print_grid(heads, table, 1)
    click.echo(
        "\nOver the settings in which anybody kept the constraints; costs by geometric mean, where both engines did."
    )


def say(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
