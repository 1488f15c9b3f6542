"""Streams made up event by event, and the folded samples that monitoring would make of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scaler.model.sample import Sample
from scaler.model.sketch import STEP
from tests.oracles.batches import run_batches

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
WINDOW = 60.0

LAWS: dict[str, tuple[Draw, float]] = {  # of mean 1, with their variance
    "deterministic": (lambda _, n: np.ones(n), 0.0),
    "gamma": (lambda rng, n: rng.gamma(2.0, 0.5, n), 0.5),
    "exponential": (lambda rng, n: rng.exponential(1.0, n), 1.0),
    "hyperexponential": (
        lambda rng, n: np.where(rng.random(n) < 0.3076923, rng.exponential(2.5, n), rng.exponential(1 / 3.0, n)),
        3.0,
    ),
}


def load_pattern(windows: int, low: float = 0.2, high: float = 0.8) -> Floats:
    """Utilisation by window: up and down, several times, not in step with what is held out."""
    return low + (high - low) * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(windows) / 23.7))


def arrive(rng: np.random.Generator, rates: Floats) -> Floats:
    """Poisson arrivals at a rate per window."""
    counts = rng.poisson(rates * WINDOW)
    parts = [np.sort(rng.random(n)) * WINDOW + i * WINDOW for i, n in enumerate(counts)]
    return np.concatenate(parts)


def serve(arrivals: Floats, times: Floats) -> Floats:
    """When each tuple leaves one server that takes them in turn (Lindley's recursion, unrolled)."""
    work = np.cumsum(times)
    return work + np.maximum.accumulate(arrivals - np.concatenate([[0.0], work[:-1]]))


def sketch_windows(at: Floats, responses: Floats, windows: int) -> list[dict[str, float]]:
    """Sketches of the response times of tuples that were answered then, by window."""
    lowest = int(np.floor(np.log(responses.min()) / STEP))
    buckets = np.ceil(np.log(responses) / STEP).astype(int) - lowest
    table = np.zeros((windows, int(buckets.max()) + 1))
    inside = at < windows * WINDOW
    np.add.at(table, ((at[inside] // WINDOW).astype(int), buckets[inside]), 1.0)
    return [{str(int(b) + lowest): float(row[b]) for b in np.flatnonzero(row)} for row in table]


def by_window(at: Floats, values: Floats, windows: int) -> Floats:
    return np.bincount((at // WINDOW).astype(int), values, minlength=windows)[:windows]


def queue_stream(
    law: str = "exponential",
    windows: int = 240,
    mean: float = 0.02,
    low: float = 0.2,
    high: float = 0.8,
    constant: float = 0.05,
    replicas: tuple[tuple[str, int], ...] = (("plain", 2),),
    speeds: tuple[tuple[str, float], ...] = (),
    seed: int = 1,
    operator: str = "count",
    start: float = 0.0,
    slower: Callable[[Floats], Floats] | None = None,
    selectivity: float = 2.0,
) -> list[Sample]:
    """Replicas with a queue each, arrivals dealt to them by chance; every answer takes a constant longer."""
    rng = np.random.default_rng(seed)
    speed = {**{name: 1.0 for name, _ in replicas}, **dict(speeds)}
    count = sum(many for _, many in replicas)
    slowest = min(speed.values())
    rates = load_pattern(windows, low, high) * count * slowest / mean
    arrivals = arrive(rng, rates)
    where = rng.integers(0, count, arrivals.size)
    kinds = [name for name, many in replicas for _ in range(many)]
    samples: dict[str, dict[str, Floats]] = {name: {} for name, _ in replicas}

    def add(name: str, column: str, values: Floats) -> None:
        samples[name][column] = samples[name].get(column, np.zeros(windows)) + values

    for i, kind in enumerate(kinds):
        own = arrivals[where == i]
        times = LAWS[law][0](rng, own.size) * mean / speed[kind]
        if slower is not None:
            times = times * slower(own / WINDOW)
        left = serve(own, times)
        ones = np.ones(own.size)
        for column, at, values in (
            ("arrived", own, ones),
            ("tuples_in", left, ones),
            ("tuples_out", left, selectivity * ones),
            ("service_n", left, ones),
            ("service_sum", left, times),
            ("service_squares", left, times**2),
            ("busy", left, times),
            ("response_n", left, ones),
            ("response_sum", left, left - own + constant),
        ):
            add(kind, column, by_window(at, values, windows))
        waiting = np.searchsorted(own, (np.arange(windows) + 1) * WINDOW) - np.searchsorted(
            left, (np.arange(windows) + 1) * WINDOW
        )
        add(kind, "backlog", waiting.astype(float))
    return [
        Sample(
            "shop", operator, start + w * WINDOW, start + (w + 1) * WINDOW, "records", node_type=kind,
            replicas=float(many), **{column: float(values[w]) for column, values in samples[kind].items()},
        )
        for kind, many in replicas
        for w in range(windows)
    ]  # fmt: skip


def batch_stream(
    windows: int = 240,
    trigger: float = 1.0,
    overhead: float = 0.2,
    mean: float = 0.004,
    low: float = 0.2,
    high: float = 0.8,
    replicas: int = 2,
    seed: int = 1,
    batches_seen: bool = True,
    law: str = "gamma",
    operator: str = "count",
    start: float = 0.0,
    unrest: float = 0.2,  # the overhead's standard deviation over its mean
) -> list[Sample]:
    """A query of one operator; a tuple is answered when its batch is committed."""
    rng = np.random.default_rng(seed)
    arrivals = arrive(rng, load_pattern(windows, low, high) * replicas / mean)
    batches = run_batches(
        arrivals,
        trigger,
        lambda: overhead * float(rng.gamma(unrest**-2.0, unrest**2.0)),
        lambda n: LAWS[law][0](rng, n) * mean,
        lambda _: replicas,
    )
    answered = np.concatenate([b.end - b.arrivals for b in batches])
    ends, starts = np.array([b.end for b in batches]), np.array([b.start for b in batches])
    sizes = np.array([float(b.tuples) for b in batches])
    responses = np.array([b.tuples * b.end - b.arrivals.sum() for b in batches])
    times = LAWS[law][0](rng, arrivals.size) * mean
    who = np.repeat(ends, sizes.astype(int))
    columns = {
        "arrived": by_window(arrivals, np.ones(arrivals.size), windows),
        "tuples_in": by_window(ends, sizes, windows),
        "tuples_out": by_window(ends, sizes, windows),
        "service_n": by_window(who, np.ones(who.size), windows),
        "service_sum": by_window(who, times, windows),
        "service_squares": by_window(who, times**2, windows),
        "response_n": by_window(ends, sizes, windows),
        "response_sum": by_window(ends, responses, windows),
    }
    if batches_seen:
        columns |= {
            "batches": by_window(ends[:-1], np.ones(ends.size - 1), windows),
            "batch_time": by_window(ends[:-1], (ends - starts)[:-1], windows),
            "batch_interval": by_window(ends[:-1], np.diff(starts), windows),
        }
    sketches = sketch_windows(who, answered, windows)
    return [
        Sample(
            "shop", operator, start + w * WINDOW, start + (w + 1) * WINDOW, "records", node_type="plain",
            replicas=float(replicas), responses=sketches[w],
            **{column: float(values[w]) for column, values in columns.items()},
        )
        for w in range(windows)
    ]  # fmt: skip
