"""Lend an operator's executor to stages that no executor serves, such as Spark's own listing of many files.

Spark runs some jobs under the default resource profile whatever an operator is pinned to: more than 32 files of a batch
are listed by a job of their own. While totals are held still no executor of that profile would ever come, and the query
would wait for ever. A loan takes effect at once, costs nothing, and needs no core that a worker may not have; it ends
with the stages that it is for. A profile that needs loans again and again gets an executor of its own until it has not
been used for a while.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scaler.acting.gateway import Executor, SparkStage

OFTEN, OFTEN_S = 5, 300.0  # loans to a profile within so many seconds, from which on it gets an executor of its own
UNUSED_S = 120.0  # without a stage of the profile, after which that executor goes
MIN_WAIT_S = 3.0  # of a stage, before it is reported as waiting


@dataclass(frozen=True, slots=True)
class LoanPlan:
    """Executors to lend now, with the profile to serve, and those to give back."""

    lend: Mapping[str, int]
    give_back: tuple[str, ...]


@dataclass(slots=True)
class Loans:
    """`operators`: the profile of its stage by the profile that an executor was made for."""

    operators: Mapping[int, int]
    lent: dict[str, int] = field(default_factory=dict)  # profile served on loan, by executor
    extra: dict[int, float] = field(default_factory=dict)  # profiles with an executor of their own, and their last use
    recent: dict[int, deque[float]] = field(default_factory=dict)  # times of the last loans by profile

    def plan(self, stages: Iterable[SparkStage], executors: Sequence[Executor], now: float) -> LoanPlan:
        """Plan loans and profiles with an executor of their own; the caller carries the loans out."""
        needed = {stage.profile for stage in stages if stage.left > 0} - set(self.operators.values())
        self.lent = {one.id: self.lent[one.id] for one in executors if one.id in self.lent}
        served = {one.serves for one in executors if one.id not in self.lent}
        self.extra = {
            profile: now if profile in needed else used
            for profile, used in self.extra.items()
            if profile in needed or now - used < UNUSED_S
        }
        lend: dict[str, int] = {}
        for profile in sorted(needed - served - set(self.lent.values())):
            name = choose_lender(executors, {*self.lent, *lend}, self.operators)
            if name is None:
                continue  # the first replicas of operators are on their way; they come before all others
            lend[name] = profile
            if self.is_frequent(profile, now):
                self.extra[profile] = now
        back = tuple(name for name, profile in self.lent.items() if profile not in needed or profile in served)
        return LoanPlan(lend, back)

    def is_frequent(self, profile: int, now: float) -> bool:
        """Count a loan; True where it is one of many."""
        times = self.recent.setdefault(profile, deque(maxlen=OFTEN))
        times.append(now)
        return len(times) == OFTEN and now - times[0] < OFTEN_S

    def owner(self, executor: Executor) -> int:
        """The profile whose tasks an executor is given, loans aside."""
        return self.operators.get(executor.made_for, executor.serves) if executor.id in self.lent else executor.serves


def choose_lender(executors: Sequence[Executor], taken: Iterable[str], operators: Mapping[int, int]) -> str | None:
    """Choose an idle executor, of the operator that has the most; None where no operator has any."""
    spare = [one for one in executors if one.made_for in operators and one.id not in set(taken)]
    counts = Counter(operators[one.made_for] for one in spare)
    spare.sort(key=lambda one: (one.running, -counts[operators[one.made_for]], one.held, one.id))
    return spare[0].id if spare else None


def find_waiting(stages: Iterable[SparkStage], served: Iterable[int], now: float) -> list[SparkStage]:
    """Stages that have waited for a while for a profile that no executor serves."""
    able = set(served)
    return [s for s in stages if s.left > 0 and s.running == 0 and s.profile not in able and now - s.since > MIN_WAIT_S]
