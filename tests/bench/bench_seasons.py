"""Whether the time of day says more of later levels than the present level does, on held-out slots.

python -m tests.bench.bench_seasons [--days 12] [--phases 24] [--traces FOLDER] [--slots 60000]

The level is smoothed and counted in bins as in load_chain.py. On the first two thirds of a trace the chance of each
level so many slots ahead is learned from the present level (rare levels filled in by the pool of all shifts), and how
shifts differ with the time of day. Printed is by how many bits a slot the second improves the forecast of the last
third, with the standard error of means over hours: below 0 it is worse.

Notation: L bins, P(y | x) from the level alone, q(y - x | s) of shifts by phase s of the day, q of all: with the phase
P(y | x, s) ~ P(y | x) q(y - x | s) / q(y - x).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from scaler.model.kernel import Floats, Integers
from scaler.policies.planner.load_chain import BIN_WIDTH, BINS, PRIOR_VISITS
from tests.bench.bench_history import read_folder
from tests.bench.bench_spark_world import DAY, list_loads

SMOOTHING = 0.3  # of the level
HORIZONS = (1, 15, 60)  # slots
PRIOR_SHIFTS = 30.0  # at one phase, that those at all phases stand for
LEAST = 0.01  # shifts, of those never seen
HOUR = 60  # slots


def find_levels(rates: Floats) -> Integers:
    """The bin of the smoothed rate in every slot."""
    level, levels = rates[0], np.empty_like(rates)
    for t, rate in enumerate(rates.tolist()):
        level += SMOOTHING * (rate - level)
        levels[t] = level
    lowest = levels.max() * np.exp(-BIN_WIDTH * (BINS - 2))
    places = 1 + np.floor(np.log(np.maximum(levels, 0.5 * lowest) / lowest) / BIN_WIDTH)
    bins: Integers = np.clip(places, 0, BINS - 1).astype(np.int64)
    return bins


def count_shifts(shifts: Integers, phases: Integers, many: int) -> Floats:
    counts = np.zeros((many, 2 * BINS - 1))
    np.add.at(counts, (phases, shifts + BINS - 1), 1.0)
    return counts


def measure_gain(rates: Floats, horizon: int, phases: int) -> tuple[float, float]:
    """Bits a slot by which the phase improves the forecast, and their standard error."""
    bins = find_levels(rates)
    x, y = bins[:-horizon], bins[horizon:]
    n, phase = x.size, np.arange(x.size) % DAY * phases // DAY
    cut = 2 * n // 3
    shifts = (y - x)[:cut]
    pool = count_shifts(shifts, np.zeros(cut, np.int64), 1)[0] + LEAST
    pool /= pool.sum()
    by_phase = count_shifts(shifts, phase[:cut], phases) + PRIOR_SHIFTS * pool
    by_phase /= by_phase.sum(axis=1, keepdims=True)
    visits = np.zeros((BINS, BINS))
    np.add.at(visits, (x[:cut], y[:cut]), 1.0)
    places = np.arange(BINS)[None, :] - x[cut:, None] + BINS - 1  # [held out, L] of shifts
    alone = visits[x[cut:]] + PRIOR_VISITS * pool[places]
    seasonal = alone * np.take_along_axis(by_phase[phase[cut:]] / pool, places, axis=1)
    chances = [np.take_along_axis(one, y[cut:, None], axis=1)[:, 0] / one.sum(axis=1) for one in (seasonal, alone)]
    gains = np.log2(chances[0] / chances[1])
    hours = gains[: gains.size // HOUR * HOUR].reshape(-1, HOUR).mean(axis=1)
    return float(gains.mean()), float(hours.std(ddof=1) / np.sqrt(hours.size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=12)
    parser.add_argument("--phases", type=int, default=24)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--slots", type=int, default=60_000)
    asked = parser.parse_args()
    loads = [*list_loads(asked.days * DAY, 1), *read_folder(asked.traces, asked.slots)]
    print(f"{'bits a slot, slots ahead':24}" + "".join(f"{horizon:>18}" for horizon in HORIZONS))
    for name, trace in loads:
        gains = (measure_gain(trace.rates, horizon, asked.phases) for horizon in HORIZONS)
        print(f"{name:24}" + "".join(f"{gain:+9.3f} +- {error:5.3f}" for gain, error in gains))


if __name__ == "__main__":
    main()
