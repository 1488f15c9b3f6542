"""A reading of a slot in; what a policy is shown of it, and the sample that the manager keeps of it, out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scaler.model.nodes import Deployment, NodeType
from scaler.model.policy import Observation
from scaler.model.queueing import catch_up_rate
from scaler.sensing.reading import WORKING_UTILISATION, Reading
from scaler.sensing.slot_notes import CATCHING_UP, FULL, RESTARTED, STALLED, STOPPED

UNTRUSTED = (RESTARTED, STOPPED, STALLED)  # what was measured then says nothing of what the operator can do
BEHIND = (CATCHING_UP, FULL)
OUTLASTS = "a batch outlasts the slot: what was known before is held"
LATE = "reports come after the slot: the one before is decided about"
RESTLESS = 0.95  # of the slot, from which on batches follow each other
QUIET = 0.05  # of it, up to which nobody is seen to work
MAX_AGE_SLOTS = 6.0  # slots, beyond which what was known says nothing of now


def fill_from_previous(
    reading: Reading, before: Reading | None, complete: float, decided: float = -math.inf
) -> Reading:
    """The newest that is known, where the slot itself is not; `before` is the last slot that is known as a whole.

    An overloaded stream has the longest batches, so that it would be held just when it must not be: where a batch has
    run all through the slot and executors tell that they work, the rate is the last one that was told, and answers take
    no less than they did. A stream whose batches begin as seldom as slots end tells of each only in the next, and is
    decided about a slot late, unless that slot was (`decided`: the end of the last that was).
    """
    unanswered = reading.rate is not None and reading.response is None and not is_idle(reading)
    missing = reading.completeness < complete or unanswered
    if before is None or not missing or any(note in UNTRUSTED for note in reading.notes):
        return reading
    if is_outlasted(reading):
        return hold_previous(reading, before)
    if decided < before.end and abs(before.end - reading.start) < 0.5 * slot_length(reading):
        notes = (*(note for note in before.notes if note in BEHIND), *reading.notes, LATE)
        return replace(
            before, start=reading.start, end=reading.end, serving=reading.serving, completeness=reading.completeness,
            notes=notes,
        )  # fmt: skip
    return reading


def is_outlasted(reading: Reading) -> bool:
    """Whether a batch ran all through the slot, and executors at work."""
    used, running = reading.utilisation, reading.running
    return running is not None and running >= slot_length(reading) and used is not None and used >= WORKING_UTILISATION


def hold_previous(reading: Reading, before: Reading) -> Reading:
    if None in (before.rate, before.response) or reading.end - before.end > MAX_AGE_SLOTS * slot_length(before):
        return reading
    rate = next(rate for rate in (reading.rate, reading.newest, before.rate) if rate is not None)
    response = max(before.response or 0.0, reading.response or 0.0)
    return replace(reading, rate=rate, response=response, utilisation=1.0, notes=(*reading.notes, OUTLASTS))


def is_whole(reading: Reading, complete: float) -> bool:
    """Whether it can stand for slots after it."""
    known = is_idle(reading) or None not in (reading.rate, reading.response)
    return known and reading.completeness >= complete and not any(note in UNTRUSTED for note in reading.notes)


def find_scale_in_objection(reading: Reading) -> str:
    """Why nothing is to be taken away on what is known of the slot; "" where nothing is against it."""
    if OUTLASTS in reading.notes:
        return OUTLASTS
    if reading.backlog is None and is_restless(reading) and (reading.utilisation or 0.0) >= WORKING_UTILISATION:
        return "how much waits is not known, and batches follow each other"
    late = reading.response is not None and math.isinf(reading.response)
    return "what has waited is still to be worked off" if late or is_behind(reading) else ""


def is_behind(reading: Reading) -> bool:
    """More waits than comes in a slot, or than a batch may take, or what had waited is worked off."""
    return any(note in BEHIND for note in reading.notes) or (reading.backlog or 0.0) > max(
        1.0, reading.rate or 0.0
    ) * slot_length(reading)


def is_restless(reading: Reading) -> bool:
    """Batches follow each other, as they do where more waits than one of them may take."""
    return max(reading.batch_time or 0.0, reading.running or 0.0) >= RESTLESS * slot_length(reading)


def is_idle(reading: Reading) -> bool:
    """Nothing came and nothing waits: there is no answer that could be late, and replicas can be given back."""
    quiet = (reading.utilisation or 0.0) <= QUIET and not reading.taken
    return quiet and reading.response is None and reading.rate == 0.0 and reading.backlog == 0.0


def slot_length(reading: Reading) -> float:
    return reading.end - reading.start


def estimate_utilisation(reading: Reading) -> float | None:
    """The utilisation that what came asks for, which may be above 1: of the slot's work alone, replicas may do less.

    Where more came than was worked on, where more waits than a batch may take, or what had waited is worked off, they
    are as busy as they can be at least: exactly 1, which tells a policy no more than that, unless more is asked for
    than batches that follow each other get through. A policy that held the work done against what came would take them
    for faster, or slower, than they are; and one that looks at their work alone would give them back while records
    wait. It is of the replicas at the slot's end, as the deployment is that a policy is shown.
    """
    if reading.utilisation is None:
        return None
    replicas = sum((reading.replicas or {}).values())
    serving = reading.serving or replicas
    share = replicas / serving if replicas > 0.0 else 1.0
    full = OUTLASTS in reading.notes or is_behind(reading)
    used = max(1.0, share * find_overload(reading)) if full else share * reading.utilisation
    if reading.service is None or reading.rate is None or reading.service[0] <= 0.0 or replicas <= 0.0:
        return used
    return max(used, reading.rate * reading.service[1] / reading.service[0] / serving)


def find_overload(reading: Reading) -> float:
    """What comes, and is to be caught up with, over what batches get through: with what Spark takes between tasks."""
    if reading.pace is None or reading.rate is None:
        return 1.0
    return (reading.rate + catch_up_rate(reading.backlog or 0.0, slot_length(reading))) / reading.pace


def observe(reading: Reading, came: Mapping[str, int] | None, nodes: Sequence[NodeType]) -> Observation:
    """NaN is what is not known; replicas that cannot be told by node type are no deployment.

    What is carried on is known as well as it can be; how much of the slot was seen is recorded beside it.
    """
    untrusted = any(note in UNTRUSTED for note in reading.notes)
    complete = 1.0 if {OUTLASTS, LATE} & set(reading.notes) else reading.completeness
    known = came is not None and set(came) <= {node.name for node in nodes}
    replicas = tuple(came.get(node.name, 0) for node in nodes) if known and came is not None else ()
    return Observation(
        time=reading.start,
        rate=or_nan(reading.rate),
        utilisation=or_nan(estimate_utilisation(reading)),
        response=0.0 if is_idle(reading) else or_nan(reading.response),
        deployment=Deployment(replicas),
        completeness=0.0 if untrusted else complete,
        behind=catch_up_rate(reading.backlog or 0.0, slot_length(reading)),  # where it is not known, nothing is claimed
    )


def make_detail(reading: Reading) -> dict[str, Any]:
    """What the decision's record has of a slot besides what the policy was shown."""
    more: dict[str, Any] = {"completeness": reading.completeness}
    more |= {"backlog": reading.backlog} if reading.backlog is not None else {}
    return more | ({"notes": list(reading.notes)} if reading.notes else {})


def make_samples(reading: Reading) -> list[dict[str, Any]]:
    """The slot as the tuner's pipeline has samples, without the application's name; none where nothing was seen.

    Sums by node type are not told apart by the sensors, so a slot on mixed types names none.
    """
    if reading.completeness <= 0.0:
        return []
    seconds = slot_length(reading)
    replicas = None if reading.replicas is None else sum(reading.replicas.values())
    types = [name for name, count in (reading.replicas or {}).items() if count > 0.0]
    n, total, squares = reading.service or (None, None, None)
    sample: dict[str, Any] = {
        "operator": reading.operator,
        "start": reading.start,
        "end": reading.end,
        "evidence": "records" if reading.service is not None else "progress",
        "node_type": types[0] if len(types) == 1 else None,
        "arrived": multiply(reading.rate, seconds * reading.completeness),
        "tuples_in": reading.taken,
        "tuples_out": reading.put_out,
        "backlog": reading.backlog,
        "service_n": n,
        "service_sum": total,
        "service_squares": squares,
        "busy": multiply(multiply(reading.utilisation, seconds), replicas),
        "replicas": replicas,
        "batches": reading.batches,
        "batch_time": reading.batch_time,
        "response_n": None if reading.response is None or math.isinf(reading.response) else 1.0,
        "response_sum": None if reading.response is None or math.isinf(reading.response) else reading.response,
        "completeness": reading.completeness,
    }
    return [{key: value for key, value in sample.items() if value is not None}]


def multiply(value: float | None, factor: float | None) -> float | None:
    return None if value is None or factor is None else value * factor


def or_nan(value: float | None) -> float:
    return math.nan if value is None else value
