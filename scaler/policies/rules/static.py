"""Static policy: never change the deployment."""

from __future__ import annotations

from typing import NamedTuple

from scaler.model.jit import jit
from scaler.model.kernel import Integers, KernelView, Problem
from scaler.model.policy import Kernel, Start


class State(NamedTuple):
    pass_on: int


def prepare(start: Start) -> State:
    return State(0)


@jit
def decide(p: Problem, s: State, k: Integers, seen: KernelView) -> int:
    return 0


@jit
def learn_nothing(p: Problem, s: State, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    return None


STATIC = Kernel(title="static", prepare=prepare, decide=decide, learn=learn_nothing, any_size=True)
