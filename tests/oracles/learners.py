"""Q-learning and its post-decision variants in dictionaries, after the equations of the paper."""

from __future__ import annotations

from collections import defaultdict

from scaler.model.jit import uniform
from scaler.model.task import Task
from tests.oracles.slots import Slot, answer, moves, price


def level_of(task: Task, rate: float) -> int:
    return min(int(rate / (task.highest_rate / task.levels)), task.levels - 1)


def paid(task: Task, action: int, slot: Slot) -> float:
    w = task.weights
    return (
        w.performance * slot.violated
        + w.resources * price(task, slot.deployment) / task.dearest
        + w.reconfiguration * (action != 0)
    )


class Schedule:
    """Alpha 1.0, times .98 every 10 steps, at least .1; epsilon 1.0, times .95 a step, at least .01."""

    def __init__(self) -> None:
        self.alpha, self.epsilon, self.steps = 1.0, 1.0, 0

    def advance(self) -> None:
        self.steps += 1
        if self.steps % 10 == 0:
            self.alpha = max(0.1, self.alpha * 0.98)
        self.epsilon = max(0.01, self.epsilon * 0.95)


def first_least(values: dict[int, float]) -> int:
    return min(values, key=lambda action: (values[action], action))


class QLearning:
    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.seed, self.q, self.schedule = task, seed, defaultdict(float), Schedule()

    def __call__(self, slot: Slot, before: Slot | None) -> int:
        task, q = self.task, self.q
        here = (slot.deployment, level_of(task, slot.rate))
        allowed = moves(task, slot.deployment)
        if before is not None:
            there = (before.deployment, level_of(task, before.rate), before.action)
            target = paid(task, before.action, slot) + task.gamma * min(q[(*here, a)] for a in allowed)
            q[there] += self.schedule.alpha * (target - q[there])
            self.schedule.advance()
        steps = self.schedule.steps
        if uniform(self.seed, 2 * steps) <= self.schedule.epsilon:
            return list(allowed)[int(uniform(self.seed, 2 * steps + 1) * len(allowed))]
        return first_least({a: q[(*here, a)] for a in allowed})


class PostDecision:
    def __init__(self, task: Task, model: Task | None, as_published: bool) -> None:
        self.task, self.v, self.schedule = task, defaultdict(float), Schedule()
        self.model = model
        self.as_published = as_published

    def expected(self, deployment: tuple[int, ...], level: int) -> float:
        """Cost of the violation that the model expects at the middle of a rate level."""
        if self.model is None:
            return 0.0
        rate = (level + 0.5) * self.task.highest_rate / self.task.levels
        return self.task.weights.performance * (answer(self.model, deployment, rate)[1] > self.task.bound)

    def worth(self, slot: Slot, action: int, after: tuple[int, ...]) -> float:
        w, level = self.task.weights, level_of(self.task, slot.rate)
        known = w.resources * price(self.task, after) / self.task.dearest + w.reconfiguration * (action != 0)
        return self.v[(after, level)] + known + self.expected(after, level)

    def __call__(self, slot: Slot, before: Slot | None) -> int:
        allowed = moves(self.task, slot.deployment)
        if before is not None:
            level = level_of(self.task, before.rate)
            surprise = self.task.weights.performance * slot.violated - self.expected(slot.deployment, level)
            target = surprise + self.task.gamma * min(self.worth(slot, a, d) for a, d in allowed.items())
            alpha = self.schedule.alpha
            source = before.deployment if self.as_published else slot.deployment
            self.v[(slot.deployment, level)] = (1 - alpha) * self.v[(source, level)] + alpha * target
            self.schedule.advance()
        return first_least({a: self.worth(slot, a, d) for a, d in allowed.items()})
