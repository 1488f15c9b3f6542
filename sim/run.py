"""Result of a replay: averages with their standard errors from block sums, and a time line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scaler.model.kernel import Floats, Integers

MEASURES = ("cost", "violations", "reconfigurations", "resources")


@dataclass(frozen=True, slots=True)
class Timeline:
    """What happened slot by slot; one row per operator."""

    rates: Floats  # [T] external arrival rate
    responses: Floats  # [operators, T] seconds
    actions: Integers  # [operators, T] codes of what was decided in the slot
    start: Integers  # [operators, N] replicas in the first slot

    def replicas(self, operator: int) -> Integers:
        """Replicas by node type in every slot [T, N]."""
        types = self.start.shape[1]
        codes = self.actions[operator]
        changes = np.zeros((len(codes) + 1, types), np.int64)
        changes[0] = self.start[operator]
        for i in range(types):
            changes[1:, i] = (codes == i + 1 + types).astype(np.int64) - (codes == i + 1)
        return np.cumsum(changes, axis=0)[:-1]


@dataclass(frozen=True, slots=True)
class Run:
    """Averages over all slots. Violations and reconfigurations are fractions, resources a price per hour."""

    policy: str  # the title the literature knows it by
    seed: int
    slots: int
    cost: float
    violations: float
    reconfigurations: float
    resources: float
    errors: dict[str, float]  # standard error of each of the above, from batch means
    replicas: Floats  # [operators, N] mean replicas by node type
    policy_bytes: int  # held by the policies' tables at the end
    seconds: float
    timeline: Timeline | None = None
    blocks: Mapping[str, Floats] = field(default_factory=dict)  # each measure's means, block by block


def batch_error(values: Floats, slots: Floats) -> float:
    """Standard error of a mean over slots from its block means, blocks taken for independent.

    values [blocks] are sums over the block's slots; a short last block is left out.
    """
    means = (values / slots)[slots == slots.max()]
    return float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else float("nan")
