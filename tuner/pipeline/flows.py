"""Flows of tuples: an application's arrival rate on its grid of windows, and the selectivity of every edge.

Arrival rates are NaN where nothing is known. What a simulator replays may have no holes, so filling them is a step of
its own, `fill`: short ones are bridged by a straight line, long ones refused.

A selectivity is a ratio r = sum y / sum x over windows, y arrivals at the next operator and x tuples put out, with the
standard error sqrt(W / (W - 1) sum (y - r x)^2) / sum x, windows being independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np

from scaler.model.errors import BadInput, suggest
from scaler.model.kernel import Floats
from scaler.model.sample import Sample
from scaler.model.units import DAY
from sim.trace import EPOCH, Trace
from tuner.pipeline.read_marks import Edge
from tuner.pipeline.sources.sample_schema import merge_types

LEAST_COVER = 0.5  # of a window; its rate is that of the part that was seen
MOST_WINDOWS = 5_000_000  # nine years of minutes
LONGEST_GAP = 5  # windows bridged unless told otherwise


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Arrival rate of an application from outside, in tuples per second; NaN where nothing is known."""

    application: str
    start: float  # seconds since 1970
    step_s: float
    rates: Floats  # [n]; the first and the last are known
    shares: Mapping[str, float] = field(default_factory=dict)  # of all arrivals that were seen, by source
    counted: bool = True  # at the door; False where only what was taken in is known


def find_sources(sources: Mapping[str, float] | None, samples: Sequence[Sample], application: str) -> dict[str, float]:
    """Source operators with their shares of the external rate; unstated, the only operator."""
    seen = sorted({sample.operator for sample in samples})
    if not seen:
        raise BadInput(
            f"there are no samples of {application!r}; read some with: tuner ingest PATH --app {application}"
        )
    if sources is None and len(seen) > 1:
        raise BadInput(f"{application!r} has several operators; name its sources with --operator: {', '.join(seen)}")
    wanted = dict(sources) if sources is not None else {seen[0]: 1.0}
    for name in wanted:
        if name not in seen:
            near = suggest(name, seen, "there are of {}")
            raise BadInput(f"there are no samples of operator {name!r} in {application!r}; {near}")
    return wanted


def build_arrivals(samples: Iterable[Sample], sources: Mapping[str, float]) -> Arrivals:
    """The arrivals of samples of one application and one length of window, where every source is known."""
    merged = [sample for sample in merge_types(samples) if sample.operator in sources]
    rates: dict[float, dict[str, float]] = {}
    for sample in merged:
        tuples = count_arrivals(sample)
        if tuples is not None and sample.completeness >= LEAST_COVER:  # the rate is of the part that was seen
            seen_s = (sample.end - sample.start) * sample.completeness
            rates.setdefault(sample.start, {})[sample.operator] = tuples / seen_s
    known = sorted((start, sum(of.values())) for start, of in rates.items() if len(of) == len(sources))
    names = ", ".join(sources)
    if not known:
        raise BadInput(f"no window knows how many tuples came to {names}; read a source that counts them")
    totals = {name: math.fsum(of[name] for of in rates.values() if name in of) for name in sources}
    whole = math.fsum(totals.values())
    application, first, step_s = merged[0].application, known[0][0], merged[0].end - merged[0].start
    slots = np.rint((np.array([start for start, _ in known]) - first) / step_s).astype(np.int64)
    if slots[-1] >= MOST_WINDOWS:
        raise BadInput(
            f"the arrivals of {application!r} reach from {format_time(first)} to {format_time(known[-1][0])}, "
            f"more than {MOST_WINDOWS:,} windows; take a stretch with --since and --until"
        )
    grid = np.full(int(slots[-1]) + 1, np.nan)
    grid[slots] = [rate / sum(sources.values()) for _, rate in known]
    shares = {name: total / whole for name, total in totals.items()} if whole > 0.0 else {}
    return Arrivals(application, first, step_s, grid, shares, all(sample.arrived is not None for sample in merged))


def count_arrivals(sample: Sample) -> float | None:
    """Tuples that arrived, or were taken in where that is unknown."""
    return sample.tuples_in if sample.arrived is None else sample.arrived


def find_gaps(rates: Floats) -> list[tuple[int, int]]:
    """First and past-the-last window of every stretch that is not known."""
    missing = np.concatenate([[False], np.isnan(rates), [False]])
    edges = np.flatnonzero(missing[1:] != missing[:-1])
    return [(int(first), int(last)) for first, last in zip(edges[::2], edges[1::2], strict=True)]


def choose_stretch(arrivals: Arrivals, longest_gap: int = LONGEST_GAP, enough_s: float = DAY) -> Arrivals:
    """The newest stretch without a gap of more windows that is at least so long; the longest where none is."""
    gaps = [(first, last) for first, last in find_gaps(arrivals.rates) if last - first > longest_gap]
    starts, ends = [0, *(last for _, last in gaps)], [*(first for first, _ in gaps), arrivals.rates.size]
    stretches = list(zip(starts, ends, strict=True))
    long = [(first, last) for first, last in stretches if (last - first) * arrivals.step_s >= enough_s]
    first, last = long[-1] if long else max(stretches, key=lambda one: (one[1] - one[0], one[0]))
    began = arrivals.start + first * arrivals.step_s
    return replace(arrivals, start=began, rates=arrivals.rates[first:last])


def fill(arrivals: Arrivals, longest_gap: int = LONGEST_GAP) -> Trace:
    """Fill holes: those of up to so many windows are bridged by a straight line, longer ones refused."""
    gaps = find_gaps(arrivals.rates)
    first, last = max(gaps, key=lambda gap: gap[1] - gap[0], default=(0, 0))
    if last - first > longest_gap:
        since, until = (format_time(arrivals.start + slot * arrivals.step_s) for slot in (first, last))
        raise BadInput(
            f"nothing is known of the arrivals of {arrivals.application!r} from {since} to {until}"
            f"; take a stretch without that by --since or --until, or bridge it by --gap {last - first}"
        )
    known = np.flatnonzero(~np.isnan(arrivals.rates))
    slots = np.arange(arrivals.rates.size)
    rates = np.interp(slots, known, arrivals.rates[known])
    return Trace(rates, arrivals.step_s, EPOCH + timedelta(seconds=arrivals.start), arrivals.application)


def format_time(seconds: float) -> str:
    moment: datetime = EPOCH + timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}Z"


@dataclass(frozen=True, slots=True)
class Selectivity:
    """Arrivals downstream per tuple that the operator puts out."""

    application: str
    operator: str
    downstream: str
    value: float
    error: float | None  # standard error; None where one window alone speaks
    windows: int


def estimate_edges(samples: Iterable[Sample], edges: Sequence[Edge]) -> list[Selectivity]:
    """Selectivity of every edge of an application; where streams meet, least squares estimate each one's part."""
    by_operator: dict[str, dict[float, Sample]] = {}
    for sample in merge_types(samples):
        by_operator.setdefault(sample.operator, {})[sample.start] = sample
    found: dict[Edge, Selectivity] = {}
    for downstream in dict.fromkeys(down for _, down in edges):
        feeders = [up for up, down in edges if down == downstream]
        found |= {(one.operator, downstream): one for one in part_arrivals(by_operator, feeders, downstream)}
    return [found[edge] for edge in edges if edge in found]


def part_arrivals(
    by_operator: dict[str, dict[float, Sample]], feeders: Sequence[str], downstream: str
) -> list[Selectivity]:
    rows, arrivals = [], []
    for start, sample in by_operator.get(downstream, {}).items():
        arrived = count_arrivals(sample)
        put_out = [get_output(by_operator.get(name, {}).get(start)) for name in feeders]
        if arrived is not None and all(value is not None for value in put_out):
            rows.append(put_out)
            arrivals.append(arrived)
    if not rows:
        return []
    application = next(iter(by_operator[downstream].values())).application
    x, y = np.array(rows, np.float64), np.array(arrivals)
    if len(feeders) > 1:
        return regress(application, feeders, downstream, x, y)
    if not x.any():
        return []
    return [Selectivity(application, feeders[0], downstream, *estimate_ratio(x[:, 0], y), len(y))]


def estimate_ratio(x: Floats, y: Floats) -> tuple[float, float | None]:
    """The ratio of two sums over windows, and its standard error where there is more than one."""
    total = float(x.sum())
    value = float(y.sum()) / total
    rest = float(np.sum((y - value * x) ** 2))
    return value, math.sqrt(rest * y.size / (y.size - 1.0)) / total if y.size > 1 else None


def get_output(sample: Sample | None) -> float | None:
    """Tuples out, or in where that is unknown: then the edge's selectivity includes the operator's."""
    if sample is None:
        return None
    return sample.tuples_in if sample.tuples_out is None else sample.tuples_out


def regress(application: str, feeders: Sequence[str], downstream: str, x: Floats, y: Floats) -> list[Selectivity]:
    """Least squares weighted by one over the arrivals, as counts scatter; nothing where streams rise and fall alike."""
    weight = 1.0 / np.sqrt(np.maximum(y, 1.0))
    a, b = x * weight[:, None], y * weight
    scale = np.linalg.norm(a, axis=0)
    if len(y) <= len(feeders) or not scale.all() or np.linalg.cond(a / scale) > 1e3:
        return []
    values = np.linalg.lstsq(a, b, rcond=None)[0]
    rest = float(np.sum((b - a @ values) ** 2)) / (len(y) - len(feeders))
    errors = np.sqrt(rest * np.diag(np.linalg.inv(a.T @ a)))
    return [
        Selectivity(application, name, downstream, max(0.0, float(value)), float(error), len(y))
        for name, value, error in zip(feeders, values, errors, strict=True)
    ]
