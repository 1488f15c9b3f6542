"""Run the cells of a published table on all cores and compare each with the published figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sim.run import Run
from sim.simulate import simulate
from sim.trace import Trace
from tuner.lab.published.cells import DEEP, EXACT, PublishedCell, load_workload, make_cell_setting, read_cells
from tuner.lab.published.compare import CellComparison, compare
from tuner.simulation.parallel import run_all


@dataclass(frozen=True, slots=True)
class CellJob:
    """One cell to run in a worker."""

    cell: PublishedCell
    folder: Path
    seeds: tuple[int, ...]


@cache
def trace_in(folder: Path, name: str) -> Trace:
    """A trace, read once a worker."""
    return load_workload(name, folder)


def run_cell(job: CellJob) -> list[Run]:
    """Every seed of a cell."""
    setting = make_cell_setting(job.cell, trace_in(job.folder, job.cell.trace))
    return [simulate(setting, seed) for seed in job.seeds]


def choose_cells(table: int, policies: Sequence[str], deep: bool) -> list[PublishedCell]:
    """The cells of a table that were asked for; deep ones, minutes each, only on demand."""
    cells = [cell for cell in read_cells(table) if not policies or cell.policy in policies]
    return [cell for cell in cells if deep or cell.policy not in DEEP or cell.policy in policies]


def reproduce_table(
    table: int,
    folder: Path,
    seeds: int,
    policies: Sequence[str] = (),
    deep: bool = False,
    on_done: Callable[[CellComparison], None] | None = None,
) -> list[CellComparison]:
    """Published and ours, cell by cell, in the order of the table."""
    cells = choose_cells(table, policies, deep)
    jobs = [CellJob(cell, folder, tuple(range(1 if cell.policy in EXACT else seeds))) for cell in cells]

    def report(i: int, runs: list[Run]) -> None:
        if on_done is not None:
            on_done(compare(cells[i], runs))

    return [compare(cell, runs) for cell, runs in zip(cells, run_all(run_cell, jobs, report), strict=True)]
