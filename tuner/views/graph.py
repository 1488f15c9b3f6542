"""Lay out an application's graph in layers, and draw its boxes, bars and edges as SVG.

Sugiyama's way: a layer is the longest way from a source; an edge that skips layers gets a bend in each; what is in a
layer is ordered by the mean place of its neighbours, back and forth, and the order with the fewest crossings is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from markupsafe import Markup

from tuner.views.html_document import render
from tuner.views.words import shorten

SWEEPS, STEPS = 12, 60  # over the orders, and over the heights
BEND = 0.45  # how much of a box's height a bend takes
Edges = Sequence[tuple[str, str]]
Spot = str | tuple[int, int]  # an operator, or the bend of an edge in a layer
Layers = list[list[Spot]]
Near = dict[Spot, tuple[list[Spot], list[Spot]]]  # neighbours before and after
Legend = Sequence[tuple[str, str]]  # style, label


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


def find_neighbours(links: Sequence[Sequence[Spot]]) -> Near:
    """What stands before and what after."""
    near: Near = {}
    for link in links:
        for a, b in pairwise(link):
            near.setdefault(a, ([], []))[1].append(b)
            near.setdefault(b, ([], []))[0].append(a)
    return near


def uncross(layers: Layers, near: Near) -> Layers:
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


def sort_layer(layer: list[Spot], other: list[Spot], near: Near, side: int) -> list[Spot]:
    """By the mean place of the neighbours on one side; what has none there keeps its place."""
    places = {spot: float(i) / max(1, len(other) - 1) for i, spot in enumerate(other)}

    def middle(i: int) -> float:
        found = [places[n] for n in near.get(layer[i], ([], []))[side] if n in places]
        return sum(found) / len(found) if found else i / max(1, len(layer) - 1)

    return [layer[i] for i in sorted(range(len(layer)), key=middle)]


def count_crossings(layers: Layers, near: Near) -> int:
    total = 0
    for left, right in pairwise(layers):
        places = {spot: i for i, spot in enumerate(right)}
        ends = [sorted(places[n] for n in near.get(spot, ([], []))[1] if n in places) for spot in left]
        for i, mine in enumerate(ends):
            total += sum(x > y for theirs in ends[i + 1 :] for x in mine for y in theirs)
    return total


def level(layers: Layers, near: Near) -> dict[Spot, float]:
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


PAGE = 1198  # pixels that a graph may fill
NARROW, ROOMY, WIDE, HEAD = 136, 160, 210, 28  # pixels of a box, and down to its first bar
LINE = 15  # pixels from a name's first line to its second
ACROSS, BELOW = 40, 20  # pixels between boxes
EDGE, BAR, GAP = 8, 18, 6  # pixels within a box, of a bar's height and below it
GUTTER, LANE = 16, 6  # pixels between bands, and from an edge to the next where they turn
LETTER = 8.6  # pixels
Course = tuple[tuple[int, float], ...]


class Bands(NamedTuple):
    """A graph with too many columns for the page, cut into bands of some columns, one below the other; in pixels."""

    box: int  # width
    high: int  # height of a box
    head: int  # from its top to its first bar
    each: int  # columns of a band
    wide: int
    margin: int  # at both sides, for edges that go on in the next band
    tops: tuple[float, ...]  # where each band ends, the last one's at the end
    starts: tuple[float, ...]  # what to add to a place in a band
    lanes: Mapping[tuple[Course, int], int]  # of an edge that turns into a column, so that none hides another


class Bar(NamedTuple):
    """A bar in a box, filled by a share of it, and what stands on it."""

    filled: float
    colour: str
    left: str
    right: str


class Box(NamedTuple):
    """An operator: its title, and its bars from top to bottom, None for an empty place."""

    title: str
    bars: Sequence[Bar | None]


def draw_graph(boxes: Mapping[str, Box], edges: Edges, label: str, legend: Legend, note: str) -> Markup:
    """Boxes from the sources on the left to the sinks on the right, with curves between them."""
    layout = lay_out(list(boxes), edges)
    bands = cut_bands(layout, (BAR + GAP) * max(len(box.bars) for box in boxes.values()))
    placed = []
    for name, box in boxes.items():
        x, y = place_box(bands, *layout.boxes[name])
        lines = break_name(name, int((bands.box - 2 * EDGE) / LETTER))
        tops = (bands.head + (BAR + GAP) * i for i in range(len(box.bars)))
        bars = [(top, bar) for top, bar in zip(tops, box.bars, strict=True) if bar]
        placed.append({"title": box.title, "x": x, "y": y - bands.high / 2, "lines": lines, "bars": bars})
    return render(
        "graph.html", width=bands.wide + 2, height=round(bands.tops[-1]) + 2, label=label, legend=legend, note=note,
        edges=[trace_edge(course, bands) for course in layout.courses], boxes=placed, box=bands.box, high=bands.high,
        edge=EDGE, bar=BAR, line=LINE,
    )  # fmt: skip


def cut_bands(layout: Layout, bars: int) -> Bands:
    """One band where the columns fit the page, else several of about as many columns each."""
    if layout.columns * (NARROW + ACROSS) - ACROSS <= PAGE:
        bands, each = 1, layout.columns
    else:
        bands = ceil(layout.columns / ((PAGE - 3 * ACROSS) // (ROOMY + ACROSS)))
        each = ceil(layout.columns / bands)
    turns: dict[int, list[Course]] = {column: [] for column in range(each, layout.columns, each)}
    for course in layout.courses:
        for column, _ in course[1:]:
            if column in turns:
                turns[column].append(course)
    for column, courses in turns.items():  # what comes from the lowest row turns first
        courses.sort(key=lambda course: -dict(course)[column - 1])
    most = max(map(len, turns.values()), default=0)
    margin = 18 + LANE * most if turns else 0
    box = min(WIDE, max(NARROW, (PAGE - 2 * margin + ACROSS) // each - ACROSS))
    long = any(len(name) > int((box - 2 * EDGE) / LETTER) for name in layout.boxes)
    head = HEAD + LINE * long
    high = head + bars
    tops, starts, end = [], [], 0.0
    for first in range(0, layout.columns, each):
        rows = [row for column, row in layout.boxes.values() if first <= column < first + each]
        rows += [row for course in layout.courses for column, row in course if first <= column < first + each]
        starts.append(end - (high + BELOW) * (min(rows) - 0.5))
        end += (high + BELOW) * (max(rows) - min(rows) + 1.0)
        tops.append(end)
        end += (GUTTER + LANE * most) * (first + each < layout.columns)
    lanes = {(course, column): lane for column, courses in turns.items() for lane, course in enumerate(courses)}
    wide = 2 * margin + each * (box + ACROSS) - ACROSS
    return Bands(box, high, head, each, wide, margin, tuple(tops), tuple(starts), lanes)


def place_box(bands: Bands, column: int, row: float) -> tuple[int, float]:
    """The left side and the middle of what is in a column and a row."""
    band, place = divmod(column, bands.each)
    return bands.margin + place * (bands.box + ACROSS), bands.starts[band] + (bands.high + BELOW) * row


def break_name(name: str, letters: int) -> list[str]:
    """A name in two lines where one is too short for it, if it can be after a mark that is no letter."""
    if len(name) <= letters:
        return [name]
    ends = [i for i in range(letters // 2, letters + 1) if not name[i - 1].isalnum()]
    first = ends[-1] if ends else letters
    return [name[:first], shorten(name[first:], letters)]


def trace_edge(course: Course, bands: Bands) -> tuple[str, float, float]:
    """A curve from box to box, level where it passes others, back to the left where a band ends; and where it ends."""
    x, y = place_box(bands, *course[0])
    x += bands.box
    path = [f"M{x} {y:.1f}"]
    for i, (column, row) in enumerate(course[1:], 1):
        last = i == len(course) - 1
        to, at = place_box(bands, column, row)
        to -= 6 if last else 0
        if column % bands.each == 0:
            path.append(draw_turn(bands, column // bands.each, bands.lanes[course, column], at))
            path.append(f"H{to}")
        else:
            half = (x + to) / 2
            path.append(f"C{half:.1f} {y:.1f} {half:.1f} {at:.1f} {to} {at:.1f}")
        x, y = to, at
        if not last:
            x = to + bands.box
            path.append(f"H{x}")
    return "".join(path), x, y


def draw_turn(bands: Bands, band: int, lane: int, at: float) -> str:
    """Round the right end of the band before, between both, and round the left end of this one."""
    out, gap = 12 + LANE * lane, bands.tops[band - 1] + GUTTER / 2 + LANE * lane
    right, left = bands.wide - bands.margin + out, bands.margin - out
    return f"H{right - 6}q6 0 6 6V{gap - 6:.1f}q0 6 -6 6H{left + 6}q-6 0 -6 6V{at - 6:.1f}q0 6 6 6"
