"""Cells of the published Tables 2 to 5, and the setting that reproduces each.

Found by running: on infrastructure B the published threshold rows at N_res 3 and 6 start with one replica of the type
that they pick (the others start on type 1), and the whole N_res 10 column of B came from an earlier list of speeds.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from scaler.model.errors import BadInput
from scaler.policies.node_choice import cheapest, fastest
from sim.graphs import find_application
from sim.infrastructure import find_infrastructure
from sim.setting import Setting, tasks
from sim.trace import Trace, window
from sim.trace_file import read_trace

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
PICKS = {"TB-C": cheapest, "TB-S": fastest}


@dataclass(frozen=True, slots=True)
class PublishedWorkload:
    """A trace of the paper: how many of its slots, the service rate it is met with, the top of the rate levels."""

    slots: int | None
    service_rate: float
    highest_rate: float


WORKLOADS = {"taxi": PublishedWorkload(400_001, 180.0, 650.0), "tweets": PublishedWorkload(None, 1620.0, 9000.0)}
R_MAX = 0.050


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
    return [
        PublishedCell(
            table=int(row["table"]),
            trace=row["trace"],
            k_max=int(row["k_max"]),
            n_res=int(row["n_res"]),
            infrastructure=row["infrastructure"],
            policy=row["policy"],
            cost=float(row["avg_cost"]),
            violations=row["violations_pct"],
            reconfigurations=row["reconfigurations_pct"],
            resources=float(row["resources"]),
        )
        for row in csv.DictReader(text.splitlines())
        if int(row["table"]) == table
    ]


def load_workload(name: str, folder: Path) -> Trace:
    """The slots of a trace that the published averages run over."""
    path = folder / f"{name}.txt.gz"
    if not path.exists():
        raise BadInput(f"{path} is not there; --traces names the folder that holds taxi.txt.gz and tweets.txt.gz")
    trace = read_trace(path)
    slots = WORKLOADS[name].slots
    return trace if slots is None else window(trace, 0, slots)


def make_cell_setting(cell: PublishedCell, trace: Trace) -> Setting:
    """The setting that reproduces a cell."""
    workload = WORKLOADS[cell.trace]
    earlier = cell.infrastructure == "B" and cell.n_res == 10
    setting = Setting(
        application=find_application("single", service_rate=workload.service_rate, k_max=cell.k_max),
        infrastructure=find_infrastructure("B-earlier" if earlier else cell.infrastructure, cell.n_res),
        trace=trace,
        policy=POLICY_NAMES[cell.policy],
        r_max=R_MAX,
        highest_rate=workload.highest_rate,
        options=OPTIONS.get(cell.policy, {}),
        perturbed=True,
    )
    if cell.infrastructure == "B" and not earlier and cell.policy in PICKS:
        pick = PICKS[cell.policy](tasks(setting)[0])
        return replace(setting, start=setting.infrastructure.types[pick].name)
    return setting
