"""Draw the application's graph with each operator's bound, as tuned and with equal shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil
from typing import NamedTuple

from scaler.model.units import format_duration
from tuner.views.graph import Layout, lay_out
from tuner.views.html_document import frame_drawing
from tuner.views.trial_dots import COLOURS, list_named
from tuner.views.tuning import Tuning
from tuner.views.words import shorten

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


class Side(NamedTuple):
    """One of the two that are compared."""

    shares: Mapping[str, float]
    colour: str
    label: str


def draw_shares(tuning: Tuning) -> str:
    """Boxes from the sources on the left to the sinks on the right, with curves between them."""
    if not tuning.operators:
        return ""
    sides = list_sides(tuning)
    layout = lay_out(tuning.operators, tuning.edges)
    greatest = max((share for side in sides for share in side.shares.values()), default=1.0) or 1.0
    bands = fold(layout, (BAR + GAP) * len(sides))
    width, height = bands.wide + 2, round(bands.tops[-1]) + 2
    marks = [draw_edge(course, bands) for course in layout.courses]
    marks += [draw_box(tuning, layout, name, sides, greatest, bands) for name in tuning.operators]
    said = 'role="img" aria-label="Latency bounds on the application graph"'
    drawing = (
        f'<svg class="graph" width="{width}" height="{height}" viewBox="-1 -1 {width} {height}" {said}>'
        f"{''.join(marks)}</svg>"
    )
    legend = [(f"area {side.colour}", side.label) for side in sides]
    whole = f" A full bar is {100.0 * greatest:.1f} % of R_max." if sides else ""
    note = f'<p class="faint">Each operator\'s bound, and its share of R_max.{whole}</p>' if sides else ""
    return f'{note}<div class="wide drawn">{frame_drawing(drawing, legend)}</div>'


def fold(layout: Layout, bars: int) -> Bands:
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


def stand(bands: Bands, column: int, row: float) -> tuple[int, float]:
    """The left side and the middle of what is in a column and a row."""
    band, place = divmod(column, bands.each)
    return bands.margin + place * (bands.box + ACROSS), bands.starts[band] + (bands.high + BELOW) * row


def list_sides(tuning: Tuning) -> list[Side]:
    """What was chosen or came nearest, above equal shares."""
    named = [Side(point.shares, COLOURS[style], label) for point, style, label in list_named(tuning)]
    return [side for side in reversed(named) if side.shares]


def draw_box(tuning: Tuning, layout: Layout, name: str, sides: Sequence[Side], greatest: float, bands: Bands) -> str:
    x, y = stand(bands, *layout.boxes[name])
    lines = break_name(name, int((bands.box - 2 * EDGE) / LETTER))
    parts = [f'<rect class="box" width="{bands.box}" height="{bands.high}" rx="6"/>']
    parts += [
        f'<text class="name" x="{EDGE}" y="{19 + LINE * i}">{escape(line)}</text>' for i, line in enumerate(lines)
    ]
    for i, side in enumerate(sides):
        if name in side.shares:
            parts.append(
                draw_share(tuning, side.shares[name] / greatest, side, name, bands.box, bands.head + (BAR + GAP) * i)
            )
    return f'<g transform="translate({x} {y - bands.high / 2:.1f})"><title>{escape(name)}</title>{"".join(parts)}</g>'


def break_name(name: str, letters: int) -> list[str]:
    """A name in two lines where one is too short for it, if it can be after a mark that is no letter."""
    if len(name) <= letters:
        return [name]
    ends = [i for i in range(letters // 2, letters + 1) if not name[i - 1].isalnum()]
    first = ends[-1] if ends else letters
    return [name[:first], shorten(name[first:], letters)]


def draw_share(tuning: Tuning, filled: float, side: Side, name: str, width: int, top: int) -> str:
    """A bar, and on it the bound and the share."""
    room, share, r_max = width - 2 * EDGE, side.shares[name], tuning.limits.r_max
    bound = "" if r_max is None else format_duration(r_max * share)
    low = top + BAR - 5
    return (
        f'<rect class="track" x="{EDGE}" y="{top}" width="{room}" height="{BAR}" rx="3"/>'
        f'<rect class="{side.colour}" x="{EDGE}" y="{top}" width="{room * filled:.1f}" height="{BAR}" rx="3"/>'
        f'<text x="{EDGE + 5}" y="{low}">{bound}</text>'
        f'<text x="{width - EDGE - 5}" y="{low}" text-anchor="end">{100.0 * share:.1f} %</text>'
    )


def draw_edge(course: Course, bands: Bands) -> str:
    """A curve from box to box, level where it passes other boxes, and back to the left where a band ends."""
    x, y = stand(bands, *course[0])
    x += bands.box
    path = [f"M{x} {y:.1f}"]
    for i, (column, row) in enumerate(course[1:], 1):
        last = i == len(course) - 1
        to, at = stand(bands, column, row)
        to -= 6 if last else 0
        if column % bands.each == 0:
            path.append(turn(bands, column // bands.each, bands.lanes[course, column], at))
            path.append(f"H{to}")
        else:
            half = (x + to) / 2
            path.append(f"C{half:.1f} {y:.1f} {half:.1f} {at:.1f} {to} {at:.1f}")
        x, y = to, at
        if not last:
            x = to + bands.box
            path.append(f"H{x}")
    return f'<path class="edge" d="{"".join(path)}"/><path class="tip" d="M{x + 6} {y:.1f}l-8 -4v8Z"/>'


def turn(bands: Bands, band: int, lane: int, at: float) -> str:
    """Round the right end of the band before, between both, and round the left end of this one."""
    out, gap = 12 + LANE * lane, bands.tops[band - 1] + GUTTER / 2 + LANE * lane
    right, left = bands.wide - bands.margin + out, bands.margin - out
    return f"H{right - 6}q6 0 6 6V{gap - 6:.1f}q0 6 -6 6H{left + 6}q-6 0 -6 6V{at - 6:.1f}q0 6 6 6"
