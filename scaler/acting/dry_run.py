"""Targets flow in and are remembered, and nothing is changed; what another actuator really has flows out."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from scaler.acting.actuator import Actuator


class DryRun:
    """With a real actuator its replicas and its room are told, so that records say what would have been."""

    def __init__(self, real: Actuator | None = None) -> None:
        self.real = real
        self.lock = threading.Lock()
        self.targets: dict[str, dict[str, int]] = {}

    def deployed(self, operator: str) -> Mapping[str, int] | None:
        return None if self.real is None else self.real.deployed(operator)

    def room(self, operator: str, node_type: str) -> str | None:
        return None if self.real is None else self.real.room(operator, node_type)

    def ask(self, operator: str, target: Mapping[str, int]) -> None:
        with self.lock:
            self.targets[operator] = dict(target)

    def asked(self, operator: str) -> Mapping[str, int] | None:
        """What would have been asked for last."""
        with self.lock:
            target = self.targets.get(operator)
            return None if target is None else dict(target)

    def close(self) -> None:
        if self.real is not None:
            self.real.close()
