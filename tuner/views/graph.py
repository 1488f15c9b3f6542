"""Lay an application's graph out in layers from its sources: a place for each box and for each bend of an edge.

Sugiyama's way: a layer is the longest way from a source; an edge that skips layers gets a bend in each; what is in a
layer is ordered by the mean place of its neighbours, back and forth, and the order with the fewest crossings is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

SWEEPS, STEPS = 12, 60  # over the orders, and over the heights
BEND = 0.45  # how much of a box's height a bend takes
Edges = Sequence[tuple[str, str]]
Spot = str | tuple[int, int]  # an operator, or the bend of an edge in a layer
Layers = list[list[Spot]]


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns and heights, in units of a box with the gap below it, of the middles."""

    columns: int
    rows: float
    boxes: Mapping[str, tuple[int, float]]  # operator: column, height from the top
    courses: tuple[tuple[tuple[int, float], ...], ...]  # for each edge, from box over bends to box


def lay_out(names: Sequence[str], edges: Edges) -> Layout:
    """A place for each operator."""
    depths = find_depths(names, edges)
    forward = [(a, b) for a, b in edges if depths[a] < depths[b]]
    layers: Layers = [[n for n in names if depths[n] == d] for d in range(max(depths.values()) + 1)]
    links: list[list[Spot]] = []
    for i, (a, b) in enumerate(forward):
        bends: list[Spot] = [(i, d) for d in range(depths[a] + 1, depths[b])]
        for bend, d in zip(bends, range(depths[a] + 1, depths[b]), strict=True):
            layers[d].append(bend)
        links.append([a, *bends, b])
    near = find_neighbours(links)
    heights = level(uncross(layers, near), near)
    columns = {spot: d for d, layer in enumerate(layers) for spot in layer}
    return Layout(
        columns=len(layers),
        rows=max(heights.values()) + 0.5,
        boxes={name: (columns[name], heights[name]) for name in names},
        courses=tuple(tuple((columns[spot], heights[spot]) for spot in link) for link in links),
    )


def find_depths(names: Sequence[str], edges: Edges) -> dict[str, int]:
    """The longest way from a source; as far as it goes where edges form a cycle."""
    depths = dict.fromkeys(names, 0)
    for _ in range(len(names) - 1):
        for a, b in edges:
            depths[b] = max(depths[b], min(depths[a] + 1, len(names) - 1))
    order = sorted(set(depths.values()))
    return {name: order.index(depth) for name, depth in depths.items()}


def find_neighbours(links: Sequence[Sequence[Spot]]) -> dict[Spot, tuple[list[Spot], list[Spot]]]:
    """What stands before and what after."""
    near: dict[Spot, tuple[list[Spot], list[Spot]]] = {}
    for link in links:
        for a, b in pairwise(link):
            near.setdefault(a, ([], []))[1].append(b)
            near.setdefault(b, ([], []))[0].append(a)
    return near


def uncross(layers: Layers, near: Mapping[Spot, tuple[list[Spot], list[Spot]]]) -> Layers:
    """The layers, each in the best order that was met."""
    best, fewest = [list(layer) for layer in layers], count_crossings(layers, near)
    for sweep in range(SWEEPS):
        side = sweep % 2
        for d in range(len(layers)) if side == 0 else range(len(layers) - 1, -1, -1):
            other = d - 1 if side == 0 else d + 1
            if 0 <= other < len(layers):
                layers[d] = sort_layer(layers[d], layers[other], near, side)
        crossings = count_crossings(layers, near)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    return best


def sort_layer(
    layer: list[Spot], other: list[Spot], near: Mapping[Spot, tuple[list[Spot], list[Spot]]], side: int
) -> list[Spot]:
    """By the mean place of the neighbours on one side; what has none there keeps its place."""
    places = {spot: float(i) / max(1, len(other) - 1) for i, spot in enumerate(other)}

    def middle(i: int) -> float:
        found = [places[n] for n in near.get(layer[i], ([], []))[side] if n in places]
        return sum(found) / len(found) if found else i / max(1, len(layer) - 1)

    return [layer[i] for i in sorted(range(len(layer)), key=middle)]


def count_crossings(layers: Layers, near: Mapping[Spot, tuple[list[Spot], list[Spot]]]) -> int:
    total = 0
    for left, right in pairwise(layers):
        places = {spot: i for i, spot in enumerate(right)}
        ends = [sorted(places[n] for n in near.get(spot, ([], []))[1] if n in places) for spot in left]
        for i, mine in enumerate(ends):
            total += sum(x > y for theirs in ends[i + 1 :] for x in mine for y in theirs)
    return total


def level(layers: Layers, near: Mapping[Spot, tuple[list[Spot], list[Spot]]]) -> dict[Spot, float]:
    """Heights that keep the order and the room, near to the mean of the neighbours'."""
    heights: dict[Spot, float] = {}
    for layer in layers:
        for spot, height in zip(layer, spread(layer, [0.0] * len(layer)), strict=True):
            heights[spot] = height
    for sweep in range(STEPS):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            wanted = []
            for spot in layer:
                before, after = near.get(spot, ([], []))
                sides = [sum(heights[n] for n in side) / len(side) for side in (before, after) if side]
                wanted.append(sum(sides) / len(sides) if sides else heights[spot])
            heights.update(zip(layer, spread(layer, wanted), strict=True))
    top = min(height - 0.5 * size(spot) for spot, height in heights.items())
    return {spot: height - top for spot, height in heights.items()}


def spread(layer: Sequence[Spot], wanted: Sequence[float]) -> list[float]:
    """Heights at least so far apart as the sizes ask for, on the whole where they were wanted."""
    found: list[float] = []
    for i, spot in enumerate(layer):
        least = found[-1] + 0.5 * (size(layer[i - 1]) + size(spot)) if found else wanted[i]
        found.append(max(least, wanted[i]))
    shift = sum(wanted) / len(wanted) - sum(found) / len(found)
    return [height + shift for height in found]


def size(spot: Spot) -> float:
    return 1.0 if isinstance(spot, str) else BEND
