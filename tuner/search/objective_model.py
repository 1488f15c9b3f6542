"""Build the model that an objective's orders carry besides bounds and weights, when the search proposes it."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.model.orders import ObjectiveModel, OperatorModel
from sim.setting import Setting, tasks


def make_model(setting: Setting, constants: Mapping[str, float]) -> ObjectiveModel:
    """The setting's part of an objective; `constants` are seconds of response time besides queueing, by operator."""
    operators = {
        operator.name: OperatorModel(
            task.moments, task.k_max, task.highest_rate, constants.get(operator.name, 0.0), task.dearest
        )
        for operator, task in zip(setting.application.operators, tasks(setting), strict=True)
    }
    types = tuple(setting.infrastructure.types)
    return ObjectiveModel(setting.policy, types, operators, dict(setting.options), setting.levels, setting.gamma)
