"""The compiled loop and its policies against plain twins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from scaler.model.policy import build_policy
from scaler.model.task import Task
from scaler.policies import find_policy
from sim.replay import RECONFIGURATIONS, RESOURCES, SLOTS, VIOLATIONS
from sim.setting import perturb_model
from tests.examples import interpreted, make_rates, make_task, replay
from tests.oracles.learners import PostDecision, QLearning
from tests.oracles.slots import Controller, Slot
from tests.oracles.slots import replay as replay_slots

SLOTS_RUN = 3000


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
    "PDS": ("ql-pds", {}, lambda task, _: PostDecision(task, None, False)),
    "PDS as published": ("ql-pds", {"as_published": True}, lambda task, _: PostDecision(task, None, True)),
    "PDS+": ("ql-pds-plus", {}, lambda t, s: PostDecision(t, perturb_model(t, s), False)),
    "PDS+ as published": (
        "ql-pds-plus",
        {"as_published": True},
        lambda t, s: PostDecision(t, perturb_model(t, s), True),
    ),
}


@pytest.mark.parametrize("title", TWINS)
@pytest.mark.parametrize("seed", [0, 3])
def test_compiled_replay_equals_its_plain_twin(title: str, seed: int) -> None:
    name, options, twin = TWINS[title]
    task, rates = make_task(), make_rates(SLOTS_RUN, seed)
    rows = replay_slots(task, rates.tolist(), twin(task, seed))
    record, sums, held, *_ = replay(task, rates, find_policy(name), seed, options, perturbed=True, block=500)

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
    kernel = find_policy(name)
    with interpreted():
        policies = (kernel, build_policy(kernel, task, 1))
    results = [replay(task, rates, policy, 1, plant=plant_kind, block=500)[:4] for policy in policies]
    for a, b in zip(*results, strict=True):
        flat = [np.concatenate([np.ravel(x) for x in one]) for one in (a, b)]
        np.testing.assert_array_equal(*flat)


def test_stretches_join_without_a_seam() -> None:
    task, rates = make_task(), make_rates(SLOTS_RUN, 7)
    whole, parted = (replay(task, rates, find_policy("ql"), parts=parts) for parts in (1, 7))
    assert parted.actions == whole.actions
