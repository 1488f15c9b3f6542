"""Response-time quantiles of micro-batches in steady state whose durations scatter.

Notation, beyond `micro_batches`: I the interval from one batch's start to the next, e the noise of a batch, normal with
standard deviation n and correlation r from batch to batch, D = a + rho I + e its duration, z standard normal, U an even
phase. The next interval is max(T, D), and a tuple is answered U I + d + p D after it came; as many tuples share an
interval as it is long.

Intervals are taken as max(T, normal): mean and variance of D are the fixed point of Clark's moments of a maximum
(1961), its covariance with the next noise that of Stein's lemma. So the quantile is that of U I and normal noise
together, summed over NODES values of z.

Error against the plant, for noise of up to half the overhead and correlations of up to .6: within .3 % up to p95 and
1.1 % up to p99.9 where no batch overruns the trigger or nearly all do; where some do, within 4 % up to p95, 5 % at p99
and 7 % at p99.9, for batches that catch up start on the trigger's multiples, which is not told here.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.micro_batches import SHORTEST, MicroBatches, load_within, phase_of, steady_cycle, steady_response

Floats = NDArray[np.float64]

NODES = np.linspace(-5.0, 5.0, 41)
DENSITY = np.exp(-(NODES**2) / 2.0)
ROUNDS, EXACT = 400, 1e-10
HALVINGS = 40
FAR = 12.0  # standard deviations, beyond which no response is looked for
LEAST_SPREAD = 1e-6  # of the cycle, below which noise counts as this


class Rhythm(NamedTuple):
    """Intervals by the noise before them, and what comes on top of the phase."""

    interval: Floats  # [NODES]
    rest: Floats  # [NODES] d + p D, the mean over the batch's own noise
    spread: float  # standard deviation of p D at a given interval
    weight: Floats  # [NODES] share of the tuples


def batch_response(b: MicroBatches, load: float, quantile: float | None) -> float:
    """Response time at a steady load: its quantile with the noise of batches, or its mean without."""
    if quantile is None or b.noise_s <= 0.0 or load >= 1.0:
        return steady_response(b.trigger_s, b.overhead_s, b.delay_s, b.part, load, phase_of(quantile or 0.0))
    rhythm = find_rhythm(b, load)
    low = float(rhythm.rest.min()) - FAR * rhythm.spread
    high = float((rhythm.rest + rhythm.interval).max()) + FAR * rhythm.spread
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if share_within(rhythm, middle) < quantile else (low, middle)
    return high


@lru_cache(maxsize=1024)
def batch_load_within(b: MicroBatches, bound: float, quantile: float | None) -> float:
    """The highest load whose `batch_response` stays within the bound; 0 where none does."""
    high = load_within(bound, b.trigger_s, b.overhead_s, b.delay_s, b.part, phase_of(quantile or 0.0))
    if quantile is None or b.noise_s <= 0.0 or high <= 0.0:
        return high
    low = 0.0
    if share_within(find_rhythm(b, low), bound) < quantile:
        return 0.0
    if share_within(find_rhythm(b, high), bound) >= quantile:
        return high
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if share_within(find_rhythm(b, middle), bound) >= quantile else (low, middle)
    return low


def find_rhythm(b: MicroBatches, load: float) -> Rhythm:
    """Fixed point of mean and standard deviation of durations, and of their covariance with the next noise."""
    trigger, noise, r = b.trigger_s, b.noise_s, b.correlation
    interval, variance, shared = steady_cycle(trigger, b.overhead_s, load), 0.0, 0.0
    for _ in range(ROUNDS):
        mean = b.overhead_s + load * interval
        spread = math.sqrt(load**2 * variance + 2.0 * load * shared + noise**2)
        z = (trigger - mean) / spread
        over, height = sum_tail(-z), math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
        ahead = trigger * (1.0 - over) + mean * over + spread * height
        squares = trigger**2 * (1.0 - over) + (mean**2 + spread**2) * over + (mean + trigger) * spread * height
        next_variance, before = max(0.0, squares - ahead**2), (interval, variance)
        carried = load * shared + noise**2  # of a duration with its own noise
        interval, variance, shared = ahead, next_variance, r * over * carried
        if abs(interval - before[0]) <= EXACT * ahead and abs(variance - before[1]) <= EXACT * ahead**2:
            break
    lasts = np.maximum(SHORTEST * b.overhead_s, mean + spread * NODES)
    lengths = np.maximum(trigger, lasts)
    slope = r * carried / spread  # of the next noise, by z
    own = math.sqrt(max(0.0, noise**2 - slope**2))
    tuples = DENSITY * lengths
    return Rhythm(
        lengths,
        b.delay_s + b.part * (b.overhead_s + load * lengths + slope * NODES),
        max(b.part * own, LEAST_SPREAD * interval),
        tuples / tuples.sum(),
    )


def share_within(rhythm: Rhythm, bound: float) -> float:
    """Share of the tuples whose response time is within a bound."""
    late = (bound - rhythm.rest) / rhythm.spread
    width = rhythm.interval / rhythm.spread
    return float(np.sum(rhythm.weight * (add_normal(late) - add_normal(late - width)) / width))


def sum_tail(z: float) -> float:
    """The standard normal distribution function."""
    return math.erfc(-z / math.sqrt(2.0)) / 2.0


def add_normal(z: Floats) -> Floats:
    """Integral of the standard normal distribution function up to z."""
    below = np.array([sum_tail(value) for value in z.tolist()])
    return z * below + np.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
