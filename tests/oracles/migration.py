"""State migration by brute force: keys on replicas, every tuple served in its turn."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

Placement = Callable[[int], int]


def place_consistently(keys: int, before: int, after: int) -> tuple[list[int], list[int]]:
    """Keys on replicas, evenly; no more of them move than must."""
    old = [key % before for key in range(keys)]
    new = list(old)
    if after > before:
        for replica in range(before):
            own = [key for key in range(keys) if old[key] == replica]
            for i, key in enumerate(own[keys // after :]):
                new[key] = before + i % (after - before)
    else:
        for i, key in enumerate(key for key in range(keys) if old[key] >= after):
            new[key] = i % after
    return old, new


def place_modulo(keys: int, before: int, after: int) -> tuple[list[int], list[int]]:
    return [key % before for key in range(keys)], [key % after for key in range(keys)]


def spread(keys: int) -> Iterator[int]:
    """Every key equally often, neighbours far apart."""
    key = 0
    stride = next(s for s in range(int(keys * 0.618), keys) if all(keys % d or s % d for d in range(2, s + 1)))
    while True:
        yield key
        key = (key + stride) % keys


def count_late(
    placed: tuple[list[int], list[int]],
    releases: dict[int, tuple[float, float]],
    rate: float,
    capacity: float,
    slack: float,
    moving: tuple[float, float],
    until: float,
) -> float:
    """Late seconds: tuples that wait longer than the slack, over the arrival rate.

    `releases` has, for each moved key, when its hold begins and ends; `moving` until when replicas are slower, and
    their capacity then.
    """
    old, new = placed
    keys = spread(len(old))
    arrivals: list[tuple[float, float, int]] = []  # released, came, replica
    for i in range(round(until * rate)):
        came, key = i / rate, next(keys)
        begins, ends = releases.get(key, (0.0, 0.0))
        moved = came >= begins
        heapq.heappush(arrivals, (max(came, ends) if moved else came, came, new[key] if moved else old[key]))
    free: dict[int, float] = {}
    late = 0
    while arrivals:
        released, came, replica = heapq.heappop(arrivals)
        begins = max(released, free.get(replica, 0.0))
        free[replica] = begins + 1.0 / (moving[1] if begins < moving[0] else capacity)
        late += begins - came > slack
    return late / rate


def count_loads(partitions: int, before: int, after: int) -> tuple[int, int]:
    """Least and most stores that the busiest executor loads, partitions staying where they are if they may."""
    counts = [partitions // before + (i < partitions % before) for i in range(before)]
    if after > before:
        return partitions // after, -(-partitions // after)
    lost = sorted(counts)
    least, most = sum(lost[: before - after]), sum(lost[after:])
    return -(-least // after), -(-most // after)
