"""Cells of the published Tables 2 to 5: settings that reproduce them, runs on all cores, comparison, a benchmark plan.

Found by running: on infrastructure B the published threshold rows at N_res 3 and 6 start with one replica of the type
that they pick (the others start on type 1), and the whole N_res 10 column of B came from an earlier list of speeds.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from scaler.model.errors import BadInput
from scaler.policies.homogeneous import cheapest, fastest
from sim.graphs import single
from sim.infrastructure import find_infrastructure
from sim.setting import Setting, tasks
from sim.simulate import MEASURES, Run, simulate
from sim.toml_table import Table
from sim.trace import Trace, window
from sim.trace_file import read_trace
from tuner.lab.plan import FLAGS, BenchmarkPlan, PublishedBest, make_cell, name_policy_flags
from tuner.lab.policy_benchmark import HALF_DIGIT
from tuner.scenario.scenario import blame, spread_options, take_seeds
from tuner.simulation.runner import OnShare
from tuner.simulation.workers import Job, Result, run_all

TABLES = (2, 3, 4, 5)
DEFAULT_POLICIES = ("threshold-c", "ql-pds-plus", "planner")
Size = tuple[str, str, int, int]  # trace, infrastructure, N_res, K_max
POLICY_NAMES = {
    "TB-C": "threshold-c",
    "TB-S": "threshold-s",
    "QL": "ql",
    "QL+PDS": "ql-pds",
    "QL+PDS+": "ql-pds-plus",
    "QL+FA": "ql-fa",
    "DQL": "dql",
    "DQL+PDS": "dql-pds",
    "DQL+PDS+": "dql-pds-plus",
}
DEEP = ("DQL", "DQL+PDS", "DQL+PDS+")
EXACT = ("TB-C", "TB-S", "QL+PDS")  # nothing random in them: one run is all there is
OPTIONS: dict[str, Mapping[str, Any]] = {
    name: {"as_published": True} for name in ("QL+PDS", "QL+PDS+", *DEEP)
}  # what the published figures came from, where it is not what the paper writes
PICKS = {"threshold-c": cheapest, "threshold-s": fastest}


@dataclass(frozen=True, slots=True)
class PublishedWorkload:
    """A trace of the paper: how many of its slots, the service rate it is met with, the top of the rate levels."""

    slots: int | None
    service_rate: float
    highest_rate: float


WORKLOADS = {"taxi": PublishedWorkload(400_001, 180.0, 650.0), "tweets": PublishedWorkload(None, 1620.0, 9000.0)}
Known = dict[Hashable, Any]  # results by job, for parts of `--all` that share them
R_MAX = 0.050
KINDS: dict[str, Callable[[str], Any]] = dict.fromkeys(("table", "k_max", "n_res"), int)
KINDS |= dict.fromkeys(("cost", "resources"), float)


@dataclass(frozen=True, slots=True)
class PublishedCell:
    """One published row."""

    table: int
    trace: str
    k_max: int
    n_res: int
    infrastructure: str
    policy: str
    cost: float
    violations: str  # per cent, as printed ("<0.1" included)
    reconfigurations: str
    resources: float

    @property
    def where(self) -> str:
        return f"{self.trace} K{self.k_max} {self.infrastructure} N{self.n_res}"


def read_cells(table: int) -> list[PublishedCell]:
    """The published rows of one table."""
    text = files("tuner.lab.published").joinpath("tables.csv").read_text(encoding="utf-8")
    rows = (
        {name: KINDS.get(name, str)(value) for name, value in row.items()} for row in csv.DictReader(text.splitlines())
    )
    return [PublishedCell(**row) for row in rows if row["table"] == table]


@cache
def load_workload(name: str, folder: Path) -> Trace:
    """The slots of a trace that the published averages run over; read once a worker."""
    trace = read_workload(name, folder)
    slots = WORKLOADS[name].slots
    return trace if slots is None else window(trace, 0, slots)


def read_workload(name: str, folder: Path) -> Trace:
    """A whole trace of the papers."""
    path = folder / f"{name}.txt.gz"
    if not path.exists():
        raise BadInput(
            f"{path} is not there; --traces names the folder that holds taxi.txt.gz and tweets.txt.gz; "
            "stand-ins for the papers' traces: tuner lab traces FOLDER"
        )
    return read_trace(path)


def make_published_setting(
    workload: str, infrastructure: str, n_res: int, k_max: int, trace: Trace, policy: str
) -> Setting:
    """One operator under a workload of the paper; `policy` as the tables or as the registry name it."""
    earlier = infrastructure == "B" and n_res == 10
    return Setting(
        application=single(WORKLOADS[workload].service_rate, k_max),
        infrastructure=find_infrastructure("B-earlier" if earlier else infrastructure, n_res),
        trace=trace,
        policy=POLICY_NAMES.get(policy, policy),
        r_max=R_MAX,
        highest_rate=WORKLOADS[workload].highest_rate,
        options=OPTIONS.get(policy, {}),
        perturbed=True,
    )


def make_cell_setting(cell: PublishedCell, trace: Trace) -> Setting:
    """The setting that reproduces a cell."""
    setting = make_published_setting(cell.trace, cell.infrastructure, cell.n_res, cell.k_max, trace, cell.policy)
    return start_as_published(setting, cell.infrastructure, cell.n_res)


def start_as_published(setting: Setting, infrastructure: str, n_res: int) -> Setting:
    """Start thresholds on the type that they pick where the published rows did."""
    if infrastructure != "B" or n_res >= 10 or setting.policy not in PICKS:
        return setting
    pick = PICKS[setting.policy](tasks(setting)[0])
    return replace(setting, first={setting.infrastructure.types[pick].name: 1})


STEADY = 0.02  # a cell whose seeds scatter by less pins its figure down


@dataclass(frozen=True, slots=True)
class CellComparison:
    """A cell, our averages over seeds and the verdict."""

    cell: PublishedCell
    seeds: int
    cost: float
    error: float  # standard error over seeds; 0 where nothing is random
    scatter: float  # standard deviation of one seed, relative to the mean
    violations: float
    reconfigurations: float
    resources: float
    agrees: bool
    remark: str

    @property
    def difference(self) -> float:
        """Relative to the published cost."""
        return self.cost / self.cell.cost - 1.0


def compare_cell(cell: PublishedCell, runs: list[Run]) -> CellComparison:
    """Agreement: within 2 %, two standard errors, or the rounding of the published figure, whichever is wider."""
    costs = np.array([run.cost for run in runs])
    cost = float(costs.mean())
    deviation = float(costs.std(ddof=1)) if len(costs) > 1 else 0.0
    error = deviation / len(costs) ** 0.5
    agrees = abs(cost - cell.cost) <= max(0.02 * cell.cost, 2.0 * error, HALF_DIGIT)
    return CellComparison(
        cell=cell,
        seeds=len(runs),
        cost=cost,
        error=error,
        scatter=deviation / cost,
        agrees=agrees,
        remark=explain_difference(cell, cost, deviation, agrees),
        **{name: float(np.mean([getattr(run, name) for run in runs])) for name in MEASURES[1:]},
    )


def explain_difference(cell: PublishedCell, cost: float, deviation: float, agrees: bool) -> str:
    """One sentence on a cell that differs, or on one that agrees only because it scatters."""
    if agrees and deviation <= STEADY * cost:
        return ""
    if agrees:
        return f"not stable: one seed scatters by {deviation / cost:.0%}"
    if cell.policy in DEEP:
        return "other initial weights and replay order; deep runs vary from one to the next"
    if cell.policy == "QL+FA":
        return "the published text leaves the tiles' offsets and step size open"
    if deviation > STEADY * cost:
        apart = abs(cost - cell.cost) / deviation
        return f"not stable: one draw of the model's errors, {apart:.1f} times one seed's {deviation / cost:.0%}"
    return "unexplained"


def run_cell(job: tuple[PublishedCell, Path, int]) -> list[Run]:
    """A cell under the traces of a folder with so many seeds, from 0 on."""
    cell, folder, seeds = job
    setting = make_cell_setting(cell, load_workload(cell.trace, folder))
    return [simulate(setting, seed) for seed in range(seeds)]


def reproduce_table(
    table: int,
    folder: Path,
    seeds: int,
    policies: Sequence[str],
    deep: bool,
    on_share: OnShare,
    known: Known | None = None,
) -> list[CellComparison]:
    """Published and ours, cell by cell, in the order of the table; deep ones, minutes each, only on demand."""
    chosen = policies or [name for name in POLICY_NAMES if deep or name not in DEEP]
    cells = [cell for cell in read_cells(table) if cell.policy in chosen]
    jobs = [(cell, folder, 1 if cell.policy in EXACT else seeds) for cell in cells]
    runs = run_missing(run_cell, jobs, on_share, {} if known is None else known)
    return [compare_cell(cell, its) for cell, its in zip(cells, runs, strict=True)]


def run_jobs(work: Callable[[Job], Result], jobs: Sequence[Job], on_share: OnShare) -> list[Result]:
    """All jobs on all cores."""
    done = count(1)
    return run_all(work, jobs, lambda *_: on_share(next(done) / len(jobs)))


def run_missing(work: Callable[[Job], Result], jobs: Sequence[Job], on_share: OnShare, known: Known) -> list[Result]:
    """Run the jobs, which are hashable, that are not known yet, and add their results to what is known."""
    missing = [job for job in jobs if job not in known]
    known.update(zip(missing, run_jobs(work, missing, on_share), strict=True))
    return [known[job] for job in jobs]


def plan_published(folder: Path, flags: Table | None = None, shift: str | None = None) -> BenchmarkPlan:
    """Plan a benchmark over the 24 settings of Tables 2 to 5, or those of the sizes asked for.

    Unlike in the tables every policy starts on the first type, because the floor does.
    """
    flags = flags or {}
    with blame(name_policy_flags(flags)):
        names, options = flags.get("policies", [*DEFAULT_POLICIES]), flags.get("options", {})
        policies = spread_options({"names": names, "options": options})
    with blame(FLAGS["seeds"]):
        seeds = take_seeds(flags.get("seeds", 1))
    traces = {name: load_workload(name, folder) for name in WORKLOADS}
    cells = []
    for size, best in list_published().items():
        trace, infrastructure, n_res, k_max = size
        if n_res in flags.get("n_res", [n_res]) and k_max in flags.get("k_max", [k_max]):
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
