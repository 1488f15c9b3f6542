"""Arrivals between each two reports of a query, and the response time of each batch's tuples.

Notation: trigger k begins at t_k and its batch is done at d_k; L_k is the offset up to which tuples had come by t_k,
E_k the one up to which it took them.

    arrived   in (t_{k-1}, t_k]: L_k - L_{k-1} where offsets count tuples, else the rows of batch k, which is all that
              came as long as no limit holds any back
    response  of batch k's tuples: d_k less their mean arrival. They come evenly in each (t_{j-1}, t_j] and are served
              in the order in which they came, so tuple n came at A^{-1}(n), A being the line through all (t_j, L_j),
              and those of batch k are (E_{k-1}, E_k]. Where nothing is left behind that is (t_k - t_{k-1}) / 2 for the
              trigger and d_k - t_k for the batch, as the pipeline has it from event logs; where something is, the wait
              over the batches in between is in it, too. Of tuples that came before any report was heard it is the
              least that it can be

Two triggers tell what came between them if their batches follow each other in one run; else a report is missing, or the
query was not there. Idleness tells that nothing came since the batch before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from scaler.model.spark_progress import STARTED, QueryEvent, Trigger
from scaler.sensing.batch_history import QueryPast


@dataclass(frozen=True, slots=True)
class ArrivalSpan:
    """Arrivals in (start, end], between two reports with none missing."""

    start: float
    end: float
    arrived: float | None  # tuples


@dataclass(frozen=True, slots=True)
class ServedBatch:
    trigger: Trigger
    response: float | None = None  # mean of its tuples


@dataclass(slots=True)
class ArrivalCurve:
    """Cumulated arrivals over time; `times` and `offsets` grow together."""

    times: list[float] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    def add(self, time: float, offset: int) -> None:
        if self.offsets and offset < self.offsets[-1]:  # the source was made anew
            self.times.clear()
            self.offsets.clear()
        self.times.append(time)
        self.offsets.append(offset)

    def mean_arrival(self, first: int, last: int) -> float | None:
        """Mean arrival of tuples (first, last]; None where unknown. Those before the line arrived by its beginning."""
        times, offsets = self.times, self.offsets
        if len(offsets) < 2 or last > offsets[-1] or last <= first:
            return None
        low = min(max(first, offsets[0]), last)
        total, i = (low - first) * times[0], bisect_left(offsets, low + 1)
        while low < last:
            high = min(last, offsets[i])
            if high > low:
                middle = ((low + high) / 2 - offsets[i - 1]) / (offsets[i] - offsets[i - 1])
                total += (high - low) * (times[i - 1] + middle * (times[i] - times[i - 1]))
                low = high
            i += 1
        return total / (last - first)


def find_spans(past: QueryPast) -> tuple[list[ArrivalSpan], list[ServedBatch]]:
    """Arrival spans and served batches, both in order of time."""
    spans: list[ArrivalSpan] = []
    batches: list[ServedBatch] = []
    curve = ArrivalCurve()
    before: Trigger | None = None  # the last one of this run
    run = ""
    since = served = None  # when all that had arrived by then was reported; and when so in batches
    for kind, event in past.events():
        if kind == STARTED or event.run != run:
            before, since, served, run = None, None, None, event.run
        if kind == STARTED:
            continue
        if isinstance(event, QueryEvent):
            if since is not None and event.time > since:
                spans.append(ArrivalSpan(since, event.time, 0.0))
            if before is not None and before.latest is not None:
                curve.add(event.time, before.latest)
            since = served = event.time
            continue
        follows = before is None or event.batch - before.batch in (0, 1)
        if since is not None and follows and event.time > since:
            spans.append(ArrivalSpan(since, event.time, count_arrivals(before, event)))
        if event.latest is not None:
            curve.add(event.time, event.latest)
        if event.executed:
            batches.append(ServedBatch(event, find_response(event, served if follows else None, curve)))
            served = event.time
        before, since = event, event.time
    return spans, batches


def count_arrivals(before: Trigger | None, trigger: Trigger) -> float | None:
    if before is not None and before.latest is not None and trigger.latest is not None:
        grown = trigger.latest - before.latest
        if grown >= 0:
            return float(grown)
    return None if trigger.rows is None else float(trigger.rows)


def find_response(trigger: Trigger, served: float | None, curve: ArrivalCurve) -> float | None:
    """Mean response of a batch; `served`: the moment after which its tuples arrived, if none had been left to wait."""
    if trigger.duration is None or not trigger.rows:
        return None
    if trigger.latest is not None and trigger.ended is not None:
        arrival = curve.mean_arrival(trigger.ended - trigger.rows, trigger.ended)
        return None if arrival is None else trigger.done - arrival
    if served is None or trigger.backlog:
        return None
    return (trigger.time - served) / 2 + trigger.duration


def overlap(first: float, last: float, start: float, end: float) -> float:
    """Seconds of [first, last) within [start, end)."""
    return max(0.0, min(last, end) - max(first, start))


def share_within(first: float, last: float, start: float, end: float) -> float:
    """Share of [first, last) that lies within [start, end); a moment lies within or not."""
    if last <= first:
        return float(start <= first < end)
    return overlap(first, last, start, end) / (last - first)


def covered_seconds(spans: Sequence[ArrivalSpan], start: float, end: float) -> float:
    return sum(overlap(span.start, span.end, start, end) for span in spans)
