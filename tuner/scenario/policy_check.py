"""Check a policy's options, and compile its loop, on a toy problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.policy import Kernel, build_policy
from sim.graphs import single
from sim.infrastructure import find_infrastructure
from sim.setting import Setting, tasks
from sim.trace import Trace


def make_toy(policy: str = "static", plant: str = "memoryless") -> Setting:
    """Three slots of one operator on two node types."""
    trace = Trace(np.array([50.0, 150.0, 50.0]), name="toy")
    return Setting(single(100.0, k_max=2), find_infrastructure("A", 2), trace, policy, 0.05, levels=3, plant=plant)


def check_policy(kind: Kernel, options: Mapping[str, Any]) -> None:
    """Refuse an option's value that the policy cannot be built with."""
    if not options:
        return
    task = tasks(make_toy())[0]
    try:
        build_policy(kind, task, 0, options)
    except BadInput:
        raise
    except (TypeError, ValueError) as error:
        given = ", ".join(f"{name} = {value!r}" for name, value in options.items())
        raise BadInput(f"{kind.title} cannot be made with {given}: {error}") from error
