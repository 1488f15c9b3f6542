"""What a policy is: a pure decision, a lesson from what was really done, a state of plain arrays.

A policy file publishes a `Kernel`: how to prepare its state for a task, and its hot functions over that state. The
simulator compiles the hot functions into its loop; `KernelPolicy` runs the very same ones in a Spark driver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from scaler.nodes import Deployment, Reconfiguration, decode
from scaler.problem import Integers, Problem, Seen, Task, lay_out, rate_level, two_slowest

State = Any  # a NamedTuple of arrays, scalars and tables; each policy has its own


@dataclass(frozen=True, slots=True)
class Observation:
    """One operator in one slot, as its manager saw it."""

    time: float  # seconds since the epoch
    rate: float
    utilisation: float
    response: float
    deployment: Deployment
    completeness: float = 1.0  # share of the metrics behind it that arrived


@dataclass(frozen=True, slots=True)
class Transition:
    """What was seen, what was really done about it, and what was seen next."""

    before: Observation
    done: Reconfiguration
    after: Observation


class Policy(Protocol):
    """Decides for one operator, slot by slot."""

    def decide(self, observation: Observation) -> Reconfiguration: ...

    def learn(self, transition: Transition) -> None: ...

    def save(self) -> dict[str, np.ndarray[Any, Any]]: ...

    def load(self, arrays: dict[str, np.ndarray[Any, Any]]) -> None: ...


def keep(state: State, slots: int) -> State:
    return state


def hold_nothing(state: State) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Kernel:
    """A policy as its file publishes it."""

    title: str  # as the literature names it
    prepare: Callable[[Task, int, dict[str, Any]], State]
    decide: Callable[[Problem, State, Integers, Seen], int]
    learn: Callable[[Problem, State, Integers, Seen, int, Seen], None]
    worth: Callable[[Problem, State, Integers, Seen, int], float] | None = None
    grow: Callable[[State, int], State] = keep
    measure: Callable[[State], int] = hold_nothing  # bytes held
    options: tuple[str, ...] = ()
