"""Response times of replicas with a queue each: the M/G/1 term of `scaler.model.queueing` and a constant.

queue     c + the term: c a constant for trigger and scheduling
bursty    the same with a variance of its own, which takes in arrivals that come in clumps
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.queueing import mg1_response
from tuner.surrogate.load import WindowLoad
from tuner.surrogate.robust import fit_robustly

Parameters = Mapping[str, float]


def queue_term(load: WindowLoad, variance: float) -> Floats:
    """The M/G/1 response time [W], the mean over the replicas, among which arrivals split evenly."""
    term = np.vectorize(mg1_response, otypes=[np.float64])
    total = np.zeros(load.rate.size)
    for j, speedup in enumerate(load.speedups):
        there = load.replicas[:, j] > 0.0
        if there.any():
            total[there] += load.replicas[there, j] * term(load.each[there], load.mean, variance, speedup)
    return total / load.replicas.sum(axis=1)


def fit_queue(load: WindowLoad, observed: Floats) -> dict[str, float]:
    term = queue_term(load, load.variance)
    start = max(0.0, float(np.median(observed - np.where(np.isfinite(term), term, observed))))
    return {"constant": float(fit_robustly(lambda p: p[0] + term, observed, [[start]], np.zeros(1))[0])}


def predict_queue(load: WindowLoad, parameters: Parameters) -> Floats:
    return parameters["constant"] + queue_term(load, load.variance)


def fit_bursty(load: WindowLoad, observed: Floats) -> dict[str, float]:
    """The term grows in proportion to the variance, so two values of it give all others."""
    unit = load.mean**2
    still, moved = queue_term(load, 0.0), queue_term(load, unit)
    slope = np.subtract(moved, still, out=np.full(still.size, math.inf), where=np.isfinite(moved))
    least = float(np.min(observed))
    starts = [[0.0, load.variance / unit], [0.5 * least, 1.0], [0.9 * least, 30.0]]
    constant, scale = fit_robustly(
        lambda p: p[0] + still + np.maximum(p[1], 1e-12) * slope, observed, starts, np.zeros(2)
    )
    return {"constant": float(constant), "variance": float(scale * unit)}


def predict_bursty(load: WindowLoad, parameters: Parameters) -> Floats:
    return parameters["constant"] + queue_term(load, parameters["variance"])
