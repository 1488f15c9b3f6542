"""The models of response times, by name: each is fitted on loads and responses, and predicts responses from loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from scaler.model.kernel import Floats
from tuner.surrogate.batch_model import fit_batches, predict_batches
from tuner.surrogate.load import WindowLoad, blend_earlier
from tuner.surrogate.queue_model import fit_bursty, fit_queue, predict_bursty, predict_queue


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
