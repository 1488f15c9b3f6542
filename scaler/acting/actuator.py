"""What an actuator is: how many replicas of each node type an operator is to have in; what it really has out.

Targets are absolute, so that asking twice is asking once. `ask` returns at once: replicas come and go in their own
time, and whoever asked compares what was asked with what came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Actuator(Protocol):
    def deployed(self, operator: str) -> Mapping[str, int] | None:
        """Replicas that serve now by node type; None where that cannot be told."""

    def room(self, operator: str, node_type: str) -> str | None:
        """Why one more of this type could not come (a quota, no worker left), or None."""

    def ask(self, operator: str, target: Mapping[str, int]) -> None:
        """Bring the operator to these replicas; `Retry` where the cluster did not take it."""

    def close(self) -> None:
        """Leave the cluster as it stands."""
