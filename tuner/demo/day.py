"""Replay a day of one operator under the orders of its agent, slot by slot, in the simulator's own plant."""

from __future__ import annotations

import numpy as np

from scaler.agent.decider import Decider
from scaler.model.decision import Decision, SlotFigures
from scaler.model.kernel import key_of
from scaler.model.nodes import Deployment
from scaler.model.orders import Orders
from scaler.model.policy import Observation
from sim.compiler import start_compiling
from sim.operator_replay import begin_replay
from sim.plants import PLANTS
from sim.setting import Setting, tasks


def replay_day(setting: Setting, orders: Orders, constant: float, began: float, seed: int = 0) -> list[Decision]:
    """The decisions of the agent of the setting's one operator, over its trace; slots begin at `began`.

    `constant`: seconds of response time besides queueing, which the plant leaves out.
    """
    start_compiling()
    (operator,), (task,) = setting.application.operators, tasks(setting)
    replay, plant = begin_replay(task, setting, operator, seed), PLANTS[setting.plant]
    types = setting.infrastructure.types
    agent = Decider(operator.name, types, k_max=operator.k_max, seed=seed)
    decisions = []
    for slot, rate in enumerate(setting.trace.rates.tolist()):
        now = began + slot * setting.inertia.slot_s
        seen, _ = replay.answer(replay.k, rate)
        there = Deployment(tuple(replay.k.tolist()))
        observation = Observation(
            now, rate, min(1.0, float(seen.utilisation)), float(seen.response) + constant, there,
            catch_up_rate=float(seen.rate) - rate, backlog=float(seen.backlog), batch_ratio=float(seen.batch_ratio),
        )  # fmt: skip
        named = dict(zip(agent.names, there.replicas, strict=True))
        figures = SlotFigures(observation.utilisation, 1.0, named, backlog=observation.backlog)
        step = agent.step(observation, orders, now, figures=figures)
        agent.actuated(step, step.change)
        if step.change.changes:
            wanted = np.array(there.after(step.change).replicas, np.int64)
            plant.change(replay.truth, replay.plant, replay.k, -1 - int(key_of(replay.truth, wanted)))
            replay.k[:] = wanted
        decisions.append(step.decision)
    return decisions
