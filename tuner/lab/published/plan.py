"""Plan of a benchmark over the 24 settings of Tables 2 to 5.

Unlike in the tables every policy starts on the first type, because the floor does. The N_res 10 column of B ran on an
earlier list of speeds, and so it does here.
"""

from __future__ import annotations

from pathlib import Path

from scaler.model.errors import BadInput
from scaler.policies import POLICIES
from sim.toml_table import Table
from tuner.lab.plan import FLAGS, BenchmarkPlan, PublishedBest, make_cell, name_policy_flags
from tuner.lab.published.tables import WORKLOADS, load_workload, make_published_setting, read_cells
from tuner.scenario.scenario import blame, spread_options, take_seeds

TABLES = (2, 3, 4, 5)
DEFAULT_POLICIES = [name for name in ("threshold-c", "ql-pds-plus", "planner") if name in POLICIES]
Size = tuple[str, str, int, int]  # trace, infrastructure, N_res, K_max


def plan_published(folder: Path, flags: Table | None = None, shift: str | None = None) -> BenchmarkPlan:
    """All settings, or those of the sizes asked for."""
    flags = flags or {}
    with blame(name_policy_flags(flags)):
        names, options = flags.get("policies", DEFAULT_POLICIES), flags.get("options", {})
        policies = spread_options({"names": names, "options": options})
    with blame(FLAGS["seeds"]):
        seeds = take_seeds(flags.get("seeds", 1))
    traces = {name: load_workload(name, folder) for name in WORKLOADS}
    cells = []
    for (trace, infrastructure, n_res, k_max), best in list_published().items():
        if n_res in flags.get("n_res", [n_res]) and k_max in flags.get("k_max", [k_max]):
            size = (trace, infrastructure, n_res, k_max)
            setting = make_published_setting(*size, traces[trace], next(iter(policies)))
            cells.append(make_cell(trace, infrastructure, setting, shift, best if shift is None else None))
    if not cells:
        raise BadInput("--n-res and --k-max leave no published setting; there are 3, 6 and 10, and 10 and 20")
    return BenchmarkPlan("the settings of Tables 2 to 5", tuple(cells), policies, seeds, shift)


def list_published() -> dict[Size, PublishedBest]:
    """The settings, each with the cheapest row that was published for it."""
    best: dict[Size, PublishedBest] = {}
    for table in TABLES:
        for cell in read_cells(table):
            size = (cell.trace, cell.infrastructure, cell.n_res, cell.k_max)
            if size not in best or cell.cost < best[size].cost:
                best[size] = PublishedBest(cell.policy, cell.cost)
    return dict(sorted(best.items()))
