"""Response times of a micro-batch query: half the interval between triggers, then the batch.

Notation, beyond that of `load`: a tuple waits half the interval I before the trigger that takes it in, then d and the
share p of its batch's duration D. D = a + g rho I + noise: a overhead, g how much longer a batch takes than its work
split evenly. The next batch starts I' = max(T, D) after this one: where batches overrun the trigger T they follow each
other at once, and without noise I = D = a / (1 - g rho). Noise (of the batch itself, standard deviation n, and of how
much arrives) only ever adds to I near the trigger, and a long batch makes the next one longer: so the chain of batches
is played with draws that are always the same, and a tuple is more likely to meet a long interval than a short one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from scaler.model.kernel import Floats
from tuner.surrogate.load import WindowLoad
from tuner.surrogate.robust import NORMAL, fit_robustly, residuals

FEWEST = 8  # windows with known batches, to take the batches' parameters from them
WORTH = 0.9  # of the residuals, below which another parameter must bring them
LOADS, CHAINS, LENGTH, SETTLING = 40, 8, 160, 32  # of the chains that are played
HIGHEST = 0.98  # g rho, beyond which they are not
ODD = 4.0  # standard deviations, at which a batch's noise is cut
DRAWS = np.random.default_rng(20_240_811).standard_normal((LENGTH, CHAINS // 2, 1))
Parameters = Mapping[str, float]


def fit_batches(load: WindowLoad, observed: Floats) -> dict[str, float]:
    known = ~np.isnan(load.interval) & (load.duration > 0.0)
    if np.count_nonzero(known) < FEWEST:
        return fit_unseen_batches(load, observed)
    rhythm = fit_rhythm(load.interval[known], load.duration[known], load.batch_work[known], load.batches[known])
    wait, duration = beat(load, rhythm)
    fit = fit_robustly(
        lambda p: wait + p[0] + np.minimum(p[1], 1.0) * duration,
        observed,
        [[0.0, 1.0], [0.0, 0.5], [rhythm["overhead"], 0.1]],
        np.array([-rhythm["overhead"], 0.0]),
    )
    return {**rhythm, "delay": float(fit[0]), "part": float(min(fit[1], 1.0))}


def fit_rhythm(interval: Floats, duration: Floats, work: Floats, batches: Floats) -> dict[str, float]:
    """Trigger, overhead, work and noise from the batches themselves."""
    waits = interval > 1.05 * duration
    trigger = float(np.median(interval[waits])) if np.mean(waits) > 0.1 else 0.0
    starts = [[0.5 * float(duration.min()), 1.0]]
    a, g = map(float, fit_robustly(lambda p: p[0] + p[1] * work, duration, starts, np.zeros(2)))
    noise = np.abs(duration - a - g * work) * np.sqrt(batches)
    usual = NORMAL * float(np.median(noise))
    spread = math.sqrt(float(np.mean(np.minimum(noise, ODD * usual) ** 2)))
    return {"trigger": trigger, "overhead": a, "work": g, "noise": spread}


def fit_unseen_batches(load: WindowLoad, observed: Floats) -> dict[str, float]:
    """All from the response times: the whole batch counts, and nothing else delays.

    Where no batch overran, three parameters are one too many; then a batch takes what its work does.
    """
    least = float(np.min(observed))
    starts = [[trigger * least, part * least] for trigger, part in ((0.0, 0.6), (0.6, 0.5), (1.2, 0.3), (1.8, 0.1))]

    def respond(p: Floats) -> Floats:
        rhythm = {"trigger": p[0], "overhead": p[1], "work": p[2] if p.size > 2 else 1.0, "noise": 0.0}
        return np.add(*beat(load, rhythm))

    plain = fit_robustly(respond, observed, starts, np.zeros(2))
    free = fit_robustly(respond, observed, [[*plain, 1.0], *([*start, 1.0] for start in starts)], np.zeros(3))
    errors = [float(np.mean(np.abs(residuals(respond, observed, fit)))) for fit in (plain, free)]
    trigger, overhead, work = map(float, free if errors[1] < WORTH * errors[0] else [*plain, 1.0])
    return {"trigger": trigger, "overhead": overhead, "work": work, "noise": 0.0, "delay": 0.0, "part": 1.0}


def beat(load: WindowLoad, parameters: Parameters) -> tuple[Floats, Floats]:
    """A tuple's wait for its trigger and its batch's duration [W]; infinite where work outruns the replicas."""
    share = parameters["work"] * load.utilisation
    if parameters["noise"] <= 0.0:
        return beat_evenly(share, parameters)
    clump = parameters["work"] * load.mean * (1.0 + load.variance / load.mean**2) / float(np.median(load.slowest))
    grid = np.linspace(0.0, HIGHEST, LOADS)
    sides = play(grid, parameters, clump)
    inside, rest = (
        np.minimum(share, HIGHEST),
        np.divide(1.0 - HIGHEST, 1.0 - share, where=share < 1.0, out=share * 0 + math.inf),
    )
    stretch = np.maximum(1.0, rest)  # beyond the last load played, as the chain without noise grows
    return np.interp(inside, grid, sides[0]) * stretch, np.interp(inside, grid, sides[1]) * stretch


def beat_evenly(share: Floats, parameters: Parameters) -> tuple[Floats, Floats]:
    trigger, overhead = parameters["trigger"], parameters["overhead"]
    kept = overhead + share * trigger
    overrun = np.divide(overhead, 1.0 - share, out=np.full(share.size, math.inf), where=share < 1.0)
    return np.where(kept <= trigger, trigger, overrun) / 2.0, np.where(kept <= trigger, kept, overrun)


def play(share: Floats, parameters: Parameters, clump: float) -> tuple[Floats, Floats]:
    """Mean wait and mean duration as tuples see them, by load; `clump` is what variance each second of work brings."""
    trigger, overhead, noise = parameters["trigger"], parameters["overhead"], parameters["noise"]
    interval = np.broadcast_to(2.0 * beat_evenly(share, parameters)[0], (CHAINS, share.size))
    seen, waited, lasted = (np.zeros(share.size) for _ in range(3))
    for i, draw in enumerate(DRAWS):
        work = share * interval
        spread = np.sqrt(noise**2 + clump * work)
        ahead = np.maximum(0.2 * overhead, overhead + work + spread * np.concatenate([draw, -draw]))
        if i >= SETTLING:
            seen += interval.sum(axis=0)
            waited += (interval**2).sum(axis=0) / 2.0
            lasted += (interval * ahead).sum(axis=0)
        interval = np.maximum(trigger, ahead)
    return waited / seen, lasted / seen


def predict_batches(load: WindowLoad, parameters: Parameters) -> Floats:
    wait, duration = beat(load, parameters)
    return wait + parameters["delay"] + parameters["part"] * duration
