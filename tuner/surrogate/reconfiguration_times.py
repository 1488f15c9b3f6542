"""Measure what reconfigurations add to batches, and the size and growth of the state, from folded samples.

A window's excess is the time of its batches beyond a + g n m / (s k) each, a and g being fitted to the windows without
a change. Durations add up, so sums over windows suffice, and where batches grew because tuples had waited for a longer
one, n explains it. Of an event's excess what the same number of batches had in the windows after it is taken off, so
that a rhythm that fits badly at this load, or at as many replicas as there are now, does not count as its cost.

An event is one or more windows in a row in which the number of replicas changes in one direction, whoever changed it,
together with those after them that begin within FELT usual batches. Windows in which no batch ended, because one ran on
that ended later, are part of it. Where the direction turns in between, where windows are missing or batches are not
known, it tells nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scaler.model.kernel import Floats
from tuner.surrogate.estimate import Estimate, estimate, estimate_positive
from tuner.surrogate.observed_windows import MOVED, Flags, Windows, divide, follows
from tuner.surrogate.response_models import FEWEST, fit_rhythm, overhead_by
from tuner.surrogate.surrogate import ReconfigurationTime, SizeTime, StateSize

LEAST_EVENTS = 3  # below which nothing is said
NEIGHBOURS = 3  # windows after an event that show what is usual, or as many as it has
FELT = 3.0  # usual batches for which a change is felt once replicas have come or gone


class Event(NamedTuple):
    replicas: int  # more or fewer
    seconds: float


def measure_reconfigurations(
    windows: Windows, work: Floats, share: Floats, calm: Flags, counted: Flags
) -> tuple[ReconfigurationTime, ...]:
    """Extra seconds by direction; `work` is each replica's seconds of service in a batch [W], `calm` without change.

    `share` of capacity is in use [W]; `counted` are windows whose replicas are known.
    """
    duration = divide(windows.batch_time, windows.batches)
    known = counted & (duration > 0.0) & (work > 0.0)
    fitted = known & calm
    if np.count_nonzero(fitted) < FEWEST:
        return ()
    interval = divide(windows.batch_interval, windows.batches)
    interval = np.where(interval > 0.0, interval, duration)
    columns = (interval, duration, work, windows.batches, share)
    counts = windows.replicas.sum(axis=1)
    rhythm = fit_rhythm(*(column[fitted] for column in columns), replicas=counts[fitted])
    stretch = find_stretch(windows, duration)
    work = work * stretch
    overhead = np.array([overhead_by(rhythm, count) for count in counts / stretch])  # of those that it began on
    usual = windows.batches * (overhead + rhythm["work"] * work)
    passed = counted & find_passed(windows, duration, float(np.median(interval[fitted])))
    served = np.nan_to_num(windows.tuples_in * divide(share, windows.rate))
    excess = np.where(known, windows.batch_time - usual, np.where(passed, -rhythm["work"] * served, np.nan))
    felt_s = FELT * float(np.median(np.maximum(interval, duration)[fitted]))
    events = list(find_events(windows, excess, calm, passed, felt_s))
    sides = {"out": [e for e in events if e.replicas > 0], "in": [e for e in events if e.replicas < 0]}
    return tuple(summarise_events(name, some) for name, some in sides.items() if some)


def find_passed(windows: Windows, duration: Floats, usual_s: float) -> Flags:
    """Windows in which no batch ended since one ran on that ended later [W]; its time is of the window of its end.

    The one before it may have ended with the window before, and it have begun at the next trigger.
    """
    ended = duration > 0.0
    index = np.where(ended, np.arange(duration.size), duration.size)
    after = np.minimum.accumulate(index[::-1])[::-1]  # the next window in which a batch ended
    began = np.append(windows.start - np.nan_to_num(duration), np.inf)[after]
    return ~ended & (began <= windows.start + usual_s)


def find_stretch(windows: Windows, duration: Floats) -> Floats:
    """How much longer the work of a window's batches takes than on its mean of replicas [W].

    Where k becomes k' within a window, its mean says when. Batches that end in a window began a duration earlier, with
    the replicas of then; their work takes the mean of 1 / k over these beginnings.
    """
    counts = windows.replicas.sum(axis=1)
    moment = windows.start.copy()  # from which on a window has its last number of replicas
    last = counts.copy()
    before, now, after = counts[:-2], counts[1:-1], counts[2:]
    within = (np.minimum(before, after) < now) & (now < np.maximum(before, after)) & (np.minimum(before, after) > 0.0)
    share = (now[within] - before[within]) / (after[within] - before[within])
    moment[1:-1][within] = windows.end[1:-1][within] - share * windows.length[1:-1][within]
    last[1:-1][within] = after[within]
    first = np.append(counts[:1], last[:-1])  # until then it has that of the window before
    times = np.column_stack([windows.start, moment]).ravel()
    inverse = np.nan_to_num(divide(np.ones(2 * counts.size), np.column_stack([first, last]).ravel()))
    area = np.append(0.0, np.cumsum(inverse[:-1] * np.diff(times)))
    spent = np.append(area, area[-1] + inverse[-1] * (windows.end[-1] - times[-1]))
    grid = np.append(times, windows.end[-1])
    began = windows.start - np.nan_to_num(duration), windows.end - np.nan_to_num(duration)
    mean = (np.interp(began[1], grid, spent) - np.interp(began[0], grid, spent)) / windows.length
    mean[0] = divide(np.ones(1), counts[:1])[0]  # nothing is known of before
    return np.where(counts > 0.0, counts * mean, 1.0)


def find_events(windows: Windows, excess: Floats, calm: Flags, passed: Flags, felt_s: float) -> Iterator[Event]:
    counts = windows.replicas.sum(axis=1)
    joined = follows(windows)
    moves = np.append(0.0, np.diff(counts))
    moved = (np.abs(moves) > MOVED) & joined
    seen = int(np.flatnonzero(~np.isnan(excess)).max(initial=-1)) + 1  # past the last window that tells anything
    i = 0
    while i < moved.size:
        if not moved[i]:
            i += 1
            continue
        first, last = i, i
        while last + 1 < moved.size and moved[last + 1]:
            last += 1
        if abs(moves[first - 1]) > 0.0 and joined[first - 1]:  # it began just before the end of a window
            first -= 1
        end = last + 1  # past the last window in which the event is felt
        until = windows.end[last] + felt_s
        while end < seen and not moved[end] and (passed[end - 1] or windows.start[end] <= until):
            end += 1
        i = last + 1
        replicas = round(float(counts[last] - counts[first - 1]))
        usual = find_usual(windows, excess, calm, first, end)
        one_way = np.all(moves[first : last + 1] > 0.0) or np.all(moves[first : last + 1] < 0.0)
        whole = joined[first:end].all() and not np.isnan(excess[first:end]).any()
        if replicas != 0 and one_way and whole and usual is not None:
            batches = float(np.nansum(windows.batches[first:end]))
            yield Event(replicas, float(excess[first:end].sum()) - batches * usual)


def find_usual(windows: Windows, excess: Floats, calm: Flags, first: int, end: int) -> float | None:
    """Excess per batch in the calm windows after an event, else before it; None where neither side has any."""
    told, many = np.flatnonzero(calm & ~np.isnan(excess)), max(NEIGHBOURS, end - first)
    for near in (told[told >= end][:many], told[told < first][-many:]):
        batches = float(np.nansum(windows.batches[near]))
        if batches > 0.0:
            return float(excess[near].sum()) / batches
    return None


def summarise_events(direction: str, events: Sequence[Event]) -> ReconfigurationTime:
    sizes = sorted({abs(event.replicas) for event in events})
    parts = {size: [e.seconds for e in events if abs(e.replicas) == size] for size in sizes}
    base, each = fit_sizes(events) if len(events) >= LEAST_EVENTS else (None, None)
    return ReconfigurationTime(
        direction=direction,
        events=len(events),
        seconds=average([event.seconds for event in events]),
        base_s=base,
        each_s=each,
        sizes=tuple(SizeTime(size, len(part), average(part)) for size, part in parts.items()),
    )


def average(values: Sequence[float]) -> Estimate | None:
    """The mean with Student's interval; None of too few."""
    if len(values) < LEAST_EVENTS:
        return None
    seconds = np.array(values)
    middle = float(seconds.mean())
    return estimate(middle, (seconds - middle) / seconds.size)


def fit_sizes(events: Sequence[Event]) -> tuple[float, float]:
    """Seconds of a change, and of each of its replicas: least squares of shares of the size, neither below zero.

    What one change takes more than another of its size grows with the size.
    """
    size = np.array([abs(event.replicas) for event in events], dtype=np.float64)
    of_one, inverse = np.array([event.seconds for event in events]) / size, 1.0 / size
    spread = inverse - inverse.mean()
    base = float(spread @ of_one / (spread @ spread)) if np.ptp(size) > 0.0 else 0.0
    each = float(of_one.mean() - base * inverse.mean())
    if np.ptp(size) == 0.0:
        return max(0.0, each * float(size[0])), 0.0
    if each < 0.0:
        return max(0.0, float(inverse @ of_one / (inverse @ inverse))), 0.0
    return (base, each) if base > 0.0 else (0.0, max(0.0, float(of_one.mean())))


def measure_state(windows: Windows) -> StateSize | None:
    """The state as last reported; None where it never was."""
    size, tuples = windows.state_bytes, windows.tuples_in
    if np.isnan(size).all() and np.isnan(windows.state_partitions).all():
        return None
    grown = np.append(np.nan, np.diff(size))
    known = follows(windows) & ~np.isnan(grown) & (tuples > 0.0)
    loads, spent = windows.store_loads, windows.store_load_time
    loaded = (loads > 0.0) & ~np.isnan(spent)
    partitions = find_last(windows.state_partitions)
    return StateSize(
        bytes=find_last(size),
        rows=find_last(windows.state_rows),
        partitions=None if partitions is None else round(partitions),
        growth=divide_sums(grown[known], tuples[known], estimate),
        load=divide_sums(spent[loaded], loads[loaded], estimate_positive),
    )


def find_last(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known[-1]) if known.size else None


def divide_sums(upper: Floats, lower: Floats, judge: Callable[[float, Floats], Estimate]) -> Estimate | None:
    """The ratio of two sums over windows; None without any."""
    if upper.size == 0:
        return None
    total = float(lower.sum())
    ratio = float(upper.sum()) / total
    return judge(ratio, (upper - ratio * lower) / total)
