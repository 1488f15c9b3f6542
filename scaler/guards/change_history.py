"""What guards remember: when changes were really made, and since when the policy has wanted to go one way."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scaler.model.nodes import Reconfiguration

MOST_CHANGES = 1000  # remembered: the most that a flap budget can ask about


@dataclass(frozen=True, slots=True)
class History:
    """A plain value; times are seconds since the epoch."""

    changes: tuple[float, ...] = ()  # when, the latest last
    wish: int = 0  # +1 or -1: the way that the policy has wanted to go since `wished_since`, without a break
    wished_since: float = 0.0


def enter(history: History, time: float, proposed: Reconfiguration, done: Reconfiguration) -> History:
    """The history once a slot is over. A change ends a wish: what was seen before it speaks of another deployment."""
    if done.delta != 0:
        return History(changes=(*history.changes, time)[-MOST_CHANGES:])
    if proposed.delta == history.wish:
        return history
    return replace(history, wish=proposed.delta, wished_since=time)


def lasting(history: History, proposed: Reconfiguration, time: float) -> float:
    """Seconds for which the policy has wanted to go this way."""
    return time - history.wished_since if proposed.delta == history.wish else 0.0
