"""Attached scalers: threads that come with operators and go with `detach`, and whose faults stay theirs."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import scaler
from scaler.acting.command import Command
from scaler.acting.profiles import Pinned
from scaler.agent.attachment import AgentSettings, Attachment, AttachSettings
from scaler.agent.order_source import OrdersFile
from scaler.model.errors import BadInput
from scaler.model.orders import parse_orders
from scaler.sensing.driver import StreamOperator
from tests.live.plant import NODES, Desk, Plant, make_orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PINNED = Pinned("parse", 1, {"small": 1, "huge": 2})
PARSE, COUNT = StreamOperator("parse", "1", "1"), StreamOperator("count", "2", "2")


def make_settings(
    folder: Path, enforce: bool = True, types: dict[str, set[str]] | None = None, slot_s: float = 0.05
) -> AgentSettings:
    return AgentSettings(NODES, types or {}, enforce, folder, AttachSettings(slot_s=slot_s))


class Quick(Desk):
    """Orders with slots of a twentieth of a second."""

    def __init__(self) -> None:
        super().__init__()
        document = make_orders("threshold-c", {})
        targets = document["objective"]["operators"]
        targets["count"] = targets["parse"]
        self.orders_now = parse_orders({**document, "slot_s": 0.05})


def wait_for(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < limit, "it did not come to pass within 30 s"
        time.sleep(0.01)


def test_a_manager_for_each_operator_until_they_are_detached(tmp_path: Path) -> None:
    plant, desk, found = Plant(lambda t: 900.0), Quick(), [PARSE]
    others = set(threading.enumerate())  # that tests before this one may have left
    with Attachment(make_settings(tmp_path), plant, plant, desk, lambda: found) as live:
        wait_for(lambda: len(desk.told) >= 3)
        found.append(COUNT)
        wait_for(lambda: set(live.threads) == {"parse", "count"})
    assert not any(thread.name.startswith("scaler") for thread in set(threading.enumerate()) - others)
    told = len(desk.told)
    time.sleep(0.2)
    assert len(desk.told) == told
    assert (tmp_path / "parse.npz").exists()


def test_an_operator_is_scaled_on_the_node_types_that_it_was_pinned_to(tmp_path: Path) -> None:
    plants, desk = {name: Plant(lambda t: 1900.0) for name in ("parse", "count")}, Quick()
    plants["count"].serving = plants["count"].target = {"fast": 1}
    plants["parse"].serving = plants["parse"].target = {"small": 1}

    class Both:
        """Each operator on a plant of its own."""

        def __getattr__(self, name: str) -> Any:
            if name not in ("read", "deployed", "check_room", "apply", "watch", "prepare", "close"):
                raise AttributeError(name)
            if name in ("watch", "prepare", "close"):
                return lambda *_: None
            return lambda operator, *rest: getattr(plants[operator], name)(operator, *rest)

    settings = make_settings(tmp_path, types={"parse": {"small"}, "count": {"fast"}})
    both: Any = Both()
    with Attachment(settings, both, both, desk, lambda: [PARSE, COUNT]) as live:
        wait_for(lambda: all(plant.asked for plant in plants.values()))
        assert [[node.name for node in live.agents[name].nodes] for name in plants] == [["small"], ["fast"]]
    assert plants["parse"].asked[0] == {"small": 2}
    assert plants["count"].asked[0] == {"fast": 2}


def test_a_fault_in_a_slot_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(Quick):
        def report(self, operator: str, decisions: Sequence[Any] = (), samples: Any = (), detail: Any = None) -> None:
            super().report(operator, decisions)
            if len(self.told) == 2:
                raise RuntimeError("the disk is on fire")

    plant, desk = Plant(lambda t: 900.0), Faulty()
    with Attachment(make_settings(tmp_path), plant, plant, desk, lambda: [PARSE]):
        wait_for(lambda: len(desk.told) >= 5)
    assert "the disk is on fire" in caplog.text


def test_spark_that_does_not_answer_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.agent.attachment.FIND_OPERATORS_S", 0.01)
    plant, desk, asked = Plant(lambda t: 900.0), Quick(), []

    def find() -> list[StreamOperator]:
        asked.append(1)
        if len(asked) < 3:
            raise OSError("no JVM")
        return [PARSE]

    with Attachment(make_settings(tmp_path), plant, plant, desk, find):
        wait_for(lambda: len(desk.told) >= 1)
    assert len(asked) >= 3


@pytest.mark.xdist_group("spark")
def test_a_pinned_stage_of_a_query_of_another_name_is_scaled(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    profile = ResourceProfileBuilder().require(ExecutorResourceRequests().cores(1).resource("node_small", 1)).build
    (tmp_path / "in").mkdir()
    lines = spark.readStream.text(str(tmp_path / "in")).mapInPandas(pass_on, "value string", profile=profile)
    writer = lines.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.queryName("shop").start()
    (tmp_path / "o.json").write_text(json.dumps(make_orders("threshold-c", {})["objective"]))
    pinned, plant = Pinned("parse", profile.id, {"small": profile.id}), Plant(lambda t: 900.0)
    try:
        with scaler.attach(
            spark,
            "shop",
            orders=tmp_path / "o.json",
            pinned=[pinned],
            settings=AttachSettings(nodes=NODES, actuator=plant, folder=tmp_path),
        ) as live:
            wait_for(lambda: set(live.threads) == {"parse"})
    finally:
        query.stop()


class Prepared(Plant):
    """A plant that can be prepared, and fails at it."""

    def __init__(self) -> None:
        super().__init__(lambda t: 900.0)
        self.prepared_by: list[str] = []

    def prepare(self) -> None:
        self.prepared_by.append(threading.current_thread().name)
        raise RuntimeError("the allocation does not stop")


def test_an_actuator_is_prepared_beside_the_driver_before_any_operator_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plant = Prepared()
    with Attachment(make_settings(tmp_path), plant, plant, Quick(), list):
        wait_for(lambda: "the allocation does not stop" in caplog.text)
    assert plant.prepared_by == ["scaler"]


def test_nothing_is_prepared_where_nothing_is_enforced(tmp_path: Path) -> None:
    plant, desk = Prepared(), Quick()
    with Attachment(make_settings(tmp_path, enforce=False), plant, plant, desk, lambda: [PARSE]):
        wait_for(lambda: len(desk.told) >= 2)
    assert (plant.prepared_by, plant.asked) == ([], [])


def test_a_fault_that_lasts_is_heard_now_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("scaler.agent.attachment.FIND_OPERATORS_S", 0.001)
    plant, asked = Plant(lambda t: 900.0), []

    def find() -> list[StreamOperator]:
        asked.append(1)
        raise OSError("no JVM")

    settings = make_settings(tmp_path)
    with caplog.at_level(logging.DEBUG, "scaler.agent"), Attachment(settings, plant, plant, Quick(), find):
        wait_for(lambda: len(asked) > 62)
    told = [one for one in caplog.records if one.getMessage() == "operators cannot be looked for"]
    assert [i for i, one in enumerate(told) if one.levelno == logging.WARNING][:3] == [0, 30, 60]
    assert told[0].exc_info is not None
    assert str(told[0].exc_info[1]) == "no JVM"


def test_an_operator_that_is_gone_for_long_is_let_go_and_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.agent.attachment.FIND_OPERATORS_S", 0.01)
    monkeypatch.setattr("scaler.agent.attachment.MAX_ABSENCE_S", 0.1)
    plant, desk, found = Plant(lambda t: 900.0), Quick(), [PARSE, COUNT]
    with Attachment(make_settings(tmp_path), plant, plant, desk, lambda: found) as live:
        wait_for(lambda: set(live.threads) == {"parse", "count"} and len(desk.told) >= 2)
        gone = live.threads["count"]
        found.remove(COUNT)
        wait_for(lambda: set(live.threads) == {"parse"})
        assert not gone.is_alive()
        assert (tmp_path / "count.npz").exists()
        assert set(live.agents) == set(live.stops) == set(live.last_found) == {"parse"}
        found.append(COUNT)
        wait_for(lambda: set(live.threads) == {"parse", "count"})


@pytest.mark.xdist_group("spark")
def test_who_attaches_twice_has_one_attachment(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "o.json").write_text(json.dumps(make_orders("threshold-c", {})["objective"]))

    def attach(app: str) -> Attachment:
        plant = Plant(lambda t: 900.0)
        settings = AttachSettings(nodes=NODES, actuator=plant, folder=tmp_path)
        return scaler.attach(spark, app, orders=tmp_path / "o.json", settings=settings)

    first, other, second = attach("shop"), attach("another"), attach("shop")
    try:
        assert [one.ended.is_set() for one in (first, other, second)] == [True, False, False]
    finally:
        other.detach()
        second.detach()


@pytest.mark.xdist_group("spark")
def test_what_attach_cannot_do_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "o.json").write_text(json.dumps(make_orders("threshold-c", {})["objective"]))

    def attach(enforce: bool = False, **stated: Any) -> None:
        settings = AttachSettings(nodes=NODES, **stated)
        scaler.attach(spark, "shop", orders=tmp_path / "o.json", enforce=enforce, settings=settings)

    with pytest.raises(BadInput, match="name one with folder="):
        attach(folder=tmp_path / "o.json" / "below")
    blind = Command("shop", ["true", "{node_type}", "{replicas}"])
    with pytest.raises(BadInput, match="cannot tell how many replicas there are"):
        attach(enforce=True, actuator=blind, folder=tmp_path)
    blind.close()


def test_an_operator_that_cannot_be_begun_keeps_no_other_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Picky(Plant):
        def watch(self, operator: StreamOperator) -> None:
            if operator.name == "parse" and self.bad:
                raise RuntimeError("its plan is a riddle")

        bad = True

    monkeypatch.setattr("scaler.agent.attachment.FIND_OPERATORS_S", 0.01)
    plant = Picky(lambda t: 900.0)
    with Attachment(make_settings(tmp_path), plant, plant, Quick(), lambda: [PARSE, COUNT]) as live:
        wait_for(lambda: set(live.threads) == {"count"})
        plant.bad = False
        wait_for(lambda: set(live.threads) == {"parse", "count"})
    assert "operator 'parse' cannot be begun" in caplog.text
    assert "its plan is a riddle" in caplog.text


def test_an_office_that_fails_ends_no_operator_and_is_not_asked_without_a_pause(tmp_path: Path) -> None:
    class Closed(Quick):
        asked = 0
        closed = True

        def orders(self) -> Any:
            self.asked += 1
            if self.closed:
                raise OSError("the office is closed")
            return super().orders()

    plant, desk = Plant(lambda t: 900.0), Closed()
    with Attachment(make_settings(tmp_path, slot_s=0.4), plant, plant, desk, lambda: [PARSE]):
        wait_for(lambda: desk.asked >= 1)
        time.sleep(0.5)
        assert desk.asked < 10
        desk.closed = False
        wait_for(lambda: len(desk.told) >= 1)


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"orders": "o.json", "nodes": NODES, "k_max": 0}, "k_max is 0; say 1 or more, or None"),
        ({"orders": "o.json", "nodes": NODES, "slot_s": 0.0}, "slot_s is 0.0, and must be a positive number"),
        ({"orders": "o.json", "nodes": NODES, "slot_s": float("nan")}, "slot_s is nan, and must be a positive"),
        ({"orders": "o.json", "nodes": NODES, "slot_s": float("inf")}, "slot_s is inf, and must be a positive"),
        ({}, "either the address of a manager or the file"),
        ({"url": "http://127.0.0.1:1", "orders": "o.json"}, "give one of them"),
        ({"orders": "o.json", "nodes": NODES, "enforce": True}, "without an actuator"),
        ({"orders": "missing.json", "nodes": NODES}, "missing.json cannot be read"),
        ({"orders": "o.json", "nodes": NODES, "pinned": [PINNED]}, "is pinned to huge, and nodes= leaves that out"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(tmp_path: Path, stated: dict[str, Any], says: str) -> None:
    own = {name: stated.pop(name) for name in ("orders", "url", "enforce", "pinned") if name in stated}
    with pytest.raises(BadInput, match=says):
        scaler.attach(None, "shop", **own, settings=AttachSettings(folder=tmp_path, **stated))


def test_an_objective_in_a_file_is_followed_when_it_changes(tmp_path: Path) -> None:
    file, log = tmp_path / "objective.json", tmp_path / "decisions.jsonl"
    document = make_orders("threshold-c", {})
    file.write_text(json.dumps(document["objective"]))
    office = OrdersFile(file, "shop", 30.0, log)
    first = office.orders()
    assert first is not None
    assert (first.slot_s, first.revision) == (30.0, 0)
    file.write_text("{ not whole")
    assert office.orders() == first
    file.write_text(json.dumps({**document, "revision": 9}))
    later = office.orders()
    assert later is not None
    assert later.revision == 9
    office.report("parse", [{"time": 0.0, "response": float("inf")}])
    assert json.loads(log.read_text()) == {"operator": "parse", "time": 0.0, "response": "Infinity"}


def test_a_file_that_is_no_objective_is_refused(tmp_path: Path) -> None:
    for text, says in (("", "no JSON"), ("[]", "not whole"), ('{"version": 1}', "not whole")):
        (tmp_path / "o.json").write_text(text)
        with pytest.raises(BadInput, match=says):
            OrdersFile(tmp_path / "o.json", "shop", 60.0)
