"""Try one recorded query: what it was, and the answer of what-if where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scaler.model.errors import BadInput
from tuner.what_if.recorded_query import RecordedQuery
from tuner.what_if.what_if import WhatIf, ask

WIDEST, TWICE = 12, 2  # executors up to which it is tried, or so many times those recorded


@dataclass(frozen=True, slots=True)
class TriedQuery:
    """A query with its answer, or why there is none."""

    query: str
    batches: int
    seconds: float
    rate: float  # records per second
    executors: int
    answer: WhatIf | None = None
    refusal: str = ""

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("query", "batches", "seconds", "rate", "executors", "refusal")}
        return plain | {"answer": None if self.answer is None else self.answer.to_json()}


def try_query(query: RecordedQuery, bound_s: float | None, quantile: float, price: float) -> TriedQuery:
    """Ask for 1 to 12 executors, or twice as many as recorded."""
    rate = sum(batch.records for batch in query.batches) / query.span_s
    known = (query.name, len(query.batches), query.span_s, rate, query.executors)
    try:
        numbers = range(1, max(WIDEST, TWICE * query.executors) + 1)
        return TriedQuery(*known, ask(query, numbers, bound_s, quantile, price))
    except BadInput as error:
        return TriedQuery(*known, refusal=str(error))
