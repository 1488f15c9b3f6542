"""Deep Q-learning (DQL): values of all actions from one state, epsilon-greedy on the schedule of Q-learning.

Equation (paper): Q(s, a) -> c + g min_a' Q(s', a'), over the actions allowed in s'. The published code takes the least
over all outputs, so that actions which can never be taken keep their untrained values in every target; `as_published`
does so too. It explains much of the published cost on infrastructure B.
"""

from __future__ import annotations

from scaler.model.kernel import Integers, KernelView, Problem
from scaler.policies.learning.deep.deep_policy import Variant, learner
from scaler.policies.learning.deep.prospect import own_state
from scaler.policies.learning.deep.replay_memory import Lesson
from scaler.policies.learning.greedy import slot_cost


def teach(p: Problem, first_bad: Integers, before: KernelView, action: int, seen: KernelView) -> Lesson:
    cost = float(slot_cost(p, action, seen))
    return Lesson(int(before.key), int(before.level), action, cost, int(seen.key), int(seen.level))


DQL = learner(
    Variant(
        title="DQL",
        explores=True,
        estimates=False,
        foresee=own_state,
        teach=teach,
    )
)
