"""A Spark session flows in; what its JVM tells through the session's gateway flows out, as plain values.

This is the one place where sensors touch Spark. Public there: the listener's events, a query's status. Internal, and
tried with Spark 4.3: the status store, the mapper that writes its lists as JSON, a query's plan, its log of
offsets, its last trigger. A list comes as one JSON text, for each call to the JVM costs about as much as reading a
whole text.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from scaler.model.errors import BadInput
from scaler.model.spark_progress import ENDED, IDLE, STARTED, QueryEvent, Trigger, read_progress, read_query_event

LOG = logging.getLogger("scaler.agent")


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """What a query says that it does now."""

    run: str
    active: bool  # a trigger runs
    idle: bool  # it waits, and the last trigger found nothing to do: not now, but when it began


class Driver:
    """Every method may raise what py4j raises; callers know what to do without an answer."""

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
        """A JVM's value as plain ones."""
        if self.mapper is None:
            self.mapper = self.jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
        return json.loads(self.mapper.writeValueAsString(value))

    def list_executors(self) -> list[Any]:
        """Those that are gone, too, as long as Spark remembers them (spark.ui.retainedDeadExecutors)."""
        found = self.write(self.context.statusStore().executorList(False))
        return found if isinstance(found, list) else []

    def list_running_jobs(self) -> list[Any]:
        running = self.jvm.java.util.Collections.singletonList(self.jvm.org.apache.spark.JobExecutionStatus.RUNNING)
        found = self.write(self.context.statusStore().jobsList(running))
        return found if isinstance(found, list) else []

    def list_queries(self) -> list[Any]:
        """The JVM's active streaming queries."""
        return list(self.session.streams().active())

    def ask_status(self, query: str) -> QueryStatus | None:
        """None where no such query runs."""
        found = self.session.streams().get(query)
        if found is None:
            return None
        told = json.loads(found.status().json())
        active, waits = bool(told.get("isTriggerActive")), str(told.get("message")).startswith("Waiting")
        return QueryStatus(
            found.runId().toString(), active, waits and not active and told.get("isDataAvailable") is False
        )

    def ask_look(self, query: str) -> IdleTrigger | None:
        """None where it is not idle."""
        found = self.session.streams().get(query)
        if found is None:
            return None
        latest = found.streamingQuery().getLatestExecutionContext()
        time, batch = int(latest.currentTriggerStartTimestamp()) / 1000.0, int(latest.batchId())
        status = self.ask_status(query)  # after the time, so that it is of no trigger that came later
        return IdleTrigger(status.run, time, batch) if status is not None and status.idle and time > 0.0 else None

    def ask_flight(self, query: str) -> PlannedBatch | None:
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
        """Where the query keeps what it has taken."""
        found = self.session.streams().get(query)
        return None if found is None else str(found.streamingQuery().resolvedCheckpointRoot())

    def add_listener(self, listener: Any) -> Callable[[], None]:
        """Tell it of every event of streaming queries; what is returned ends that."""
        # The module is loaded wherever there is a session; a scaler does not import pyspark.
        sys.modules["pyspark.java_gateway"].ensure_callback_server_started(self.gateway)
        wrapped = self.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(listener)
        self.session.streams().addListener(wrapped)
        return lambda: self.session.streams().removeListener(wrapped)


def read_offsets(offsets: Any) -> list[str | None]:
    """Of each source, as JSON."""
    found, each = [], offsets.iterator()
    while each.hasNext():
        offset = each.next()._2()
        found.append(None if offset is None else str(offset.json()))
    return found


def walk_plan(plan: Any) -> Iterator[Any]:
    """A JVM's plan from its leaves up: what comes first works first."""
    children = plan.children()
    for i in range(children.size()):
        yield from walk_plan(children.apply(i))
    yield plan


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


class EventReceiver(Protocol):
    """Whom the listener tells; called from threads of Spark's."""

    def add(self, trigger: Trigger) -> None: ...

    def note(self, kind: str, sign: QueryEvent) -> None: ...


class QueryListener:
    def __init__(self, keeper: EventReceiver, now: Callable[[], float] = time.time) -> None:
        self.keeper = keeper
        self.now = now
        self.unread = 0  # events that could not be read

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self.note(STARTED, event)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        try:
            trigger = read_progress(json.loads(event.progress().json()))
            if trigger is None:
                self.unread += 1
            else:
                self.keeper.add(trigger)
        except Exception as error:
            self.fail(error)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self.note(IDLE, event)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.note(ENDED, event)

    def note(self, kind: str, event: Any) -> None:
        try:
            sign = read_query_event(json.loads(event.json()), self.now())
            if sign is None:
                self.unread += 1
            else:
                self.keeper.note(kind, sign)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        self.unread += 1
        LOG.debug("an event of a streaming query could not be read", exc_info=error)

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class QueryActivity:
    running_since: float | None = None  # since when its oldest running job runs; None where none does
    run: str | None = None  # of it that is there
