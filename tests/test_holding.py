"""Holds of reconfigurations in the plants against their formulas and a fluid in two queues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scaler.model.hold import HoldTime, HoldTimes
from scaler.model.kernel import action_of, lay_out, two_slowest
from scaler.model.micro_batches import MicroBatches
from scaler.model.nodes import Supply
from scaler.model.task import Moments
from sim.application import Application, Operator
from sim.batch_course import END, fresh_batch_plant
from sim.batch_plant import batch_queue, change_batches, serve_batches
from sim.compiler import compile_kernel
from sim.hold_law import HoldLaw
from sim.holding import HELD_S, MOVED, PEAK, hold_left, hold_with_others
from sim.infrastructure import find_infrastructure
from sim.migration import STRATEGIES, Change, Migration, lay_out_hold, price_change
from sim.plant import backlog
from sim.replicas import Inertia, disturb, fresh_plant
from sim.setting import Setting
from sim.simulate import simulate
from sim.trace import Trace
from tests.examples import make_rates, make_task
from tests.oracles.fluid import hold_in_two_queues

TASK = make_task(types=1, k_max=9)
P = lay_out(TASK)
MEAN = TASK.moments.mean
RATE = 1.4 / MEAN
SLOT = 600.0
CHANGES = [(2, 3), (3, 2), (2, 5), (5, 2)]
STATE = Migration("pause", state_bytes=900e6, partitions=48, network_rate=50e6, step_s=0.4, bins=10, at_once=4)


def list_steps(move: Migration, change: Change) -> list[tuple[float, float]]:
    """Seconds and share of each step, bin by bin."""
    cost = price_change(move, change)
    if move.kind not in ("at-once", "progressive"):
        return [(cost.hold_s, cost.held)]
    sending = (cost.hold_s - move.step_s) / cost.at_once
    parts = [min(cost.at_once, move.bins - first) for first in range(0, move.bins, cost.at_once)]
    return [(move.step_s + bins * sending, cost.held * bins / cost.at_once) for bins in parts]


def change_plant(law: HoldLaw, before: int, after: int, start_s: float = 0.0) -> Any:
    """A plant after a slot without load worth mentioning and a change."""
    k = np.array([before])
    plant = fresh_plant(P, k, Inertia(SLOT, 5.0, start_s), law)
    backlog(P, plant, k, before, 0, RATE)
    disturb(P, plant, k, action_of(P, k, 0, after - before))
    return plant


@pytest.mark.parametrize(("before", "after"), CHANGES)
@pytest.mark.parametrize("kind", STRATEGIES)
def test_plant_holds_what_formulas_say(kind: str, before: int, after: int) -> None:
    move = replace(STATE, kind=kind)
    change = Change(before, after, RATE, 1.0 / MEAN, 1.0)
    steps = list_steps(move, change)
    start_s = 7.0 if after > before and kind != "stop" else 0.0
    plant = change_plant(lay_out_hold(move), before, after, start_s)
    _, response, output = backlog(P, plant, np.array([after]), after, 0, RATE)
    cost = price_change(move, change)
    assert plant.hold.sums[HELD_S] == pytest.approx(sum(lasts * share for lasts, share in steps))
    assert plant.hold.sums[MOVED] == pytest.approx(cost.moved_bytes)
    assert plant.hold.sums[PEAK] == pytest.approx(cost.peak_bytes)
    area = hold_in_two_queues(RATE, after / MEAN, steps, start_s, SLOT)
    idle = fresh_plant(P, np.array([after]), Inertia(SLOT, 5.0, 0.0))
    steady = backlog(P, idle, np.array([after]), after, 0, RATE)[1]
    assert (response - steady) * output * SLOT == pytest.approx(area, rel=0.01)
    assert output == pytest.approx(RATE)


def test_stop_that_follows_a_stop_holds_the_others_until_its_end() -> None:
    law = lay_out_hold(replace(STATE, kind="stop"))
    plant, other = change_plant(law, 2, 3), change_plant(law, 3, 3)
    stopped = plant.hold.pause[0]
    disturb(P, plant, np.array([3]), action_of(P, np.array([3]), 0, 2))
    second = price_change(replace(STATE, kind="stop"), Change(3, 5, RATE, 1.0 / MEAN, 1.0)).hold_s
    assert hold_left(plant.hold) == pytest.approx(stopped + second)
    for held in (plant.hold, other.hold):
        hold_with_others(held, hold_left(plant.hold))
        assert hold_left(held) == pytest.approx(stopped + second)


def test_a_replica_that_is_taken_away_costs_what_its_replacement_does() -> None:
    spot = Supply(lost_per_hour=1e9)  # every replica, every slot
    law = lay_out_hold(Migration(), measured=HoldTimes(HoldTime(3.0)))
    plant = fresh_plant(P, np.array([2]), Inertia(SLOT, 5.0, 20.0), law, [spot])
    _, response, _ = backlog(P, plant, np.array([2]), 2, 0, RATE)
    assert plant.hold.sums[HELD_S] == 3.0
    area = hold_in_two_queues(RATE, 2.0 / MEAN, [(23.0, 1.0)], 0.0, SLOT)  # 20 s without replicas, and 3 s held
    calm = fresh_plant(P, np.array([2]), Inertia(SLOT, 5.0, 20.0))
    steady = backlog(P, calm, np.array([2]), 2, 0, RATE)[1]
    assert (response - steady) * RATE * SLOT == pytest.approx(area, rel=0.01)


def test_held_keys_wait_while_others_are_served() -> None:
    """Where all keys wait a slot puts nothing out; where a third waits, two thirds come out."""
    move = replace(STATE, kind="at-once", state_bytes=900e9, at_once=0)
    for kind, share in (("at-once", 1.0 / 3.0), ("pause", 1.0)):
        plant = change_plant(lay_out_hold(replace(move, kind=kind)), 2, 3)
        _, _, output = backlog(P, plant, np.array([3]), 3, 0, RATE)
        assert output == pytest.approx((1.0 - share) * RATE)
        assert plant.queue[0] == pytest.approx(share * RATE * SLOT)


def test_interference_slows_the_replicas_that_serve() -> None:
    move = replace(STATE, kind="at-once", state_bytes=900e9, at_once=0, interference=0.75)
    plant = change_plant(lay_out_hold(move), 2, 3)
    assert backlog(P, plant, np.array([3]), 3, 0, RATE)[2] == pytest.approx(0.25 * 3 / MEAN)


def test_second_change_follows_the_first() -> None:
    move = replace(STATE, kind="progressive")
    plant = change_plant(lay_out_hold(move), 2, 3)
    first = sum(lasts for lasts, _ in list_steps(move, Change(2, 3, RATE, 1.0 / MEAN, 1.0)))
    disturb(P, plant, np.array([3]), action_of(P, np.array([3]), 0, 1))
    second = sum(lasts for lasts, _ in list_steps(move, Change(3, 4, RATE, 1.0 / MEAN, 1.0)))
    held = 0.0
    while plant.hold.pause[0] > 0.0:
        held += 0.01
        plant = plant._replace(slot_s=0.01)
        backlog(P, plant, np.array([4]), 4, 0, RATE)
    assert held == pytest.approx(first + second, abs=0.02)


def test_measured_hold_stands_for_constant_and_model() -> None:
    """Of a direction that was not measured the model's, or the constant where there is none."""
    measured = HoldTimes(out=HoldTime(3.0, 2.0, 5))
    for move, otherwise in ((Migration(), 5.0), (replace(STATE, kind="spark"), None)):
        law = lay_out_hold(move, measured=measured)
        assert change_plant(law, 2, 5).hold.sums[HELD_S] == 9.0
        model = otherwise or price_change(move, Change(5, 2, RATE, 1.0 / MEAN, 1.0)).hold_s
        assert change_plant(law, 5, 2).hold.sums[HELD_S] == pytest.approx(model)
    stop = replace(STATE, kind="stop")
    expected = price_change(stop, Change(2, 5, RATE, 1.0 / MEAN, 1.0)).hold_s
    assert change_plant(lay_out_hold(stop, measured=measured), 2, 5).hold.sums[HELD_S] == pytest.approx(expected)


def test_state_grows_with_the_tuples_served() -> None:
    move = replace(STATE, kind="pause", state_bytes=0.0)
    grown = price_change(replace(move, state_bytes=8.0 * RATE * SLOT), Change(2, 3, RATE, 1.0 / MEAN, 1.0))
    assert change_plant(lay_out_hold(move, growth=8.0), 2, 3).hold.sums[HELD_S] == pytest.approx(grown.hold_s)


def test_replaced_replicas_move_their_state() -> None:
    task = make_task(types=2, k_max=4)
    p, k = lay_out(task), np.array([2, 1])
    plant = fresh_plant(p, k, Inertia(SLOT, 5.0, 0.0), lay_out_hold(replace(STATE, kind="pause")))
    disturb(p, plant, k, -1 - int(k @ p.radix - p.radix[0] + p.radix[1]))
    assert plant.hold.sums[MOVED] == pytest.approx(STATE.state_bytes / 3.0)


@pytest.mark.parametrize("kind", ["spark", "progressive", "stop"])
@pytest.mark.parametrize("start_s", [0.0, 130.0])
def test_batches_owe_the_hold(kind: str, start_s: float) -> None:
    """The batch after a change lasts longer by Spark's loads; of steps each batch owes one.

    Where replicas come during a batch the two others go on with it while Spark's newcomer loads.
    """
    move = replace(STATE, kind=kind, state_bytes=100e6)
    batches = MicroBatches(60.0, 0.5, 1.0)  # one batch a slot: the slot's batch ratio is its duration
    change = Change(2, 3, 0.5 * RATE, 1.0 / MEAN, 1.0)
    lasting = []
    for law in (lay_out_hold(move), lay_out_hold(Migration("spark"))):
        k = np.array([2])
        plant = fresh_batch_plant(P, k, Inertia(60.0, 5.0, start_s), batches, 7, law)
        total = 0.0
        for slot in range(10):
            serve_batches(P, plant, k, int(k[0]), two_slowest(P, k)[0], 0.5 * RATE)
            total += batch_queue(plant)[2] * 60.0
            if slot == 1:
                change_batches(P, plant, k, action_of(P, k, 0, 1))
                k[0] = 3
        lasting.append(total)
    owed = sum(lasts for lasts, _ in list_steps(move, change))
    assert lasting[0] - lasting[1] == pytest.approx(owed / 3.0 if kind == "spark" and start_s > 0.0 else owed, abs=1e-6)


@pytest.mark.parametrize("added", [1, 3])
@pytest.mark.parametrize("hold_s", [0.0, 2.0, 5.0])
@pytest.mark.parametrize("start_s", [0.5, 10.0, 13.0, 40.0])
def test_batch_in_which_replicas_come_goes_on_without_them_while_their_first_tasks_run(
    start_s: float, hold_s: float, added: int
) -> None:
    """It has 16 s to go on two replicas, and waits for those tasks; what comes after its end holds the next one."""
    law = lay_out_hold(Migration(), measured=HoldTimes(HoldTime(hold_s, 0.0, 3), None, None))
    k, batches = np.array([2]), MicroBatches(90.0, 1.0)
    plant = fresh_batch_plant(P, k, Inertia(60.0, 0.0, start_s), batches, 7, law)
    for _ in range(2):
        serve_batches(P, plant, k, 2, 0, 1.0 / MEAN)
    assert plant.clock[END] == pytest.approx(16.0)
    change_batches(P, plant, k, action_of(P, k, 0, added))
    now, left, step = 0.0, 32.0, 1e-3  # replica-seconds of work
    while left > 1e-9:
        left -= step * (2 if now < start_s + hold_s else 2 + added)
        now += step
    ends = max(now, start_s + hold_s) if start_s < 16.0 else now
    assert plant.clock[END] == pytest.approx(ends, abs=0.01)


@pytest.mark.parametrize("merge", [True, False])
def test_migrations_that_stop_a_batch_and_dstreams_add_their_hold_to_it(merge: bool) -> None:
    ends = []
    for hold_s in (0.0, 5.0):
        law = lay_out_hold(replace(STATE, kind="at-once"))._replace(step_s=hold_s, state_bytes=0.0)
        if not merge:
            law = lay_out_hold(Migration(), measured=HoldTimes(HoldTime(hold_s, 0.0, 3), None, None))
        k, batches = np.array([2]), MicroBatches(90.0, 1.0, merge=merge)
        plant = fresh_batch_plant(P, k, Inertia(60.0, 0.0, 10.0), batches, 7, law)
        for _ in range(2):
            serve_batches(P, plant, k, 2, 0, 1.0 / MEAN)
        change_batches(P, plant, k, action_of(P, k, 0, 1))
        ends.append(float(plant.clock[END]))
    assert ends[1] - ends[0] == pytest.approx(5.0)


def test_spark_hold_in_micro_batches_is_its_formula() -> None:
    """E = ceil(P / (k + 1)) l out, ceil(P / (k (k - 1))) l in, one replica at a time."""
    law = lay_out_hold(Migration("spark", 1e9, 48, read_rate=1e8, open_s=0.3, changelogs=10, changelog_s=0.02))
    load_s = 0.3 + 0.2 + 1e9 / (48 * 1e8)
    for k in (2, 3, 5):
        assert change_plant(law, k, k + 1).hold.sums[HELD_S] == pytest.approx(-(-48 // (k + 1)) * load_s)
        assert change_plant(law, k, k - 1).hold.sums[HELD_S] == pytest.approx(-(-48 // (k * (k - 1))) * load_s)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_run_tells_what_migrations_held(kind: str) -> None:
    operator = Operator("count", Moments(0.01, 1e-4), 6, stateful=True, state_bytes=2e9, partitions=48)
    trace = Trace(make_rates(150) * 0.5, name="t")
    move = Migration(kind, step_s=0.2)
    setting = Setting(
        Application((operator,)),
        find_infrastructure("A", 1),
        trace,
        "threshold-c",
        0.5,
        plant="backlog",
        migration=move,
    )
    run = simulate(setting)
    changes = run.reconfigurations * run.slots
    assert changes > 5.0
    assert run.held_seconds > 0.1 * changes
    assert 0.0 < run.moved_bytes <= 2.0 * 2e9 * changes
    assert (run.peak_extra_bytes > 0.0) == (kind != "stop")
    idle = simulate(replace(setting, migration=Migration(), inertia=Inertia(pause_s=3.0)))
    assert idle.held_seconds == pytest.approx(3.0 * idle.reconfigurations * idle.slots)
    assert idle.moved_bytes == 0.0


@pytest.mark.slow
def test_compiled_migration_equals_interpreted() -> None:
    serve, change = compile_kernel(backlog), compile_kernel(disturb)
    for kind in STRATEGIES:
        plants = [
            fresh_plant(P, np.array([2]), Inertia(20.0, 5.0, 3.0), lay_out_hold(replace(STATE, kind=kind), 20.0))
            for _ in range(2)
        ]
        k, answers = np.array([2]), []
        for plant, one, other in zip(plants, (backlog, serve), (disturb, change), strict=True):
            k[0] = 2
            for more in (1, 0, -1, 3, -2, 0, 0):
                answers.append(one(P, plant, k, int(k[0]), 0, RATE))
                if more:
                    other(P, plant, k, action_of(P, k, 0, more))
                    k[0] += more
        assert plants[0].hold.sums[HELD_S] > 0.0
        np.testing.assert_allclose(plants[1].hold.sums, plants[0].hold.sums, rtol=1e-12)
        np.testing.assert_allclose(answers[7:], answers[:7], rtol=1e-9)
