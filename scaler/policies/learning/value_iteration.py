"""Value iteration (VI): plan all decisions beforehand from a known operator; learn nothing.

The service model is the task's own; how rate levels follow each other is counted in a training trace, the option
`history`, and without one taken for a slow walk between neighbouring levels. As published, a level violates the bound
when its middle does, and theta is 1e-5; but there it bounded the last change of the values, here it bounds their error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.model.jit import jit
from scaler.model.kernel import Integers, KernelView, Problem
from scaler.model.policy import Kernel
from scaler.model.task import Task
from scaler.policies.learning.mdp import MdpPlan, find_row, plan_for, planned_choice, planned_worth
from scaler.policies.rules.static import learn_nothing


def prepare(task: Task, model: Task, seed: int, options: Mapping[str, Any]) -> MdpPlan:
    return plan_for(task, task, options)


@jit
def worth(p: Problem, s: MdpPlan, k: Integers, seen: KernelView, action: int) -> float:
    return planned_worth(p, s.space, s.values, find_row(s.space.keys, seen.key), seen.level, action)


@jit
def decide(p: Problem, s: MdpPlan, k: Integers, seen: KernelView) -> int:
    return planned_choice(p, s.space, s.values, seen.key, seen.level)


VALUE_ITERATION = Kernel(
    title="VI",
    prepare=prepare,
    decide=decide,
    learn=learn_nothing,
    worth=worth,
    measure=lambda state: state.values.nbytes + state.space.near.nbytes,
    options=("history",),
)
