"""Draft the description of a stream from its recorded queries: operators, arrivals, latency bound.

A replica is a core of an executor, as agents count them: what is tuned are executors of one core. What an event log
does not show (the variance of service times, prices, how the queries feed each other) is left at a plain default, which
the written scenario says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from scaler.model.errors import BadInput
from sim.trace import Trace
from tuner.what_if.batches_on_executors import model_query
from tuner.what_if.played_stream import find_arrivals, play_stream
from tuner.what_if.recorded_query import RecordedQuery

MINUTE_S, SHORT_S = 60.0, 10.0  # slots of a long log, and of one of less than half an hour
LONG_LOG_S = 1800.0
ROOM = 1.05  # times the recorded quantile: about as quick as recorded
TRIGGERS_WAITED = 10.0  # of the bound where the recorded stream falls behind
LEAST_OVERHEAD_S = 0.01
TWICE, LEAST_MOST = 2, 4  # replicas at most: so many times those recorded, or so many
QUANTILE = 0.95


@dataclass(frozen=True, slots=True)
class DraftOperator:
    """One query as an operator on replicas of one core each."""

    name: str
    service_s: float  # of one record on one core
    trigger_s: float
    overhead_s: float
    partitions: int  # 0 where no more tasks than recorded slots bound it
    tasks: int  # of a batch's largest stage
    k_max: int
    share: float  # of the records of all queries
    bound_s: float  # p95 about as recorded


@dataclass(frozen=True, slots=True)
class StreamDraft:
    operators: tuple[DraftOperator, ...]
    trace: Trace

    @property
    def r_max(self) -> float:
        return max(operator.bound_s for operator in self.operators)


def choose_longest(queries: Sequence[RecordedQuery]) -> list[RecordedQuery]:
    """Of each query's runs the one with the most batches, in the order of the log."""
    longest: dict[str, RecordedQuery] = {}
    for query in queries:
        if query.name not in longest or len(query.batches) > len(longest[query.name].batches):
            longest[query.name] = query
    return list(longest.values())


def draft_stream(queries: Sequence[RecordedQuery], app: str) -> StreamDraft:
    """The draft of these queries, each once; refused where a log is too short to say anything."""
    short = next((query for query in queries if len(query.batches) < 3), None)
    if short is not None:
        raise BadInput(
            f"query {short.name} has {len(short.batches)} batches with records in the log, and a description takes 3 "
            "at least; let it run for longer"
        )
    totals = [sum(batch.records for batch in query.batches) / query.span_s for query in queries]
    whole = sum(totals)
    parts = zip(queries, totals, strict=True)
    return StreamDraft(tuple(draft_operator(query, rate / whole) for query, rate in parts), draft_trace(queries, app))


def draft_operator(query: RecordedQuery, share: float) -> DraftOperator:
    model = model_query(query)
    work = sum(float(level.work.sum()) for batch in model.batches for level in batch.levels)
    records = sum(batch.records for batch in model.batches)
    overhead = max(LEAST_OVERHEAD_S, float(np.median([batch.rest_s for batch in model.batches])))
    tasks = int(np.median([max(len(level.tasks) for level in batch.levels) for batch in model.batches]))
    slots = int(np.median([batch.slots for batch in model.batches]))
    played = play_stream(find_arrivals(query), model.place(query.executors), query.trigger_s)
    usual = played.quantile(QUANTILE)
    waited = TRIGGERS_WAITED * max(query.trigger_s, overhead)
    return DraftOperator(
        name=query.name,
        service_s=work / records,
        trigger_s=query.trigger_s if query.trigger_s > overhead else 0.0,
        overhead_s=overhead,
        partitions=0 if tasks <= slots else tasks,
        tasks=tasks,
        k_max=max(LEAST_MOST, TWICE * query.executors * query.slots_each),
        share=share,
        bound_s=round_up(ROOM * usual if math.isfinite(usual) else waited),
    )


def round_up(seconds: float) -> float:
    """To two digits, which a person would have stated."""
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return round(math.ceil(seconds / unit) * unit, 10)


def draft_trace(queries: Sequence[RecordedQuery], app: str) -> Trace:
    """The records of all queries that came in each slot, as far as all of them were recorded."""
    arrivals = [find_arrivals(query) for query in queries]
    first, last = max(one.times[0] for one in arrivals), min(one.times[-1] for one in arrivals)
    if last - first < 2.0 * SHORT_S:
        raise BadInput("the queries of the log hardly ran at the same time; name the log of a longer stretch")
    step = MINUTE_S if last - first >= LONG_LOG_S else SHORT_S
    edges = np.arange(first, last + 1e-9, step)
    came = sum(np.interp(edges, one.times, one.came) for one in arrivals)
    start = datetime.fromtimestamp(math.floor(first), UTC)
    return Trace(np.diff(np.asarray(came)) / step, step, start, app)
