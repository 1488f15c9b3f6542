"""Compare a published cell with our runs, and say what explains a difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.run import Run
from tuner.lab.policy_summary import HALF_DIGIT
from tuner.lab.published.cells import DEEP, PublishedCell

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


def compare(cell: PublishedCell, runs: list[Run]) -> CellComparison:
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
        violations=float(np.mean([run.violations for run in runs])),
        reconfigurations=float(np.mean([run.reconfigurations for run in runs])),
        resources=float(np.mean([run.resources for run in runs])),
        agrees=agrees,
        remark=explain(cell, cost, deviation, agrees),
    )


def explain(cell: PublishedCell, cost: float, deviation: float, agrees: bool) -> str:
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
