"""The compiled loop and its policies against plain twins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from scaler.model.kernel import lay_out
from scaler.model.policy import build_policy
from scaler.model.task import Task
from scaler.policies import find_policy
from sim.interpreted import walk
from sim.plant import Inertia, fresh_plant
from sim.replay import RECONFIGURATIONS, RESOURCES, SLOTS, VIOLATIONS, Record, fresh_baton, loop_for
from tests.examples import make_rates, make_task
from tests.oracles.learners import PostDecision, QLearning
from tests.oracles.slots import Controller, Slot, replay

SLOTS_RUN = 3000


def compiled(task: Task, name: str, rates: np.ndarray, seed: int = 0, block: int = 500, **options: object):
    kernel = find_policy(name)
    state = kernel.grow(kernel.prepare(task, seed, options), len(rates))
    p = lay_out(task)
    k = np.zeros(len(task.types), np.int64)
    k[0] = 1
    record = Record(np.empty(len(rates)), np.empty(len(rates)), np.empty(len(rates), np.int8))
    sums, held = np.zeros((-(-len(rates) // block), 4)), np.zeros_like(k)
    plant = fresh_plant(p, k, Inertia())
    loop_for(kernel, "memoryless")(p, p, state, plant, k, fresh_baton(), rates, block, sums, held, record)
    return record, sums, held


def threshold(task: Task, pick: int) -> Controller:
    def control(slot: Slot, before: Slot | None) -> int:
        count, n = sum(slot.deployment), len(task.types)
        if slot.utilisation > 0.75 and count < task.k_max:
            return 1 + n + pick
        fewer = slot.utilisation * count / (count - 1) if count > 1 else np.inf
        return 1 + pick if slot.deployment[pick] and fewer < 0.75 * 0.75 else 0

    return control


TWINS: dict[str, tuple[str, dict[str, object], Callable[[Task, int], Controller]]] = {
    "TB-C": ("threshold-c", {}, lambda task, _: threshold(task, 1)),
    "TB-S": ("threshold-s", {}, lambda task, _: threshold(task, 2)),
    "QL": ("ql", {}, QLearning),
    "PDS": ("ql-pds", {}, lambda task, seed: PostDecision(task, seed, estimates=False, as_published=False)),
    "PDS as published": ("ql-pds", {"as_published": True}, lambda t, s: PostDecision(t, s, False, True)),
    "PDS+": ("ql-pds-plus", {}, lambda task, seed: PostDecision(task, seed, estimates=True, as_published=False)),
    "PDS+ as published": ("ql-pds-plus", {"as_published": True}, lambda t, s: PostDecision(t, s, True, True)),
}


@pytest.mark.parametrize("title", TWINS)
@pytest.mark.parametrize("seed", [0, 3])
def test_compiled_replay_equals_its_plain_twin(title: str, seed: int) -> None:
    name, options, twin = TWINS[title]
    task, rates = make_task(), make_rates(SLOTS_RUN, seed)
    rows = replay(task, rates.tolist(), twin(task, seed))
    record, sums, held = compiled(task, name, rates, seed, **options)

    assert record.action.tolist() == [row.action for row in rows]
    np.testing.assert_allclose(record.response, [row.response for row in rows], rtol=1e-12)
    np.testing.assert_allclose(record.output, [row.output for row in rows], rtol=1e-12)
    w = task.weights
    cost = w.performance * sums[:, VIOLATIONS] + w.reconfiguration * sums[:, RECONFIGURATIONS]
    cost = cost.sum() + w.resources * sums[:, RESOURCES].sum() / task.dearest
    assert cost == pytest.approx(sum(row.cost for row in rows), rel=1e-12)
    assert sums[:, SLOTS].sum() == SLOTS_RUN
    np.testing.assert_array_equal(held, np.sum([row.deployment for row in rows], axis=0))


@pytest.mark.parametrize("name", ["threshold-c", "ql", "ql-pds-plus"])
@pytest.mark.parametrize("plant_kind", ["memoryless", "backlog"])
def test_plain_loop_equals_compiled_loop(name: str, plant_kind: str) -> None:
    task, rates = make_task(), make_rates(SLOTS_RUN, 5)
    kernel, p = find_policy(name), lay_out(task)
    results = []
    for plain in (False, True):
        k = np.array([1, 0, 0])
        sums, held = np.zeros((6, 4)), np.zeros_like(k)
        record = Record(np.empty(SLOTS_RUN), np.empty(SLOTS_RUN), np.empty(SLOTS_RUN, np.int8))
        plant = fresh_plant(p, k, Inertia())
        if plain:
            policy = build_policy(kernel, task, 1)
            walk(p, p, policy, plant_kind, plant, k, fresh_baton(), rates, 500, sums, held, record)
        else:
            state = kernel.prepare(task, 1, {})
            loop_for(kernel, plant_kind)(p, p, state, plant, k, fresh_baton(), rates, 500, sums, held, record)
        results.append((record, sums, held, k))
    for a, b in zip(*results, strict=True):
        flat = [np.concatenate([np.ravel(x) for x in one]) for one in (a, b)]
        np.testing.assert_array_equal(*flat)


def test_stretches_join_without_a_seam() -> None:
    task, rates = make_task(), make_rates(SLOTS_RUN, 7)
    whole, _, _ = compiled(task, "ql", rates)
    kernel, p = find_policy("ql"), lay_out(task)
    state, k, baton = kernel.prepare(task, 0, {}), np.array([1, 0, 0]), fresh_baton()
    plant, actions = fresh_plant(p, k, Inertia()), []
    for part in np.array_split(rates, 7):
        record = Record(np.empty(0), np.empty(0), np.empty(len(part), np.int8))
        sums, held = np.zeros((1, 4)), np.zeros_like(k)
        loop = loop_for(kernel, "memoryless")
        loop(p, p, state, plant, k, baton, part, len(part), sums, held, record)
        actions.append(record.action)
    np.testing.assert_array_equal(np.concatenate(actions), whole.action)
