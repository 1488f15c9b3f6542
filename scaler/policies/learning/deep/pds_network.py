"""Deep Q-learning on post-decision states (DQL+PDS, DQL+PDS+), with a greedy policy.

As in pds.py, what a decision costs for sure is added to the network's value and not learned, and the
`+` form also adds the violation cost that the service model expects and learns the difference. Equation (paper):
V(s+) -> c_u + g min_a [c_k(s', a) + V(s'+)].
"""

from __future__ import annotations

from scaler.model.kernel import Integers, KernelView, Problem
from scaler.model.policy import Learner
from scaler.policies.learning.deep.deep_policy import Variant, learner
from scaler.policies.learning.deep.prospect import post_states
from scaler.policies.learning.deep.replay_memory import Lesson


def teach(p: Problem, first_bad: Integers, before: KernelView, action: int, seen: KernelView) -> Lesson:
    """The deployment that met the slot, at the level on which it was chosen; the violation less the expected one."""
    expected = before.level >= first_bad[seen.count, seen.slowest]
    cost = p.w_perf * (float(seen.violated) - float(expected))
    return Lesson(int(seen.key), int(before.level), 0, cost, int(seen.key), int(seen.level))


def post_decision(title: str, estimates: bool) -> Learner:
    return learner(
        Variant(
            title=title,
            explores=False,
            estimates=estimates,
            foresee=post_states,
            teach=teach,
        )
    )


DQL_PDS = post_decision("DQL+PDS", estimates=False)
DQL_PDS_PLUS = post_decision("DQL+PDS+", estimates=True)
