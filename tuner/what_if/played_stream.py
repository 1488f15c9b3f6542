"""Play a recorded stream again under another model of its batches and another trigger.

Records come as they did: what a batch took, and what it left to wait where that is known, came since the last one
began, evenly. Each batch takes what waits when it starts, up to the query's limit, so that slower batches grow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from scaler.model.kernel import Floats
from tuner.what_if.batches_on_executors import BatchModel
from tuner.what_if.recorded_query import RecordedQuery

POINTS = 16  # moments of arrival that stand for a batch's records
BEHIND = 3.0  # times a usual wait that the last batch waited, from which more still comes than is worked off
POLL_S = 0.01  # after which a query without a trigger looks again


@dataclass(frozen=True, slots=True)
class RecordedArrivals:
    """Records that had come by each moment."""

    times: Floats
    came: Floats
    most: float  # that a batch takes

    @property
    def rate(self) -> float:
        """Mean, in records per second."""
        return float((self.came[-1] - self.came[0]) / (self.times[-1] - self.times[0]))


def find_arrivals(query: RecordedQuery) -> RecordedArrivals:
    starts = np.array([batch.start for batch in query.batches])
    taken = np.cumsum([batch.records for batch in query.batches])
    came = np.maximum.accumulate(taken + [batch.backlog or 0.0 for batch in query.batches])
    lead = float(np.median(np.diff(starts))) if len(starts) > 1 else max(query.trigger_s, query.batches[0].duration_s)
    return RecordedArrivals(np.concatenate([[starts[0] - lead], starts]), np.concatenate([[0.0], came]), query.most)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream is played: when the next batch may start, what is answered, how many batches there were."""

    now: float
    taken: float = 0.0
    batches: int = 0


@dataclass(frozen=True, slots=True)
class PlayedStream:
    """Batches that were played, and where they end."""

    starts: Floats
    durations: Floats
    records: Floats
    responses: Floats  # [batches, POINTS] seconds from arrival to the end of the batch
    waiting: float  # records at the end
    behind: bool  # whether more came at the end than is worked off, and had for long
    end: Position

    @property
    def busy(self) -> float:
        """Share of the time in which a batch runs."""
        span = float(self.starts[-1] + self.durations[-1] - self.starts[0])
        return float(self.durations.sum()) / span

    def quantile(self, q: float) -> float:
        """Response time that this share of the records keeps to; infinite where the stream falls behind for good."""
        if self.behind:
            return math.inf
        values, weights = self.responses.ravel(), np.repeat(self.records, POINTS)
        order = np.argsort(values)
        reached = np.cumsum(weights[order])
        return float(values[order][min(np.searchsorted(reached, q * reached[-1]), len(values) - 1)])

    def share_beyond(self, bound_s: float) -> float:
        """Share of the records whose response takes longer."""
        total = POINTS * float(self.records.sum())
        return float(((self.responses > bound_s) * self.records[:, None]).sum()) / total if total > 0.0 else 0.0

    def keeps(self, bound_s: float, quantile: float) -> bool:
        return not self.behind and self.share_beyond(bound_s) <= 1.0 - quantile


def play_stream(arrivals: RecordedArrivals, model: BatchModel, trigger: float) -> PlayedStream:
    """Play the whole stream."""
    played = play_until(arrivals, model, trigger, Position(float(arrivals.times[1])), float(arrivals.times[-1]))
    return replace(played, behind=played.behind or arrivals.rate * cost_record(arrivals, model) >= 1.0)


def cost_record(arrivals: RecordedArrivals, model: BatchModel) -> float:
    """Seconds that each record takes of a stream in haste, whose batches are as large as they may be."""
    return model.per_record_s + (0.0 if math.isinf(arrivals.most) else model.overhead_s / arrivals.most)


def play_until(
    arrivals: RecordedArrivals, model: BatchModel, trigger: float, start: Position, until: float
) -> PlayedStream:
    """Play a stretch."""
    times, came = arrivals.times, arrivals.came
    now, due, taken, number = start.now, start.now, start.taken, start.batches
    rows: list[tuple[float, float, float, float]] = []
    while now <= until and taken < came[-1]:
        upto = min(float(np.interp(now, times, came)), taken + arrivals.most)
        if upto > taken:
            lasts = model.predict(number, upto - taken)
            rows.append((now, lasts, taken, upto))
            taken, number, free = upto, number + 1, now + lasts
        else:
            free = now + max(trigger, POLL_S)
        if trigger > 0.0:
            due += trigger * (math.floor((now - due) / trigger + 1e-9) + 1.0)
        now = max(due, free) if trigger > 0.0 else free
    starts, durations, first, last = np.array(rows).reshape(-1, 4).T
    share = (np.arange(POINTS) + 0.5) / POINTS
    moments = np.interp(first[:, None] + (last - first)[:, None] * share, came, times)
    oldest = np.interp(first, came, times)
    whole = float(np.interp(until, times, came))
    behind = False
    if rows and starts[-1] - oldest[-1] > BEHIND * max(trigger, float(np.median(starts - oldest))):
        rate = (whole - first[-1]) / (until - oldest[-1])
        behind = rate * cost_record(arrivals, model) >= 1.0
    return PlayedStream(
        starts=starts,
        durations=durations,
        records=last - first,
        responses=(starts + durations)[:, None] - moments,
        waiting=max(0.0, whole - taken),
        behind=behind,
        end=Position(now, taken, number),
    )
