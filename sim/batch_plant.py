"""Replay a micro-batch operator batch by batch: triggers, overhead, task waves, noise, merging, backlog, start-ups.

Arrivals are a fluid at the slot's rate. A slot's response time is the mean, or the quantile that the task's bound is
about, over the tuples of the batches that started in it; where none did, what those that wait will take at the least.
Tuples come out when their batch ends. Replicas that come during a batch take part in what is left of it, once their
first tasks are done, for which they take what their coming holds: the others go on meanwhile, and it ends no sooner.
A slot that keeps to its trigger is served in one step for all its equal batches: noise then only moves the last of
them, but for quantiles, which each batch's own noise moves.

Utilisation is what sensors see of executors: seconds of service per replica and second, without the batches' overhead,
in which they wait, or what the slot's arrivals demand of the replicas at its end; 1 or more where a backlog is left.

Notation: times are seconds from the slot's start.
"""

from __future__ import annotations

import math

from scaler.model.jit import jit, jit_apart
from scaler.model.kernel import Integers, Problem
from scaler.model.micro_batches import SHORTEST, phase_of, steady_response
from scaler.model.queueing import catch_up_rate
from sim.batch_course import (
    BEGINS,
    CUT,
    DUE,
    END,
    EXCESS,
    FLYING,
    RATIO,
    WORKING,
    BatchPlant,
    advance_triggers,
    begin_of_work,
    first_trigger_after,
    next_noise,
    next_start,
    note_work,
    overhead_seconds,
    put_off,
    seconds_each,
    service_seconds,
    share_work,
    work_left,
)
from sim.holding import BINS, Hold, await_hold, note_slot, take_hold
from sim.plant import Answer, Queue
from sim.replicas import disturb, lose_replicas, price_leaving, run_starts, take_away
from sim.spans import (
    SPANS,
    add_part,
    add_span,
    answer_parts,
    count_waiting,
    make_room,
    part_quantile,
    pass_spans,
    take,
)

RARE = 4.5  # standard deviations of noise, beyond which no batch is expected to overrun


@jit_apart
def serve_batches(p: Problem, plant: BatchPlant, k: Integers, count: int, slowest: int, rate: float) -> Answer:
    """Utilisation, response time and output of a slot."""
    clock, slot, spans, parts = plant.clock, plant.change.slot_s, plant.spans, plant.change.parts
    parts.many[0] = 0
    add_span(spans, slot, rate)
    lose_from_batch(p, plant)
    busy = min(slot, max(0.0, clock[END])) * clock[WORKING]
    out = 0.0
    taken = 0.0
    responses = 0.0
    batches = 0
    seconds = 0.0  # that they last
    now = 0.0
    each = 0.0  # not known yet
    start = next_start(plant, now)
    while start < slot:
        out += clock[FLYING]
        clock[FLYING] = 0.0
        each = start_replicas(p, plant, start - now, each)
        now = start
        make_room(parts)
        first = parts.many[0]
        tuples, arrived = take(spans, parts, start if plant.merge else clock[CUT], plant.most)
        advance_triggers(plant, start)
        if tuples > 0.0 or (plant.trigger == 0.0 and rate > 0.0):
            lasts, owed_s = begin_batch(p, plant, start, tuples, each)
            busy += note_work(plant, each, tuples, lasts, slot - start)
            batches += 1
            seconds += lasts
            taken += tuples
            answered = start + plant.delay + plant.part * lasts
            responses += tuples * answered - arrived
            answer_parts(parts, first, answered)
            if owed_s == 0.0 and plant.change.hold.course[BINS] == 0.0:
                skipped = skip_equal_batches(plant, start, rate, each, slot)
                if skipped > 0:
                    many = skipped * rate * plant.trigger
                    add_equal_parts(plant, p.quantile, rate, each, skipped)
                    lasts = overhead_seconds(plant) + each * rate * plant.trigger
                    out += clock[FLYING] + many
                    clock[FLYING] = 0.0
                    busy += service_seconds(plant, each) * many
                    batches += skipped
                    seconds += skipped * lasts
                    taken += many
                    responses += many * (plant.trigger / 2.0 + plant.delay + plant.part * lasts)
        elif rate <= 0.0 and plant.merge and spans.ring[1] == 0:  # nothing comes any more in this slot
            clock[DUE] = first_trigger_after(plant, slot)
        start = next_start(plant, now)
    if clock[END] <= slot:
        out += clock[FLYING]
        clock[FLYING] = 0.0
    each = start_replicas(p, plant, slot - now, each)
    waiting, arrived = count_waiting(spans)
    clock[EXCESS] = max(0.0, waiting - rate * max(plant.trigger, clock[END] - now))
    if taken <= 0.0:
        response = expect_response(p, plant, waiting, arrived, each)
    else:
        response = part_quantile(parts, p.quantile) if parts.many[0] > 0 else responses / taken
    utilisation = max(min(1.0, busy / slot), rate * service_seconds(plant, each))
    if clock[EXCESS] > 0.0:
        utilisation = max(1.0, (rate + catch_up_rate(clock[EXCESS], slot)) * each)
    if batches > 0:
        clock[RATIO] = seconds / (batches * plant.trigger) if plant.trigger > 0.0 else 1.0
    move_origin(plant, slot)
    note_slot(plant.change.hold, rate, response, taken)
    return utilisation, response, out / slot


@jit
def begin_batch(p: Problem, plant: BatchPlant, start: float, tuples: float, each: float) -> tuple[float, float]:
    """Seconds that a batch lasts, and those of them that it owes to reconfigurations."""
    owed_s = take_hold(plant.change.hold)
    works = each * tuples
    if plant.change.booting[0] > 0:
        works = share_work(p, plant, each, tuples, overhead_seconds(plant) + owed_s)
    lasts = max(SHORTEST * overhead_seconds(plant), overhead_seconds(plant) + works + next_noise(plant)) + owed_s
    begins_s = overhead_seconds(plant) + owed_s
    plant.clock[BEGINS] = start + begins_s
    ends_s = put_off(p, plant, each, tuples, begins_s, lasts)
    owed_s += ends_s - lasts
    lasts = ends_s
    plant.clock[END] = start + lasts
    plant.clock[FLYING] = tuples
    return lasts, owed_s


@jit
def skip_equal_batches(plant: BatchPlant, start: float, rate: float, each: float, slot: float) -> int:
    """Pass over the slot's equal batches but the last, and count them; 0 where they are not sure to be equal."""
    trigger, clock, spans = plant.trigger, plant.clock, plant.spans
    if not plant.merge or trigger <= 0.0 or plant.change.booting[0] > 0 or clock[END] > clock[DUE]:
        return 0
    if clock[DUE] - start < trigger * (1.0 - 1e-12) or spans.ring[1] != 1 or spans.begins[spans.ring[0]] < start:
        return 0  # something waits still
    tuples = rate * trigger
    if (plant.most > 0.0 and tuples > plant.most) or tuples <= 0.0:
        return 0
    if overhead_seconds(plant) + each * tuples + RARE * plant.noise > trigger:
        return 0
    skipped = math.ceil((slot - clock[DUE]) / trigger) - 1
    if skipped <= 0:
        return 0
    clock[DUE] += skipped * trigger
    spans.begins[spans.ring[0]] += skipped * trigger
    clock[BEGINS] = clock[DUE] - trigger + overhead_seconds(plant)
    clock[END] = clock[BEGINS] + each * tuples
    return skipped


@jit
def add_equal_parts(plant: BatchPlant, quantile: float, rate: float, each: float, batches: int) -> None:
    """Add the response times of batches that each take a trigger's tuples; nothing where means are asked for."""
    if quantile <= 0.0:
        return
    parts, tuples = plant.change.parts, rate * plant.trigger
    each_s = overhead_seconds(plant) + each * tuples
    if plant.noise <= 0.0 or plant.part <= 0.0:
        soonest = plant.delay + plant.part * each_s
        add_part(parts, soonest, soonest + plant.trigger, batches * tuples)
        return
    for _ in range(batches):
        lasts = max(SHORTEST * overhead_seconds(plant), each_s + next_noise(plant))
        add_part(parts, plant.delay + plant.part * lasts, plant.delay + plant.part * lasts + plant.trigger, tuples)


@jit
def expect_response(p: Problem, plant: BatchPlant, waiting: float, arrived: float, each: float) -> float:
    """What those that wait will take at the least; of a slot without tuples, what one would have taken."""
    if waiting <= 0.0:
        phase = phase_of(p.quantile)
        return steady_response(plant.trigger, overhead_seconds(plant), plant.delay, plant.part, 0.0, phase)
    tuples = min(waiting, plant.most) if plant.most > 0.0 else waiting
    if not plant.merge:
        tuples = waiting / max(1.0, 1.0 + (plant.change.slot_s - plant.clock[CUT]) / plant.trigger)
    lasts = overhead_seconds(plant) + each * tuples
    ahead = (waiting / tuples - 1.0) / 2.0 * lasts  # batches before that of the middle tuple
    if p.quantile > 0.0:
        return expect_quantile(plant, p.quantile, lasts, lasts / tuples if tuples < waiting else 0.0)
    return next_start(plant, plant.change.slot_s) - arrived / waiting + ahead + plant.delay + plant.part * lasts


@jit
def expect_quantile(plant: BatchPlant, quantile: float, lasts: float, per_tuple: float) -> float:
    """Quantile of what those that wait will take; those ahead count with the seconds that each adds."""
    spans, parts = plant.spans, plant.change.parts
    answered = next_start(plant, plant.change.slot_s) + plant.delay + plant.part * lasts
    answered -= lasts / 2.0 if per_tuple > 0.0 else 0.0
    for j in range(spans.ring[1]):
        i = (spans.ring[0] + j) % SPANS
        many = spans.rates[i] * (spans.ends[i] - spans.begins[i])
        add_part(parts, answered - spans.begins[i], answered + many * per_tuple - spans.ends[i], many)
        answered += many * per_tuple
    return part_quantile(parts, quantile) if parts.many[0] > 0 else answered


@jit
def start_replicas(p: Problem, plant: BatchPlant, seconds: float, each: float) -> float:
    """Let start-ups run; what reconfigurations cost is owed by the next batch, however late that starts.

    Seconds that each tuple adds to a batch afterwards: as before (0: not known) where no replica starts.
    """
    if each == 0.0 or plant.change.booting[0] > 0:
        run_starts(plant.change, seconds)
        each = seconds_each(p, plant)
    await_hold(plant.change.hold, seconds, 0.0)
    return each


@jit
def move_origin(plant: BatchPlant, slot: float) -> None:
    """Count time from the next slot's start."""
    for place in (DUE, CUT, END, BEGINS):
        plant.clock[place] -= slot
    pass_spans(plant.spans, slot)


@jit
def batch_queue(plant: BatchPlant) -> Queue:
    """What waits beyond what one cycle gathers, the rate that works it off, and the slot's batch ratio."""
    excess = plant.clock[EXCESS]
    return catch_up_rate(excess, plant.change.slot_s), excess, plant.clock[RATIO]


@jit_apart
def change_batches(p: Problem, plant: BatchPlant, k: Integers, action: int) -> None:
    """Start and stop replicas; the batch in which that falls pays for it, and what it has left to do is shared anew."""
    tuples = work_left(p, plant)
    disturb(p, plant.change, k, action)
    share_anew(p, plant, tuples)


@jit
def share_anew(p: Problem, plant: BatchPlant, tuples: float) -> None:
    """Move the end of the batch under way to where so much work ends on the replicas that there are now."""
    clock, begins, each = plant.clock, begin_of_work(plant), seconds_each(p, plant)
    if tuples > 0.0:
        clock[END] = begins + share_work(p, plant, each, tuples, begins)
    clock[END] = put_off(p, plant, each, tuples, begins, clock[END])


@jit
def lose_from_batch(p: Problem, plant: BatchPlant) -> None:
    """Take replicas away at a slot's start, by chance."""
    if plant.change.spot:
        before, tuples = plant.change.serving.sum(), work_left(p, plant)
        lose_replicas(p, plant.change)
        redo_lost(p, plant, before, tuples)


@jit
def take_from_batch(p: Problem, plant: BatchPlant, node_type: int, many: int) -> None:
    """Take replicas away at a slot's start."""
    before, tuples = plant.change.serving.sum(), work_left(p, plant)
    take_away(p, plant.change, node_type, many)
    redo_lost(p, plant, before, tuples)


@jit
def redo_lost(p: Problem, plant: BatchPlant, before: int, tuples: float) -> None:
    """Lengthen the present batch by what the replicas that were taken away did of it, and had still to do.

    A task's output is lost with the executor that has it. `tuples` is what the batch had still to do before.
    """
    lost = before - plant.change.serving.sum()
    if lost > 0 and tuples > 0.0:
        share_anew(p, plant, tuples + max(0.0, plant.clock[FLYING] - tuples) * lost / before)


@jit
def price_leaving_batches(p: Problem, plant: BatchPlant) -> float:
    """What replicas cost that serve on until those that replace them do."""
    return price_leaving(p, plant.change)


@jit
def hold_of_batches(plant: BatchPlant) -> Hold:
    """What reconfigurations hold."""
    return plant.change.hold
