"""Optimum of operators that scale together, by value iteration over all of them; the box minimum of the specification.

    V(k, l) = min(U(k, l), w_rcf + min over |k' - k| <= 1 of U(k', l)),  U = resources + E[late + gamma V],

with the box minimum as one 3-point minimum for each operator in turn. Independent of the product's planning.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
GAMMA = 0.99


@dataclass(frozen=True)
class Chain:
    """A pipeline of M/D/1 operators of one node type, under a Markov chain of rate levels."""

    service_rates: tuple[float, ...]
    k_max: int
    limit: float  # seconds, of the whole path
    weights: tuple[float, float, float]  # late, reconfigured, resources
    rates: Floats  # [L] tuples per second of each level
    chances: Floats  # [L, L]

    @cached_property
    def late(self) -> NDArray[np.bool_]:
        """[K, ..., K, L] whether the path takes too long."""
        n, total = len(self.service_rates), np.zeros(())
        for o, mu in enumerate(self.service_rates):
            load = self.rates / (np.arange(1, self.k_max + 1)[:, None] * mu)
            with np.errstate(divide="ignore"):
                response = np.where(load < 1.0, 1.0 / mu + load / (2.0 * mu * np.maximum(1.0 - load, 0.0)), np.inf)
            shape = [1] * n + [len(self.rates)]
            shape[o] = self.k_max
            total = total + response.reshape(shape)
        return total > self.limit

    @cached_property
    def resources(self) -> Floats:
        """[K, ..., K, 1] the share of all replicas that there may be."""
        n = len(self.service_rates)
        return (np.indices([self.k_max] * n).sum(axis=0)[..., None] + n) / (n * self.k_max)

    @cached_property
    def values(self) -> Floats:
        """[K, ..., K, L] U, to 1e-6."""
        late, pause, rent = self.weights
        values = np.zeros(self.late.shape)
        while True:
            least = np.minimum(values, pause + box_minimum(values))
            swept = rent * self.resources + (late * self.late + GAMMA * least) @ self.chances.T
            if np.abs(swept - values).max() < 1e-6:
                return swept
            values = swept

    def draw(self, slots: int, seed: int) -> NDArray[np.int64]:
        """Levels of so many slots."""
        rng = np.random.default_rng(seed)
        edges, level, levels = self.chances.cumsum(axis=1), 0, np.empty(slots, np.int64)
        for t, chance in enumerate(rng.random(slots)):
            level = levels[t] = min(len(self.rates) - 1, int(np.searchsorted(edges[level], chance)))
        return levels

    def replay(self, levels: NDArray[np.int64]) -> float:
        """Mean slot cost of the optimum over these levels, from one replica each."""
        late, pause, rent = self.weights
        n, total = len(self.service_rates), 0.0
        k, chosen = (0,) * n, dict[tuple[int, ...], tuple[int, ...]]()
        for level in levels.tolist():
            total += late * self.late[(*k, level)] + rent * self.resources[(*k, 0)]
            if (*k, level) not in chosen:
                chosen[*k, level] = self.choose(k, level)
            total += pause * (chosen[*k, level] != k)
            k = chosen[*k, level]
        return float(total / len(levels))

    def choose(self, k: tuple[int, ...], level: int) -> tuple[int, ...]:
        """The best of all joint moves."""
        near = product(*[range(max(0, each - 1), min(self.k_max, each + 2)) for each in k])
        return min(near, key=lambda to: (self.values[(*to, level)] + self.weights[1] * (to != k), to != k))


def box_minimum(values: Floats) -> Floats:
    """The least over each operator's neighbours, one operator after the other."""
    for axis in range(values.ndim - 1):
        fewer, more = np.full_like(values, np.inf), np.full_like(values, np.inf)
        np.moveaxis(fewer, axis, 0)[1:] = np.moveaxis(values, axis, 0)[:-1]
        np.moveaxis(more, axis, 0)[:-1] = np.moveaxis(values, axis, 0)[1:]
        values = np.minimum(values, np.minimum(fewer, more))
    return values
