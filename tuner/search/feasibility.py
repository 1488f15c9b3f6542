"""Refuse a search in which no deployment could keep R_max often enough."""

from __future__ import annotations

import math

from scaler.model.errors import BadInput
from scaler.model.queueing import mg1_response
from sim.application import Application, name_path
from sim.setting import Setting, gains, path_limits
from tuner.scenario.layout import QoS


def check_feasible(setting: Setting, qos: QoS) -> None:
    """Refuse a path that is too slow in more slots than may be, even with the most replicas of the fastest type."""
    rates = setting.trace.rates
    high = float(sorted(rates)[math.ceil((1.0 - qos.eta_v) * len(rates)) - 1])  # exceeded in no more than eta_v of them
    fastest = max(node.speedup for node in setting.infrastructure.types)
    least = least_responses(setting.application, fastest, high)
    names = [operator.name for operator in setting.application.operators]
    for path, limit in path_limits(setting).items():
        total = sum(least[i] for i in path)
        if total > limit:
            worst = max(path, key=lambda i: least[i])
            takes = f"{least[worst]:.4g} s" if math.isfinite(least[worst]) else "more than it can serve"
            raise BadInput(
                f"path {name_path(setting.application, path)}: no deployment answers within {limit:.4g} s in "
                f"{1.0 - qos.eta_v:.0%} of the slots; operator {names[worst]!r} alone takes {takes} at "
                f"{high:.4g} tuples/s with all of its {setting.application.operators[worst].k_max} replicas on the "
                "fastest node type; allow a larger R_max, more replicas (k_max), or add a faster type"
            )


def least_responses(application: Application, speedup: float, rate: float) -> list[float]:
    """What every operator takes at the least while tuples come from outside at this rate."""
    return [
        mg1_response(rate * gain / operator.k_max, operator.moments.mean, operator.moments.variance, speedup)
        for operator, gain in zip(application.operators, gains(application), strict=True)
    ]
