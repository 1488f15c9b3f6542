"""`tuner lab reproduce`: compute published tables, figures and papers again, with a verdict on each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from scaler.model.errors import BadInput
from sim.simulate import MEASURES
from tuner.cli.interruption import run_interruptibly
from tuner.cli.options import file_type, json_option, print_json
from tuner.cli.progress import show_share
from tuner.lab.paper import PAPERS, SEEDS, ClaimCheck, FigurePair, PaperOutcome, find_paper
from tuner.lab.published.figures import FIGURE_SEEDS, FIGURES, FigureRequest, find_figure
from tuner.lab.published.tables import DEEP, POLICY_NAMES, CellComparison, Known, reproduce_table
from tuner.lab.study import Study
from tuner.simulation.runner import OnShare
from tuner.views.grid import print_columns, print_grid, print_lines
from tuner.views.words import make_columns

TRACES = Path("../shared/traces")
DEFAULT_SEEDS = 10
OWN_SEEDS = SEEDS | FIGURE_SEEDS
LISTED_SEEDS = ", ".join(f"{many} of {name}" for name, many in OWN_SEEDS.items())
TABLES = {"table2": 2, "table3": 3, "table4": 4, "table5": 5}
FIGURES_OF_CELL = ("seeds", "difference", *MEASURES[1:], "agrees", "remark")
COLUMNS: tuple[tuple[str, Callable[[CellComparison], str], str], ...] = (
    ("cell", lambda c: c.cell.where, ""),
    ("policy", lambda c: c.cell.policy, ""),
    ("published", lambda c: f"{c.cell.cost:.4f}", ""),
    ("ours", lambda c: f"{c.cost:.4f}", ""),
    ("± s.e.", lambda c: f"{c.error:.4f}" if c.error > 0.0 else "", ""),
    ("difference", lambda c: f"{c.difference:+.1%}", ""),
    ("viol. %", lambda c: f"{c.cell.violations} / {100 * c.violations:.1f}", ""),
    ("reconf. %", lambda c: f"{c.cell.reconfigurations} / {100 * c.reconfigurations:.1f}", ""),
    ("resources", lambda c: f"{c.cell.resources:.2f} / {c.resources:.2f}", ""),
    ("agrees", lambda c: "yes" if c.agrees else "no", ""),
    ("remark", lambda c: c.remark, ""),
)


Outcome = PaperOutcome | list[CellComparison]


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner lab reproduce table2 --traces ../shared/traces\n"
    "  tuner lab reproduce fig18 --json\n"
    "  tuner lab reproduce decentralised --seeds 3\n"
    "  tuner lab reproduce thesis --seeds 20\n"
    "  tuner lab reproduce multilevel\n"
    "  tuner lab reproduce --all --json"
)
@click.argument("what", required=False, type=click.Choice([*TABLES, *FIGURES, *PAPERS]))
@click.option("--all", "everything", is_flag=True, help="Reproduction of every table, figure and paper.")
@click.option(
    "--traces",
    type=file_type,
    default=TRACES,
    show_default=True,
    help="Folder with taxi.txt.gz, tweets.txt.gz, thesis_w1_rates.txt and thesis_w2_rates.txt.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    help=f"Number of random seeds, 0 to N - 1 (default: {DEFAULT_SEEDS}; {LISTED_SEEDS}).",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(list(POLICY_NAMES)),
    help="Name of a policy, whose rows of a table are computed; repeat it for several (default: all).",
)
@click.option("--deep", is_flag=True, help="Run the deep cells too, which take minutes each.")
@json_option
def reproduce(
    what: str | None,
    everything: bool,
    traces: Path,
    seeds: int | None,
    policies: tuple[str, ...],
    deep: bool,
    as_json: bool,
) -> None:
    """Compute a published table or figure again.

    Printed are the published figure, ours and the difference by cell; of a figure, what the text claims of it with a
    verdict on each claim, and our rows. Of another paper, all tables and figures with a verdict on each.
    """
    if everything == (what is not None):
        raise BadInput("name one table, figure or paper, or give --all, and not both")
    wanted = [what] if what is not None else [*TABLES, *FIGURES, *PAPERS]
    outcomes: dict[str, Outcome] = {}
    known: Known = {}
    for name in wanted:
        with show_share(name) as on_share:
            outcomes[name] = run_interruptibly(
                partial(
                    compute, name, traces, seeds or OWN_SEEDS.get(name, DEFAULT_SEEDS), policies, deep, on_share, known
                )
            )
        if not as_json:
            print_outcome(name, outcomes[name], deep or bool(policies))
    if as_json:
        described = {name: describe_outcome(outcome) for name, outcome in outcomes.items()}
        print_json(described if what is None else described[what])


def compute(
    name: str, traces: Path, seeds: int, policies: tuple[str, ...], deep: bool, on_share: OnShare, known: Known
) -> Outcome:
    """Reproduce one table, figure or paper; results of runs that a part shares with another are kept in `known`."""
    if name in TABLES:
        return reproduce_table(TABLES[name], traces, seeds, policies, deep, on_share, known)
    if name in FIGURES:
        return find_figure(name)(FigureRequest(traces, seeds, deep, on_share, known))
    return find_paper(name)(traces, seeds, on_share)


def print_outcome(name: str, outcome: Outcome, all_asked: bool) -> None:
    if isinstance(outcome, PaperOutcome):
        print_paper(outcome)
    else:
        print_cells(name, all_asked, outcome)


def describe_outcome(outcome: Outcome) -> Any:
    return describe_paper(outcome) if isinstance(outcome, PaperOutcome) else describe_cells(outcome)


def print_cells(what: str, all_asked: bool, cells: list[CellComparison]) -> None:
    """Published and ours side by side."""
    print_lines(f"{what}: average cost, published and ours", "")
    print_columns(make_columns(cells, COLUMNS), left=2, texts=("agrees", "remark"))
    print_lines(sum_up(cells, all_asked))


def describe_study(study: Study) -> dict[str, Any]:
    rows = [dict(zip(study.columns, row, strict=True)) for row in study.rows]
    return {"figure": study.figure, "caption": study.caption, "rows": rows}


def print_study(study: Study) -> None:
    cells = [[f"{value:.4g}" if isinstance(value, float) else str(value) for value in row] for row in study.rows]
    print_lines(f"{study.figure}: {study.caption}", "")
    print_grid(study.columns, cells)


def sum_up(cells: list[CellComparison], all_asked: bool) -> str:
    """How many cells agree, and which were not run."""
    agreeing = sum(c.agrees for c in cells)
    text = f"{agreeing} of {len(cells)} cells within 2 %, two standard errors or the last printed digit."
    return text if all_asked else f"{text} Not run: {', '.join(DEEP)} (minutes a cell; --deep runs them)."


def describe_cells(cells: list[CellComparison]) -> list[dict[str, Any]]:
    return [
        {
            **{key: getattr(c.cell, key) for key in ("table", "trace", "k_max", "infrastructure", "n_res", "policy")},
            "published": c.cell.cost,
            "ours": c.cost,
            "standard_error": c.error,
            **{key: getattr(c, key) for key in FIGURES_OF_CELL},
        }
        for c in cells
    ]


VERDICTS = {True: "agrees", False: "differs", None: "not printed"}
PAIR_COLUMNS: tuple[tuple[str, Callable[[FigurePair], str], str], ...] = (
    ("part", lambda pair: pair.part, ""),
    ("row", lambda pair: pair.row, ""),
    ("measure", lambda pair: pair.measure, ""),
    ("published", lambda pair: "-" if pair.published is None else f"{pair.published:.5g}", ""),
    ("ours", lambda pair: f"{pair.ours:.5g}", ""),
    ("± s.d.", lambda pair: f"{pair.deviation:.2g}" if pair.deviation > 0.0 else "", ""),
    ("difference", lambda pair: "" if pair.difference is None else f"{pair.difference:+.1%}", ""),
    ("verdict", lambda pair: VERDICTS[pair.agrees], ""),
    ("remark", lambda pair: pair.remark, ""),
)
CLAIM_COLUMNS: tuple[tuple[str, Callable[[ClaimCheck], str], str], ...] = (
    ("part", lambda check: check.part, ""),
    ("claim", lambda check: check.claim, ""),
    ("seen", lambda check: check.seen, ""),
    ("verdict", lambda check: "holds" if check.holds else "does not hold", ""),
)


def print_paper(outcome: PaperOutcome) -> None:
    """Printed figures and ours, then the claims, then what was read into the paper."""
    agreeing, printed = outcome.agreeing
    print_lines(f"{outcome.name}: {outcome.title}", "")
    if outcome.pairs:
        print_columns(make_columns(outcome.pairs, PAIR_COLUMNS), left=3, texts=("verdict", "remark"))
    print_columns(make_columns(outcome.claims, CLAIM_COLUMNS), left=2, texts=("seen", "verdict"))
    holding = sum(check.holds for check in outcome.claims)
    figures = f"{agreeing} of {printed} printed figures agree; " if printed else ""
    print_lines(f"{figures}{holding} of {len(outcome.claims)} claims hold.", *outcome.remarks)
    for study in outcome.studies:
        print_study(study)


def describe_paper(outcome: PaperOutcome) -> dict[str, Any]:
    agreeing, printed = outcome.agreeing
    pairs = [
        {
            **{key: getattr(pair, key) for key in ("part", "row", "measure", "published", "ours")},
            "standard_deviation": pair.deviation,
            **{key: getattr(pair, key) for key in ("difference", "allowed", "factor", "agrees", "remark")},
        }
        for pair in outcome.pairs
    ]
    claims = [{key: getattr(check, key) for key in ("part", "claim", "seen", "holds")} for check in outcome.claims]
    return {
        "paper": outcome.name,
        "title": outcome.title,
        "agreeing": agreeing,
        "printed": printed,
        "figures": pairs,
        "claims": claims,
        "remarks": list(outcome.remarks),
        "tables": [describe_study(study) for study in outcome.studies],
    }
