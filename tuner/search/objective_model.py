"""What a proposed objective tells its operators besides bounds and weights, written down when the search proposes it.

A push reads it from the objective's evidence (`model`), so that every version of an objective always says the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.setting import Setting, tasks


def describe_model(setting: Setting, constants: Mapping[str, float]) -> dict[str, Any]:
    """Return the setting's part of the document that `scaler.model.orders` reads as an objective."""
    operators = {
        operator.name: {
            "mean": task.moments.mean,
            "variance": task.moments.variance,
            "constant": constants.get(operator.name, 0.0),
            "k_max": task.k_max,
            "highest_rate": task.highest_rate,
            "normaliser": task.dearest,
        }
        for operator, task in zip(setting.application.operators, tasks(setting), strict=True)
    }
    return {
        "policy": setting.policy,
        "options": dict(setting.options),
        "levels": setting.levels,
        "gamma": setting.gamma,
        "nodes": [{"name": n.name, "speedup": n.speedup, "price": n.price} for n in setting.infrastructure.types],
        "operators": operators,
    }
