"""Access to the driver's JVM through the session's gateway: operators, statuses, lists and plans as plain values.

This is the one place where sensors touch Spark. Public there: the listener's events, a query's status. Internal, and
tried with Spark 4.3: the status store, the mapper that writes its lists as JSON, a query's plan, its log of offsets,
its last trigger. A list comes as one JSON text, for each call to the JVM costs about as much as reading a whole text.

A query is an operator; one whose stages have several resource profiles of their own is an operator a profile, named
query/profileN as the tuner's pipeline names them. Stages in the default profile beside others are nobody's. What
`scaler.pin` made of an operator is known by the profile of its stage, and gives it its name.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from scaler.acting.gateway import SparkStage, iterate, read_stage
from scaler.acting.loans import find_waiting
from scaler.acting.profiles import Pinned
from scaler.model.errors import BadInput

LOG = logging.getLogger("scaler.agent")
MISSES_TO_WARN = 5  # polls without a pinned operator while queries run
PROFILE_NODES = (
    "MapInPandas",
    "MapInArrow",
    "PythonMapInArrow",
)  # nodes of plans that a resource profile can be given to


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

    @cached_property
    def mapper(self) -> Any:
        return self.jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()

    def write_list(self, value: Any) -> list[Any]:
        """Convert a JVM's list to plain values."""
        found = json.loads(self.mapper.writeValueAsString(value))
        return found if isinstance(found, list) else []

    def list_executors(self) -> list[Any]:
        """Executors as JSON; removed ones, too, as long as Spark remembers them (spark.ui.retainedDeadExecutors)."""
        return self.write_list(self.context.statusStore().executorList(False))

    def list_running_jobs(self) -> list[Any]:
        running = self.jvm.java.util.Collections.singletonList(self.jvm.org.apache.spark.JobExecutionStatus.RUNNING)
        return self.write_list(self.context.statusStore().jobsList(running))

    def list_waiting_stages(self, now: float) -> list[SparkStage]:
        """Stages that have waited for a while for a resource profile that no executor serves."""
        backend = self.context.schedulerBackend()
        ids = [name for name in iterate(backend.getExecutorIds()) if backend.isExecutorActive(name)]
        served = {int(backend.getExecutorResourceProfileId(name)) for name in ids}
        return find_waiting(map(read_stage, iterate(self.context.statusStore().activeStages())), served, now)

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
        """The batch that was planned last; None while the next one is, for offsets change before their log has them."""
        found = self.session.streams().get(query)
        if found is None:
            return None
        stream = found.streamingQuery()
        planned = stream.offsetLog().getLatest()
        if not planned.isDefined() or not (metadata := planned.get()._2().metadataOpt()).isDefined():
            return None
        batch, time = int(planned.get()._1()), metadata.get().batchTimestampMs() / 1000.0
        ended, latest = read_offsets(stream.availableOffsets()), read_offsets(stream.latestOffsets())
        if int(stream.getLatestExecutionContext().batchId()) != batch:  # asked last
            return None
        return PlannedBatch(batch, time, ended, latest)

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
    found = (pair._2() for pair in iterate(offsets))
    return [None if offset is None else str(offset.json()) for offset in found]


def walk_plan(plan: Any) -> Iterator[Any]:
    """The nodes of a JVM's plan from its leaves up, in the order in which tuples meet them."""
    children = plan.children()
    for i in range(children.size()):
        yield from walk_plan(children.apply(i))
    yield plan


@dataclass(frozen=True, slots=True)
class StreamOperator:
    name: str
    query: str  # id, which restarts from a checkpoint keep
    run: str
    profiles: tuple[int, ...] = ()  # of its stages; none: the default one, or not known
    entry: bool = True  # what arrives at the query arrives here
    leaving: bool = True  # what the query writes is written here


def find_operators(spark: Any) -> tuple[StreamOperator, ...]:
    """Operators of the session's active streaming queries, in their order."""
    return tuple(operator for query in Driver(spark).session.streams().active() for operator in read_query(query))


class PinnedOperators:
    """Find pinned operators among those that run, poll after poll, and warn once of each that is never found."""

    def __init__(self, pinned: Iterable[Pinned]) -> None:
        self.pinned = tuple(pinned)
        self.missed = Counter[str]()  # polls
        self.seen: set[str] = set()

    def find(self, running: Sequence[StreamOperator]) -> list[StreamOperator]:
        """Pinned operators under the names that they were pinned by, with the profiles of all their types."""
        found = []
        for one in self.pinned:
            operator = match_pinned(one, running)
            if operator is not None:
                self.seen.add(one.operator)
                found.append(replace(operator, name=one.operator, profiles=tuple(one.types.values())))
            elif running and one.operator not in self.seen:
                self.miss(one, running)
        return found

    def miss(self, one: Pinned, running: Sequence[StreamOperator]) -> None:
        self.missed[one.operator] += 1
        if self.missed[one.operator] == MISSES_TO_WARN:
            LOG.warning(
                "operator %r is pinned and not scaled: no streaming query has a stage with its profile, number %d "
                "(found: %s); give the stage profile=, or the query its name",
                one.operator,
                one.stage,
                ", ".join(operator.name for operator in running),
            )


def match_pinned(one: Pinned, running: Iterable[StreamOperator]) -> StreamOperator | None:
    """Match by the profile of the stage, whatever the query's name; by name where profiles are not known."""
    fits = [o for o in running if one.stage in o.profiles or (not o.profiles and o.name == one.operator)]
    return min(fits, key=lambda operator: (not operator.profiles, operator.name != one.operator), default=None)


def read_query(query: Any) -> tuple[StreamOperator, ...]:
    identity, run = query.id().toString(), query.runId().toString()
    return name_operators(query.name() or identity[:8], identity, run, find_profiles(query))


def name_operators(name: str, query: str, run: str, profiles: Sequence[int]) -> tuple[StreamOperator, ...]:
    """Operators of a query; `profiles`: those of its own stages, in the order in which they work."""
    if len(profiles) < 2:
        return (StreamOperator(name, query, run, tuple(profiles)),)
    last = len(profiles) - 1
    return tuple(
        StreamOperator(f"{name}/profile{profile}", query, run, (profile,), entry=i == 0, leaving=i == last)
        for i, profile in enumerate(profiles)
    )


def find_profiles(query: Any) -> list[int]:
    """Profiles in the order in which tuples meet them; none where the plan cannot be read."""
    try:
        found = [read_profile(node) for node in walk_plan(query.streamingQuery().analyzedPlan())]
    except Exception as error:  # it is internal to Spark, and other versions may have it elsewhere
        LOG.debug("the plan of a streaming query could not be read", exc_info=error)
        return []
    return list(dict.fromkeys(profile for profile in found if profile))


def read_profile(node: Any) -> int:
    """Resource profile of a node of a plan; 0 where it has none."""
    if node.getClass().getSimpleName() not in PROFILE_NODES:
        return 0
    profile = node.profile()
    return int(profile.get().id()) if profile.isDefined() else 0
