"""Choose and fit the model that predicts the response times of held-out windows best.

Models are chosen among the windows to fit on (each stretch of time predicted from the others), and only then judged on
those held out. The simpler model is preferred while it is almost as good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from scaler.model.kernel import Floats
from tuner.surrogate.accuracy import FOLDS, assess, deal, relative
from tuner.surrogate.batch_model import fit_batches, predict_batches
from tuner.surrogate.load import WindowLoad, blend_earlier, select_windows
from tuner.surrogate.observed_windows import Flags
from tuner.surrogate.queue_model import fit_bursty, fit_queue, predict_bursty, predict_queue
from tuner.surrogate.surrogate import Calibration

FEWEST = 12  # windows with response times, below which nothing is calibrated
MEMORIES = (0.0, 0.25, 0.5)  # of the load of the window before
K = TypeVar("K")
WORTH = 0.02  # of error that a richer model must save, or a tenth of it


class CalibrationResult(NamedTuple):
    """The model for use, fitted on all windows; and what was predicted before the held-out ones were looked at."""

    response: Calibration
    replayed: Calibration
    predicted: Floats  # [W]


def calibrate(
    before: WindowLoad, after: WindowLoad, observed: Floats, held: Flags, seed: int
) -> CalibrationResult | None:
    """`before` has the moments of the windows not held out, `after` those of all."""
    if np.count_nonzero(~held) < FEWEST:
        return None
    name, memory = choose_model(select_windows(before, ~held), observed[~held])
    first = fit_model(name, select_windows(before, ~held), observed[~held], memory)
    predicted = predict_model(name, before, first)
    accuracy = assess(predicted[held], observed[held], before.utilisation[held], seed)
    response = Calibration(name, fit_model(name, after, observed, memory), accuracy)
    if name != "batches":
        return CalibrationResult(response, restate(response, after), predicted)
    stand_in = stretch_load(before, first)
    shown = predict_model(
        "bursty", stand_in, fit_model("bursty", select_windows(stand_in, ~held), observed[~held], memory)
    )
    kept = assess(shown[held], observed[held], before.utilisation[held], seed)
    final = stretch_load(after, response.parameters)
    fitted = {**fit_model("bursty", final, observed, memory), "mean": final.mean}
    return CalibrationResult(response, Calibration("bursty", fitted, kept), predicted)


def restate(response: Calibration, load: WindowLoad) -> Calibration:
    """A queue as what the simulator needs: a constant, a mean and a variance."""
    parameters = {"variance": load.variance, **response.parameters, "mean": load.mean}
    return Calibration("bursty", parameters, response.accuracy)


def stretch_load(load: WindowLoad, parameters: dict[str, float]) -> WindowLoad:
    """The same load with the service time that batches come to when they are always full."""
    return replace(load, mean=load.mean * max(parameters["work"], 1e-3))


def choose_model(load: WindowLoad, observed: Floats) -> tuple[str, float]:
    """The first in the registry that no other beats by what a richer one is worth; then its memory, likewise."""
    name = prefer({name: cross_validate(name, load, observed, 0.0) for name in MODELS})
    return name, prefer({memory: cross_validate(name, load, observed, memory) for memory in MEMORIES})


def prefer(errors: dict[K, float]) -> K:
    least = min(errors.values())
    return next(choice for choice, error in errors.items() if error <= max(least + WORTH, 1.1 * least))


def cross_validate(name: str, load: WindowLoad, observed: Floats, memory: float) -> float:
    """The mean error of windows predicted from other stretches of time."""
    fold = deal(observed.size)
    errors = np.empty(observed.size)
    for i in range(FOLDS):
        out = fold == i
        if out.any() and not out.all():
            parameters = fit_model(name, select_windows(load, ~out), observed[~out], memory)
            errors[out] = relative(predict_model(name, select_windows(load, out), parameters), observed[out])
    return float(np.mean(np.minimum(np.abs(errors), 1.0)))


class ResponseModel(NamedTuple):
    says: str
    fit: Callable[[WindowLoad, Floats], dict[str, float]]
    predict: Callable[[WindowLoad, Mapping[str, float]], Floats]


def fit_model(name: str, load: WindowLoad, observed: Floats, memory: float) -> dict[str, float]:
    """The model's parameters, and the share of its load that is still felt in the window after."""
    return {**MODELS[name].fit(blend_earlier(load, memory), observed), "memory": memory}


def predict_model(name: str, load: WindowLoad, parameters: Mapping[str, float]) -> Floats:
    return MODELS[name].predict(blend_earlier(load, parameters["memory"]), parameters)


MODELS: dict[str, ResponseModel] = {  # the simpler before the richer
    "queue": ResponseModel("M/G/1 and a constant", fit_queue, predict_queue),
    "bursty": ResponseModel(
        "M/G/1 with a variance fitted to the response times, and a constant", fit_bursty, predict_bursty
    ),
    "batches": ResponseModel("half the interval between triggers and the batch", fit_batches, predict_batches),
}
