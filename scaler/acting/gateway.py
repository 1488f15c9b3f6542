"""Read and steer the executors of a Spark session by py4j: all that is internal to Spark, pinned to 4.3.

What it reaches through py4j, none of which is API (see with `javap -p -cp spark-core_2.13-4.3.0.jar CLASS`):

    SparkContext.schedulerBackend, executorAllocationManager, resourceProfileManager, statusStore
    CoarseGrainedSchedulerBackend.requestTotalExecutors(Map[profile, total], Map[profile, local tasks], Map[..]),
        getRequestedTotalExecutors, getExecutorIds, isExecutorActive, getExecutorResourceProfileId, reviveOffers,
        decommissionExecutors(Array[(id, ExecutorDecommissionInfo)], adjustTargetNumExecutors, triggeredByExecutor)
    ExecutorAllocationManager.stop, ResourceProfileManager.addResourceProfile, AppStatusStore.executorList, activeStages
    the field ExecutorInfo.resourceProfileId of an entry of the backend's executorDataMap (only to hand executors over)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from scaler.model.errors import BadInput, Retry

PINNED = "4.3"
BACKEND = "org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend"
EXECUTOR_TABLE = BACKEND.replace(".", "$") + "$$executorDataMap"  # how Scala names a member that inner classes use
DENIED = ("NoSuchField", "NoSuchMethod", "ClassNotFound", "InaccessibleObject", "IllegalAccess", "NoClassDef")


@dataclass(frozen=True, slots=True)
class Executor:
    """One that is registered, is not going, and may be given tasks."""

    id: str
    made_for: int  # the profile that it was requested with, and so its node type
    serves: int  # the profile whose tasks it is given
    cores: int
    running: int  # tasks
    held: int  # bytes of blocks in memory and on disk
    since: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class SparkStage:
    """A stage that was submitted and is not done."""

    name: str  # as Spark's page has it
    profile: int  # whose executors alone may run its tasks
    left: int  # tasks that are not done
    running: int  # of these
    since: float  # submitted, seconds since 1970
    id: int = 0


class Gateway:
    """One session; safe to call from several threads, as py4j and the methods it calls are."""

    def __init__(self, spark: Any) -> None:
        try:
            self.context = spark.sparkContext
            self.jvm: Any = self.context._gateway.jvm
            self.version: str = self.context.version
        except Exception:  # a Connect session raises its own error here, one that is no session AttributeError
            raise BadInput(
                "executors are steered from the driver's own session: give the SparkSession of a classic driver, "
                "neither one of Spark Connect nor one that was stopped"
            ) from None
        master = self.setting("spark.master", "")
        if master.startswith("local") and not master.startswith("local-cluster"):
            raise BadInput(f"master {master!r} has no executors to add; use the address of a cluster, or enforce=False")

    def setting(self, name: str, default: str) -> str:
        return str(self.context.getConf().get(name, default))

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Raise any fault of Spark or py4j as BadInput or Retry, with one sentence."""
        try:
            yield
        except (BadInput, Retry):
            raise
        except Exception as error:
            raise explain(error, what, self.version) from error

    @property
    def spark(self) -> Any:
        """Scala's SparkContext."""
        if self.context._jsc is None:
            raise Retry(f"cannot steer executors: this session of Spark {self.version} was stopped")
        return self.context._jsc.sc()

    @property
    def backend(self) -> Any:
        return self.spark.schedulerBackend()

    def freeze_allocation(self) -> None:
        """End the thread of Spark's own dynamic allocation, which would set other totals; it cannot be begun again."""
        with self.guarded("stop Spark's own dynamic allocation (SparkContext.executorAllocationManager)"):
            manager = self.spark.executorAllocationManager()
            if manager.isDefined():
                manager.get().stop()

    def totals(self) -> dict[int, int]:
        """Executors last requested, by profile."""
        with self.guarded("read the requested totals (getRequestedTotalExecutors)"):
            pairs = iterate(self.backend.getRequestedTotalExecutors())
            return {int(pair._1().id()): int(pair._2()) for pair in pairs}

    def request_totals(self, totals: Mapping[int, int]) -> None:
        """Set the totals of all profiles at once; one that is left out is forgotten by Spark."""
        with self.guarded("set totals of executors (requestTotalExecutors)"):
            none, no_hosts = self.scala_map(dict.fromkeys(totals, 0)), self.scala_map({})
            if not self.backend.requestTotalExecutors(self.scala_map(totals), none, no_hosts):
                raise Retry(f"the cluster manager did not take the totals of executors (Spark {self.version})")

    def executors(self) -> list[Executor]:
        with self.guarded("list executors (AppStatusStore.executorList)"):
            backend = self.backend
            active = {str(name) for name in iterate(backend.getExecutorIds()) if backend.isExecutorActive(name)}
            listed = iterate(self.spark.statusStore().executorList(True))
            return [read_executor(one, backend) for one in listed if one.id() in active]

    def stages(self) -> list[SparkStage]:
        """Those that are not done; Spark's store lags behind by a tenth of a second."""
        with self.guarded("list stages (AppStatusStore.activeStages)"):
            return [read_stage(one) for one in iterate(self.spark.statusStore().activeStages())]

    def decommission(self, names: Sequence[str]) -> list[str]:
        """Give executors no more tasks; they end those they run, move their blocks and exit. Returns who will."""
        if not names:
            return []
        with self.guarded("decommission executors (decommissionExecutors)"):
            info = self.jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("scaled in", self.module("scala.None"))
            pairs = self.context._gateway.new_array(self.jvm.scala.Tuple2, len(names))
            for i, name in enumerate(names):
                pairs[i] = self.jvm.scala.Tuple2(name, info)
            return [str(name) for name in iterate(self.backend.decommissionExecutors(pairs, False, False))]

    def hand_over(self, name: str, profile: int) -> bool:
        """Let an executor serve the stages of another profile than its own; False where it is gone.

        Spark runs a task only where the profile's number is the task's own (ResourceProfileManager.canBeScheduled), so
        an operator on mixed types needs this. Everything else that Spark records of the executor stays as it is.
        """
        with self.guarded("hand an executor over (ExecutorInfo.resourceProfileId)"):
            backend = self.backend
            entry = getattr(backend, EXECUTOR_TABLE)().get(name)
            if not entry.isDefined():
                return False
            info = self.jvm.java.lang.Class.forName("org.apache.spark.scheduler.cluster.ExecutorInfo")
            field = info.getDeclaredField("resourceProfileId")
            field.setAccessible(True)
            field.setInt(entry.get(), profile)
            if backend.getExecutorResourceProfileId(name) != profile:
                raise BadInput(f"Spark {self.version} does not let an executor be handed over; mix no node types")
            backend.reviveOffers()
            return True

    def add_profile(self, amounts: Mapping[str, int | str], resource: str, tasks: Mapping[str, float]) -> Any:
        """A registered profile, as Java has it: executors of these amounts with one of the resource, if it is named."""
        with self.guarded("make a resource profile (ResourceProfileManager.addResourceProfile)"):
            made = self.jvm.org.apache.spark.resource
            executor, task = made.ExecutorResourceRequests(), made.TaskResourceRequests()
            for method, amount in amounts.items():
                executor = getattr(executor, method)(amount)
            if resource:
                executor = executor.resource(resource, 1, "", "")
            for name, share in tasks.items():
                task = task.cpus(int(share)) if name == "cpus" else task.resource(name, float(share))
            profile = made.ResourceProfileBuilder().require(executor).require(task).build()
            self.register(profile)
            return profile

    def register(self, profile: Any) -> None:
        """Register a profile with Spark, which totals need; again is as good as once."""
        with self.guarded("register a resource profile (ResourceProfileManager.addResourceProfile)"):
            self.spark.resourceProfileManager().addResourceProfile(profile)

    def wrap_profile(self, profile: Any) -> Any:
        """The same for Python: what `mapInPandas(..., profile=)` and `RDD.withResources` take."""
        with self.guarded("wrap a resource profile (pyspark.resource.ResourceProfile)"):
            # pyspark is there, for a session was handed in; it is looked up and never imported.
            return sys.modules["pyspark.resource"].ResourceProfile(_java_resource_profile=profile)

    def module(self, name: str) -> Any:
        """A Scala object by name."""
        return getattr(getattr(self.jvm, f"{name}$"), "MODULE$")

    def scala_map(self, entries: Mapping[int, int]) -> Any:
        mutable = self.jvm.scala.collection.mutable.HashMap()
        for key, value in entries.items():
            mutable.put(int(key), int(value))
        return getattr(self.module("scala.collection.immutable.Map"), "from")(mutable)


def iterate(collection: Any) -> Iterator[Any]:
    """The elements of a Scala collection."""
    elements = collection.iterator()
    while elements.hasNext():
        yield elements.next()


def read_executor(one: Any, backend: Any) -> Executor:
    return Executor(
        id=str(one.id()), made_for=int(one.resourceProfileId()),
        serves=int(backend.getExecutorResourceProfileId(one.id())), cores=int(one.totalCores()),
        running=int(one.activeTasks()), held=int(one.memoryUsed()) + int(one.diskUsed()),
        since=one.addTime().getTime() / 1000.0,
    )  # fmt: skip


def read_stage(one: Any) -> SparkStage:
    submitted = one.submissionTime()
    return SparkStage(
        name=str(one.name()), profile=int(one.resourceProfileId()),
        left=int(one.numTasks()) - int(one.numCompletedIndices()), running=int(one.numActiveTasks()),
        since=submitted.get().getTime() / 1000.0 if submitted.isDefined() else 0.0, id=int(one.stageId()),
    )  # fmt: skip


def explain(error: Exception, what: str, version: str) -> BadInput | Retry:
    """py4j is no dependency, so its errors are known by name."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    said = str(getattr(error, "java_exception", "") or error).strip().partition("\n")[0][:300]
    said = said or type(error).__name__
    if kinds & {"Py4JNetworkError", "OSError"}:
        return Retry(f"cannot {what}: the driver's JVM (Spark {version}) does not answer ({said})")
    if "Py4JJavaError" in kinds and not any(name in said for name in DENIED):
        return Retry(f"cannot {what}: Spark {version} says {said}")
    if kinds & {"Py4JError", "TypeError", "AttributeError", "KeyError"}:
        return BadInput(
            f"cannot {what}: it is internal to Spark, known in {PINNED} and not there in {version} ({said}); "
            f"use Spark {PINNED}, or the command or webhook actuator"
        )
    return Retry(f"cannot {what} on Spark {version}: {said}")
