"""`tuner lab reproduce`: compute a published table or figure again, beside the published one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from sim.simulate import MEASURES
from tuner.cli.options import json_option, print_json
from tuner.cli.progress import run_interruptibly, show_share
from tuner.lab.published.figures import FIGURES, Study
from tuner.lab.published.tables import DEEP, POLICY_NAMES, CellComparison, reproduce_table
from tuner.views.grid import print_grid, print_lines

TABLES = {"table2": 2, "table3": 3, "table4": 4, "table5": 5}
FIGURES_OF_CELL = ("seeds", "difference", *MEASURES[1:], "agrees", "remark")
HEADS = (
    *("cell", "policy", "published", "ours", "± s.e.", "difference"),
    *("viol. %", "reconf. %", "resources", "agrees", "remark"),
)
EPILOG = "\b\nExample:\n  tuner lab reproduce table2 --traces ../shared/traces\n  tuner lab reproduce fig18 --json"


@click.command(epilog=EPILOG)
@click.argument("what", type=click.Choice([*TABLES, *FIGURES]))
@click.option(
    "--traces",
    type=click.Path(path_type=Path),
    default=Path("../shared/traces"),
    show_default=True,
    help="Folder with taxi.txt.gz and tweets.txt.gz.",
)
@click.option(
    "--seeds", default=10, show_default=True, type=click.IntRange(1), help="Number of random seeds, 0 to N - 1."
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(list(POLICY_NAMES)),
    help="Name of a policy, whose rows are computed; repeat it for several (default: all).",
)
@click.option("--deep", is_flag=True, help="Run the deep cells too, which take minutes each.")
@json_option
def reproduce(what: str, traces: Path, seeds: int, policies: tuple[str, ...], deep: bool, as_json: bool) -> None:
    """Compute a published table or figure again.

    Printed are the published figure, ours and the difference, cell by cell.
    """
    work = partial(reproduce_table, TABLES[what], traces, seeds, policies, deep) if what in TABLES else None
    with show_share(what) as on_share:
        found = run_interruptibly(lambda: work(on_share) if work else FIGURES[what](traces, seeds, on_share))
    if isinstance(found, Study):
        show_study(found, as_json)
    else:
        show_cells(what, found, deep or bool(policies), as_json)


def show_cells(what: str, cells: list[CellComparison], all_asked: bool, as_json: bool) -> None:
    """Published and ours side by side."""
    if as_json:
        print_json(describe_cells(cells))
        return
    rows = [
        (
            c.cell.where,
            c.cell.policy,
            f"{c.cell.cost:.4f}",
            f"{c.cost:.4f}",
            f"{c.error:.4f}" if c.error > 0.0 else "",
            f"{c.difference:+.1%}",
            f"{c.cell.violations} / {100 * c.violations:.1f}",
            f"{c.cell.reconfigurations} / {100 * c.reconfigurations:.1f}",
            f"{c.cell.resources:.2f} / {c.resources:.2f}",
            "yes" if c.agrees else "no",
            c.remark,
        )
        for c in cells
    ]
    print_lines(f"{what}: average cost, published and ours", "")
    print_grid(HEADS, rows, left=2, texts=("agrees", "remark"))
    print_lines(sum_up(cells, all_asked))


def show_study(study: Study, as_json: bool) -> None:
    if as_json:
        rows = [dict(zip(study.columns, row, strict=True)) for row in study.rows]
        print_json({"figure": study.figure, "caption": study.caption, "rows": rows})
        return
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
