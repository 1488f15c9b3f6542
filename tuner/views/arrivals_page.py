"""Write an application's arrival rates as one self-contained HTML page: their chart, and the gaps in them."""

from __future__ import annotations

from html import escape

import numpy as np

from scaler.model.units import format_count, format_moment, format_number, format_share
from tuner.pipeline.flows import Arrivals, find_gaps
from tuner.simulation.course import column_centres, column_starts, reduce_columns
from tuner.views.chart import Axis, Chart, Series
from tuner.views.course_charts import MAX_COLUMNS, Frame
from tuner.views.html_document import Column, write_columns, write_document

MAX_GAPS = 50  # listed, the longest of them


def write_arrivals(arrivals: Arrivals) -> str:
    """The whole page."""
    body = f"{write_summary(arrivals)}{chart_arrivals(arrivals).render()}\n{write_gaps(arrivals)}"
    return write_document(f"{arrivals.application}: arrivals", body)


def write_summary(arrivals: Arrivals) -> str:
    rates = arrivals.rates
    known = rates[~np.isnan(rates)]
    start, end = (format_moment(t) for t in (arrivals.start, arrivals.start + arrivals.step_s * rates.size))
    shares = ", ".join(f"{escape(name)} {format_share(share)}" for name, share in arrivals.shares.items())
    counted = "" if arrivals.counted else " Only the processed input is known, not the offered."
    return (
        f"<p>{start} to {end}, {format_count(rates.size, 'window', 'windows')} of {arrivals.step_s:g} s, "
        f"{format_share(known.size / rates.size)} of them known. Mean <b>{format_number(known.mean())}</b>, least "
        f"{format_number(known.min())}, greatest {format_number(known.max())} tuples per second. Sources: "
        f"{shares or 'silent'}.{counted}</p>"
    )


def chart_arrivals(arrivals: Arrivals) -> Chart:
    """The rate column by column; windows without a rate are marked along the upper edge."""
    columns, slots = reduce_columns(arrivals.rates, MAX_COLUMNS), arrivals.rates.size
    series = [
        Series("least to greatest", columns.high, "c0", "band", columns.low),
        Series("mean", columns.mean, "c0"),
    ]
    if columns.infinite.any():
        gaps = np.where(columns.infinite > 0, columns.infinite.astype(float), np.nan)
        series.append(Series("windows without a rate", gaps, "alarm", "strip"))
    frame = Frame(arrivals.start, slots * arrivals.step_s, ())
    at = column_centres(slots, column_starts(slots, MAX_COLUMNS))
    return frame.chart("Arrivals over time", at, Axis("tuples per second"), series)


def write_gaps(arrivals: Arrivals) -> str:
    """The longest gaps, in order of time."""
    gaps = find_gaps(arrivals.rates)
    if not gaps:
        return "<p>Nothing is missing.</p>"
    longest = sorted(sorted(gaps, key=lambda gap: gap[0] - gap[1])[:MAX_GAPS])
    begins, ends = (tuple(format_moment(arrivals.start + gap[i] * arrivals.step_s) for gap in longest) for i in (0, 1))
    columns = [
        Column("from", begins, "first window without a rate"),
        Column("to", ends, "first window with a rate again"),
        Column("windows", tuple(f"{last - first:,}" for first, last in longest), "how many have no rate"),
    ]
    left = f"<p class=faint>The {len(longest)} longest of {len(gaps):,}.</p>" if len(longest) < len(gaps) else ""
    return f"<h2>What is missing</h2>{write_columns(columns)}{left}"
