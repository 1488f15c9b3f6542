"""Compare numbers of executors and triggers for one recorded query: durations, response times, price, the cheapest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from scaler.model.errors import BadInput
from tuner.what_if.batches_on_executors import BatchModel, model_query
from tuner.what_if.played_stream import PlayedStream, Position, RecordedArrivals, find_arrivals, play_stream, play_until
from tuner.what_if.recorded_query import RecordedQuery

TRIGGERS = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0)
NO_QUICKER = 0.05  # share of a batch, below which another executor is of no use
HELPS = 0.1  # share of a batch that more executors must save for scaling to help
WINDOW_S = 600.0  # at most, in which the number of executors is held where it follows the load
WINDOWS, CYCLES = 24, 10  # of them in a log, and batches in each of them, at least
MOST = 10_000  # executors


@dataclass(frozen=True, slots=True)
class Aim:
    """What responses must keep to: a bound in seconds, for this quantile of the records."""

    bound_s: float
    quantile: float
    stated: bool  # else as the recorded stream was


@dataclass(frozen=True, slots=True)
class Prediction:
    """The query on so many executors; response times are infinite where it falls behind for good."""

    executors: int
    waves: int  # rounds in which the tasks of the largest stage run
    batch_mean_s: float
    batch_p50_s: float
    batch_p95_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    late: float  # share of the records beyond the bound
    meets: bool
    behind: bool
    busy: float  # share of the time in which a batch runs
    as_quick: int | None  # fewer executors that are about as quick
    price_per_hour: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """Whether more executors can help, and what a batch takes on as many as there are tasks."""

    useful: int  # executors beyond which none is of use
    quickest_s: float  # a batch, on any number of executors
    driver_s: float  # of which planning, offsets and commits
    tasks_s: float  # and its longest tasks
    helps: bool
    least_trigger_s: float  # that such batches keep to, at the mean rate
    tasks_are_few: bool  # no more than recorded slots, so that more executors help only with more partitions


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer for one query."""

    query: str
    batches: int
    left_out: int  # that warm up
    missing: int
    recorded_executors: int
    slots_each: int
    trigger_s: float
    seconds: float  # recorded
    recorded_mean_s: float  # of a batch that does not warm up
    aim: Aim
    predictions: tuple[Prediction, ...]
    sizes_seen: bool  # whether batches varied in size
    tasks: int  # of the largest stage
    tasks_as_slots: bool  # as many as the recorded slots, in nearly all batches
    scaling: Scaling
    least: int | None  # executors that meet the aim at the recorded trigger
    best_triggers: tuple[float, ...]  # with which the fewest executors meet it
    best_executors: int | None
    price: float  # of an executor per hour
    executor_hours: float  # recorded
    hours_static: float | None  # with the least number throughout
    hours_following: float | None  # with the least number in every window
    window_s: float
    beside: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return replace_infinite(asdict(self))


def replace_infinite(value: Any) -> Any:
    """JSON has no infinity: None."""
    if isinstance(value, dict):
        return {key: replace_infinite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [replace_infinite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_question(bound_s: float | None, quantile: float, price: float) -> None:
    """Refuse what cannot be asked, before a large log is read."""
    if bound_s is not None and not 0.0 < bound_s < math.inf:
        raise BadInput(f"--r-max is {bound_s:g} s, and must be positive: a latency bound in seconds, as in 10")
    if not 0.0 < quantile < 1.0:
        raise BadInput(f"--quantile is {quantile:g}, and must lie between 0 and 1, as in 0.95")
    if not 0.0 < price < math.inf:
        raise BadInput(f"--price is {price:g}, and must be positive: what an executor costs per hour")


def ask(query: RecordedQuery, executors: Iterable[int], bound_s: float | None, quantile: float, price: float) -> WhatIf:
    """Answer for one query; without a bound, responses must be about as quick as recorded."""
    check_question(bound_s, quantile, price)
    model, arrivals = model_query(query), find_arrivals(query)
    numbers = sorted({*executors, query.executors})
    largest = np.array([max(len(level.tasks) for level in batch.levels) for batch in model.batches])
    slots = np.array([batch.slots for batch in model.batches])
    tasks_fit = bool(np.mean(largest <= slots) > 0.9)
    enough = math.ceil(int(largest.max()) / query.slots_each)  # executors beyond which nothing changes
    alike: dict[int, int] = {}  # the least number of executors that is as good
    for k in numbers:
        alike.setdefault(min(k, enough), k)
    models = {k: model.place(k) for k in alike.values()}
    played = {k: play_stream(arrivals, one, query.trigger_s) for k, one in models.items()}
    recorded = alike[min(query.executors, enough)]
    aim = make_aim(played[recorded], bound_s, quantile)
    tasks = int(np.median(largest))
    equals = find_equals({k: float(one.placed.mean()) for k, one in models.items()})
    distinct = {k: predict(k, played[k], models[k], aim, equals[k]) for k in models}
    predictions = tuple(
        restate(distinct[alike[min(k, enough)]], k, math.ceil(tasks / (k * query.slots_each)), price) for k in numbers
    )
    least = next((one.executors for one in predictions if one.meets), None)
    best, triggers = find_triggers(arrivals, models, aim, least)
    window = min(WINDOW_S, max(query.span_s / WINDOWS, CYCLES * query.span_s / len(query.batches)))
    return WhatIf(
        query=query.name,
        batches=len(query.batches),
        left_out=model.left_out,
        missing=query.missing,
        recorded_executors=query.executors,
        slots_each=query.slots_each,
        trigger_s=query.trigger_s,
        seconds=query.span_s,
        recorded_mean_s=float(np.mean([batch.duration_s for batch in model.batches])),
        aim=aim,
        predictions=predictions,
        sizes_seen=models[recorded].seen,
        tasks=tasks,
        tasks_as_slots=bool(np.mean(largest == slots) > 0.9),
        scaling=judge_scaling(query, model.place_all(), models[recorded], arrivals, equals, tasks_fit),
        least=least,
        best_triggers=triggers,
        best_executors=best,
        price=price,
        executor_hours=query.executor_hours,
        hours_static=None if least is None else least * query.span_s / 3600.0,
        hours_following=None if least is None else follow_load(query, arrivals, models, aim, least, window),
        window_s=window,
        beside=query.beside,
    )


def make_aim(recorded: PlayedStream, bound_s: float | None, quantile: float) -> Aim:
    if bound_s is not None:
        return Aim(bound_s, quantile, stated=True)
    usual = recorded.quantile(quantile)
    if math.isinf(usual):
        raise BadInput("the recorded stream falls behind for good; state the latency bound that you want with --r-max")
    return Aim(1.05 * usual, quantile, stated=False)


def find_equals(means: Mapping[int, float]) -> dict[int, int | None]:
    """For each number of executors the fewest that are as quick; None where none is."""
    found: dict[int, int | None] = {}
    quickest, by = math.inf, 0
    for k, mean in sorted(means.items()):
        quicker = mean < quickest * (1.0 - NO_QUICKER)
        found[k] = None if quicker else by
        if quicker:
            quickest, by = mean, k
    return found


def predict(executors: int, played: PlayedStream, model: BatchModel, aim: Aim, as_quick: int | None) -> Prediction:
    return Prediction(
        executors=executors,
        waves=0,
        batch_mean_s=float(played.durations.mean()),
        batch_p50_s=float(np.quantile(played.durations, 0.5)),
        batch_p95_s=float(np.quantile(played.durations, 0.95)),
        p50_s=played.quantile(0.5),
        p95_s=played.quantile(0.95),
        p99_s=played.quantile(0.99),
        late=played.share_beyond(aim.bound_s),
        meets=played.keeps(aim.bound_s, aim.quantile),
        behind=played.behind,
        busy=played.busy,
        as_quick=as_quick,
        price_per_hour=0.0,
    )


def restate(of: Prediction, executors: int, waves: int, price: float) -> Prediction:
    """The prediction of fewer executors for more of them, which run the same."""
    as_quick = of.as_quick if executors == of.executors else of.as_quick or of.executors
    return replace(of, executors=executors, waves=waves, as_quick=as_quick, price_per_hour=price * executors)


def judge_scaling(
    query: RecordedQuery,
    most: BatchModel,
    recorded: BatchModel,
    arrivals: RecordedArrivals,
    equals: Mapping[int, int | None],
    tasks_fit: bool,
) -> Scaling:
    """Hold the recorded batches against those on as many executors as there are tasks."""
    quickest, driver = float(most.placed.mean()), float(np.median([batch.rest_s for batch in query.batches]))
    helps = quickest < (1.0 - HELPS) * float(recorded.placed.mean())
    return Scaling(
        useful=max(k for k, equal in equals.items() if equal is None),
        quickest_s=quickest,
        driver_s=min(driver, quickest),
        tasks_s=max(0.0, quickest - driver),
        helps=helps,
        least_trigger_s=most.last_cycle(arrivals.rate),
        tasks_are_few=not helps and tasks_fit and (quickest - driver) / 2.0 > HELPS * quickest,
    )


def find_triggers(
    arrivals: RecordedArrivals, models: Mapping[int, BatchModel], aim: Aim, least: int | None
) -> tuple[int | None, tuple[float, ...]]:
    """The fewest executors that meet the aim with any trigger, and those triggers."""
    for k, model in models.items():
        if least is not None and k > least:
            break
        short = [trigger for trigger in TRIGGERS if trigger < aim.bound_s]
        good = [t for t in short if play_stream(arrivals, model, t).keeps(aim.bound_s, aim.quantile)]
        if good:
            return k, tuple(good)
    return None, ()


def follow_load(
    query: RecordedQuery,
    arrivals: RecordedArrivals,
    models: Mapping[int, BatchModel],
    aim: Aim,
    least: int,
    window: float,
) -> float:
    """Executor-hours with the fewest executors in each window that meet the aim, were changes free and loads foreseen.

    A window begins with what the last one left to wait.
    """
    first, last = float(arrivals.times[1]), float(arrivals.times[-1])
    edges = np.linspace(first, last, max(1, round((last - first) / window)) + 1).tolist()
    position, hours = Position(first), 0.0
    for begin, end in pairwise(edges):
        for k in (k for k in models if k <= least):
            played = play_until(arrivals, models[k], query.trigger_s, position, end)
            if k == least or not len(played.starts) or played.keeps(aim.bound_s, aim.quantile):
                break
        position, hours = played.end, hours + k * (end - begin) / 3600.0
    return hours * query.span_s / max(last - first, 1e-9) if last > first else least * query.span_s / 3600.0


def parse_numbers(text: str) -> Sequence[int]:
    """Numbers of executors: "1:24", "1,2,4,8" or both."""
    found: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition(":")
            ends = int(first), int(last or first)
            if not 1 <= ends[0] <= ends[1] <= MOST:
                raise ValueError
            found.update(range(ends[0], ends[1] + 1))
    except ValueError:
        raise BadInput(
            f"--executors is {text!r}, and must be numbers of executors from 1 to {MOST:,}, as in 1:24 or 1,2,4,8"
        ) from None
    return sorted(found)
