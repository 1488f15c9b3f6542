"""One operator in the course of a replay: its policy, its plant, its replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import (
    Floats,
    Integers,
    KernelView,
    Problem,
    delta_of,
    lay_out,
    price_of,
    two_slowest,
    view_deployment,
)
from scaler.model.policy import Policy, build_policy, flatten
from scaler.model.task import Task
from scaler.policies import COORDINATORS, find_policy
from sim.application import Operator
from sim.batch_course import fresh_batch_plant
from sim.known_history import hand_on, learn_history
from sim.plants import PLANTS
from sim.replay import Baton, Record, fresh_baton, loop_for
from sim.replicas import Plant, fresh_plant
from sim.setting import Setting, first_deployment, hold_law, perturb_model, plan_alone, tasks
from sim.trace_file import read_trace

LATEST = 1e6  # of a response time over its bound; beyond it utilisation tells operators apart


@jit
def urgency(told: Problem, state: Any, k: Integers, seen: KernelView, action: int) -> float:
    """What an action costs a policy that values none: the less, the later its operator is, or the more overloaded."""
    return 0.0 if action == 0 else -min(LATEST, seen.response / told.bound) * max(1.0, seen.utilisation)


@jit
def first_addition(told: Problem, k: Integers, action: int) -> int:
    """The first single replica that an action adds; 0 if it adds none."""
    types = k.shape[0]
    for i in range(types if action != 0 else 0):
        if delta_of(told, k, action, i) > 0:
            return 1 + types + i
    return 0


@dataclass(slots=True)
class OperatorReplay:
    """What one operator carries through a replay; `truth` is its problem, `told` what its policy knows of it."""

    told: Problem
    truth: Problem
    policy: Policy
    plant_kind: str
    plant: Any
    k: Integers  # [N]
    held: Integers  # [N] slots of a replica
    baton: Baton

    def shift(self, task: Task, announced: bool) -> None:
        """Continue under other constants, announced to the policy or not."""
        self.truth = lay_out(task)
        if announced:
            self.told = self.truth

    def holds(self) -> Floats:
        """Seconds held, bytes moved and most bytes beside the usual, so far."""
        plant: Plant = self.plant if isinstance(self.plant, Plant) else self.plant.change
        return plant.hold.sums

    def answer(self, k: Integers, rate: float) -> tuple[KernelView, float]:
        """What a slot of these arrivals is like, and the rate that comes out."""
        plant = PLANTS[self.plant_kind]
        answered = plant.serve(self.truth, self.plant, k, int(k.sum()), two_slowest(self.told, k)[0], rate)
        utilisation, response, output = answered
        catch_up, waiting, ratio = plant.measure_queue(self.plant)
        seen = view_deployment(self.told, k, rate + catch_up, utilisation, response, rate, waiting, ratio)
        return seen._replace(violated=response > self.truth.bound, price=float(price_of(self.truth, k))), output

    def gain(self, k: Integers, seen: KernelView, action: int) -> float:
        """What the first replica that an action adds is worth; 0 where it adds none."""
        addition = int(first_addition(self.told, k, action))
        if addition == 0:
            return 0.0
        worth = self.policy.hot.worth or urgency
        costs = [float(worth(self.told, self.policy.state, k, seen, a)) for a in (0, addition)]
        return costs[0] - costs[1]

    def advance(self, rates: Floats, block: int, sums: Floats, record: Record) -> None:
        """Replay one stretch under a policy that compiles."""
        rates = rates[:]
        rates.flags.writeable = False  # numba compiles once more for an array it may write to
        policy, kernel = self.policy, self.policy.kernel
        policy.state = kernel.grow(policy.state, len(rates))
        loop_for(kernel, self.plant_kind, self.told.one_at_a_time)(
            self.told, self.truth, policy.state, self.plant, self.k, self.baton, rates, block, sums, self.held, record
        )


def begin_replay(task: Task, setting: Setting, operator: Operator, seed: int) -> OperatorReplay:
    """An operator before its first slot; under a coordinator it decides nothing by itself.

    A policy that shares what it learns has replayed its `history` before, and begins with that as a driver would.
    """
    operation = begin_without_history(task, setting, operator, seed)
    history = read_history(setting, task).get("history")
    if history is not None and operation.policy.kernel.shared is not None:
        before = begin_without_history(task, setting, operator, seed)
        hand_on(learn_history(before, history), operation.policy, setting.policy, task.slot_s)
    return operation


def begin_without_history(task: Task, setting: Setting, operator: Operator, seed: int) -> OperatorReplay:
    task = plan_alone(setting, task)
    told, k = lay_out(task), first_deployment(setting, operator)
    model = perturb_model(task, seed, setting.perturbs_rate) if setting.perturbed else task
    if setting.policy in COORDINATORS:
        policy = build_policy(find_policy("static"), task, seed)
    else:
        options = read_history(setting, task)
        policy = build_policy(find_policy(setting.policy), task, seed, options, model)
    law, supplies = hold_law(setting, operator), [node.supply for node in task.types]
    if setting.plant == "batches" and task.batches is not None:
        plant: Any = fresh_batch_plant(told, k, setting.inertia, task.batches, seed, law, supplies)
    else:
        plant = fresh_plant(told, k, setting.inertia, law, supplies, seed)
    kind = "backlog" if setting.plant == "batches" and task.batches is None else setting.plant
    return OperatorReplay(told, told, policy, kind, plant, k, np.zeros_like(k), fresh_baton())


def read_history(setting: Setting, task: Task) -> Mapping[str, Any]:
    """The policy's options; a `history`, of a trace file or external rates, as arrival rates at this operator."""
    history = setting.options.get("history")
    if history is None:
        return setting.options
    rates = read_trace(history).rates if isinstance(history, str) else np.asarray(history, np.float64)
    top = setting.highest_rate if setting.highest_rate is not None else float(setting.trace.rates.max())
    return {**setting.options, "history": rates * (task.highest_rate / top if top > 0.0 else 1.0)}


def is_left_to_chance(setting: Setting) -> bool:
    """Whether seeds may make a difference: not where plant and models draw nothing and policies start alike.

    Kernels draw their random numbers from their state alone (scaler/model/jit.py); one operator stands for all.
    """
    if setting.plant != "memoryless" or setting.perturbed or setting.policy in COORDINATORS:
        return True
    if not find_policy(setting.policy).compiles:
        return True
    task, operator = tasks(setting)[0], setting.application.operators[0]
    one, other = (flatten(begin_replay(task, setting, operator, seed).policy.state) for seed in (0, 1))
    return any(not np.array_equal(one[name], other[name]) for name in one)
