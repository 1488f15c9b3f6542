"""Sensor of a Spark driver: collect all that is known of an operator's slot, and evaluate it into a reading.

The sensor has no thread: Spark's listener bus brings the queries' reports, timers bring their sums, and the rest is
requested when a slot is read. Any thread may read. How each quantity is measured: `scaler.sensing.evaluate`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from scaler.acting.gateway import SparkStage
from scaler.model.spark_progress import IDLE, STARTED, QueryEvent, Trigger, read_time
from scaler.sensing.driver import Driver, QueryActivity, QueryStatus, StreamOperator
from scaler.sensing.evaluate import evaluate
from scaler.sensing.evidence import Evidence, TimedRecords
from scaler.sensing.executor_usage import ObservedExecutor, TaskTimes, fix_zone, read_executors, select_profiles
from scaler.sensing.query_history import (
    MAX_TRIGGERS,
    QueryHistory,
    QueryListener,
    QueryPast,
    add_planned_batch,
    by_time,
    find_idle_event,
    follows_last,
)
from scaler.sensing.reading import Reading
from scaler.sensing.source_files import SourceFolder, read_source_folder
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
        max_triggers: int = MAX_TRIGGERS,
        driver: Driver | None = None,
    ) -> None:
        """`timers`: by operator."""
        self.driver = driver or Driver(spark)
        self.now, self.max_triggers = now, max_triggers
        self.lock = threading.Lock()
        self.requesting = threading.Lock()
        self.listing = threading.Lock()
        self.operators = {operator.name: operator for operator in operators}
        self.histories: dict[str, QueryHistory] = {}  # by query's id, the latest reported last
        self.ids: dict[str, str] = {}  # by the queries' names
        self.records: dict[str, TimedRecords] = {}
        self.checkpoints: dict[str, str] = {}
        self.folders: dict[str, tuple[float, SourceFolder | None]] = {}  # as they were after the end of a slot
        self.task_times = TaskTimes()
        self.executors: list[ObservedExecutor] | None = None
        self.requested_at = float("-inf")
        self.unsubscribe: list[Callable[[], None]] = []
        for operator, given in (timers or {}).items():
            for timer in [given] if isinstance(given, ServiceTimer) else given:
                self.subscribe(operator, timer)
        self.unsubscribe.append(self.driver.add_listener(QueryListener(self.add_trigger, self.add_event, now)))

    def watch(self, operator: StreamOperator) -> None:
        """Read this operator from now on; one of the same name is replaced."""
        with self.lock:
            self.operators[operator.name] = operator

    def subscribe(self, operator: str, timer: ServiceTimer) -> None:
        """Add this timer's sums to the operator's readings."""
        with self.lock:
            records = self.records.setdefault(operator, TimedRecords())
        timer.inbox.listeners.append(records.add)
        self.unsubscribe.append(partial(timer.inbox.listeners.remove, records.add))

    def add_trigger(self, trigger: Trigger) -> None:
        with self.lock:
            self.find_history(trigger.query, trigger.name).add_trigger(trigger)

    def add_event(self, kind: str, event: QueryEvent) -> None:
        with self.lock:
            self.find_history(event.query, event.name if kind == STARTED else None).add_event(kind, event)

    def find_history(self, query: str, name: str | None) -> QueryHistory:
        history = self.histories.pop(query, None) or QueryHistory(self.max_triggers)
        self.histories[query] = history
        if name is not None:
            self.ids[name] = query
        while len(self.histories) > MAX_QUERIES:
            gone = next(iter(self.histories))
            del self.histories[gone]
            self.checkpoints.pop(gone, None)
            self.folders.pop(gone, None)
            self.ids = {name: query for name, query in self.ids.items() if query != gone}
        return history

    def read(self, operator: str, start: float, end: float) -> Reading:
        """The reading of a slot by what is known now; nothing is raised but for a slot without length."""
        if not end > start:
            raise ValueError(f"a slot from {start} to {end} has no length")
        return evaluate(self.collect(operator, start, end))

    def collect(self, operator: str, start: float, end: float) -> Evidence:
        """Collect all that is known of a slot now."""
        with self.lock:
            known, records = self.operators.get(operator), self.records.get(operator)
            query = self.find_query(operator, known)
            past = self.histories[query].copy(start) if query in self.histories else QueryPast()
        known = known or StreamOperator(operator, query or "", "")
        executors, task_times = self.list_executors()
        past, activity = self.request_activity(query, past, end)
        folder = self.read_folder(query, past, end)
        return Evidence(
            operator,
            start,
            end,
            past,
            entry=known.entry,
            leaving=known.leaving,
            activity=activity,
            folder=folder,
            executors=None if executors is None else select_profiles(executors, known.profiles),
            task_times=task_times,
            waiting=self.list_waiting_stages(activity, end),
            timed=None if records is None else records.copy(start, end),
        )

    def find_query(self, operator: str, known: StreamOperator | None) -> str | None:
        """Id of the operator's query, by its name where a query of this id never reported."""
        name = operator.rpartition("/profile")[0] or operator
        query = self.ids.get(name) if known is None else known.query
        return query if query in self.histories else self.ids.get(name, query)

    def list_executors(self) -> tuple[list[ObservedExecutor] | None, TaskTimes]:
        """Executors as Spark has them now, None where it does not answer; and the work of all."""
        with self.requesting:
            now = self.now()
            if not 0.0 <= now - self.requested_at < MAX_ANSWER_AGE_S:
                self.executors = attempt(lambda: read_executors(self.driver.list_executors()))
                self.requested_at = now
                if self.executors is not None:
                    self.task_times = self.task_times.add(now, self.executors)
            return self.executors, self.task_times

    def request_activity(self, query: str | None, past: QueryPast, end: float) -> tuple[QueryPast, QueryActivity]:
        """Add the arrivals before the running batch, and find what the query does at the end of a recent slot."""
        if query is None:
            return past, QueryActivity()
        present = self.now() - end <= MAX_DELAY_S
        status = attempt(lambda: self.driver.request_status(query))
        if status is not None and status.idle:
            if not present:
                return past, QueryActivity()
            return self.request_idleness(query, past), QueryActivity(run=status.run)
        active = status is not None and status.active
        planned = attempt(lambda: self.driver.request_planned_batch(query)) if active else None
        if status is not None and planned is not None and follows_last(past, status.run, planned):
            activity = QueryActivity(planned.time, status.run) if present else QueryActivity()
            return add_planned_batch(past, planned), activity
        found = attempt(lambda: find_activity(status, self.driver.list_running_jobs)) if present else None
        return past, found or QueryActivity()

    def list_waiting_stages(self, activity: QueryActivity, end: float) -> tuple[SparkStage, ...]:
        """Of the query's running jobs, those that no executor can run; none of a slot long over."""
        now = self.now()
        if activity.run is None or now - end > MAX_DELAY_S:
            return ()
        waiting = attempt(lambda: self.driver.list_waiting_stages(now))
        jobs = (attempt(self.driver.list_running_jobs) or []) if waiting else []
        own = {stage for job in jobs if job.get("jobGroup") == activity.run for stage in job.get("stageIds", ())}
        return tuple(stage for stage in waiting or () if stage.id in own)

    def request_idleness(self, query: str, past: QueryPast) -> QueryPast:
        """Add the last trigger of an idle query, stored like the idle events that Spark sends."""
        last = attempt(lambda: self.driver.request_idle_trigger(query))
        event = None if last is None else find_idle_event(past, query, last)
        if event is None:
            return past
        self.add_event(IDLE, event)
        return replace(past, idle=tuple(sorted({*past.idle, event}, key=by_time)))

    def read_folder(self, query: str | None, past: QueryPast, end: float) -> SourceFolder | None:
        """The files before a query that reads some; listed once for all operators of a slot."""
        folder = past.triggers[-1].folder if past.triggers else None
        if query is None or folder is None or self.now() - end > MAX_DELAY_S:
            return None
        checkpoint = self.checkpoints.get(query) or attempt(lambda: self.driver.find_checkpoint(query))
        if checkpoint is None:
            return None
        self.checkpoints[query] = checkpoint
        with self.listing:
            known = self.folders.get(query)
            if known is None or known[0] != end:
                known = self.folders[query] = end, read_source_folder(folder, checkpoint)
            return known[1]

    def close(self) -> None:
        """Receive no more; what was received can still be read."""
        while self.unsubscribe:
            attempt(self.unsubscribe.pop())


def attempt(question: Callable[[], Answer]) -> Answer | None:
    """Call Spark; None where it does not answer."""
    try:
        return question()
    except Exception as error:
        LOG.debug("Spark did not answer a sensor", exc_info=error)
        return None


def find_activity(status: QueryStatus | None, jobs: Callable[[], Iterable[object]]) -> QueryActivity:
    """Activity by the running jobs, which name their query's run; requested only while the query is active."""
    if status is None:
        return QueryActivity()
    if not status.active:
        return QueryActivity(run=status.run)
    own = [job for job in jobs() if isinstance(job, Mapping) and job.get("jobGroup") == status.run]
    times = [time for job in own if (time := read_time(fix_zone(job.get("submissionTime")))) is not None]
    return QueryActivity(min(times, default=None), status.run)
