"""Changes of several replicas and types, carried out in stages on a cluster that brings what it likes and kills."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.acting.actuator import Room
from scaler.agent.decider import Decider
from scaler.agent.pending import ArrivalTimeouts
from scaler.agent.slot_loop import Agent
from scaler.model.decision import Decision
from scaler.model.kernel import Integers, KernelView, Problem, action_towards
from scaler.model.orders import parse_orders
from scaler.model.policy import Kernel, Start
from scaler.policies.rules import static
from tests.live.plant import NODES, SLOT_S, Desk, Plant, make_orders

K_MIN, K_MAX = 2, 5
WHOLE = 9  # replicas, more than ever come or go at a time


class NoState(NamedTuple):
    nothing: int = 0


def wish_by_rate(p: Problem, state: NoState, k: Integers, seen: KernelView) -> int:
    """A rate of 31 asks for three small replicas and a fast one."""
    return int(action_towards(p, k, np.array(divmod(round(seen.rate), 10), dtype=np.int64)))


def learn_nothing(*_: Any) -> None:
    pass


def prepare(start: Start) -> NoState:
    return NoState()


@pytest.fixture(autouse=True, scope="module")
def register() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        kernel = Kernel("Wish by rate", prepare, wish_by_rate, learn_nothing, compiles=False)
        patch.setattr(static, "STATIC", kernel)  # so that an objective can name it
        yield


class Killed(BaseException):
    """The driver is gone."""


class Cluster(Plant):
    """Brings and takes as many replicas a slot as it is told; checks what may be asked of it."""

    def __init__(self, small: int = K_MIN, fast: int = 0) -> None:
        super().__init__(lambda _: self.wish)
        self.wish = 10.0 * small + fast
        self.target = {"small": small, "fast": fast}
        self.serving = dict(self.target)
        self.kill = ""

    def at(self, now: float) -> None:
        self.now = now

    def move(self, comes: Mapping[str, int], goes: int) -> None:
        before = sum(self.serving.values())
        for name, count in self.target.items():
            gap = count - self.serving[name]
            self.serving[name] += max(-goes, min(gap, comes.get(name, WHOLE)))
        assert sum(self.serving.values()) >= min(before, K_MIN)

    def apply(self, operator: str, target: Mapping[str, int]) -> None:
        if self.kill == "before":
            raise Killed
        removes = any(count < self.serving[name] and count < self.target[name] for name, count in target.items())
        if removes:  # nothing goes before all that was ordered serves
            assert all(self.serving[name] >= count for name, count in self.target.items())
        assert sum(target.values()) <= max(K_MAX, sum(self.serving.values()))
        super().apply(operator, target)
        if self.kill == "after":
            raise Killed


def make_agent(plant: Plant, checkpoint: Path | None = None, desk: Desk | None = None, **guards: Any) -> Agent:
    document = make_orders("static", guards)
    document["objective"]["operators"]["parse"] |= {"k_min": K_MIN, "k_max": K_MAX}
    desk = desk or Desk()
    desk.orders_now = parse_orders(document)
    timeouts = ArrivalTimeouts(default=2.5 * SLOT_S, back_off=5 * SLOT_S)
    return Agent(Decider("parse", NODES), plant, plant, desk, timeouts, checkpoint=checkpoint)


class Run:
    """Slots of an agent on a cluster; a killed one is started again on what its checkpoint says."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.slots = cluster, folder, 0
        self.desk = Desk()
        self.agent = self.make()
        self.made: list[Decision] = []

    def make(self) -> Agent:
        return make_agent(self.cluster, self.folder / "parse.npz", self.desk)

    def slot(self, kill: str = "") -> None:
        t, self.cluster.kill = self.slots * SLOT_S, kill
        self.cluster.at(t + SLOT_S)
        self.slots += 1
        try:
            self.made.append(self.agent.slot(t, t + SLOT_S, t + SLOT_S))
        except Killed:
            self.agent = self.make()
        if kill == "end":
            self.agent = self.make()
        self.cluster.kill = ""

    def go(self, slots: int) -> None:
        for _ in range(slots):
            self.slot()
            self.cluster.move({}, WHOLE)


def run(tmp_path: Path, small: int = K_MIN, fast: int = 0) -> Run:
    return Run(Cluster(small, fast), tmp_path)


wishes = st.tuples(st.integers(0, K_MAX), st.integers(0, K_MAX)).filter(lambda w: K_MIN <= sum(w) <= K_MAX)
slots = st.tuples(
    st.none() | wishes,
    st.fixed_dictionaries({"small": st.integers(0, 3), "fast": st.integers(0, 3)}),
    st.integers(0, 3),
    st.sampled_from(["", "", "", "before", "after", "end"]),
)


@settings(max_examples=50, deadline=None)
@given(wishes, st.lists(slots, min_size=1, max_size=14))
def test_any_story_keeps_the_order_and_ends_as_wished(
    first: tuple[int, int], story: list[tuple[tuple[int, int] | None, dict[str, int], int, str]]
) -> None:
    """`Cluster` checks every order, whatever comes, goes or is killed; in the end the ledger is the cluster."""
    with tempfile.TemporaryDirectory() as folder:
        one = Run(Cluster(*first), Path(folder))
        for wish, comes, goes, kill in story:
            if wish is not None:
                one.cluster.wish = 10.0 * wish[0] + wish[1]
            one.slot(kill)
            one.cluster.move(comes, goes)
        one.go(40)
        wished = dict(zip(("small", "fast"), divmod(round(one.cluster.wish), 10), strict=True))
        assert one.cluster.serving == one.cluster.target == wished
        assert one.agent.pending.rest == {}
        assert one.agent.opened == ()
        assert one.agent.pending.target in ({}, wished)


def test_what_is_added_serves_before_anything_goes(tmp_path: Path) -> None:
    one = run(tmp_path, 2, 1)
    one.cluster.wish = 40.0
    one.slot()
    assert one.made[0].action == "+2 small, -1 fast"
    assert one.cluster.asked == [{"small": 4, "fast": 1}]
    one.cluster.move({"small": 1}, WHOLE)
    one.slot()
    assert len(one.cluster.asked) == 1
    assert "pending (4 on small, now 3, 0 on fast, now 1)" in one.made[1].reason
    one.cluster.move({"small": 1}, WHOLE)
    one.slot()
    assert one.cluster.asked[1:] == [{"small": 4, "fast": 0}]
    one.go(2)
    assert [decision.kind for decision in one.made] == ["SCALED", *["NO_CHANGE"] * 4]
    assert one.agent.opened == ()


def test_operator_at_its_limit_exchanges_some_at_a_time(tmp_path: Path) -> None:
    one = run(tmp_path, 5, 0)
    one.cluster.wish = 5.0
    one.go(12)
    totals = [sum(target.values()) for target in one.cluster.asked]
    assert set(totals) == {K_MAX}
    assert [target["fast"] for target in one.cluster.asked] == [1, 2, 3, 4, 5]
    assert one.cluster.serving == {"small": 0, "fast": 5}


def test_nothing_goes_for_a_replacement_that_never_came(tmp_path: Path) -> None:
    """Two of three came: the third is given back, the removal given up, and both said of the decision."""
    one = run(tmp_path, 2, 0)
    one.cluster.wish = 3.0
    one.slot()
    assert one.made[0].action == "-2 small, +3 fast"
    one.cluster.move({"fast": 2}, WHOLE)
    for _ in range(4):
        one.slot()
        one.cluster.move({"fast": 0}, WHOLE)
    assert one.cluster.serving == {"small": 2, "fast": 2}
    told = one.desk.told[0.0]
    assert (told["kind"], told["action"]) == ("SCALED", "+2 fast")
    assert "adding 2 replicas on fast was done: 1 fast did not come" in told["reason"]
    assert "-2 small was given up with it" in told["reason"]
    assert told["objections"][-1]["code"] == "not_actuated"
    assert one.agent.decider.memory.failed.keys() == {(1, True)}  # removing was never tried


def test_as_many_as_there_is_room_for_are_ordered_and_said(tmp_path: Path) -> None:
    one = run(tmp_path, 2, 0)
    one.cluster.room = lambda more: Room({name: min(n, 1) for name, n in more.items()}, "one worker is left")
    one.cluster.wish = 3.0
    one.slot()
    assert one.cluster.asked == [{"small": 2, "fast": 1}]
    assert (one.made[0].kind, one.made[0].action) == ("SCALED", "+1 fast")
    assert one.made[0].proposed == {"small": -2, "fast": 3}
    assert "adding a replica on fast was done: one worker is left" in one.made[0].reason
    one.cluster.move({}, WHOLE)
    one.slot()
    assert one.made[1].code == "failed_lately"


def test_change_under_way_is_gone_on_with_on_an_empty_cluster(tmp_path: Path) -> None:
    """A driver that starts again on new machines orders the goal at once: nothing serves that would have to stay."""
    one = run(tmp_path, 2, 1)
    one.cluster.wish = 40.0
    one.slot("after")
    one.cluster.asked.clear()
    one.cluster.serving = dict.fromkeys(one.cluster.serving, 0)
    one.go(3)
    assert one.cluster.asked == [{"small": 4, "fast": 0}]
    assert [decision.kind for decision in one.made] == ["HELD", "NO_CHANGE", "NO_CHANGE"]


def test_change_under_way_is_gone_on_with_where_replicas_still_serve(tmp_path: Path) -> None:
    one = run(tmp_path, 2, 1)
    one.cluster.wish = 40.0
    one.slot("before")
    assert one.cluster.asked == []
    one.go(4)
    assert one.cluster.asked == [{"small": 4, "fast": 1}, {"small": 4, "fast": 0}]
    assert {decision.kind for decision in one.made} == {"NO_CHANGE"}
    assert one.agent.decider.memory.history.changes == (0.0,)


@pytest.mark.parametrize("guard", [{"pin": {}}, {"direction_lock": {"only": "out"}}, {"dry_run": True}])
def test_guard_set_in_between_stops_what_is_still_to_go(tmp_path: Path, guard: dict[str, Any]) -> None:
    one = run(tmp_path, 2, 1)
    one.cluster.wish = 40.0
    one.slot()
    one.cluster.move({}, WHOLE)
    document = make_orders("static", guard)
    document["objective"]["operators"]["parse"] |= {"k_min": K_MIN, "k_max": K_MAX}
    one.desk.orders_now = parse_orders(document)
    one.go(3)
    assert one.cluster.serving == {"small": 4, "fast": 1}
    told = one.desk.told[0.0]
    assert told["action"] == "+2 small"
    assert f"-1 fast was given up: {next(iter(guard))}: " in told["reason"]


def test_guards_on_the_time_of_changes_let_a_change_be_finished(tmp_path: Path) -> None:
    guards = {"cooldown": {"out_s": 0, "in_s": 3600}, "flap_budget": {"changes": 1}, "stabilisation": {"in_s": 0}}
    cluster = Cluster(2, 1)
    agent = make_agent(cluster, **guards)
    cluster.wish = 40.0
    for t in range(3):
        cluster.at((t + 1) * SLOT_S)
        agent.slot(t * SLOT_S, (t + 1) * SLOT_S, (t + 1) * SLOT_S)
        cluster.move({}, WHOLE)
    assert cluster.serving == {"small": 4, "fast": 0}


def test_limits_without_a_replica_to_spare_refuse_an_exchange(tmp_path: Path) -> None:
    one = run(tmp_path, 3, 0)
    one.agent = make_agent(one.cluster, bounds={"min": 3, "max": 3})
    one.cluster.wish = 21.0
    one.slot()
    assert one.made[0].kind == "ACTUATION_FAILED"
    assert "from 3 to 3 replicas are allowed, and none is to spare" in one.made[0].reason
    assert one.cluster.asked == []


def test_first_replicas_are_the_least(tmp_path: Path) -> None:
    one = run(tmp_path, 0, 0)
    one.slot()
    assert one.cluster.asked == [{"small": K_MIN, "fast": 0}]
