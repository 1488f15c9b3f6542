"""A micro-batch query whose replicas change, each change paid for by the next batch, as folded samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scaler.model.sample import Sample
from tests.oracles.batches import run_batches
from tests.surrogate.worlds import WINDOW, arrive, by_window

Change = tuple[float, int]  # when, and how many replicas there are from then on


def changing_stream(
    changes: Sequence[Change],
    hold: Callable[[int], float],
    rate: Callable[[float], float],
    windows: int = 120,
    mean: float = 0.1,
    overhead: float = 0.5,
    trigger: float = 5.0,
    noise: float = 0.1,
    seed: int = 1,
    shared: float = 0.0,
    spread: bool = False,
) -> list[Sample]:
    """`shared` is of the overhead, and divided by the replicas; `spread`: tuples count as they are served, as tasks
    tell, and else as their batch ends.

    `hold(n)`: seconds that a change by n replicas adds to the next batch; `rate(t)`: tuples per second.
    """
    rng = np.random.default_rng(seed)
    moments = np.array([moment for moment, _ in changes])
    counts = [count for _, count in changes]
    seen, owed = counts[0], 0.0

    def replicas(now: float) -> int:
        nonlocal seen, owed
        there = counts[int(np.searchsorted(moments, now, "right")) - 1]
        owed += hold(there - seen) if there != seen else 0.0
        seen = there
        return there

    def spend() -> float:
        nonlocal owed
        lasts, owed = overhead + shared / seen + owed + abs(noise * float(rng.standard_normal())), 0.0
        return lasts

    arrivals = arrive(rng, np.array([rate((w + 0.5) * WINDOW) for w in range(windows)]))
    batches = run_batches(arrivals, trigger, spend, lambda n: np.full(n, mean), replicas)
    ends, starts = np.array([b.end for b in batches]), np.array([b.start for b in batches])
    sizes = np.array([float(b.tuples) for b in batches])
    within = ends < windows * WINDOW
    ends, starts, sizes = ends[within], starts[within], sizes[within]
    edges = WINDOW * np.arange(windows + 1)[:, None]
    served = np.diff((sizes * np.clip((edges - starts) / (ends - starts), 0.0, 1.0)).sum(axis=1))
    taken = served if spread else by_window(ends, sizes, windows)
    columns = {
        "arrived": by_window(arrivals, np.ones(arrivals.size), windows),
        "tuples_in": taken,
        "batches": by_window(ends, np.ones(ends.size), windows),
        "batch_time": by_window(ends, ends - starts, windows),
        "service_n": taken,
        "service_sum": taken * mean,
        "service_squares": taken * mean**2,
        "response_n": by_window(ends, sizes, windows),
        "response_sum": by_window(ends, sizes * (ends - starts + trigger / 2.0), windows),
    }
    fine = np.arange(0.0, windows * WINDOW) + 0.5
    there = np.array(counts)[np.searchsorted(moments, fine, "right") - 1]
    columns["replicas"] = there.reshape(windows, -1).mean(axis=1)
    return [
        Sample(
            "shop", "count", w * WINDOW, (w + 1) * WINDOW, "records", node_type="plain",
            **{column: float(values[w]) for column, values in columns.items()},
        )
        for w in range(windows)
    ]  # fmt: skip
