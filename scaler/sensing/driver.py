"""Access to the driver's JVM through the session's gateway: statuses, lists and plans as plain values, query events.

This is the one place where sensors touch Spark. Public there: the listener's events, a query's status. Internal, and
tried with Spark 4.3: the status store, the mapper that writes its lists as JSON, a query's plan, its log of offsets,
its last trigger. A list comes as one JSON text, for each call to the JVM costs about as much as reading a whole text.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from scaler.acting.gateway import SparkStage, iterate, read_stage
from scaler.acting.loans import find_waiting
from scaler.model.errors import BadInput
from scaler.model.spark_progress import ENDED, IDLE, STARTED, QueryEvent, Trigger, read_progress, read_query_event

LOG = logging.getLogger("scaler.agent")


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """Status of a running query."""

    run: str
    active: bool  # a trigger runs
    idle: bool  # it waits, and the last trigger found nothing to do: not now, but when it began


@dataclass(frozen=True, slots=True)
class IdleTrigger:
    """The last trigger of a query that waits, and had nothing to do in it."""

    run: str
    time: float  # when it began
    batch: int  # that it would have run


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch that was planned; offsets are JSON, one a source."""

    batch: int
    time: float  # when it was
    ended: Sequence[str | None]
    latest: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class QueryActivity:
    """What a query does at a slot's end."""

    running_since: float | None = None  # of its oldest running job; None where none runs
    run: str | None = None  # that it is in


class Driver:
    """A session's JVM. Every method may raise what py4j raises; callers handle a missing answer."""

    def __init__(self, spark: Any) -> None:
        context = getattr(spark, "sparkContext", None) if hasattr(spark, "_jsparkSession") else None
        if context is None or getattr(context, "_gateway", None) is None:
            raise BadInput(
                f"a scaler needs a Spark session in its own driver, and {type(spark).__name__} has none; "
                "sessions of Spark Connect cannot be watched from the client"
            )
        self.session = spark._jsparkSession
        self.gateway = context._gateway
        self.jvm = self.gateway.jvm
        self.context = context._jsc.sc()
        self.mapper: Any = None

    def write(self, value: Any) -> Any:
        """Convert a JVM's value to plain ones."""
        if self.mapper is None:
            self.mapper = self.jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
        return json.loads(self.mapper.writeValueAsString(value))

    def list_executors(self) -> list[Any]:
        """Executors as JSON; removed ones, too, as long as Spark remembers them (spark.ui.retainedDeadExecutors)."""
        found = self.write(self.context.statusStore().executorList(False))
        return found if isinstance(found, list) else []

    def list_running_jobs(self) -> list[Any]:
        running = self.jvm.java.util.Collections.singletonList(self.jvm.org.apache.spark.JobExecutionStatus.RUNNING)
        found = self.write(self.context.statusStore().jobsList(running))
        return found if isinstance(found, list) else []

    def list_waiting_stages(self, now: float) -> list[SparkStage]:
        """Stages that have waited for a while for a resource profile that no executor serves."""
        backend = self.context.schedulerBackend()
        ids = [name for name in iterate(backend.getExecutorIds()) if backend.isExecutorActive(name)]
        served = {int(backend.getExecutorResourceProfileId(name)) for name in ids}
        return find_waiting(map(read_stage, iterate(self.context.statusStore().activeStages())), served, now)

    def list_queries(self) -> list[Any]:
        """The JVM's active streaming queries."""
        return list(self.session.streams().active())

    def request_status(self, query: str) -> QueryStatus | None:
        """Status of a query; None where no such query runs."""
        found = self.session.streams().get(query)
        if found is None:
            return None
        status = json.loads(found.status().json())
        active, waits = bool(status.get("isTriggerActive")), str(status.get("message")).startswith("Waiting")
        idle = waits and not active and status.get("isDataAvailable") is False
        return QueryStatus(found.runId().toString(), active, idle)

    def request_idle_trigger(self, query: str) -> IdleTrigger | None:
        """The last trigger of an idle query; None where it is not idle."""
        found = self.session.streams().get(query)
        if found is None:
            return None
        latest = found.streamingQuery().getLatestExecutionContext()
        time, batch = int(latest.currentTriggerStartTimestamp()) / 1000.0, int(latest.batchId())
        status = self.request_status(query)  # after the time, so that it is of no trigger that came later
        return IdleTrigger(status.run, time, batch) if status is not None and status.idle and time > 0.0 else None

    def request_planned_batch(self, query: str) -> PlannedBatch | None:
        """The batch that was planned last."""
        found = self.session.streams().get(query)
        if found is None:
            return None
        stream = found.streamingQuery()
        planned = stream.offsetLog().getLatest()
        if not planned.isDefined() or not (metadata := planned.get()._2().metadataOpt()).isDefined():
            return None
        time = metadata.get().batchTimestampMs() / 1000.0
        ended, latest = read_offsets(stream.availableOffsets()), read_offsets(stream.latestOffsets())
        return PlannedBatch(int(planned.get()._1()), time, ended, latest)

    def find_checkpoint(self, query: str) -> str | None:
        """The query's checkpoint folder."""
        found = self.session.streams().get(query)
        return None if found is None else str(found.streamingQuery().resolvedCheckpointRoot())

    def add_listener(self, listener: Any) -> Callable[[], None]:
        """Send every event of streaming queries to the listener, until what is returned is called."""
        # The module is loaded wherever there is a session; a scaler does not import pyspark.
        sys.modules["pyspark.java_gateway"].ensure_callback_server_started(self.gateway)
        wrapped = self.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(listener)
        self.session.streams().addListener(wrapped)
        return lambda: self.session.streams().removeListener(wrapped)


def read_offsets(offsets: Any) -> list[str | None]:
    """Offsets as JSON, one a source."""
    found, each = [], offsets.iterator()
    while each.hasNext():
        offset = each.next()._2()
        found.append(None if offset is None else str(offset.json()))
    return found


def walk_plan(plan: Any) -> Iterator[Any]:
    """The nodes of a JVM's plan from its leaves up, in the order in which tuples meet them."""
    children = plan.children()
    for i in range(children.size()):
        yield from walk_plan(children.apply(i))
    yield plan


class EventReceiver(Protocol):
    """Receiver of a listener's reports; called from Spark's threads."""

    def add_trigger(self, trigger: Trigger) -> None: ...

    def add_event(self, kind: str, event: QueryEvent) -> None: ...


class QueryListener:
    """Spark's StreamingQueryListener by the names of its methods, called by py4j; nothing is raised into Spark's bus.

    An event is read as the one JSON text that it is: field by field, as pyspark's own listener reads it, takes dozens
    of calls to the JVM.
    """

    def __init__(self, receiver: EventReceiver, now: Callable[[], float] = time.time) -> None:
        self.receiver = receiver
        self.now = now
        self.unread = 0  # events that could not be read

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self.receive(STARTED, event)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        try:
            trigger = read_progress(json.loads(event.progress().json()))
            if trigger is None:
                self.unread += 1
            else:
                self.receiver.add_trigger(trigger)
        except Exception as error:
            self.fail(error)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self.receive(IDLE, event)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.receive(ENDED, event)

    def receive(self, kind: str, event: Any) -> None:
        try:
            found = read_query_event(json.loads(event.json()), self.now())
            if found is None:
                self.unread += 1
            else:
                self.receiver.add_event(kind, found)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        self.unread += 1
        LOG.debug("an event of a streaming query could not be read", exc_info=error)

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]  # noqa: RUF012
