"""The backlog plant by brute force: a slot cut into tiny steps, tuples as a fluid."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scaler.model.task import Task


@dataclass
class Fluid:
    task: Task
    serving: list[int]
    steps: int = 20_000
    waiting: float = 0.0
    pause: float = 0.0
    starting: list[tuple[float, int]] = field(default_factory=list)
    came: list[float] = field(default_factory=lambda: [0.0])  # tuples until the end of each step
    went: list[float] = field(default_factory=lambda: [0.0])

    def pace(self) -> float:
        if self.pause > 1e-12:
            return 0.0
        slowest = min(n.speedup for n, c in zip(self.task.types, self.serving, strict=True) if c)
        return sum(self.serving) * slowest / self.task.moments.mean

    def slot(self, rate: float, slot_s: float) -> tuple[float, float]:
        """Tuples served in the slot, and the integral of those waiting."""
        step = slot_s / self.steps
        area = served = 0.0
        for _ in range(self.steps):
            out = min(self.waiting + rate * step, self.pace() * step)
            before = self.waiting
            self.waiting += rate * step - out
            area += (before + self.waiting) / 2 * step
            served += out
            self.came.append(self.came[-1] + rate * step)
            self.went.append(self.went[-1] + out)
            self.pause = max(0.0, self.pause - step)
            self.starting = [(left - step, i) for left, i in self.starting]
            for left, i in list(self.starting):
                if left <= 1e-12:
                    self.starting.remove((left, i))
                    self.serving[i] += 1
        return served, area

    def wait_quantile(self, slot_s: float, quantile: float) -> float:
        """Quantile of the seconds that those served in the last slot waited: all that the two counts say of them."""
        times = np.arange(len(self.came)) * slot_s / self.steps
        numbers = np.linspace(self.went[-1 - self.steps], self.went[-1], 4001)[:-1] + 1e-9
        return float(np.quantile(np.interp(numbers, self.went, times) - np.interp(numbers, self.came, times), quantile))


def hold_in_two_queues(
    rate: float, capacity: float, steps: list[tuple[float, float]], begins: float, until: float, count: int = 60_000
) -> float:
    """Integral of the tuples waiting where steps of (seconds, share held) follow each other."""
    step = until / count
    ends, edge = [], begins
    for lasts, share in steps:
        edge += lasts
        ends.append((edge, share))
    held = free = area = 0.0
    place = 0
    for i in range(count):
        now = (i + 0.5) * step
        while place < len(ends) and now >= ends[place][0]:
            free, held, place = free + held, 0.0, place + 1
            if place < len(ends):  # what waits of the next keys waits on
                held, free = ends[place][1] * free, (1.0 - ends[place][1]) * free
        share = ends[place][1] if now >= begins and place < len(ends) else 0.0
        held += share * rate * step
        free = max(0.0, free + ((1.0 - share) * rate - (0.0 if share == 1.0 else capacity)) * step)
        area += (held + free) * step
    return area
