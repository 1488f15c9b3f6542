"""Actuator: bring an operator to its target replicas by node type, and count those that serve.

Targets are absolute, so that sending one twice is harmless. `ask` returns at once: replicas come and go in their own
time, and the agent compares targets with what serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from scaler.model.errors import BadInput


class Actuator(Protocol):
    @property
    def can_count(self) -> bool:
        """Whether `deployed` is ever known."""

    def prepare(self) -> None:
        """Called once before anything else, where targets are to be applied."""

    def deployed(self, operator: str) -> Mapping[str, int] | None:
        """Replicas that serve now by node type; None where that is not known."""

    def room(self, operator: str, node_type: str) -> str | None:
        """Why one more of this type could not come (a quota, no worker left), or None."""

    def ask(self, operator: str, target: Mapping[str, int]) -> None:
        """Bring the operator to these replicas; `Retry` where the cluster did not accept it."""

    def close(self) -> None:
        """Leave the cluster as it stands."""


class NoActuator:
    """Of a driver that only watches: nothing is known of replicas, and nothing can be applied."""

    can_count = False

    def prepare(self) -> None:
        pass

    def deployed(self, operator: str) -> Mapping[str, int] | None:  # noqa: ARG002
        return None

    def room(self, operator: str, node_type: str) -> str | None:  # noqa: ARG002
        return None

    def ask(self, operator: str, target: Mapping[str, int]) -> None:  # noqa: ARG002
        raise BadInput(f"operator {operator!r} has no actuator")

    def close(self) -> None:
        pass
