"""Show what a log says of other numbers of executors: one table, and the answer in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.model.units import (
    clean,
    format_count,
    format_duration,
    format_money,
    format_number,
    format_response,
    format_share,
    join_words,
    quote,
)
from tuner.what_if.what_if import Aim, Prediction, WhatIf

HEADS = (
    *("executors", "waves", "batch p50", "p95", "response p50", "p95", "p99"),
    *("beyond the bound", "price/h", "note"),
)
SHOWN = 12  # numbers named in a sentence
FULL = 0.9  # of the time in which batches run, from which a trigger leaves no reserve


def list_rows(answer: WhatIf) -> list[list[str]]:
    """The table's cells, a row for each number of executors."""
    return [list_cells(answer, one) for one in answer.predictions]


def list_cells(answer: WhatIf, one: Prediction) -> list[str]:
    return [
        str(one.executors),
        str(one.waves),
        *(format_duration(value) for value in (one.batch_p50_s, one.batch_p95_s)),
        *(format_response(value) for value in (one.p50_s, one.p95_s, one.p99_s)),
        format_share(one.late),
        format_money(one.price_per_hour),
        note_on(answer, one),
    ]


def note_on(answer: WhatIf, one: Prediction) -> str:
    notes = [
        ("recorded", one.executors == answer.recorded_executors),
        ("falls behind", one.behind),
        (f"hardly quicker than {one.as_quick}", one.as_quick is not None),
        ("least that meets the bound", one.executors == answer.least),
        ("without reserve", one.meets and one.busy > FULL and answer.trigger_s > 0.0),
    ]
    return ", ".join(text for text, true in notes if true)


def count_executors(count: int) -> str:
    return format_count(count, "executor", "executors")


def describe_record(answer: WhatIf) -> str:
    batches = format_count(answer.batches, "batch", "batches")
    slots = format_count(answer.slots_each, "slot", "slots") + ("" if answer.recorded_executors == 1 else " each")
    on = count_executors(answer.recorded_executors)
    return f"{clean(answer.query)}: {batches} in {format_duration(answer.seconds)}, recorded on {on} of {slots}."


def describe_answer(answer: WhatIf) -> Iterator[str]:
    """What the table means, a sentence each."""
    yield f"Asked for: {describe_aim(answer.aim)}."
    yield describe_least(answer)
    yield from describe_worth(answer)
    yield from describe_scaling(answer)
    yield describe_triggers(answer)
    yield from describe_hours(answer)
    yield from describe_doubts(answer)


def describe_aim(aim: Aim) -> str:
    asked = f"{format_number(100.0 * aim.quantile)} % of the records within {format_duration(aim.bound_s)}"
    return asked + ("" if aim.stated else ", about as quick as recorded; state --r-max for a bound of your own")


def describe_least(answer: WhatIf) -> str:
    if answer.least is not None:
        have = answer.recorded_executors
        than = "as recorded" if answer.least == have else f"{have} were recorded" if have > 1 else "1 was recorded"
        price = format_money(answer.price * answer.least)
        return f"The least that meets it is {count_executors(answer.least)}, at {price} an hour; {than}."
    kept = [one for one in answer.predictions if not one.behind]
    if not kept:
        most = count_executors(answer.predictions[-1].executors)
        return f"No number of executors in the table meets it: with {most}, too, the stream falls behind."
    best = min(kept, key=lambda one: one.p95_s)
    return (
        f"No number of executors in the table meets it with the recorded trigger; the quickest, "
        f"{count_executors(best.executors)}, has p50 {format_duration(best.p50_s)}, p95 {format_duration(best.p95_s)} "
        f"and p99 {format_duration(best.p99_s)}."
    )


def describe_worth(answer: WhatIf) -> Iterator[str]:
    """Where waves and partitions make executors useless."""
    tasks = format_count(answer.tasks, "task", "tasks")
    each = answer.slots_each
    runs = "1 at a time" if each == 1 else f"{each} at a time"
    wasted = [one for one in answer.predictions if one.as_quick is not None]
    if wasted:
        worth = [str(one.executors) for one in answer.predictions if one.as_quick is None]
        named = join_words(worth) if len(worth) <= SHOWN else f"{', '.join(worth[:SHOWN])} and so on to {worth[-1]}"
        yield (
            f"Of these numbers only {named} {'is' if len(worth) == 1 else 'are'} worth having: the largest stage of a "
            f"batch has {tasks}, an executor runs {runs}, and with any other number batches are hardly quicker than "
            "with a smaller one."
        )


def describe_scaling(answer: WhatIf) -> Iterator[str]:
    """Whether more executors can help at all, and triggers that are shorter than batches can be."""
    scaling = answer.scaling
    parts = (
        f"a batch takes {format_duration(scaling.quickest_s)} on any number of executors, of which planning, offsets "
        f"and commits are {format_duration(scaling.driver_s)} and the longest tasks {format_duration(scaling.tasks_s)}"
    )
    tasks = format_count(answer.tasks, "task", "tasks")
    if scaling.helps:
        yield f"More executors than recorded help up to a point: {parts}."
    elif scaling.tasks_are_few:
        yield (
            f"More executors than recorded help only with more partitions, for a batch has {tasks} now: {parts}; split "
            "the source, or repartition its records."
        )
    else:
        yield f"More executors than recorded cannot help: {parts}."
    shorter = 0.0 < answer.trigger_s < scaling.least_trigger_s
    if shorter and scaling.least_trigger_s < float("inf"):
        yield (
            f"The trigger of {format_duration(answer.trigger_s)} is shorter than such batches can be; raise it to "
            f"{format_duration(scaling.least_trigger_s)} at least, what a batch takes at the mean rate."
        )


def describe_triggers(answer: WhatIf) -> str:
    now = "no trigger" if answer.trigger_s == 0.0 else f"a trigger of {format_duration(answer.trigger_s)}"
    if answer.best_executors is None:
        return f"No trigger meets it either (recorded: {now})."
    names = ["none" if t == 0.0 else format_duration(t) for t in answer.best_triggers]
    price = format_money(answer.price * answer.best_executors)
    few = count_executors(answer.best_executors)
    verb = "triggers are" if len(names) > 1 else "trigger is"
    return f"The cheapest {verb} {join_words(names)}, with {few} at {price} an hour (recorded: {now})."


def describe_hours(answer: WhatIf) -> Iterator[str]:
    if answer.hours_static is None or answer.hours_following is None:
        return
    recorded = answer.executor_hours
    yield (
        f"Executor-hours: {format_number(recorded, 3)} recorded; {format_number(answer.hours_static, 3)} with the "
        f"least number throughout ({compare_hours(answer.hours_static, recorded)}); "
        f"{format_number(answer.hours_following, 3)} with a number that follows the load, the least in every "
        f"{format_duration(answer.window_s)}, foreseen and changed at no cost "
        f"({compare_hours(answer.hours_following, recorded)})."
    )


def compare_hours(hours: float, recorded: float) -> str:
    share = hours / recorded - 1.0
    if abs(share) < 0.005:
        return "the same"
    return f"{format_share(abs(share))} {'more' if share > 0.0 else 'less'}"


def describe_doubts(answer: WhatIf) -> Iterator[str]:
    """What the answer rests on."""
    if answer.left_out:
        are = "batch warmed up and is" if answer.left_out == 1 else "batches warmed up and are"
        yield (
            f"{answer.left_out:,} {are} left out of the prediction: after the start or a change of executors, "
            "classes are loaded and code is compiled."
        )
    if answer.missing:
        yield f"{format_count(answer.missing, 'batch has', 'batches have')} no tasks in the log and are left out."
    if not answer.sizes_seen:
        yield (
            "The recorded batches hardly differ in size, so that what larger ones take (fewer executors, longer "
            "triggers) is a guess; record a stretch in which the load changes."
        )
    if answer.tasks_as_slots:
        yield (
            f"Batches have as many tasks as the recorded executors have slots, {answer.tasks}: where Spark splits a "
            "source by the number of cores (files do, Kafka does not), more executors get more tasks, and are quicker "
            "than shown."
        )
    if answer.beside:
        names = join_words([quote(name) for name in answer.beside])
        yield (
            f"The executors also ran {names}; their tasks are not placed anew, so that fewer "
            "executors are slower than shown here."
        )
