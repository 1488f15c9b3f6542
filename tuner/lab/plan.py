"""Plan of a policy benchmark: cells by name, policies with options, seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaler.model.kernel import lay_out
from sim.setting import Setting, tasks
from tuner.lab.shifts import ShiftedWorld, apply_shift

Options = Mapping[str, Mapping[str, Any]]  # of each policy


@dataclass(frozen=True, slots=True)
class PublishedBest:
    """The cheapest row that was published for a cell."""

    policy: str
    cost: float


@dataclass(frozen=True, slots=True)
class BenchmarkCell:
    """One world in which every policy is replayed."""

    workload: str
    application: str
    infrastructure: str
    n_res: int
    k_max: str  # a range where operators differ
    world: ShiftedWorld
    published: PublishedBest | None = None

    @property
    def group(self) -> str:
        """The workload, and what meets it where that says more."""
        return self.workload if self.application == "single" else f"{self.workload}, {self.application}"

    @property
    def size(self) -> str:
        return f"{self.infrastructure} N{self.n_res} K{self.k_max}"

    @property
    def name(self) -> str:
        return f"{self.group} {self.size}"


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """Every cell with every policy and every seed."""

    name: str
    cells: tuple[BenchmarkCell, ...]
    policies: Options
    seeds: tuple[int, ...]
    shift: str | None = None


def make_cell(
    workload: str, infrastructure: str, setting: Setting, shift: str | None, published: PublishedBest | None = None
) -> BenchmarkCell:
    """A setting, changed half-way if asked for, as a cell; refused here if it cannot be laid out for kernels."""
    for task in tasks(setting):
        lay_out(task)
    most = sorted({operator.k_max for operator in setting.application.operators})
    return BenchmarkCell(
        workload=workload,
        application=setting.application.name,
        infrastructure=infrastructure,
        n_res=len(setting.infrastructure.types),
        k_max="-".join(map(str, dict.fromkeys((most[0], most[-1])))),
        world=ShiftedWorld(setting) if shift is None else apply_shift(shift, setting),
        published=published,
    )
