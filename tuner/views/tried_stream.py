"""Show what event logs say of a stream: a row for each query, and its answer in three sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scaler.model.units import NONE, clean, format_duration, format_number, format_response, format_share
from tuner.views.what_if_table import describe_hours, describe_least, describe_scaling
from tuner.what_if.tried_query import TriedQuery

HEADS = ("query", "batches", "recorded", "records/s", "executors", "batch", "p95", "least", "saves", "more executors")


def list_tried(tried: Sequence[TriedQuery]) -> list[list[str]]:
    return [list_cells(one) for one in tried]


def list_cells(one: TriedQuery) -> list[str]:
    known = [
        clean(one.query, 60),
        f"{one.batches:,}",
        format_duration(one.seconds),
        format_number(one.rate, 3),
        f"{one.executors}",
    ]
    answer = one.answer
    if answer is None:
        return [*known, NONE, NONE, NONE, NONE, "see below"]
    recorded = next(each for each in answer.predictions if each.executors == answer.recorded_executors)
    hours = answer.hours_following if answer.hours_following is not None else answer.hours_static
    saved = None if hours is None else round(1.0 - hours / answer.executor_hours, 4)  # what is less is rounding
    return [
        *known,
        format_duration(answer.recorded_mean_s),
        format_response(recorded.p95_s),
        NONE if answer.least is None else f"{answer.least}",
        NONE if saved is None else format_share(max(0.0, saved)),
        "help" if answer.scaling.helps else "cannot help",
    ]


def describe_tried(one: TriedQuery) -> Iterator[str]:
    """Whether scaling can help and what it would save."""
    if one.answer is None:
        yield f"{clean(one.query, 60)}: {one.refusal}."
        return
    yield f"{clean(one.query, 60)}: {describe_least(one.answer)}"
    yield from describe_scaling(one.answer)
    yield from describe_hours(one.answer)
