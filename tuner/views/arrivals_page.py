"""An application's arrivals in; one self-contained HTML page with their chart and what is missing from them out."""

from __future__ import annotations

from datetime import timedelta
from html import escape

import numpy as np

from sim.trace import EPOCH
from tuner.pipeline.arrival_trace import Arrivals, find_gaps, format_time
from tuner.simulation.columns import centres, cut, gather
from tuner.views.charts import HIGH, wrap
from tuner.views.html_page import WIDE, count, write_style
from tuner.views.scale import fit, time_ticks
from tuner.views.svg import draw_band, draw_bottom_axis, draw_left_axis, draw_line, draw_plot, draw_rug

MOST_GAPS = 50  # listed, the longest of them


def write_arrivals(arrivals: Arrivals) -> str:
    """The whole page."""
    name = escape(arrivals.application)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}: arrivals</title><style>{write_style()}</style></head><body>\n"
        f"<h1>{name}: arrivals</h1>\n{write_summary(arrivals)}{draw_arrivals(arrivals)}\n{write_gaps(arrivals)}"
        "</body></html>\n"
    )


def write_summary(arrivals: Arrivals) -> str:
    rates = arrivals.rates
    known = rates[~np.isnan(rates)]
    end = arrivals.start + arrivals.step_s * rates.size
    shares = ", ".join(f"{escape(name)} {share:.1%}" for name, share in arrivals.shares.items())
    door = "" if arrivals.counted else " Only what was taken in is known, not what came to the door."
    return (
        f"<p>{format_time(arrivals.start)} to {format_time(end)}, {count(rates.size, 'window', 'windows')} of "
        f"{arrivals.step_s:g} s, {known.size / rates.size:.1%} of them known. Mean <b>{known.mean():.4g}</b>, least "
        f"{known.min():.4g}, greatest {known.max():.4g} tuples per second. Sources: {shares or 'silent'}.{door}</p>"
    )


def draw_arrivals(arrivals: Arrivals) -> str:
    """The rate column by column, with strokes along the top where nothing is known."""
    columns = gather(arrivals.rates, WIDE)
    slots = arrivals.rates.size
    at = centres(slots, cut(slots, WIDE))
    scale = fit(float(np.nanmax(columns.high)))
    low, mean, high = (scale.share(line) for line in (columns.low, columns.mean, columns.high))
    marks = [draw_band(at, low, high, HIGH, "soft c0"), draw_line(at, mean, HIGH, "c0")]
    legend = [("area soft c0", "least to greatest"), ("c0", "mean")]
    if columns.infinite.any():
        marks.append(draw_rug(np.where(columns.infinite > 0, at, np.nan), "alarm"))
        legend.append(("area alarm", "not known"))
    times = time_ticks(EPOCH + timedelta(seconds=arrivals.start), slots * arrivals.step_s)
    around = [draw_left_axis(scale.ticks(), "tuples per second"), draw_bottom_axis(times)]
    return wrap(draw_plot(HIGH, marks, around, "Arrivals over time"), legend)


def write_gaps(arrivals: Arrivals) -> str:
    """What is missing, the longest stretches of it, in order of time."""
    gaps = find_gaps(arrivals.rates)
    if not gaps:
        return "<p>Nothing is missing.</p>"
    longest = sorted(sorted(gaps, key=lambda gap: gap[0] - gap[1])[:MOST_GAPS])
    rows = "".join(
        f"<tr><td>{format_time(arrivals.start + first * arrivals.step_s)}</td>"
        f"<td>{format_time(arrivals.start + last * arrivals.step_s)}</td><td>{last - first:,}</td></tr>"
        for first, last in longest
    )
    left = f"<p class=faint>The {len(longest)} longest of {len(gaps):,}.</p>" if len(longest) < len(gaps) else ""
    return (
        "<h2>What is missing</h2><table><thead><tr><th>from</th><th>to</th><th>windows</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>{left}"
    )
