"""Doubt a latency bound that is far from what was observed, or from what deployments can do: as wrong units make it."""

from __future__ import annotations

import math

import numpy as np

from scaler.model.kernel import predict_response
from scaler.model.units import format_duration
from sim.application import name_path
from sim.setting import Setting, gains, path_limits, tasks

FAR = 20.0  # times the observed mean, above or below
IDLE = 200.0  # times what all replicas of the slowest type need, from which no slot can be late
ADVICE = "state its unit if another was meant, as in --r-max 60ms"


def doubt_bound(r_max: float, observed_s: float, what: str, usually: str = "on average") -> str | None:
    """The sentence of a bound that is far from the response times that were observed; None where it is near."""
    if not (observed_s > 0.0 and math.isfinite(observed_s)) or 1.0 / FAR <= r_max / observed_s <= FAR:
        return None
    seen = format_duration(observed_s)
    return f"R_max is {format_duration(r_max)}, and the responses of {what} took {seen} {usually}; {ADVICE}"


def doubt_possible(setting: Setting) -> str | None:
    """The sentence of a bound that no deployment can keep at a usual rate, or that none can break."""
    rate, types = float(np.median(setting.trace.rates)), [node.speedup for node in setting.infrastructure.types]
    each = list(zip(tasks(setting), gains(setting.application), strict=True))

    def predict(speedup: float) -> list[float]:
        return [predict_response(task, rate * gain, task.k_max, speedup) for task, gain in each]

    quickest, slowest = predict(max(types)), predict(min(types))
    for path, limit in path_limits(setting).items():
        least, most = (sum(found[i] for i in path) for found in (quickest, slowest))
        title = name_path(setting.application, path)
        if math.isfinite(least) and least > limit:
            return (
                f"R_max is {format_duration(limit)}, and {title} takes {format_duration(least)} at the median rate "
                f"with all replicas of the fastest node type, so that most slots are late; {ADVICE}"
            )
        if limit > IDLE * most:
            return (
                f"R_max is {format_duration(limit)}, and {title} takes {format_duration(most)} at the median rate "
                f"with all replicas of the slowest node type, so that hardly any slot can be late; {ADVICE}"
            )
    return None
