"""Estate: the nodes of all regions, which replicas they host, and how replicas and nodes come and go.

A new replica goes to the fullest active node of its operator's region that has a free slot, the first of equals. One
that is removed is picked at random, as published, or so that its node empties soonest. A node is ordered at once, is
active after its start-up, and may be released only when it is empty.

Notation: R regions, M the most nodes of any, n operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.jit import jit, uniform
from scaler.model.kernel import Floats, Integers
from scaler.model.pool import PoolView, Region
from sim.application import Application, paths

ABSENT, ACTIVE = -1, 0


@dataclass(frozen=True, slots=True)
class Site:
    """Regions, the seconds that a tuple takes between them, and the region of each operator."""

    regions: tuple[Region, ...]
    homes: Mapping[str, str]  # region by operator
    delays: Mapping[tuple[str, str], float]  # seconds, by pair of regions in either order; none within a region

    def __post_init__(self) -> None:
        names = [region.name for region in self.regions]
        for operator, name in self.homes.items():
            if name not in names:
                raise BadInput(f"operator {operator!r} is in region {name!r}; the regions are {', '.join(names)}")


class Estate(NamedTuple):
    """Nodes and what they host."""

    hosted: Integers  # [R, M, n] replicas
    until_active: Integers  # [R, M] slots until the node is active: ABSENT, ACTIVE, or above 0
    slots: Integers  # [R] of a node
    most: Integers  # [R] nodes
    start_slots: Integers  # [R]
    price: Floats  # [R] of a node
    home: Integers  # [n] region


def lay_out_estate(site: Site, application: Application) -> Estate:
    """The first nodes, active, and one operator's first replicas after the other's on them."""
    regions, names = site.regions, [region.name for region in site.regions]
    for operator in application.operators:
        if operator.name not in site.homes:
            raise BadInput(f"operator {operator.name!r} has no region; name one of {', '.join(names)}")
    most, n = max(region.most_nodes for region in regions), len(application.operators)
    estate = Estate(
        hosted=np.zeros((len(regions), most, n), np.int64),
        until_active=np.full((len(regions), most), ABSENT),
        slots=np.array([region.slots for region in regions]),
        most=np.array([region.most_nodes for region in regions]),
        start_slots=np.array([region.start_slots for region in regions]),
        price=np.array([region.price for region in regions]),
        home=np.array([names.index(site.homes[operator.name]) for operator in application.operators]),
    )
    for r, region in enumerate(regions):
        estate.until_active[r, : region.first_nodes] = ACTIVE
    for o, operator in enumerate(application.operators):
        for _ in range(operator.k_min):
            node = int(pick_node(estate, estate.home[o]))
            if node < 0:
                raise BadInput(
                    f"region {site.homes[operator.name]!r} has no slot for the first replicas of {operator.name!r}; "
                    "raise its first nodes"
                )
            estate.hosted[estate.home[o], node, o] += 1
    return estate


def path_delays(site: Site, application: Application) -> Floats:
    """Seconds that a tuple travels between regions, by path."""
    operators = [operator.name for operator in application.operators]

    def delay(one: int, other: int) -> float:
        a, b = site.homes[operators[one]], site.homes[operators[other]]
        return 0.0 if a == b else site.delays.get((a, b), site.delays.get((b, a), 0.0))

    return np.array([sum(map(delay, path, path[1:])) for path in paths(application)])


@jit
def count_hosted(estate: Estate, r: int, node: int) -> int:
    """Replicas on a node."""
    total = 0
    for o in range(estate.home.shape[0]):
        total += estate.hosted[r, node, o]
    return total


@jit
def pick_node(estate: Estate, r: int) -> int:
    """The fullest active node of a region with a free slot; -1 where there is none."""
    found, fullest = -1, -1
    for node in range(estate.most[r]):
        if estate.until_active[r, node] == ACTIVE:
            hosted = count_hosted(estate, r, node)
            if fullest < hosted < estate.slots[r]:
                found, fullest = node, hosted
    return found


@jit
def remove_replica(estate: Estate, o: int, empties: bool, seed: int, step: int) -> None:
    """Remove one replica of an operator: any, or one of the node that empties soonest."""
    r = estate.home[o]
    total = 0
    for node in range(estate.most[r]):
        total += estate.hosted[r, node, o]
    number = int(uniform(seed, step) * total)
    chosen, fewest = -1, estate.slots[r] + 1
    for node in range(estate.most[r]):
        here = estate.hosted[r, node, o]
        if here == 0:
            continue
        if empties:
            hosted = count_hosted(estate, r, node)
            if hosted < fewest:
                chosen, fewest = node, hosted
        elif 0 <= number < here:
            chosen = node
        number -= here
    estate.hosted[r, chosen, o] -= 1


@jit
def resize_region(estate: Estate, r: int, nodes: int) -> int:
    """Order so many nodes, or release so many empty ones (below 0), as far as there are; what was done."""
    done = 0
    if nodes > 0:
        for node in range(estate.most[r]):
            if done < nodes and estate.until_active[r, node] == ABSENT:
                estate.until_active[r, node] = estate.start_slots[r]
                done += 1
        return done
    for back in range(estate.most[r]):
        node = estate.most[r] - 1 - back
        if done > nodes and estate.until_active[r, node] == ACTIVE and count_hosted(estate, r, node) == 0:
            estate.until_active[r, node] = ABSENT
            done -= 1
    return done


@jit
def pass_slot(estate: Estate) -> None:
    """Bring nodes that start one slot nearer to being active."""
    for r in range(estate.most.shape[0]):
        for node in range(estate.most[r]):
            if estate.until_active[r, node] > 0:
                estate.until_active[r, node] -= 1


@jit
def view_region(estate: Estate, r: int, utilisation: float, refused: int) -> PoolView:
    """What a region's pool policy sees."""
    active, starting, empty, free = 0, 0, 0, 0
    for node in range(estate.most[r]):
        if estate.until_active[r, node] == ACTIVE:
            hosted = count_hosted(estate, r, node)
            active += 1
            empty += hosted == 0
            free += estate.slots[r] - hosted
        elif estate.until_active[r, node] != ABSENT:
            starting += 1
    return PoolView(active, starting, empty, free, estate.slots[r], estate.most[r], utilisation, refused)


def count_replicas(estate: Estate) -> Sequence[int]:
    """Replicas hosted, by operator."""
    found: list[int] = estate.hosted.sum(axis=(0, 1)).tolist()
    return found
