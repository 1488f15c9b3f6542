"""Executors as Spark lists them: replicas by node type over a slot, their utilisation, and which were lost.

A replica is a task slot of a registered executor, from its registration to its removal. The node type is, of these, the
first that there is: a resource of the executor named as scaler.timing has it (node_fast is "fast"), its attribute
NODE_TYPE (set by SPARK_EXECUTOR_ATTRIBUTE_NODE_TYPE), "profile N" of a profile that is not the default one, "" for
unknown. The tuner's pipeline names them so, too.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scaler.model.spark_progress import read_count, read_object, read_time
from scaler.sensing.query_history import overlap
from scaler.sensing.reading import NoteCode, SlotNote
from scaler.timing.stopwatch import name_node_type

DRIVER_ID = "driver"  # in local mode it is the one executor, and else has no task slots
NODE_TYPE_ATTRIBUTE = "node_type"
UNNAMED_TYPE = ""
MAX_SNAPSHOTS = 512
GOING = "decommission"  # in Spark's words on an executor that was told to go
LONGEST_SENTENCE = 160


@dataclass(frozen=True, slots=True)
class ObservedExecutor:
    name: str
    node_type: str
    profile: int
    slots: int
    since: float
    until: float = math.inf
    busy: float | None = None  # seconds of tasks that have ended; Spark tells the driver's uptime instead of its own
    active: int = 0  # tasks that run now
    removed: str = ""  # why, in Spark's words


def read_executors(documents: Iterable[object]) -> list[ObservedExecutor]:
    """Parse Spark's list of executors; those without task slots are left out."""
    read = (read_executor(document) for document in documents if isinstance(document, Mapping))
    return [executor for executor in read if executor is not None and executor.slots > 0]


def read_executor(document: Mapping[str, Any]) -> ObservedExecutor | None:
    name, since = document.get("id"), read_time(fix_zone(document.get("addTime")))
    if not isinstance(name, str) or since is None:
        return None
    removed = read_time(fix_zone(document.get("removeTime")))
    gone = removed if removed is not None else math.inf if document.get("isActive") is not False else since
    slots = read_count(document.get("maxTasks"))
    spent = read_count(document.get("totalDuration"))
    return ObservedExecutor(
        name,
        find_node_type(document),
        read_count(document.get("resourceProfileId")) or 0,
        (read_count(document.get("totalCores")) or 0) if slots is None else slots,
        since,
        gone,
        None if spent is None or name == DRIVER_ID else spent / 1000.0,
        read_count(document.get("activeTasks")) or 0,
        str(document.get("removeReason") or ""),
    )


def fix_zone(value: object) -> object:
    """Convert the zone of Spark's JSON ("2026-11-18T21:21:01.665GMT") to one of ISO 8601."""
    return value.replace("GMT", "+00:00") if isinstance(value, str) else value


def find_node_type(document: Mapping[str, Any]) -> str:
    attributes = {str(name).lower(): value for name, value in read_object(document, "attributes").items()}
    profile = read_count(document.get("resourceProfileId"))
    named = name_node_type(map(str, read_object(document, "resources"))) or str(
        attributes.get(NODE_TYPE_ATTRIBUTE) or ""
    )
    return named or (f"profile {profile}" if profile else UNNAMED_TYPE)


def select_profiles(executors: Iterable[ObservedExecutor], profiles: Collection[int]) -> list[ObservedExecutor]:
    """Executors of these profiles; all where no profile is known."""
    return [executor for executor in executors if not profiles or executor.profile in profiles]


def count_replicas(executors: Iterable[ObservedExecutor], start: float, end: float) -> dict[str, float]:
    """Mean replicas over the slot by node type; types that had none are left out."""
    counts: dict[str, float] = {}
    for executor in executors:
        part_of_slot = overlap(executor.since, executor.until, start, end) / (end - start)
        if part_of_slot > 0.0:
            counts[executor.node_type] = counts.get(executor.node_type, 0.0) + executor.slots * part_of_slot
    return counts


def count_final_replicas(executors: Iterable[ObservedExecutor], end: float) -> float:
    """Replicas of all types at the slot's end."""
    return float(sum(executor.slots for executor in executors if executor.since < end <= executor.until))


def find_lost_replicas(executors: Iterable[ObservedExecutor], start: float, end: float) -> list[SlotNote]:
    """A note on each executor that was lost in the slot without being decommissioned."""
    lost = [e for e in executors if start <= e.until < end and GOING not in e.removed.lower()]
    causes = [(e.node_type or "an unknown node type", e.removed[:LONGEST_SENTENCE] or "cause unknown") for e in lost]
    return [SlotNote(NoteCode.REPLICA_LOST, {"node_type": name, "cause": cause}) for name, cause in causes]


@dataclass(frozen=True, slots=True)
class TaskWork:
    """Work of one executor at one moment. Spark counts a task when it ends, and then its whole life."""

    ended: float = 0.0  # seconds of tasks that have ended
    going: float = 0.0  # seconds that tasks which are not done are known to have run
    active: int = 0  # of them


def update_work(executor: ObservedExecutor, before: TaskWork | None, passed: float) -> TaskWork:
    """Tasks run on where none has ended since the moment before, or less than ran then; else they are new ones."""
    ended = executor.busy or 0.0
    if before is None or not executor.active:
        return TaskWork(ended, 0.0, executor.active)
    left = before.going - (ended - before.ended)
    if ended > before.ended and left <= 0.0:
        return TaskWork(ended, 0.0, executor.active)
    return TaskWork(ended, max(0.0, left) + passed * min(before.active, executor.active), executor.active)


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """Each executor's work as Spark had counted it at some moments; what it did between any two."""

    looks: tuple[tuple[float, Mapping[str, TaskWork]], ...] = ()

    def add(self, now: float, executors: Iterable[ObservedExecutor]) -> TaskTimes:
        """A copy with what Spark counts now."""
        at, before = self.looks[-1] if self.looks else (-math.inf, {})
        if now <= at:
            return self
        seen = {e.name: update_work(e, before.get(e.name), now - at) for e in executors if e.busy is not None}
        return TaskTimes((*self.looks[1 - MAX_SNAPSHOTS :], (now, seen)))

    def read(
        self,
        executors: Iterable[ObservedExecutor],
        start: float,
        end: float,
        running_since: float | None = None,
        batches: Sequence[tuple[float, float]] = (),
    ) -> dict[str, float] | None:
        """Seconds of work by node type; None where that of one of them is not known.

        Tasks that are not done count for as long as they ran in between, and what was counted of them then is not
        counted again when they end: but for those of a batch that runs since after `start`, which the looks may not
        have seen begin. These count for all the time since then that no task which has ended had; `batches` tells
        when those before it ran, to know which task is of which.
        """
        total: dict[str, float] = {}
        if not self.looks:
            return None
        for executor in executors:
            if overlap(executor.since, executor.until, start, end) <= 0.0:
                continue
            before, after = self.find_work(executor, start), self.find_work(executor, end)
            if before is None or after is None:
                return None
            going = after.going
            if running_since is not None and start <= running_since < end:
                ended = self.find_ended(executor, start, running_since, end, batches)
                going = estimate_running([executor], running_since, end, ended)
            done = max(0.0, after.ended + going - before.ended - before.going)
            total[executor.node_type] = total.get(executor.node_type, 0.0) + done
        return total or None

    def find_ended(
        self, executor: ObservedExecutor, start: float, since: float, end: float, batches: Sequence[tuple[float, float]]
    ) -> float:
        """Seconds, until `end`, of tasks that have ended of a batch that runs since after `start`.

        Looks seldom fall on the moment at which it began. Of what ended between the two around it, the batches before
        had what they can have had in the time that they ran: so one long task after another counts in full, and so
        does nothing twice after a time in which none ran.
        """
        seen = max((at for at, _ in self.looks if start <= at <= since), default=start)
        before, after = self.find_work(executor, seen), self.find_work(executor, end)
        if before is None or after is None:
            return 0.0
        ran = sum(overlap(max(began, executor.since), done, seen, since) for began, done in batches)
        return max(0.0, after.ended - before.ended - before.going - executor.slots * ran)

    def find_work(self, executor: ObservedExecutor, moment: float) -> TaskWork | None:
        """Work by a moment; between two known ones as if it had grown evenly."""
        if moment <= executor.since:
            return TaskWork()
        known = [(at, seen[executor.name]) for at, seen in self.looks if executor.name in seen]
        if executor.since >= self.looks[0][0]:  # it came while we looked
            known.insert(0, (executor.since, TaskWork()))
        return interpolate(known, min(moment, executor.until)) if known and moment >= known[0][0] else None


def estimate_running(executors: Iterable[ObservedExecutor], since: float, end: float, ended: float) -> float:
    """Seconds that tasks which are not done have run at most, beside those of tasks that ended since then.

    A batch of more tasks than slots runs them in waves: those that run now had the slots only since others left them.
    """
    spans = [(executor, overlap(executor.since, executor.until, since, end)) for executor in executors]
    running = sum(executor.active * span for executor, span in spans)
    room = sum(executor.slots * span for executor, span in spans) - ended
    return max(0.0, min(running, room))


def estimate_running_by_type(
    executors: Iterable[ObservedExecutor], since: float, end: float, ended: Mapping[str, float]
) -> dict[str, float]:
    """The same by node type; `ended` by node type, too."""
    known = list(executors)
    groups = {name: [e for e in known if e.node_type == name] for name in {e.node_type for e in known}}
    if not set(ended) <= set(groups):  # timers and Spark name them differently
        groups, ended = {UNNAMED_TYPE: known}, {UNNAMED_TYPE: sum(ended.values())}
    running = {name: estimate_running(group, since, end, ended.get(name, 0.0)) for name, group in groups.items()}
    return {name: seconds for name, seconds in running.items() if seconds > 0.0}


def interpolate(points: Sequence[tuple[float, TaskWork]], moment: float) -> TaskWork:
    i = max(1, bisect_right([at for at, _ in points], moment))
    early, low = points[i - 1]
    if i == len(points):  # looks are shared for a moment: what ran then runs on until the slot's end
        return TaskWork(low.ended, low.going + low.active * max(0.0, moment - early), low.active)
    late, high = points[i]
    part = (moment - early) / (late - early) if late > early else 1.0
    ended, going = low.ended + part * (high.ended - low.ended), low.going + part * (high.going - low.going)
    return TaskWork(ended, going, low.active)


def find_utilisation(
    busy: Mapping[str, float], replicas: Mapping[str, float], length: float, running: Mapping[str, float] | None = None
) -> float | None:
    """Utilisation of the busiest node type; of all together where the names of both do not match.

    `running` holds the seconds that tasks have run that are not done, by node type, where `busy` does not count them.
    """
    work = {name: busy.get(name, 0.0) + (running or {}).get(name, 0.0) for name in {*busy, *(running or {})}}
    if not replicas or length <= 0.0:
        return None
    if not set(work) <= set(replicas):
        work, replicas = {UNNAMED_TYPE: sum(work.values())}, {UNNAMED_TYPE: sum(replicas.values())}
    return min(1.0, max((work.get(name, 0.0) / (count * length) for name, count in replicas.items()), default=0.0))
