"""Small problems that tests share."""

from __future__ import annotations

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.nodes import NodeType
from scaler.model.task import Moments, Task, Weights

SPEEDS = (1.0, 0.7, 1.3, 0.9, 1.7)


def make_task(types: int = 3, k_max: int = 4, gamma: float = 0.99, levels: int = 10, **changes: object) -> Task:
    """One operator of 180 tuples per second within 50 ms, on the first speeds of infrastructure A."""
    fields: dict[str, object] = {
        "types": tuple(NodeType(f"A{i + 1}", s, s) for i, s in enumerate(SPEEDS[:types])),
        "k_max": k_max,
        "moments": Moments(1 / 180, (1 / 180) ** 2 / 2),
        "bound": 0.05,
        "weights": Weights(),
        "highest_rate": 650.0,
        "levels": levels,
        "gamma": gamma,
    }
    return Task(**(fields | changes))  # type: ignore[arg-type]


def make_rates(slots: int, seed: int = 0, low: float = 20.0, high: float = 620.0) -> Floats:
    """A rate that wanders between two limits, with noise."""
    rng = np.random.default_rng(seed)
    wave = (np.sin(np.arange(slots) / 37.0) + 1.0) / 2.0
    return np.clip(low + (high - low) * wave + rng.normal(0.0, 15.0, slots), 0.0, None)
