"""QoS of an application: the latency bound R_max and the limits eta_V and eta_R."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from scaler.model.errors import BadInput


@dataclass(frozen=True, slots=True)
class QoS:
    """R_max in seconds, for every path or by path ("parse -> count"); how often it and the deployment may be broken."""

    r_max: float
    eta_v: float = 0.05  # share of slots in which an answer may be late
    eta_r: float = 0.10  # share of slots in which replicas may be added or removed
    paths: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, value in (("R_max", self.r_max), *self.paths.items()):
            if not 0.0 < value < math.inf:
                raise BadInput(f"the bound of {name} is {value} s, and must be a positive number")
        for name, value in (("eta_v", self.eta_v), ("eta_r", self.eta_r)):
            if not 0.0 < value < 1.0:
                raise BadInput(f"{name} is {value}, and must lie between 0 and 1: it is a share of the slots")
