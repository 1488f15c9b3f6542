"""Replays in lockstep: as one by one where nothing is shared, and within the supply where it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model.errors import BadInput
from scaler.model.kernel import action_towards, delta_of, lay_out, within_supply
from scaler.model.micro_batches import MicroBatches
from scaler.model.nodes import NodeType, Supply, parse_node_type
from scaler.model.task import Moments
from scaler.policies import find_policy
from sim.application import Application, Edge, Operator
from sim.infrastructure import Infrastructure, describe_nodes, find_infrastructure, parse_infrastructure, price_slots
from sim.lockstep import LockstepReplay
from sim.migration import Migration
from sim.replicas import Inertia, fresh_plant, lose_replicas, pass_time
from sim.setting import Setting
from sim.simulate import Run, simulate
from sim.trace import Trace
from tests.examples import make_rates, make_task

CHAIN = Application(
    operators=(
        Operator("split", Moments(1 / 400, (1 / 400) ** 2), 4, selectivity=1.5),
        Operator("left", Moments(1 / 300, (1 / 300) ** 2 / 2), 4),
        Operator("right", Moments(1 / 200, (1 / 200) ** 2 / 2), 4),
    ),
    edges=(Edge("split", "left", 0.5), Edge("split", "right", 0.3)),
)


def make_setting(policy: str, plant: str = "memoryless", slots: int = 250, **changes: object) -> Setting:
    application = CHAIN
    if plant == "batches":
        batches = MicroBatches(trigger_s=10.0, overhead_s=1.0)
        application = replace(CHAIN, operators=tuple(replace(o, batches=batches) for o in CHAIN.operators))
    fields = {
        "application": application,
        "infrastructure": find_infrastructure("A", 2),
        "trace": Trace(make_rates(slots, 2)),
        "policy": policy,
        "r_max": 0.08 if plant == "memoryless" else 40.0,
        "plant": plant,
        "levels": 12,
    }
    return Setting(**(fields | changes))  # type: ignore[arg-type]


def limit(setting: Setting, *capacities: int) -> Setting:
    """The setting with so many replicas of each node type."""
    types = setting.infrastructure.types
    limited = tuple(replace(t, supply=Supply(capacity=c)) for t, c in zip(types, capacities, strict=True))
    return replace(setting, infrastructure=replace(setting.infrastructure, types=limited))


def same(one: Run, other: Run) -> bool:
    assert one.timeline is not None
    assert other.timeline is not None
    assert one.cost == pytest.approx(other.cost, rel=1e-12)
    assert np.array_equal(one.replicas, other.replicas)
    assert np.array_equal(one.timeline.responses, other.timeline.responses)
    return np.array_equal(one.timeline.actions, other.timeline.actions)


def interpret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have replays in lockstep run as plain Python."""
    made = LockstepReplay.__init__

    def start(self: LockstepReplay, *arguments: object) -> None:
        made(self, *arguments)  # type: ignore[arg-type]
        self.compiles = False

    monkeypatch.setattr(LockstepReplay, "__init__", start)


@pytest.mark.parametrize("plant", ["memoryless", "backlog", "batches"])
def test_what_nobody_can_use_up_is_replayed_as_one_by_one(plant: str) -> None:
    setting = make_setting("threshold-c", plant)
    assert same(simulate(setting, record=True), simulate(limit(setting, 99, 99), record=True))


@pytest.mark.parametrize("policy", ["ql-pds-plus", "planner"])
def test_learners_are_replayed_as_one_by_one(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interpret(monkeypatch)  # compiling these together takes half a minute
    setting = make_setting(policy)
    assert same(simulate(setting, record=True), simulate(limit(setting, 99, 99), record=True))


def test_compiled_and_interpreted_share_out_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = limit(make_setting("threshold-c", "backlog"), 4, 3)
    compiled = simulate(setting, record=True)
    interpret(monkeypatch)
    assert same(simulate(setting, record=True), compiled)


def test_operators_that_differ_in_kind_are_replayed_together() -> None:
    setting = make_setting("threshold-c", "batches")
    first, *rest = setting.application.operators
    mixed = replace(setting.application, operators=(replace(first, batches=None), *rest))
    setting = replace(setting, application=mixed)
    assert same(simulate(setting, record=True), simulate(limit(setting, 99, 99), record=True))


@settings(max_examples=10, deadline=None)
@given(st.integers(3, 8), st.integers(1, 4), st.sampled_from(["threshold-c", "ds2-graph-c"]), st.booleans())
def test_nobody_has_what_there_is_not(slow: int, fast: int, policy: str, one_at_a_time: bool) -> None:
    setting = limit(make_setting(policy, "backlog", 80, one_at_a_time=one_at_a_time), slow, fast)
    timeline = simulate(setting, record=True).timeline
    assert timeline is not None
    used = sum(timeline.replicas(o) for o in range(3))
    assert (used <= [slow, fast]).all()
    assert all((timeline.replicas(o).sum(axis=1) >= 1).all() for o in range(3))


def test_the_last_replica_goes_where_it_is_worth_most() -> None:
    """Both ask in the same slot; the right operator is much later than the left one."""
    operators = tuple(Operator(name, Moments(1 / rate, 0.0), 2) for name, rate in (("left", 100.0), ("right", 40.0)))
    nodes = (NodeType("a", 1.0, 1.0, Supply(capacity=3)),)
    setting = Setting(
        Application(operators, sources={"left": 1.0, "right": 1.0}),
        Infrastructure("one", nodes, 1.0),
        Trace(np.full(6, 95.0)),
        "threshold-c",
        1.0,
        plant="backlog",
    )
    run = simulate(setting, record=True)
    assert run.timeline is not None
    assert [int(run.timeline.replicas(o)[-1, 0]) for o in range(2)] == [1, 2]
    assert run.refused is not None
    assert run.refused[0] > 0.0 == run.refused[1]
    swapped = replace(setting, application=replace(setting.application, operators=operators[::-1]))
    again = simulate(swapped, record=True).timeline
    assert again is not None
    assert [int(again.replicas(o)[-1, 0]) for o in range(2)] == [2, 1]


@pytest.mark.parametrize("policy", ["ds2-graph-c", "drs-graph-c"])
def test_a_coordinator_sizes_a_chain_of_three_in_one_slot(policy: str) -> None:
    """A step of the load to ten times as much: every operator has what it needs two slots later."""
    rates = np.full(30, 60.0)
    rates[15:] = 600.0
    operators = tuple(Operator(str(i), Moments(1 / rate, 0.0), 12) for i, rate in enumerate((120.0, 90.0, 150.0)))
    chain = Application(operators, (Edge("0", "1"), Edge("1", "2")))
    setting = make_setting(policy, "backlog", application=chain, trace=Trace(rates), inertia=Inertia(60.0, 0.0, 0.0))
    timeline = simulate(setting, record=True).timeline
    assert timeline is not None
    moved = np.flatnonzero((timeline.actions != 0).any(axis=0))
    assert (timeline.actions[:, moved[moved >= 15][0]] != 0).all()
    assert [int(timeline.replicas(o)[17].sum()) >= 600 / rate for o, rate in enumerate((120, 90, 150))] == [True] * 3


@pytest.mark.parametrize("plant", ["backlog", "batches"])
def test_stop_and_restart_stops_all(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first operator alone ever changes; the second waits as long."""
    setting = make_setting("threshold-c", plant, migration=Migration("stop"))
    first, second, _ = setting.application.operators
    states = [replace(o, state_bytes=2e9, partitions=8) for o in (first, replace(second, k_max=1))]
    pair = Application(tuple(states), (Edge("split", "left", 0.01),))
    rates = np.full(60, 100.0)
    rates[30:] = 700.0
    setting = replace(setting, application=pair, trace=Trace(rates))
    line = simulate(setting, record=True).timeline
    assert line is not None
    (moved,) = np.flatnonzero(line.actions[0, 30:35])[:1] + 30
    assert not line.actions[1].any()
    assert line.responses[1, moved + 1] > 2.0 * line.responses[1, 20]
    apart = simulate(replace(setting, migration=Migration("pause")), record=True).timeline
    assert apart is not None
    assert apart.responses[1, moved + 1] == pytest.approx(line.responses[1, 20], rel=0.2)
    interpret(monkeypatch)
    again = simulate(setting, record=True).timeline
    assert again is not None
    assert np.array_equal(again.responses, line.responses)


def test_coordinators_run_in_replays_alone() -> None:
    with pytest.raises(BadInput, match="'ds2-graph-c' decides for all operators at once, and runs in replays alone"):
        find_policy("ds2-graph-c")


def test_less_is_removed_where_less_can_be_added() -> None:
    p = lay_out(make_task(types=3, k_max=6, one_at_a_time=False))
    k, wanted = np.array([3, 0, 1]), np.array([0, 2, 3])
    p.most[:] = [6, 1, 2]
    action = within_supply(p, k, int(action_towards(p, k, wanted)))
    assert [int(delta_of(p, k, action, i)) for i in range(3)] == [-1, 1, 1]
    p.most[:] = [6, 0, 1]
    assert within_supply(p, k, int(action_towards(p, k, wanted))) == 0


def test_prices_over_time_are_charged_slot_by_slot() -> None:
    tables = [
        {"name": "a", "speedup": 1.0, "price": 2.0},
        {"name": "b", "speedup": 1.0, "price": 1.0, "prices": [3, 5]},
    ]
    nodes = parse_infrastructure({"name": "two", "node": tables})
    trace = Trace(np.full(240, 20.0), start=datetime(2026, 1, 5, 1, tzinfo=UTC))  # a Monday, at one
    assert price_slots(nodes, trace)[[0, 59, 60, 120]].tolist() == [[2.0, 5.0], [2.0, 5.0], [2.0, 3.0], [2.0, 5.0]]
    setting = make_setting("static", infrastructure=nodes, trace=trace, first={"b": 1})
    assert simulate(setting).resources == pytest.approx(3 * (3.0 + 5.0) / 2)


def test_prices_of_a_file_begin_when_it_says(tmp_path: Path) -> None:
    (tmp_path / "spot.csv").write_text("time,rate\n2026-01-05T00:00:00Z,0.5\n2026-01-05T00:30:00Z,0.25\n")
    table = {"name": "a", "speedup": 1.0, "price": 1.0, "prices": "spot.csv"}
    nodes = parse_infrastructure({"name": "one", "node": [table]}, tmp_path)
    trace = Trace(np.ones(90), start=datetime(2026, 1, 5, 0, 29, tzinfo=UTC))
    assert price_slots(nodes, trace)[[0, 1, 31], 0].tolist() == [0.5, 0.25, 0.5]
    (kept,) = describe_nodes(nodes)
    again = parse_infrastructure({"name": "one", "node": [kept]})
    assert np.array_equal(price_slots(again, trace), price_slots(nodes, trace))


def test_replicas_are_taken_away_as_often_as_stated_and_start_anew() -> None:
    task = make_task(types=2, k_max=8)
    p, k = lay_out(task), np.array([4, 4])
    plant = fresh_plant(p, k, Inertia(60.0, 0.0, 30.0), supplies=[Supply(lost_per_hour=6.0), Supply()], seed=3)
    lost, slots = 0, 1500
    for _ in range(slots):
        lose_replicas(p, plant)
        assert plant.serving[1] == 4
        assert plant.serving[0] + plant.booting[0] == 4
        lost += plant.booting[0]
        pass_time(plant, 60.0)
        assert plant.serving[0] == 4
    chance = 1.0 - np.exp(-0.1)
    deviation = np.sqrt(4 * slots * chance * (1.0 - chance))
    assert abs(lost - 4 * slots * chance) < 3.0 * deviation


def test_start_ups_are_drawn_from_those_stated() -> None:
    setting = make_setting("threshold-c", "backlog", 300, r_max=0.05, inertia=Inertia(60.0, 0.0, 0.0))
    types = setting.infrastructure.types

    def violations(*seconds: float) -> float:
        slow = tuple(replace(t, supply=Supply(start_s=seconds)) for t in types)
        return simulate(replace(setting, infrastructure=replace(setting.infrastructure, types=slow))).violations

    assert violations(0.0) < violations(0.0, 600.0) < violations(600.0)
    assert violations(30.0, 30.0) == violations(30.0)


@pytest.mark.parametrize("plant", ["backlog", "batches"])
def test_where_all_are_taken_away_it_waits_for_the_next(plant: str) -> None:
    setting = make_setting("static", plant, 400, trace=Trace(np.full(400, 50.0)), inertia=Inertia(60.0, 0.0, 90.0))
    types = setting.infrastructure.types
    spot = tuple(replace(t, supply=Supply(lost_per_hour=2.0)) for t in types)
    often = replace(setting, infrastructure=replace(setting.infrastructure, types=spot))
    calm, taken = simulate(setting, record=True), simulate(often, record=True)
    assert calm.violations < taken.violations < 1.0
    assert taken.timeline is not None
    assert not np.isnan(taken.timeline.responses).any()


def test_what_is_stated_of_the_supply_travels_with_the_orders() -> None:
    node = NodeType("spot", 1.0, 0.3, Supply(8, 0.5, (10.0, 40.0)))
    assert parse_node_type(node.to_json()) == node
    assert NodeType("firm", 1.0, 1.0).to_json() == {"name": "firm", "speedup": 1.0, "price": 1.0}


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"capacity": 0}, "node 'a': the capacity is 0, and must be at least 1; leave it out where it has no end"),
        ({"lost_per_hour": -1.0}, "node 'a': lost_per_hour is -1.0, and must be 0 or more"),
        ({"start_s": [5.0, -2.0]}, "node 'a': start_s is [5.0, -2.0], and must be seconds, 0 or more"),
        ({"prices": [1.0, 0.0]}, "node 'a': a price is 0, and each must be positive"),
        ({"prices": []}, "node 'a': prices is empty; state one price an hour, or a trace's file"),
        ({"start_s": []}, "node 'a': start_s is empty; state seconds, or leave it out where the run says how long"),
        ({"prices": 3}, "node 'a': prices is 3, and must be a list of prices, one an hour, or a trace's file"),
    ],
)
def test_impossible_supplies_are_one_sentence(stated: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_infrastructure({"name": "x", "node": [{"name": "a", "speedup": 1.0, "price": 1.0, **stated}]})
    assert str(caught.value).endswith(says)


def test_operators_must_begin_within_the_supply() -> None:
    with pytest.raises(BadInput, match="start with 3 replicas on 'A1', and its capacity is 2"):
        limit(make_setting("static"), 2, 9)
    types = (NodeType("a", 1.0, 1.0, Supply(start_s=(5.0,))),)
    with pytest.raises(BadInput, match="the plant memoryless knows no time"):
        make_setting("static", infrastructure=Infrastructure("one", types, 1.0))
