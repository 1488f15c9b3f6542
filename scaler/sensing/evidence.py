"""What queries, executors and timers of a driver tell flows in; readings of its operators over slots flow out.

It has no thread: Spark's listener bus brings the queries' reports, timers bring their sums, and the executors are asked
for when a slot is read. Any thread may read.

    rate, taken, put_out, backlog, batches, batch_time, completeness, notes: see `sensors.slots`. Of a query that is
                 several operators the first has them; of the others, rate and taken are what timers saw, nothing
                 waits, and answers take what they take in all where no timer knows when records arrived. What files of
                 a local folder have in them of which no report tells yet: see `sensors.inbox`; idleness between Spark's
                 signs of it: see `sensors.look`
    response     what timers saw of single records where they were told when these arrived; else see `sensors.slots`
    service      sums of the operator's timers
    replicas     of the operator's resource profiles, of all executors where it has none
    utilisation  of the busiest node type: seconds of work a replica and second of the slot, by the operator's timers;
                 by the time of all tasks on its executors where it has no timers; else the share of time that batches
                 ran. Tasks that are not done count for as long as they ran in the slot
    notes        of `sensors.slots`, without "stalled" where executors worked through the batch that took so long; and
                 each replica that was lost in the slot
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from scaler.model.spark_progress import IDLE, STARTED, QueryEvent, Trigger, read_time
from scaler.sensing.batch_history import (
    MAX_TRIGGERS,
    QueryHistory,
    QueryPast,
    add_planned_batch,
    by_time,
    find_idle_event,
    follows_last,
)
from scaler.sensing.driver import Driver, QueryActivity, QueryListener, QueryStatus
from scaler.sensing.evaluate import read_slot
from scaler.sensing.executor_usage import (
    ObservedExecutor,
    TaskTimes,
    fix_zone,
    read_executors,
    select_profiles,
)
from scaler.sensing.operators import StreamOperator
from scaler.sensing.reading import Reading
from scaler.sensing.slot_notes import STALLED
from scaler.sensing.source_files import SourceFolder, find_unreported_arrivals, read_source_folder
from scaler.sensing.timed_records import TimedRecords, subscribe_timer
from scaler.sensing.work import add_files, clear_stall, find_longest, join
from scaler.timing import ServiceTimer

LOG = logging.getLogger("scaler.agent")
MAX_QUERIES = 256  # of which histories are kept
MAX_ANSWER_AGE_S = 0.5  # for which an answer of the JVM serves all operators
MAX_DELAY_S = 5.0  # after a slot's end, in which what Spark does now is what it did then
Answer = TypeVar("Answer")


class SparkSensor:
    """A `Sensor` over a session; `close` leaves Spark as it was."""

    def __init__(
        self,
        spark: Any,
        operators: Iterable[StreamOperator] = (),
        timers: Mapping[str, ServiceTimer | Sequence[ServiceTimer]] | None = None,
        now: Callable[[], float] = time.time,
        kept: int = MAX_TRIGGERS,
        driver: Driver | None = None,
    ) -> None:
        """`timers`: by operator."""
        self.driver = driver or Driver(spark)
        self.now, self.kept = now, kept
        self.lock = threading.Lock()
        self.asking = threading.Lock()
        self.listing = threading.Lock()
        self.operators = {operator.name: operator for operator in operators}
        self.histories: dict[str, QueryHistory] = {}  # by query's id, the latest told last
        self.names: dict[str, str] = {}  # ids by the queries' names
        self.records: dict[str, TimedRecords] = {}
        self.checkpoints: dict[str, str] = {}
        self.folders: dict[str, tuple[float, SourceFolder | None]] = {}  # as they were after the end of a slot
        self.tasks = TaskTimes()
        self.executors: list[ObservedExecutor] | None = None
        self.asked = float("-inf")
        self.leaving: list[Callable[[], None]] = []
        for operator, told in (timers or {}).items():
            for timer in [told] if isinstance(told, ServiceTimer) else told:
                self.listen(operator, timer)
        self.leaving.append(self.driver.add_listener(QueryListener(self, now)))

    def watch(self, operator: StreamOperator) -> None:
        """Read this one from now on; one of the same name is replaced."""
        with self.lock:
            self.operators[operator.name] = operator

    def listen(self, operator: str, timer: ServiceTimer) -> None:
        """Have this timer's sums in the operator's readings, too."""
        with self.lock:
            records = self.records.setdefault(operator, TimedRecords())
        self.leaving.append(subscribe_timer(timer, records))

    def add(self, trigger: Trigger) -> None:
        with self.lock:
            self.find_history(trigger.query, trigger.name).add(trigger)

    def note(self, kind: str, sign: QueryEvent) -> None:
        with self.lock:
            self.find_history(sign.query, sign.name if kind == STARTED else None).note(kind, sign)

    def find_history(self, query: str, name: str | None) -> QueryHistory:
        history = self.histories.pop(query, None) or QueryHistory(self.kept)
        self.histories[query] = history
        if name is not None:
            self.names[name] = query
        while len(self.histories) > MAX_QUERIES:
            gone = next(iter(self.histories))
            del self.histories[gone]
            self.checkpoints.pop(gone, None)
            self.folders.pop(gone, None)
            self.names = {name: query for name, query in self.names.items() if query != gone}
        return history

    def read(self, operator: str, start: float, end: float) -> Reading:
        """What is known by now; nothing is raised but for a slot that is none."""
        if not end > start:
            raise ValueError(f"a slot from {start} to {end} has no length")
        query, past, profiles, entry, leaving = self.look_up(operator, start)
        executors = self.find_executors()
        past, doing = self.look_now(query, past, end)
        folder = self.find_folder(query, past, end)
        unreported = find_unreported_arrivals(past, folder, start, end, doing.run)
        reading = read_slot(operator, past, start, end, doing.running_since, unreported)
        if not entry:
            # What waits, waits before the first stage; an answer takes no longer here than it takes in all.
            waits = None if reading.backlog is None else 0.0
            reading = replace(
                reading, rate=None, newest=None, taken=None, pace=None, backlog=waits, batches=None, batch_time=None
            )
        else:
            reading = add_files(reading, past, folder)
        if not leaving:
            reading = replace(reading, put_out=None)
        if doing.running_since is not None and doing.running_since < end:
            reading = replace(reading, running=end - doing.running_since)
        own = None if executors is None else select_profiles(executors, profiles)
        records = self.records.get(operator)
        reading = join(reading, entry, own, records, self.find_spent(own, past, doing, start, end), doing)
        long = find_longest(past, doing, start, end) if STALLED in reading.notes else None
        spent = None if long is None else self.find_spent(own, past, doing, *long)
        return reading if long is None else clear_stall(reading, own, spent, *long)

    def find_spent(
        self, own: Sequence[ObservedExecutor] | None, past: QueryPast, doing: QueryActivity, start: float, end: float
    ) -> dict[str, float] | None:
        batches = [(t.time, t.done) for t in past.triggers if t.executed and t.done > start]
        with self.asking:
            return None if own is None else self.tasks.read(own, start, end, doing.running_since, batches)

    def look_up(self, operator: str, start: float) -> tuple[str | None, QueryPast, tuple[int, ...], bool, bool]:
        """By the id of the operator's query; by its name where a query of this id was never heard of."""
        with self.lock:
            known = self.operators.get(operator)
            name = operator.rpartition("/profile")[0] or operator
            query = self.names.get(name) if known is None else known.query
            if query not in self.histories:
                query = self.names.get(name, query)
            past = self.histories[query].tell(start) if query in self.histories else QueryPast()
        if known is None:
            return query, past, (), True, True
        return query, past, known.profiles, known.entry, known.leaving

    def find_executors(self) -> list[ObservedExecutor] | None:
        """As Spark has them now; None where it does not answer."""
        with self.asking:
            now = self.now()
            if not 0.0 <= now - self.asked < MAX_ANSWER_AGE_S:
                found = attempt(lambda: read_executors(self.driver.list_executors()))
                self.executors, self.asked = found, now
                if found is not None:
                    self.tasks.look(now, found)
            return self.executors

    def look_now(self, query: str | None, past: QueryPast, end: float) -> tuple[QueryPast, QueryActivity]:
        """What came before the batch that runs, and what the query does; the latter is nothing of slots long over."""
        if query is None:
            return past, QueryActivity()
        present = self.now() - end <= MAX_DELAY_S
        status = attempt(lambda: self.driver.ask_status(query))
        if status is not None and status.idle:
            return (self.look_back(query, past), QueryActivity(run=status.run)) if present else (past, QueryActivity())
        flight = attempt(lambda: self.driver.ask_flight(query)) if status is not None and status.active else None
        if status is not None and flight is not None and follows_last(past, status.run, flight):
            return add_planned_batch(past, flight), QueryActivity(
                flight.time, status.run
            ) if present else QueryActivity()
        found = attempt(lambda: find_activity(status, self.driver.list_running_jobs)) if present else None
        return past, found or QueryActivity()

    def look_back(self, query: str, past: QueryPast) -> QueryPast:
        """With what the last trigger of an idle query found, which is kept like the signs that Spark sends of it."""
        look = attempt(lambda: self.driver.ask_look(query))
        sign = None if look is None else find_idle_event(past, query, look)
        if sign is None:
            return past
        self.note(IDLE, sign)
        return replace(past, idle=tuple(sorted({*past.idle, sign}, key=by_time)))

    def find_folder(self, query: str | None, past: QueryPast, end: float) -> SourceFolder | None:
        """What a query that reads files has before it; looked at once for all operators of a slot."""
        checkpoint = self.find_checkpoint(query, past) if self.now() - end <= MAX_DELAY_S else None
        folder = past.triggers[-1].folder if past.triggers else None
        if query is None or checkpoint is None or folder is None:
            return None
        with self.listing:
            seen = self.folders.get(query)
            if seen is None or seen[0] != end:
                seen = self.folders[query] = end, read_source_folder(folder, checkpoint)
            return seen[1]

    def find_checkpoint(self, query: str | None, past: QueryPast) -> str | None:
        """Of a query that reads files; asked for once."""
        if query is None or not past.triggers or past.triggers[-1].folder is None:
            return None
        if query not in self.checkpoints:
            found = attempt(lambda: self.driver.find_checkpoint(query))
            if found is None:
                return None
            self.checkpoints[query] = found
        return self.checkpoints[query]

    def close(self) -> None:
        """Hear no more; what was heard can still be read."""
        while self.leaving:
            attempt(self.leaving.pop())


def attempt(question: Callable[[], Answer]) -> Answer | None:
    """What Spark answers; None where it does not."""
    try:
        return question()
    except Exception as error:
        LOG.debug("Spark did not answer a sensor", exc_info=error)
        return None


def find_activity(status: QueryStatus | None, jobs: Callable[[], Iterable[object]]) -> QueryActivity:
    """Jobs are asked for only where the query says that it works; they know their query by its run."""
    if status is None:
        return QueryActivity()
    if not status.active:
        return QueryActivity(run=status.run)
    own = [job for job in jobs() if isinstance(job, Mapping) and job.get("jobGroup") == status.run]
    times = [time for job in own if (time := read_time(fix_zone(job.get("submissionTime")))) is not None]
    return QueryActivity(min(times, default=None), status.run)
