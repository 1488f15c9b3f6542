"""`tuner lab compare-engines`: benchmark search engines over settings; fresh replays judge their recommendations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from scaler.model.errors import BadInput
from scaler.policies import find_policy
from sim.arrivals import generate
from sim.trace import Trace, window
from tuner.cli.interruption import run_interruptibly
from tuner.cli.options import (
    eta_r_help,
    eta_v_help,
    file_type,
    json_option,
    print_json,
    r_max_help,
    seconds_type,
    share_type,
)
from tuner.cli.progress import show_progress
from tuner.lab.engine_benchmark import (
    TERMS,
    EngineCell,
    EngineResults,
    Rules,
    list_cells,
    make_setting,
    run_engine_benchmark,
)
from tuner.lab.engine_summary import EngineSummary, list_settings, summarise_engines
from tuner.lab.published.tables import WORKLOADS, load_workload
from tuner.scenario.layout import QoS
from tuner.search.engines import find_engine
from tuner.search.space.space import make_space
from tuner.views.grid import print_columns, print_grid
from tuner.views.words import make_columns, to_finite

APPLICATIONS = ("pipeline", "diamond", "multi-sink")
MADE_SLOTS = 200_000
BOTH = "both"
COMPARED = {BOTH: ("published", "equal")} | {terms: (terms,) for terms in TERMS}
TITLES = {
    "published": "As published",
    "equal": "Equal slots, evaluations and verifications",
    "half": "Half the slots of skopt, which evaluates and verifies as the others do",
}


@click.command(
    "compare-engines",
    epilog="\b\nExamples:\n"
    "  tuner lab compare-engines --application pipeline --n-res 1 --seeds 1\n"
    "  tuner lab compare-engines --traces ../shared/traces --seeds 10 --results results.jsonl\n"
    "  tuner lab compare-engines --engine gp --engine random --budget 60 --json",
)
@click.option(
    "--engine",
    metavar="NAME",
    multiple=True,
    help="Name of an engine; repeat it for several (default skopt, gp and naive).",
)
@click.option(
    "--application",
    metavar="NAME|FILE",
    multiple=True,
    help="Application graph; repeat it for several (default pipeline, diamond and multi-sink).",
)
@click.option(
    "--n-res",
    type=click.IntRange(1),
    multiple=True,
    help="Number of node types, the first of A; repeat it for several (default 1 and 3).",
)
@click.option(
    "--r-max", type=seconds_type, multiple=True, help=f"{r_max_help}; repeat it for several (default 0.04 and 0.05)."
)
@click.option(
    "--eta-v", type=share_type, multiple=True, help=f"{eta_v_help}; repeat it for several (default 0.01, 0.05 and 0.1)."
)
@click.option(
    "--eta-r", type=share_type, multiple=True, help=f"{eta_r_help}; repeat it for several (default 0.05 and 0.1)."
)
@click.option(
    "--seeds", type=click.IntRange(1), default=1, show_default=True, help="Number of random seeds, 0 to N - 1."
)
@click.option(
    "--budget",
    type=click.IntRange(1),
    help="Number of evaluations of engines other than skopt (default: by --terms; 60 without skopt).",
)
@click.option(
    "--terms",
    type=click.Choice((*TERMS, BOTH)),
    default=BOTH,
    show_default=True,
    help="Terms of the comparison: as published, with equal slots, with half of them, or both of the first two.",
)
@click.option("--slots", type=click.IntRange(2), help="Number of slots of the trace, its first (default: all).")
@click.option("--policy", metavar="NAME", default="ql-pds-plus", show_default=True, help="Name of the policy.")
@click.option("--traces", type=file_type, help="Folder with taxi.txt.gz (default: a generated trace).")
@click.option("--results", type=file_type, help="File to append results to; those that it has are not computed again.")
@json_option
def compare_engines(as_json: bool, results: Path | None, traces: Path | None, **asked: Any) -> None:
    """Compare search engines on the same settings.

    skopt is the baseline: Algorithm 4 of the paper, until two rounds bring no gain. As published, it evaluates one seed
    over 50,000 slots, and the others search as `tuner tune` does with half as many evaluations. On equal terms, skopt
    evaluates and verifies as they do, and they may replay as many slots as it did in all; on half terms, half as many.
    The judge replays every recommendation over the whole trace with seeds that no search uses.
    """
    engines = asked["engine"] or ("skopt", "gp", "naive")
    for name in engines:
        find_engine(name)
    trace, highest = choose_trace(traces)
    if asked["slots"] is not None:
        trace = window(trace, 0, min(asked["slots"], trace.rates.size))
    rules = Rules(engines, trace, asked["policy"], 10, highest, asked["budget"])
    cells = list_cells(
        asked["application"] or APPLICATIONS,
        asked["n_res"] or (1, 3),
        asked["r_max"] or (0.04, 0.05),
        asked["eta_v"] or (0.01, 0.05, 0.1),
        asked["eta_r"] or (0.05, 0.1),
        asked["seeds"],
    )
    find_policy(rules.policy)
    for cell in cells:  # what cannot be searched is refused before anything is
        setting, qos = make_setting(rules, cell), QoS(cell.r_max, cell.eta_v, cell.eta_r)
        make_space(setting.application, setting.infrastructure, qos)
    terms = COMPARED[asked["terms"]]
    found = {}
    with show_progress(len(cells) * len(terms), "Searching") as report_done:
        for i, name in enumerate(terms):
            job = partial(compare_on, replace(rules, terms=name), cells, results, report_done, i * len(cells))
            found[name] = run_interruptibly(job)
    show(found, as_json)


def compare_on(
    rules: Rules, cells: Sequence[EngineCell], results: Path | None, report_done: Callable[[int], None], before: int
) -> list[EngineResults]:
    """The benchmark on these terms, its cells counted after those that are done."""
    return run_engine_benchmark(rules, cells, lambda done: report_done(before + done), results)


def choose_trace(folder: Path | None) -> tuple[Trace, float | None]:
    """The paper's taxi trace, or one that is made for want of it."""
    if folder is not None:
        return load_workload("taxi", folder), WORKLOADS["taxi"].highest_rate
    return generate("diurnal", low=50.0, high=600.0, slots=MADE_SLOTS, seed=0, noise=50.0), None


def show(found: Mapping[str, Sequence[EngineResults]], as_json: bool) -> None:
    if as_json:
        print_json(to_finite({terms: describe_results(matches) for terms, matches in found.items()}))
        return
    for terms, matches in found.items():
        lines = summarise_engines(matches)
        if not lines:
            raise BadInput("no engine kept the constraints in any setting; allow a larger --r-max, --eta-v or --eta-r")
        click.echo(f"{TITLES[terms]}\n")
        print_settings(list_settings(matches))
        print_columns(make_columns(lines, COLUMNS))
        click.echo("")
    click.echo(
        "Over the settings in which anybody kept the constraints; prices by geometric mean, where both engines did."
    )


def describe_results(matches: Sequence[EngineResults]) -> dict[str, Any]:
    lines, rows = summarise_engines(matches), list_settings(matches)
    return {"engines": [*map(asdict, lines)], "settings": rows, "matches": [*map(asdict, matches)]}


def print_settings(rows: Sequence[dict[str, Any]]) -> None:
    names = [key for key, value in rows[0].items() if isinstance(value, dict)]
    heads = ["application", "N_res", "R_max", "eta_V", "eta_R"]
    heads += [head for name in names for head in (f"{name} price/h", "kept", "ratio")]
    table = []
    for row in rows:
        cells = [row["application"], str(row["n_res"]), f"{1000 * row['r_max']:.0f} ms"]
        cells += [f"{row['eta_v']:.0%}", f"{row['eta_r']:.0%}"]
        for name in names:
            one = row[name]
            cells += [say(one["price"], ".2f"), f"{one['kept']}/{row['seeds']}", say(one["ratio"], ".3f")]
        table.append(cells)
    print_grid(heads, table, 1)
    click.echo("")


COLUMNS: tuple[tuple[str, Callable[[EngineSummary], str], str], ...] = (
    ("engine", lambda line: line.engine, ""),
    ("kept", lambda line: f"{line.kept:.1%}", ""),
    ("settings kept", lambda line: f"{line.settings_kept:.1%}", ""),
    ("price / skopt", lambda line: say(line.ratio, ".3f"), ""),
    ("worst", lambda line: say(line.worst, ".3f"), ""),
    ("no higher in", lambda line: f"{line.no_higher:.1%} of {line.compared}" if line.compared else "-", ""),
    ("evaluations", lambda line: f"{line.evaluations:.0f}", ""),
    ("Mslots", lambda line: f"{line.slots / 1e6:.1f}", ""),
    ("of these verification", lambda line: f"{line.verification_slots / 1e6:.1f}", ""),
    ("ms a suggestion", lambda line: f"{line.asking_ms:.0f}", ""),
    ("s a search", lambda line: f"{line.seconds:.1f}", ""),
)


def say(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
