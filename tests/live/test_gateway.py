"""What Spark and py4j raise, from a real session, becomes one sentence named by what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scaler.acting.executors import SETTINGS
from scaler.acting.gateway import PINNED, Gateway, explain
from scaler.acting.profiles import copy_amounts, join
from scaler.model.errors import BadInput, Retry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def caught(call: Any, version: str = "5.0.1") -> BadInput | Retry:
    try:
        call()
    except Exception as error:
        return explain(error, "do it (someMethod)", version)
    raise AssertionError("nothing was raised")


@pytest.mark.xdist_group("spark")
def test_what_is_not_there_any_more_is_named_with_the_version(spark: SparkSession) -> None:
    backend = spark._jsc.sc().schedulerBackend()
    jvm: Any = spark._jvm
    executor = jvm.java.lang.Class.forName("org.apache.spark.scheduler.cluster.ExecutorInfo")
    for call in (
        backend.requestNothing,  # a method that is gone
        lambda: backend.reviveOffers(1, "two"),  # one that takes other arguments
        lambda: jvm.org.apache.spark.scheduler.NoSuchClass("x"),
        lambda: executor.getDeclaredField("noSuchField"),
        lambda: jvm.java.lang.Class.forName("org.apache.spark.NoSuchClass"),
    ):
        said = caught(call)
        assert isinstance(said, BadInput), said
        text = str(said)
        assert text.startswith(
            f"cannot do it (someMethod): it is internal to Spark, known in {PINNED} and not there in"
        )
        assert "5.0.1" in text
        assert "\n" not in text


@pytest.mark.xdist_group("spark")
def test_what_spark_throws_may_succeed_later(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    said = caught(lambda: jvm.java.lang.Class.forName("java.util.ArrayList").cast("x"), "4.3.0")
    assert isinstance(said, Retry)
    assert str(said).startswith("cannot do it (someMethod): Spark 4.3.0 says java.lang.ClassCastException")
    said = caught(lambda: jvm.java.util.ArrayList().iterator().next(), "4.3.0")  # one without a word
    assert isinstance(said, Retry)
    assert str(said).startswith("cannot do it (someMethod)")
    assert not str(said).endswith(": ")
    said = caught(lambda: jvm.java.lang.Integer.parseInt("x"), "4.3.0")  # one that PySpark makes its own of
    assert isinstance(said, Retry)
    assert str(said) == 'cannot do it (someMethod) on Spark 4.3.0: For input string: "x"'


@pytest.mark.xdist_group("spark")
def test_spark_that_is_started_as_told_adds_no_executors_of_its_own_accord(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    known = getattr(getattr(jvm.org.apache.spark.internal.config, "package$"), "MODULE$")
    conf = jvm.org.apache.spark.SparkConf(False)
    for name, value in SETTINGS.items():
        conf.set(name, value)
    day_s = 24 * 3600
    assert conf.get(known.DYN_ALLOCATION_SCHEDULER_BACKLOG_TIMEOUT()) > day_s
    assert conf.get(known.DYN_ALLOCATION_SUSTAINED_SCHEDULER_BACKLOG_TIMEOUT()) > day_s
    assert conf.get(known.DYN_ALLOCATION_EXECUTOR_IDLE_TIMEOUT()) > day_s
    assert conf.get(known.EXECUTOR_CORES()) == conf.get(known.DYN_ALLOCATION_MIN_EXECUTORS()) == 1
    assert conf.contains("spark.executor.cores")  # where it is not set, a standalone worker's cores are all taken


@pytest.mark.xdist_group("spark")
def test_a_local_session_has_nothing_to_scale(spark: SparkSession) -> None:
    with pytest.raises(BadInput, match=r"master 'local\[2\]' has no executors to add"):
        Gateway(spark)


def test_a_driver_that_is_gone_is_a_passing_fault() -> None:
    said = explain(ConnectionRefusedError(111, "refused"), "do it", "4.3.0")
    assert isinstance(said, Retry)
    assert "does not answer" in str(said)


class Request:
    def __init__(self, amount: int) -> None:
        self.amount = amount


class Profile:
    """As PySpark shows one."""

    def __init__(self, executor: dict[str, int], task: dict[str, int]) -> None:
        self.executorResources = {name: Request(amount) for name, amount in executor.items()}
        self.taskResources = {name: Request(amount) for name, amount in task.items()}


def test_another_node_type_gets_what_the_profile_of_the_user_has() -> None:
    profile = Profile({"cores": 2, "memory": 1024, "pyspark.memory": 256, "node_small": 1}, {"cpus": 1})
    assert copy_amounts("count", profile) == {"cores": 2, "memory": "1024m", "pysparkMemory": "256m"}
    with pytest.raises(BadInput, match="asks for 'gpu'"):
        copy_amounts("count", Profile({"cores": 1, "gpu": 1, "node_small": 1}, {"cpus": 1}))


@pytest.mark.parametrize(
    ("profile", "types", "said"),
    [
        (Profile({"cores": 1}, {}), ["small"], "must ask for node_small, and ask for"),
        (Profile({"node_large": 1}, {}), ["small"], "must ask for node_small, and ask for"),
        (
            Profile({"node_small": 1}, {"node_small": 1}),
            ["small", "large"],
            "its profile's tasks ask for node_small; drop",
        ),
        (Profile({"node_small": 1}, {}), [], "name each of its node types once"),
        (Profile({"node_small": 1}, {}), ["small", "small"], "name each of its node types once"),
    ],
)
def test_a_profile_that_does_not_fit_the_node_types_is_refused(
    monkeypatch: pytest.MonkeyPatch, profile: Profile, types: list[str], said: str
) -> None:
    monkeypatch.setattr(Gateway, "__init__", lambda self, _: None)
    with pytest.raises(BadInput, match=said):
        join(object(), "count", profile, types)
