"""Choose and fit the model that predicts the response times of held-out windows best, and estimate its error on them.

Models are chosen among the windows to fit on (each stretch of time predicted from the others), and only then judged on
those held out. The simpler model is preferred while it is almost as good.

Where bounds are about a quantile and enough windows tell it, the model is chosen by its error at that quantile, for one
that is right about means may be far off there. Batches are then preferred where they were seen: they need no evidence
but their own, and any other model must be clearly better. All models are fitted on means.

Held out are whole stretches of time, evenly spread and the last one among them: neighbouring windows resemble each
other, and random ones would be predicted by their neighbours. Single windows scatter by chance (a minute at .9 load is
no steady state), so errors are those of groups of about the same load; their interval comes from drawing stretches of
the held-out windows again and again (moving-block bootstrap).
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import numpy as np

from scaler.model.kernel import Floats, Integers
from tuner.surrogate.estimate import CONFIDENCE, Estimate
from tuner.surrogate.observed_windows import Flags
from tuner.surrogate.response_models import (
    BATCHES,
    MODELS,
    WindowLoad,
    are_batches_seen,
    fit_model,
    predict_model,
    predict_quantile,
    select_windows,
)
from tuner.surrogate.surrogate import Accuracy, Calibration, LoadGroup

STRETCHES = 20
FOLDS = 4
GROUPS, SMALLEST = 6, 4  # groups of equal load, and windows in one
DRAWS = 400
OFF = 1.0  # the error of a prediction that is infinite
FEWEST = 12  # windows with response times, below which nothing is calibrated
MEMORIES = (0.0, 0.25, 0.5)  # of the load of the window before
K = TypeVar("K")
WORTH = 0.02  # of error that a richer model must save, or a tenth of it
FAR = 1.5  # times the least error, beyond which batches that were seen do not explain response times


def hold_out(count: int, share: float) -> Flags:
    """Which of so many windows are held out."""
    stretches = max(2, min(STRETCHES, count // 2))
    index = np.arange(stretches)
    held = np.floor((index + 1) * share + 1e-9) > np.floor(index * share + 1e-9)
    held[-1] |= not held.any()
    return held[stretch_of(count, stretches)]


def deal(count: int) -> Integers:
    """Which of the folds each of so many windows is in: stretches of time, dealt out in turn."""
    return stretch_of(count, max(FOLDS, min(3 * FOLDS, count // 2))) % FOLDS


def stretch_of(count: int, stretches: int) -> Integers:
    return np.arange(count, dtype=np.int64) * stretches // max(1, count)


def relative(predicted: Floats, observed: Floats) -> Floats:
    """Signed errors over what was observed."""
    return np.where(np.isfinite(predicted), predicted / observed - 1.0, OFF)


def assess(predicted: Floats, observed: Floats, utilisation: Floats, seed: int) -> Accuracy | None:
    """None where no window is held out."""
    if observed.size == 0:
        return None
    member = group_by_load(utilisation)
    capped = np.where(np.isfinite(predicted), predicted, (1.0 + OFF) * observed)
    error, bias = group_errors(capped, observed, member)
    draws = draw_blocks(observed.size, seed)
    drawn = np.array([group_errors(capped[i], observed[i], member[i])[0] for i in draws])
    low, high = np.quantile(drawn, [(1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0])
    groups = tuple(sum_up(utilisation, observed, capped, member == g) for g in range(int(member.max()) + 1))
    return Accuracy(
        Estimate(error, min(float(low), error), max(float(high), error), float(drawn.std())),
        bias,
        float(np.mean(np.abs(relative(predicted, observed)))),
        groups,
    )


def sum_up(utilisation: Floats, observed: Floats, predicted: Floats, which: Flags) -> LoadGroup:
    load, seen, said = (float(column[which].mean()) for column in (utilisation, observed, predicted))
    return LoadGroup(load, seen, said, int(which.sum()))


def group_by_load(utilisation: Floats) -> Integers:
    """Groups of equally many windows, from low load to high."""
    count = max(1, min(GROUPS, utilisation.size // SMALLEST))
    rank = np.empty(utilisation.size, dtype=np.int64)
    rank[np.argsort(utilisation, kind="stable")] = np.arange(utilisation.size)
    return rank * count // utilisation.size


def group_errors(predicted: Floats, observed: Floats, member: Integers) -> tuple[float, float]:
    seen = np.bincount(member, observed)
    there = seen > 0.0
    signed = np.bincount(member, predicted)[there] / seen[there] - 1.0
    return float(np.mean(np.abs(signed))), float(np.mean(signed))


def draw_blocks(count: int, seed: int) -> Integers:
    """Indices [DRAWS, count] of stretches put one after another."""
    rng = np.random.default_rng(seed)
    length = max(1, round(count ** (1.0 / 3.0)))
    starts = rng.integers(0, count - length + 1, size=(DRAWS, math.ceil(count / length)))
    index = starts[:, :, None] + np.arange(length)
    return index.reshape(DRAWS, -1)[:, :count]


class CalibrationResult(NamedTuple):
    """The model for use, fitted on all windows; and what was predicted before the held-out ones were looked at."""

    response: Calibration
    replayed: Calibration
    predicted: Floats  # [W]


class QuantileSeen(NamedTuple):
    """The quantile of response times that bounds are about, and what windows tell of it."""

    quantile: float
    observed: Floats  # [W], NaN where unknown


def calibrate(
    before: WindowLoad, after: WindowLoad, observed: Floats, held: Flags, seed: int, asked: QuantileSeen | None = None
) -> CalibrationResult | None:
    """`before` has the moments of the windows not held out, `after` those of all."""
    if np.count_nonzero(~held) < FEWEST:
        return None
    told = None if asked is None else QuantileSeen(asked.quantile, asked.observed[~held])
    if told is not None and np.count_nonzero(told.observed > 0.0) < FEWEST:
        told = None
    name, memory = choose_model(select_windows(before, ~held), observed[~held], told)
    first = fit_model(name, select_windows(before, ~held), observed[~held], memory)
    predicted = predict_model(name, before, first)
    accuracy = assess(predicted[held], observed[held], before.utilisation[held], seed)
    chosen_by = None if told is None else told.quantile
    response = Calibration(name, fit_model(name, after, observed, memory), accuracy, chosen_by)
    return CalibrationResult(response, response if name == BATCHES else restate(response, after), predicted)


def restate(response: Calibration, load: WindowLoad) -> Calibration:
    """A queue as what the simulator needs: a constant, a mean and a variance."""
    parameters = {"variance": load.variance, **response.parameters, "mean": load.mean}
    return Calibration("bursty", parameters, response.accuracy, response.chosen_by)


def choose_model(load: WindowLoad, observed: Floats, asked: QuantileSeen | None) -> tuple[str, float]:
    """The first in the registry that no other beats by what a richer one is worth; then its memory, likewise.

    Where batches were seen it is theirs, unless another has far less error: a queue that fits as well at the replicas
    that were there has another constant at others.
    """
    errors = {name: cross_validate(name, load, observed, 0.0, asked) for name in MODELS}
    name = prefer(errors)
    if are_batches_seen(load) and errors[BATCHES] <= FAR * errors[name] + WORTH:
        name = BATCHES
    return name, prefer({memory: cross_validate(name, load, observed, memory, asked) for memory in MEMORIES})


def prefer(errors: dict[K, float]) -> K:
    least = min(errors.values())
    return next(choice for choice, error in errors.items() if error <= max(least + WORTH, 1.1 * least))


def cross_validate(name: str, load: WindowLoad, observed: Floats, memory: float, asked: QuantileSeen | None) -> float:
    """The mean error of windows predicted from other stretches of time; of those that tell a quantile, its error."""
    fold = deal(observed.size)
    errors = np.empty(observed.size)
    for i in range(FOLDS):
        out = fold == i
        if out.any() and not out.all():
            parameters = fit_model(name, select_windows(load, ~out), observed[~out], memory)
            ahead = select_windows(load, out)
            if asked is None:
                errors[out] = relative(predict_model(name, ahead, parameters), observed[out])
            else:
                said = predict_quantile(name, ahead, parameters, asked.quantile)
                errors[out] = relative(said, asked.observed[out])
    return float(np.mean(np.minimum(np.abs(errors[~np.isnan(errors)]), 1.0)))
