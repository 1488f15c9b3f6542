"""Read slots, and derive what a policy observes, the sample for the manager, and whether a scale-in is safe."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scaler.model import decision as codes
from scaler.model.decision import Objection, RecordedNote, SlotFigures
from scaler.model.nodes import Deployment, NodeType
from scaler.model.policy import Observation
from scaler.model.queueing import catch_up_rate
from scaler.model.sketch import compact_sketch
from scaler.sensing.executor_usage import UNNAMED_TYPE
from scaler.sensing.reading import BEHIND, UNTRUSTED, NoteCode, Reading, Sensor, SlotNote
from scaler.sensing.slot_notes import WORKING_UTILISATION

LOG = logging.getLogger("scaler.agent")
BACK_TO_BACK = 0.95  # of the slot, from which on batches follow each other
QUIET_UTILISATION = 0.05  # up to which nobody is seen to work
SAMPLE_FIELDS = (  # of a reading that a sample has under the same name
    "operator", "start", "end", "tuples_in", "tuples_out", "backlog", "service_n", "service_sum", "service_squares",
    "batches", "batch_time", "completeness", "state_rows", "state_bytes", "state_partitions", "commit_time",
    "store_loads", "store_load_time",
)  # fmt: skip
MAX_AGE_SLOTS = 6.0  # beyond which an earlier reading says nothing of now


def fill_from_previous(
    reading: Reading, before: Reading | None, complete: float, decided: float = -math.inf
) -> Reading:
    """Where a slot is not known, use the newest that is; `before` is the last slot that is known as a whole.

    An overloaded stream has the longest batches, so that it would be held just when it must not be: where a batch has
    run all through the slot and executors are seen to work, the arrival rate is the latest known one, and the response
    time no less than it was. A stream whose batches begin as seldom as slots end reports each only in the next slot,
    and is decided about a slot late, unless that slot was (`decided`: the end of the last that was).
    """
    unanswered = reading.arrival_rate is not None and reading.response is None and not is_idle(reading)
    missing = reading.completeness < complete or unanswered
    if before is None or not missing or reading.has(*UNTRUSTED):
        return reading
    if is_outlasted(reading):
        return hold_previous(reading, before)
    if decided < before.end and abs(before.end - reading.start) < 0.5 * reading.length:
        behind = (note for note in before.notes if note.code in BEHIND)
        return replace(
            before, start=reading.start, end=reading.end, final_replicas=reading.final_replicas,
            completeness=reading.completeness, notes=(*behind, *reading.notes, SlotNote(NoteCode.REPORTED_LATE)),
        )  # fmt: skip
    return reading


def is_outlasted(reading: Reading) -> bool:
    """Whether a batch ran all through the slot, and executors worked."""
    used, running = reading.utilisation, reading.running_time
    return running is not None and running >= reading.length and used is not None and used >= WORKING_UTILISATION


def hold_previous(reading: Reading, before: Reading) -> Reading:
    if None in (before.arrival_rate, before.response) or reading.end - before.end > MAX_AGE_SLOTS * before.length:
        return reading
    rates = (reading.arrival_rate, reading.latest_arrival_rate, before.arrival_rate)
    return replace(
        reading,
        arrival_rate=next(rate for rate in rates if rate is not None),
        response=max(before.response or 0.0, reading.response or 0.0),
        responses=before.responses,
        least_response=reading.response,
        utilisation=1.0,
        notes=(*reading.notes, SlotNote(NoteCode.BATCH_OUTLASTS_SLOT)),
    )


def is_whole(reading: Reading, complete: float) -> bool:
    """Whether it can stand for slots after it."""
    known = is_idle(reading) or None not in (reading.arrival_rate, reading.response)
    return known and reading.completeness >= complete and not reading.has(*UNTRUSTED)


def find_scale_in_objection(reading: Reading) -> Objection | None:
    """Why no replica is to be removed on what is known of the slot."""
    for note in reading.notes:
        if note.code == NoteCode.STAGE_WAITS:
            return Objection(codes.METRICS, codes.STAGE_WAITS, note.message, dict(note.data))
    if reading.has(NoteCode.BATCH_OUTLASTS_SLOT):
        return Objection(codes.METRICS, codes.METRICS_HELD, "a batch outlasts the slot: what was known before is held")
    if reading.backlog is None and is_back_to_back(reading) and (reading.utilisation or 0.0) >= WORKING_UTILISATION:
        return Objection(codes.METRICS, codes.BACKLOG, "how much waits is not known, and batches follow each other")
    late = reading.response is not None and math.isinf(reading.response)
    if not late and not is_behind(reading):
        return None
    return Objection(
        codes.LIMIT, codes.BACKLOG, "what has waited is still to be worked off", {"backlog": reading.backlog}
    )


def is_behind(reading: Reading) -> bool:
    """The backlog is more than arrives in a slot, or than a batch may take, or is being worked off."""
    arriving = max(1.0, reading.arrival_rate or 0.0) * reading.length
    return reading.has(*BEHIND) or (reading.backlog or 0.0) > arriving


def is_back_to_back(reading: Reading) -> bool:
    """Batches follow each other, as they do where the backlog is more than one of them may take."""
    return max(reading.batch_time or 0.0, reading.running_time or 0.0) >= BACK_TO_BACK * reading.length


def is_idle(reading: Reading) -> bool:
    """Nothing arrived and nothing waits: no response can be late, and replicas can be removed."""
    quiet = (reading.utilisation or 0.0) <= QUIET_UTILISATION and not reading.tuples_in
    return quiet and reading.response is None and reading.arrival_rate == 0.0 and reading.backlog == 0.0


def estimate_utilisation(reading: Reading) -> float | None:
    """Utilisation that the arrivals demand, which may be above 1: by the slot's work alone it may be less.

    Report utilisation 1.0 (saturated) while a backlog exists or a batch outlasts the slot; more than 1.0 only when
    arrivals also exceed the measured batch throughput. A policy that compared the work done with the arrivals would
    take replicas for faster, or slower, than they are; one that saw their work alone would remove them while records
    wait. It is of the replicas at the slot's end, as is the deployment that a policy is shown.
    """
    if reading.utilisation is None:
        return None
    replicas = sum((reading.replicas or {}).values())
    final = reading.final_replicas or replicas
    share = replicas / final if replicas > 0.0 else 1.0
    saturated = reading.has(NoteCode.BATCH_OUTLASTS_SLOT) or is_behind(reading)
    used = max(1.0, share * find_overload(reading)) if saturated else share * reading.utilisation
    n, total = reading.service_n, reading.service_sum
    if n is None or total is None or reading.arrival_rate is None or n <= 0.0 or replicas <= 0.0:
        return used
    return max(used, reading.arrival_rate * total / n / final)


def find_overload(reading: Reading) -> float:
    """Arrivals, with the catch-up rate, over the throughput of batches, which includes Spark's own overhead."""
    if reading.batch_throughput is None or reading.arrival_rate is None:
        return 1.0
    return (reading.arrival_rate + catch_up_rate(reading.backlog or 0.0, reading.length)) / reading.batch_throughput


def observe(
    reading: Reading, deployed: Mapping[str, int] | None, nodes: Sequence[NodeType], quantile: float | None = None
) -> Observation:
    """The observation of a slot, with this quantile of its response times (None: their mean).

    NaN is not known; replicas that are of no known node type are no deployment.
    A reading that was filled from the one before is known as well as it can be; how much of the slot was seen is
    recorded beside it.
    """
    filled = reading.has(NoteCode.BATCH_OUTLASTS_SLOT, NoteCode.REPORTED_LATE)
    complete = 1.0 if filled else reading.completeness
    deployed = name_alike(deployed, nodes)
    known = deployed is not None and set(deployed) <= {node.name for node in nodes}
    replicas = tuple(deployed.get(node.name, 0) for node in nodes) if known and deployed is not None else ()
    return Observation(
        time=reading.start,
        rate=or_nan(reading.arrival_rate),
        utilisation=or_nan(estimate_utilisation(reading)),
        response=0.0 if is_idle(reading) else or_nan(reading.response_at(quantile)),
        deployment=Deployment(replicas),
        completeness=0.0 if reading.has(*UNTRUSTED) else complete,
        catch_up_rate=catch_up_rate(reading.backlog or 0.0, reading.length),  # nothing is claimed where it is not known
        backlog=reading.backlog,
        batch_ratio=find_batch_ratio(reading),
    )


def name_alike(deployed: Mapping[str, int] | None, nodes: Sequence[NodeType]) -> Mapping[str, int] | None:
    """Replicas that name no node type are of the only one, where there is one: the cluster is homogeneous."""
    if deployed is None or len(nodes) != 1 or not set(deployed) <= {UNNAMED_TYPE, nodes[0].name}:
        return deployed
    return {nodes[0].name: sum(deployed.values())}


def find_batch_ratio(reading: Reading) -> float | None:
    """Mean duration of the slot's batches over the trigger, or of one that runs where that has run for longer."""
    if reading.trigger_interval is None or reading.batches is None or reading.batch_time is None:
        return None
    mean = reading.batch_time / reading.batches if reading.batches else 0.0
    return max(mean, reading.running_time or 0.0) / reading.trigger_interval


def list_figures(reading: Reading) -> SlotFigures:
    """What a decision's record has of a slot besides the observation."""
    notes = tuple(RecordedNote(note.code.value, note.message, note.data) for note in reading.notes)
    return SlotFigures(completeness=reading.completeness, backlog=reading.backlog, notes=notes)


def make_samples(reading: Reading) -> list[dict[str, Any]]:
    """The slot by the fields of a `Sample`, without the application's name; none where nothing was seen.

    Sensors do not split sums by node type, so a slot on mixed types names none.
    """
    if reading.completeness <= 0.0:
        return []
    replicas = None if reading.replicas is None else sum(reading.replicas.values())
    types = [name for name, count in (reading.replicas or {}).items() if count > 0.0]
    answered = reading.response is not None and math.isfinite(reading.response)
    sample: dict[str, Any] = {name: getattr(reading, name) for name in SAMPLE_FIELDS} | {
        "evidence": "progress" if reading.service_n is None else "records",
        "node_type": types[0] if len(types) == 1 else None,
        "arrived": multiply(reading.arrival_rate, reading.length * reading.completeness),
        "busy": multiply(multiply(reading.utilisation, reading.length), replicas),
        "replicas": replicas,
        "response_n": 1.0 if answered else None,
        "response_sum": reading.response if answered else None,
        "responses": None if reading.responses is None else compact_sketch(reading.responses),
    }
    return [{key: value for key, value in sample.items() if value is not None}]


def multiply(value: float | None, factor: float | None) -> float | None:
    return None if value is None or factor is None else value * factor


def or_nan(value: float | None) -> float:
    return math.nan if value is None else value


class SlotReadings:
    """Readings of one operator; where the sensor fails, nothing is known of the slot."""

    def __init__(self, operator: str, sensor: Sensor, complete: float) -> None:
        self.operator, self.sensor, self.complete = operator, sensor, complete
        self.latest: Reading | None = None  # the newest that is known as a whole
        self.decided = float("-inf")  # the end of the last slot that was decided about as a whole
        self.unknown = deque[tuple[float, float]](maxlen=int(MAX_AGE_SLOTS))  # later slots: their reports may yet come

    def read(self, start: float, end: float) -> tuple[Reading, Reading]:
        """The slot as it was read, and as it is decided about."""
        reading = self.read_once(start, end)
        for lost in (note for note in reading.notes if note.code == NoteCode.REPLICA_LOST):
            LOG.warning("operator %r %s", self.operator, lost.message)
        if is_whole(reading, self.complete):
            self.latest = reading
            self.unknown.clear()
        else:
            self.read_again()
            self.unknown.append((start, end))
        shown = fill_from_previous(reading, self.latest, self.complete, self.decided)
        if self.latest is not None and (shown.has(NoteCode.REPORTED_LATE) or shown is self.latest):
            self.decided = self.latest.end
        return reading, shown

    def read_once(self, start: float, end: float) -> Reading:
        try:
            return self.sensor.read(self.operator, start, end)
        except Exception as error:  # the stream goes on
            LOG.warning("operator %r: the sensor failed (%s)", self.operator, error, exc_info=error)
            return Reading(self.operator, start, end, completeness=0.0)

    def read_again(self) -> None:
        """Find the newest of the unknown slots of which the reports have come by now."""
        for slot in reversed(self.unknown):
            again = self.read_once(*slot)
            if is_whole(again, self.complete):
                self.latest = again
                while self.unknown and self.unknown[0] <= slot:
                    self.unknown.popleft()
                return
