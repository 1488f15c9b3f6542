"""Chart the course of an application: costs, response times, replicas; a page of its arrival rates and their gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup

from scaler.model.kernel import Floats
from scaler.model.units import format_duration, format_moment
from tuner.pipeline.flows import Arrivals, find_gaps
from tuner.simulation.course import Columns, ReplayCourse, column_centres, column_starts, reduce_columns
from tuner.views.chart import COLOURS, MIDDLE, TALL, Axis, Chart, Series, level
from tuner.views.html_document import render, write_document
from tuner.views.words import Column, make_columns

MAX_COLUMNS, MIN_COLUMNS = 720, 100
MAX_CHART_BYTES = 600_000
BYTES_PER_VALUE = 7  # of JSON, on average
MAX_GAPS = 50  # listed, the longest of them
FAR_APART = 30.0  # from the least to the greatest response time; beyond it, a logarithmic axis
MAX_S = 1e300  # drawn: a thousand times as much, in ms, is a number still


@dataclass(frozen=True, slots=True)
class Frame:
    """What the charts of one trace share: their times and their cursor."""

    start: float | None  # seconds since 1970, None where only the time since the beginning is known
    seconds: float
    node_types: tuple[str, ...]
    group: str = "course"

    def chart(self, title: str, at: Floats, left: Axis, series: Sequence[Series], right: Axis | None = None) -> Chart:
        """A time line; `at` are shares of the whole time [X]."""
        x = at * self.seconds + (self.start or 0.0)
        across = Axis("at", "elapsed" if self.start is None else "utc")
        return Chart(title, x, across, left, series, right, MIDDLE, self.group)


def limit_columns(lines: int) -> int:
    """As many columns as a page has pixels, fewer where many lines would make it too long a file."""
    return max(MIN_COLUMNS, min(MAX_COLUMNS, MAX_CHART_BYTES // (BYTES_PER_VALUE * max(1, lines))))


def chart_costs(frame: Frame, courses: Sequence[tuple[str, ReplayCourse]], floor: float | None) -> Chart:
    """The cost of every policy, period by period."""
    first = courses[0][1]
    series = [  # one value for each edge of the periods: the last one holds to the end
        Series(name, np.append(course.cost, course.cost[-1]), f"c{i % COLOURS}", "steps")
        for i, (name, course) in enumerate(courses)
    ]
    if floor is not None:
        series.append(level("the floor: the least mean cost over the whole trace", floor, "faint"))
    left = Axis(f"cost per slot, mean of each {first.period}")
    chart = frame.chart("Cost of every policy over time", first.cost_at, left, series)
    return replace(chart, height=TALL)


def chart_cost(frame: Frame, course: ReplayCourse) -> Chart:
    """One policy's cost: the mean of each period, and the mean of all slots so far."""
    periods = np.searchsorted(course.cost_at, course.at, side="right") - 1
    highest = 1.05 * max(float(course.cost.max()), float(course.running_cost[-1])) or 1.0
    series = [
        Series(f"mean of each {course.period}", course.cost[periods], "c0", "area"),
        Series("mean so far", course.running_cost, "ink", width=2.0),
    ]
    return frame.chart("Cost over time", course.at, Axis("cost per slot", low=0.0, high=highest), series)


def chart_response(frame: Frame, at: Floats, response: Columns, bound: float, name: str) -> Chart:
    """Response times against the bound; overloaded slots along the upper edge, and counted."""
    low, mean, high = (1000.0 * np.minimum(line, MAX_S) for line in (response.low, response.mean, response.high))
    least = float(np.nanmin(np.append(response.low[response.low > 0.0], bound)))
    greatest = float(np.nanmax(np.append(response.high, bound)))
    series = [
        Series("least to greatest", high, "c1", "band", low),
        Series("mean", mean, "c1"),
        level(f"bound, {format_duration(bound)}", 1000.0 * bound, "alarm"),
    ]
    if response.infinite.any():
        count = int(response.infinite.sum())
        marked = np.where(response.infinite > 0, response.infinite.astype(float), np.nan)
        series.append(Series(f"overloaded in {count:,} slot{'s' if count > 1 else ''}", marked, "alarm", "strip"))
    left = Axis("response time, ms", logarithmic=0.0 < FAR_APART * least < greatest)
    if left.logarithmic:  # which has no place for 0
        series = [hide_zeros(each) for each in series]
    return frame.chart(f"Response time of {name}", at, left, series)


def hide_zeros(series: Series) -> Series:
    values = np.where(series.values > 0.0, series.values, np.nan)
    low = None if series.low is None else np.where(series.low > 0.0, series.low, np.nan)
    return replace(series, values=values, low=low)


def chart_replicas(
    frame: Frame, at: Floats, replicas: Floats, arrivals: Columns, name: str, recommended: Floats | None = None
) -> Chart:
    """Replicas [X, N] by node type upon each other, perhaps those recommended as lines, and the arrival rate."""
    totals = np.nansum(replicas, axis=0) + (0.0 if recommended is None else np.nansum(recommended, axis=0))
    used = [i for i, total in enumerate(totals) if total > 0.0]
    running = "" if recommended is None else ", running"
    series = [
        Series(f"{frame.node_types[i]}{running}", replicas[:, i], f"c{i % COLOURS}", "area", stack="running")
        for i in used
    ]
    if recommended is not None:
        series += [
            Series(f"{frame.node_types[i]}, recommended", recommended[:, i], f"c{i % COLOURS}", "steps", None, "wanted")
            for i in used
        ]
    series.append(Series("arrival rate", arrivals.high, "ink", "band", arrivals.low, right=True))
    series.append(Series("mean rate", arrivals.mean, "ink", right=True, width=1.0))
    title = f"Replicas of {name}"
    if recommended is not None:
        title += " by node type, recommended and running, on the arrival rate"
    return frame.chart(title, at, Axis("replicas", whole=True), series, Axis("tuples per second"))


def draw_policy(frame: Frame, course: ReplayCourse, r_max: float) -> Markup:
    """All charts of one policy; those of single operators folded away where there are several."""
    at, total = course.at, np.sum([operator.replicas for operator in course.operators], axis=0)
    charts = (
        chart_cost(frame, course),
        chart_response(frame, at, course.response, r_max, "the slowest path"),
        chart_replicas(frame, at, total, course.arrivals, "the application"),
    )
    folded = {
        one.name: (
            chart_response(frame, at, one.response, one.bound, one.name),
            chart_replicas(frame, at, one.replicas, one.arrivals, one.name),
        )
        for one in (course.operators if len(course.operators) > 1 else ())
    }
    return render("course.html", charts=charts, folded=folded)


def write_arrivals(arrivals: Arrivals) -> str:
    """The whole page."""
    rates, gaps = arrivals.rates, find_gaps(arrivals.rates)
    known = rates[~np.isnan(rates)]
    body = render(
        "arrivals.html",
        start=arrivals.start,
        end=arrivals.start + arrivals.step_s * rates.size,
        step_s=arrivals.step_s,
        windows=rates.size,
        known=known.size / rates.size,
        rates=known,
        shares=arrivals.shares,
        counted=arrivals.counted,
        chart=chart_arrivals(arrivals).render(),
        gaps=list_gaps(arrivals, gaps) if gaps else [],
        found=len(gaps),
        most=MAX_GAPS,
    )
    return write_document(f"{arrivals.application}: arrivals", body)


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


def list_gaps(arrivals: Arrivals, gaps: Sequence[tuple[int, int]]) -> list[Column]:
    """The longest gaps, in order of time."""
    longest = sorted(sorted(gaps, key=lambda gap: gap[0] - gap[1])[:MAX_GAPS])
    return make_columns(longest, [
        ("from", lambda gap: format_moment(arrivals.start + gap[0] * arrivals.step_s), "first window without a rate"),
        ("to", lambda gap: format_moment(arrivals.start + gap[1] * arrivals.step_s), "first window with a rate again"),
        ("windows", lambda gap: f"{gap[1] - gap[0]:,}", "how many have no rate"),
    ])  # fmt: skip
