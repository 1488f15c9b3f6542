"""Show what event logs say of a stream: a row for each query, and its answer in three sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scaler.model.units import NONE, clean, format_duration, format_number, format_response, format_share
from tuner.scenario.doubtful_bound import doubt_bound
from tuner.views.what_if_table import describe_hours, describe_least, describe_scaling
from tuner.what_if.tried_query import TriedQuery
from tuner.what_if.what_if import Prediction, WhatIf

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
    recorded = find_recorded(answer)
    hours = answer.hours_following if answer.hours_following is not None else answer.hours_static
    saved = None if hours is None else round(1.0 - hours / answer.executor_hours, 4)  # what is less is rounding
    return [
        *known,
        format_duration(answer.recorded_mean_s),
        format_response(recorded.p95_s),
        NONE if answer.least is None else f"{answer.least}",
        NONE if saved is None else format_share(max(0.0, saved)),
        "help" if answer.scaling.helps else "if partitioned" if answer.scaling.tasks_are_few else "cannot help",
    ]


def find_recorded(answer: WhatIf) -> Prediction:
    """The query on as many executors as it had."""
    return next(each for each in answer.predictions if each.executors == answer.recorded_executors)


def describe_tried(one: TriedQuery) -> Iterator[str]:
    """Whether scaling can help and what it would save."""
    if one.answer is None:
        yield f"{clean(one.query, 60)}: {one.refusal}."
        return
    yield f"{clean(one.query, 60)}: {describe_least(one.answer)}"
    yield from describe_scaling(one.answer)
    aim, recorded = one.answer.aim, find_recorded(one.answer)
    if aim.stated and (doubt := doubt_bound(aim.bound_s, recorded.p50_s, clean(one.query, 60), "mostly")):
        yield f"{doubt}."
    yield from describe_hours(one.answer)
    if (each := one.answer.slots_each) > 1:
        yield (
            f"An executor here runs {each} tasks at a time; `tuner init` and `tune` count replicas, each of which "
            f"runs one: {each} of them are one such executor."
        )
