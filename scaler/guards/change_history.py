"""History behind guards: times of changes that were made, and how long the policy has wanted one direction."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scaler.model.nodes import Reconfiguration

MAX_CHANGES = 1000  # kept: the most that a flap budget may allow


@dataclass(frozen=True, slots=True)
class ChangeHistory:
    """Times are seconds since the epoch."""

    changes: tuple[float, ...] = ()  # when, the latest last
    wish: int = 0  # +1 or -1: the way that the policy has wanted to go since `wished_since`, without a break
    wished_since: float = 0.0


def record_slot(history: ChangeHistory, time: float, proposed: Reconfiguration, done: Reconfiguration) -> ChangeHistory:
    """Add a slot. A change ends a wish: observations before it are of another deployment."""
    if done.delta != 0:
        return ChangeHistory(changes=(*history.changes, time)[-MAX_CHANGES:])
    if proposed.delta == history.wish:
        return history
    return replace(history, wish=proposed.delta, wished_since=time)


def measure_wish(history: ChangeHistory, proposed: Reconfiguration, time: float) -> float:
    """Seconds for which the policy has wanted to go this way."""
    return time - history.wished_since if proposed.delta == history.wish else 0.0
