"""Never change anything: the deployment that a stream starts with is the one it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from scaler.model.jit import jit
from scaler.model.policy import Kernel
from scaler.model.task import Integers, Problem, Seen, Task


class State(NamedTuple):
    pass_on: int


def prepare(task: Task, seed: int, options: Mapping[str, Any]) -> State:
    return State(0)


@jit
def decide(p: Problem, s: State, k: Integers, seen: Seen) -> int:
    return 0


@jit
def learn_nothing(p: Problem, s: State, k: Integers, before: Seen, action: int, seen: Seen) -> None:
    return None


STATIC = Kernel(title="static", prepare=prepare, decide=decide, learn=learn_nothing)
