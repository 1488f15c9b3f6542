"""Rate limits by token buckets."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

MOST = 10_000  # keys kept at a time


@dataclass(frozen=True, slots=True)
class RateLimits:
    """A thousand scalers that share a token ask 130 times a second, and some thousands of times as they come back."""

    rate: float = 500.0  # requests a second of one token
    burst: float = 5000.0  # that may come at once
    failures: float = 0.2  # wrong tokens a second of one address
    failures_at_once: float = 20.0


class Buckets:
    """One for each key, which holds `size` and refills at `rate` a second."""

    def __init__(self, rate: float, size: float, ticks: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.size = size
        self.ticks = ticks
        self.levels: dict[Hashable, tuple[float, float]] = {}

    def take(self, key: Hashable) -> float:
        """One out of the key's bucket; 0, or the seconds until there will be one."""
        now = self.ticks()
        if len(self.levels) >= MOST and key not in self.levels:
            self.make_room(now)
        level = self.level_at(key, now)
        if level < 1.0:
            self.levels[key] = (level, now)
            return (1.0 - level) / self.rate
        self.levels[key] = (level - 1.0, now)
        return 0.0

    def level_at(self, key: Hashable, now: float) -> float:
        level, since = self.levels.get(key, (self.size, now))
        return min(self.size, level + self.rate * (now - since))

    def make_room(self, now: float) -> None:
        """Full buckets say nothing; where that is not enough, the oldest half goes."""
        self.levels = {key: kept for key, kept in self.levels.items() if self.level_at(key, now) < self.size}
        if len(self.levels) >= MOST:
            newest = sorted(self.levels, key=lambda key: self.levels[key][1])[MOST // 2 :]
            self.levels = {key: self.levels[key] for key in newest}


def group_address(host: str | None) -> str:
    """Whoever has one address of IPv6 has all of its /64."""
    try:
        address = ip_address(host or "")
    except ValueError:
        return host or "?"
    return str(ip_network((address, 64), strict=False)) if isinstance(address, IPv6Address) else str(address)
