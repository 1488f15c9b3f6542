"""The backlog plant by brute force: a slot cut into tiny steps, tuples as a fluid."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler.model.task import Task


@dataclass
class Fluid:
    task: Task
    serving: list[int]
    steps: int = 20_000
    waiting: float = 0.0
    pause: float = 0.0
    starting: list[tuple[float, int]] = field(default_factory=list)

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
            self.pause = max(0.0, self.pause - step)
            self.starting = [(left - step, i) for left, i in self.starting]
            for left, i in list(self.starting):
                if left <= 1e-12:
                    self.starting.remove((left, i))
                    self.serving[i] += 1
        return served, area
