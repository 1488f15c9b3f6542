"""Executors on a real standalone cluster: two operators, one of them on mixed types; scaled, drained, killed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from scaler.acting.actuator import Room
from scaler.acting.executors import NEEDED, Executors, choose_going
from scaler.acting.gateway import Executor, Gateway, SparkStage
from scaler.acting.loans import OFTEN, UNUSED_S, Loans
from scaler.acting.profiles import Pinned
from scaler.model.errors import BadInput, Retry
from tests.bed.plan import SPEEDS
from tests.bed.run import stop
from tests.live.test_quota import describe, serve
from tests.live.wait import await_true
from tuner.demo.cluster import ROOT, Worker, find_page, make_environment, start_cluster

WORKERS = (
    Worker("127.0.0.2", "small", SPEEDS["small"], cores=3, memory="1600m"),
    Worker("127.0.0.3", "large", SPEEDS["large"], cores=2, memory="1200m"),
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("live")
    log = folder / "driver.log"
    with start_cluster(folder / "cluster", WORKERS) as master, log.open("wb") as sink:
        command = [sys.executable, "-m", "tests.live.drive", master, find_page(folder / "cluster"), str(folder)]
        driver = subprocess.Popen(
            command, cwd=ROOT, env=make_environment("127.0.0.1"), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = driver.wait(170)
        finally:
            stop(driver)
    assert code == 0, log.read_text(errors="replace")[-4000:]
    read: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return read


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
class TestOnACluster:
    def test_operators_are_scaled_each_on_its_own(self, told: dict[str, Any]) -> None:
        print(json.dumps(told["took"], indent=1))
        assert told["at first"] == {"small": 0, "large": 0}
        assert told["split beside it"] == {"small": 1}
        assert told["split ran on"] == {"small": 4}

    def test_an_operator_runs_on_mixed_types_at_once(self, told: dict[str, Any]) -> None:
        assert set(told["count ran on"]) == {"small", "large"}

    def test_what_has_no_room_does_not_come_and_is_known_before(self, told: dict[str, Any]) -> None:
        assert told["three asked of two"] == {"small": 1, "large": 2}
        assert told["room on small"] == "no worker of node type 'small' has 1 core and 512 MiB free"
        assert told["room on large"] == "no worker of node type 'large' has 1 core and 512 MiB free"

    def test_scale_in_and_a_killed_executor_lose_and_repeat_nothing(self, told: dict[str, Any]) -> None:
        assert told["batches"] > 10
        assert sum(told["written"].values()) > 1000
        assert told["counted"] == told["written"]

    def test_closing_leaves_the_cluster_as_it_stands(self, told: dict[str, Any]) -> None:
        assert told["after closing"] == {"small": 1, "large": 0}
        assert told["asked after closing"] == "the actuator is closed"


def make_executor(name: str, profile: int = 1, running: int = 0, held: int = 0, since: float = 0.0) -> Executor:
    return Executor(name, profile, profile, 1, running, held, since)


def test_the_idle_go_first_then_those_that_hold_the_least_then_the_newest() -> None:
    there = [
        make_executor("busy", running=1),
        make_executor("full", held=9),
        make_executor("old", since=1.0),
        make_executor("new", since=2.0),
        make_executor("another's", profile=2),
    ]
    assert choose_going(there, 1, 4) == []
    assert choose_going(there, 1, 3) == ["new"]
    assert choose_going(there, 1, 0) == ["new", "old", "full", "busy"]
    assert choose_going(there, 1, 9) == []


class Spark:
    """Stands for the gateway: executors of any profile come and go at once, unless the master is `away`."""

    def __init__(self) -> None:
        self.asked: dict[int, int] = {0: 1, 9: 4}  # what others asked for
        self.there: list[Executor] = []
        self.away = threading.Event()
        self.back = threading.Event()
        self.refuses = False
        self.full = False  # nothing comes any more
        self.frozen = 0
        self.gone: list[str] = []
        self.waiting: list[SparkStage] = []
        self.limits: dict[str, str] = {}  # settings

    def setting(self, name: str, default: str) -> str:
        return "true" if name in NEEDED else self.limits.get(name, default)

    def freeze_allocation(self) -> None:
        self.frozen += 1

    def totals(self) -> dict[int, int]:
        return dict(self.asked)

    def request_totals(self, totals: dict[int, int]) -> None:
        self.asked = dict(totals)
        if self.away.is_set():
            self.back.wait(30)
        if self.refuses:
            raise Retry("the cluster manager did not take it")
        for profile, total in totals.items() if not self.full else ():
            have = sum(executor.made_for == profile for executor in self.there)
            self.there += [make_executor(f"{profile}-{have + i}", profile) for i in range(total - have)]

    def executors(self) -> list[Executor]:
        return list(self.there)

    def stages(self) -> list[SparkStage]:
        return list(self.waiting)

    def decommission(self, names: list[str]) -> list[str]:
        self.gone += names
        self.there = [executor for executor in self.there if executor.id not in names]
        return names

    def hand_over(self, name: str, profile: int) -> bool:
        self.there = [replace(one, serves=profile) if one.id == name else one for one in self.there]
        return True


COUNT, SPLIT = Pinned("count", 1, {"small": 1, "large": 2}), Pinned("split", 3, {"small": 3})


@contextmanager
def steer(spark: Any, timeout: float = 30.0, page: str | None = None) -> Iterator[Executors]:
    actuator = Executors(spark, [COUNT, SPLIT], page, period=0.02, timeout=timeout)
    try:
        yield actuator
    finally:
        actuator.close()


def test_nothing_is_touched_before_the_first_order() -> None:
    spark = Spark()
    with steer(spark) as actuator:
        assert actuator.deployed("count") == {"small": 0, "large": 0}
        assert actuator.check_room("count", {"large": 1}) == Room({"large": 1})
    assert (spark.frozen, spark.asked) == (0, {0: 1, 9: 4})


def test_preparing_ends_sparks_own_allocation_and_nothing_else() -> None:
    spark = Spark()
    with steer(spark) as actuator:
        actuator.prepare()
        assert (spark.frozen, spark.asked) == (1, {0: 1, 9: 4})
        actuator.apply("split", {"small": 1})
        assert (spark.frozen, spark.asked) == (1, {0: 1, 9: 4, 3: 1})


def test_the_last_place_of_a_type_is_not_for_two_operators() -> None:
    spark = Spark()
    with serve(describe(4, 4096, 4, taken=3)) as page, steer(spark, page=page) as actuator:
        actuator.apply("split", {"small": 1})
        actuator.apply("count", {"small": 2, "large": 1})
        assert actuator.check_room("split", {"small": 1}) == Room({"small": 1})
        spark.full = True
        actuator.apply("split", {"small": 2})
        said = "no worker of node type 'small' has 1 core and 512 MiB free beside the 1 to come"
        assert actuator.check_room("count", {"small": 1}) == Room({"small": 0}, said)
        assert actuator.check_room("split", {"small": 1}) == Room({"small": 0}, said)
        spark.there = [one for one in spark.there if one.made_for != 1]  # launched, and not there yet
        assert actuator.check_room("split", {"small": 1}).why == said


def test_room_is_asked_for_as_many_as_are_wanted_of_all_types_together() -> None:
    spark = Spark()
    with serve(describe(4, 4096, 4, taken=1)) as page, steer(spark, page=page) as actuator:
        actuator.apply("split", {"small": 1})
        assert actuator.check_room("count", {"small": 2}) == Room({"small": 2})
        said = "workers of node type 'small' have 1 core and 512 MiB free for 3 of 5"
        assert actuator.check_room("count", {"small": 5}) == Room({"small": 3}, said)
    spark.limits["spark.cores.max"] = "10"
    with steer(spark) as actuator:
        actuator.apply("split", {"small": 1})
        room = actuator.check_room("count", {"small": 3, "large": 3, "huge": 1})
    assert room.places == {"small": 3, "large": 1, "huge": 0}
    assert (
        room.why == "spark.cores.max is 10, and 9 cores are taken; operator 'count' has no profile for node type 'huge'"
    )
    assert not room.is_enough({"large": 3})
    assert room.is_enough({"small": 3, "large": 1})


def test_a_place_that_the_master_has_taken_is_not_taken_again() -> None:
    spark = Spark()
    spark.full = True
    with serve(describe(2, 4096, 2, taken=1)) as page, steer(spark, page=page) as actuator:
        actuator.apply("split", {"small": 1})
        assert actuator.check_room("count", {"small": 1}) == Room({"small": 1})
        assert actuator.check_room("split", {"small": 1}) == Room({"small": 1})


def test_totals_of_others_stay_and_mixed_types_serve_one_stage() -> None:
    spark = Spark()
    with steer(spark) as actuator:
        actuator.apply("split", {"small": 2})
        actuator.apply("count", {"small": 1, "large": 2})
        await_true(lambda: actuator.deployed("count") == {"small": 1, "large": 2})
        assert spark.asked == {0: 1, 9: 4, 1: 1, 2: 2, 3: 2}
        assert {one.serves for one in spark.there if one.made_for == 2} == {1}
        actuator.apply("count", {"large": 1})
        await_true(lambda: actuator.deployed("count") == {"small": 0, "large": 1})
        assert actuator.deployed("split") == {"small": 2}
        assert spark.asked == {0: 1, 9: 4, 1: 0, 2: 1, 3: 2}


def test_one_that_comes_after_it_was_given_up_is_sent_away_and_foreign_totals_are_set_right() -> None:
    spark = Spark()
    with steer(spark) as actuator:
        actuator.apply("count", {"small": 1})
        spark.there.append(make_executor("late", 2))
        await_true(lambda: spark.gone == ["late"])
        spark.asked[1] = 7
        await_true(lambda: spark.asked[1] == 1)
        assert spark.gone == ["late"]


def test_a_refused_order_leaves_the_target_as_it_was() -> None:
    spark = Spark()
    with steer(spark) as actuator:
        spark.refuses = True
        with pytest.raises(Retry, match="did not take it"):
            actuator.apply("split", {"small": 5})
        spark.refuses = False
        await_true(lambda: spark.asked == {0: 1, 9: 4, 3: 0})
        actuator.apply("count", {"small": 2})
        spark.refuses = True
        with pytest.raises(Retry, match="did not take it"):
            actuator.apply("count", {"small": 0})
        spark.refuses = False
        await_true(lambda: spark.asked[1] == 2)
        assert spark.gone == []


def test_an_order_that_was_given_up_is_not_carried_out_when_the_master_is_back() -> None:
    spark = Spark()
    with steer(spark, timeout=0.3) as actuator:
        actuator.apply("count", {"small": 1, "large": 1})
        spark.away.set()
        with pytest.raises(Retry, match=r"took no order within 0\.3 s"):
            actuator.apply("count", {"small": 2})
        spark.away.clear()
        spark.back.set()
        await_true(lambda: spark.asked == {0: 1, 9: 4, 1: 1, 2: 1})
        await_true(lambda: actuator.deployed("count") == {"small": 1, "large": 1})
        assert "2-0" not in spark.gone  # the large one was never sent away


LISTING = SparkStage("listing files", 0, left=3, running=0, since=0.0)


def test_idle_executor_serves_a_foreign_stage_while_it_lasts() -> None:
    spark = Spark()
    spark.asked = {}
    with steer(spark) as actuator:
        actuator.prepare()
        actuator.apply("count", {"small": 2})
        await_true(lambda: actuator.deployed("count") == {"small": 2, "large": 0})
        spark.waiting = [LISTING]
        await_true(lambda: sorted(one.serves for one in spark.there) == [0, 1])
        assert actuator.deployed("count") == {"small": 2, "large": 0}  # a loan is no loss
        spark.waiting = []
        await_true(lambda: [one.serves for one in spark.there] == [1, 1])
        assert 0 not in spark.asked


def test_a_lent_executor_is_not_lost() -> None:
    """The ledger of supply counts executors by when they started, as many as are deployed."""
    spark = Spark()
    spark.there = [make_executor("a", 1, since=5.0), make_executor("b", 1, since=9.0), make_executor("c", 3, since=7.0)]
    with steer(spark) as actuator:
        assert actuator.find_starts("count") == {"small": [5.0, 9.0], "large": []}
        spark.hand_over("b", 0)
        actuator.loans.lent["b"] = 0
        assert actuator.deployed("count") == {"small": 2, "large": 0}
        assert actuator.find_starts("count") == {"small": [5.0, 9.0], "large": []}
        spark.executors = raise_retry  # type: ignore[method-assign]
        assert actuator.find_starts("count") is None


def raise_retry() -> list[Executor]:
    raise Retry("the session does not answer")


def test_frequent_loans_raise_the_total_of_the_profile() -> None:
    loans, there = Loans({1: 1}), [make_executor("one"), make_executor("two")]
    for now in range(OFTEN):
        assert loans.extra == {}
        plan = loans.plan([LISTING], there, float(now))
        assert list(plan.lend.values()) == [0]
        loans.lent = dict(plan.lend)
        assert loans.plan([], there, now + 0.5).give_back == tuple(plan.lend)
        loans.lent = {}
    assert list(loans.extra) == [0]
    loans.plan([], there, OFTEN + UNUSED_S)
    assert loans.extra == {}


def test_stage_of_an_operator_or_a_served_profile_borrows_nobody() -> None:
    loans, own = Loans({1: 1, 2: 1}), [make_executor("one"), make_executor("default", profile=0)]
    assert loans.plan([LISTING, replace(LISTING, profile=1)], own, 0.0).lend == {}
    busy, idle, other = make_executor("busy", running=1), make_executor("idle"), make_executor("other", profile=9)
    assert loans.plan([LISTING], [busy, idle, other], 0.0).lend == {"idle": 0}
    assert loans.plan([LISTING], [other], 0.0).lend == {}


def test_detaching_leaves_an_executor_for_stages_of_no_operator() -> None:
    spark = Spark()
    spark.asked = {}
    with steer(spark) as actuator:
        actuator.apply("count", {"small": 1})
        spark.waiting = [LISTING]
        await_true(lambda: 0 in {one.serves for one in spark.there})
    assert spark.asked == {0: 1, 1: 1, 2: 0}
    assert {one.made_for: one.serves for one in spark.there} == {0: 0, 1: 1}


@pytest.mark.parametrize(
    ("operator", "target", "said"),
    [
        ("sum", {"small": 1}, "operator 'sum' is not pinned"),
        ("count", {"huge": 1}, "operator 'count' has no node type 'huge', only small, large"),
        ("count", {"small": -1}, "cannot have -1 replicas"),
    ],
)
def test_targets_that_cannot_be_are_refused(operator: str, target: dict[str, int], said: str) -> None:
    with steer(Spark()) as actuator, pytest.raises(BadInput, match=said):
        actuator.apply(operator, target)


def test_settings_that_spark_needs_are_named() -> None:
    spark: Any = Spark()
    spark.setting = lambda name, default: default
    with pytest.raises(BadInput, match=r"--conf spark\.dynamicAllocation\.enabled=true"):
        Executors(spark, [COUNT])
    with pytest.raises(BadInput, match="two operators share a resource profile"):
        Executors(cast(Any, Spark()), [COUNT, Pinned("sum", 1, {"small": 1})])


def test_a_session_without_a_driver_is_refused() -> None:
    with pytest.raises(BadInput, match="neither one of Spark Connect nor"):
        Gateway(object())
