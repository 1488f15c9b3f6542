"""Draw an application's graph with each operator's share of R_max and its utilisation."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.units import format_duration, format_response, format_share
from sim.application import Application
from tuner.service.page.slot_series import LATELY, SlotGrid
from tuner.views.graph import Layout, lay_out
from tuner.views.html_document import frame_drawing
from tuner.views.shares_chart import BAR, EDGE, GAP, LETTER, LINE, Bands, break_name, draw_edge, fold, stand


def draw_live(shape: Application, course: SlotGrid, r_max: float) -> str:
    """Boxes from the sources on the left to the sinks on the right."""
    names = list(course.operators)
    layout = lay_out(names, [(e.upstream, e.downstream) for e in shape.edges])
    bands = fold(layout, (BAR + GAP) * 2)
    width, height = bands.wide + 2, round(bands.tops[-1]) + 2
    marks = [draw_edge(route, bands) for route in layout.courses]
    marks += [draw_box(course, layout, i, r_max, bands) for i in range(len(names))]
    said = escape("; ".join(say_operator(course, i, r_max) for i in range(len(names))))
    drawing = (
        f'<svg class="graph" width="{width}" height="{height}" viewBox="-1 -1 {width} {height}" role="img" '
        f'aria-label="The application graph. {said}">{"".join(marks)}</svg>'
    )
    legend = [("area c2", "response time, as part of R_max"), ("area c1", "the same, over its bound")]
    legend.append(("area c3", "utilisation"))
    note = (
        f'<p class="faint">Means of the last {LATELY} slots. A full bar is R_max, {format_duration(r_max)}; a full '
        "utilisation bar is 100 %.</p>"
    )
    return f'{note}<div class="wide drawn" tabindex="0">{frame_drawing(drawing, legend)}</div>'


def lately(values: Floats) -> float | None:
    """The mean of what is known of the last slots; infinite where most of them were."""
    last = values[-LATELY:]
    last = last[~np.isnan(last)]
    if not last.size:
        return None
    finite = last[np.isfinite(last)]
    return math.inf if 2 * finite.size < last.size else float(finite.mean())


def say_operator(course: SlotGrid, i: int, r_max: float) -> str:
    response, busy = lately(course.response[:, i]), course.busy[i]
    took = "response time not known" if response is None else f"response time {format_response(response)}"
    return f"{course.operators[i]}: {took}, utilisation {'not known' if busy is None else format_share(busy)}"


def draw_box(course: SlotGrid, layout: Layout, i: int, r_max: float, bands: Bands) -> str:
    name = course.operators[i]
    x, y = stand(bands, *layout.boxes[name])
    lines = break_name(name, int((bands.box - 2 * EDGE) / LETTER))
    parts = [f'<rect class="box" width="{bands.box}" height="{bands.high}" rx="6"/>']
    parts += [
        f'<text class="name" x="{EDGE}" y="{19 + LINE * n}">{escape(line)}</text>' for n, line in enumerate(lines)
    ]
    response, bound = lately(course.response[:, i]), lately(course.bound[:, i])
    late = response is not None and bound is not None and response > bound
    took = None if response is None else response / r_max
    parts.append(
        draw_bar(took, format_response(response), format_share(took), "c1" if late else "c2", bands.box, bands.head)
    )
    busy = course.busy[i]
    parts.append(draw_bar(busy, "busy", format_share(busy), "c3", bands.box, bands.head + BAR + GAP))
    held = "" if bound is None else f"; bound {format_duration(bound)}"
    said = escape(f"{say_operator(course, i, r_max)}{held}")
    return f'<g transform="translate({x} {y - bands.high / 2:.1f})"><title>{said}</title>{"".join(parts)}</g>'


def draw_bar(filled: float | None, left: str, right: str, colour: str, width: int, top: int) -> str:
    room, low = width - 2 * EDGE, top + BAR - 5
    part = 0.0 if filled is None else min(1.0, max(0.0, filled))
    return (
        f'<rect class="track" x="{EDGE}" y="{top}" width="{room}" height="{BAR}" rx="3"/>'
        f'<rect class="{colour}" x="{EDGE}" y="{top}" width="{room * part:.1f}" height="{BAR}" rx="3"/>'
        f'<text x="{EDGE + 5}" y="{low}">{escape(left)}</text>'
        f'<text x="{width - EDGE - 5}" y="{low}" text-anchor="end">{escape(right)}</text>'
    )
