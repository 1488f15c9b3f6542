"""Policies: pure decisions, learning from what was really done, state as plain arrays.

A policy file publishes a `Kernel`: how to prepare its state for a task, and its functions over that state. The
simulator compiles them into its loop; `Policy` runs the very same ones in a Spark driver. What cannot be compiled
(neural networks) says so, and runs interpreted in both.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.errors import BadInput, suggest
from scaler.model.jit import fastest
from scaler.model.joint_changes import price_pause, value_wish, weigh_wish
from scaler.model.kernel import (
    Integers,
    KernelView,
    Problem,
    action_towards,
    allowed,
    delta_of,
    lay_out,
    view_deployment,
)
from scaler.model.nodes import Deployment, Reconfiguration, difference
from scaler.model.task import Task

State = Any  # a NamedTuple of arrays, scalars and tables; each policy has its own
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Start:
    """What a policy's state is prepared from."""

    task: Task
    model: Task  # the task with the service model that the policy starts from
    seed: int = 0  # of whatever it draws at random
    options: Mapping[str, Any] = field(default_factory=dict)  # its own


Prepare = Callable[[Start], State]
Decide = Callable[[Problem, State, Integers, KernelView], int]
Learn = Callable[[Problem, State, Integers, KernelView, int, KernelView], None]


@dataclass(frozen=True, slots=True)
class Observation:
    """One operator in one slot, as its manager saw it."""

    time: float  # seconds since the epoch
    rate: float
    utilisation: float
    response: float
    deployment: Deployment
    completeness: float = 1.0  # share of the metrics behind it that arrived
    catch_up_rate: float = 0.0  # tuples per second to be served besides, to work off the backlog
    backlog: float | None = None  # tuples that wait at the slot's end
    batch_ratio: float | None = None  # mean duration of the slot's batches over the trigger

    @property
    def demand(self) -> float:
        """The rate that asks to be served, as kernels see it."""
        return self.rate + self.catch_up_rate


@dataclass(frozen=True, slots=True)
class Transition:
    """What was seen in a slot and in the next; what was really done between them is the difference of deployments."""

    before: Observation
    after: Observation


def grow_nothing(state: State, slots: int) -> State:
    return state


def measure_nothing(state: State) -> int:
    return 0


def flatten(state: State, prefix: str = "") -> Arrays:
    """A state as plain arrays by dotted name."""
    arrays: Arrays = {}
    for name, value in zip(state._fields, state, strict=True):
        arrays |= flatten(value, f"{prefix}{name}.") if hasattr(value, "_fields") else {prefix + name: np.array(value)}
    return arrays


def measure_arrays(state: State) -> int:
    """Bytes that the arrays of a state hold."""
    return sum(measure_arrays(x) if hasattr(x, "_fields") else getattr(x, "nbytes", 0) for x in state)


def unflatten(like: State, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> State:
    """The state of this shape that the arrays hold; tables may have grown since.

    Beside arrays, what is none is an option, never learned: where an older version wrote none, it stays as it is.
    """
    values, learns = [], any(isinstance(value, np.ndarray) for value in like)
    for name, value in zip(like._fields, like, strict=True):
        if hasattr(value, "_fields"):
            values.append(unflatten(value, arrays, f"{prefix}{name}."))
        elif prefix + name not in arrays and learns and not isinstance(value, np.ndarray):
            values.append(value)
        elif prefix + name not in arrays:
            raise BadInput(f"the checkpoint lacks {prefix + name!r}; it belongs to another policy or version")
        else:
            stored = np.array(arrays[prefix + name])
            values.append(stored if isinstance(value, np.ndarray) else type(value)(stored[()]))
    return type(like)(*values)


Worth = Callable[[Problem, State, Integers, KernelView, int], float]


class HotFunctions(NamedTuple):
    """What runs in every slot, of a `Kernel`."""

    decide: Decide
    learn: Learn
    worth: Worth | None


class Shared(NamedTuple):
    """How a policy's state is handed to one that begins elsewhere (experience.py)."""

    share: Callable[[State, int], Arrays]  # without what was seen less than 2 ** n times
    restore: Callable[[State, Task, Arrays], State]  # into a fresh state of that task; ValueError where it cannot be
    prefer: Callable[[Task, State, Task, State], State]  # the service times that an own state saw
    forget: Callable[[Task, State, Collection[str]], State]  # what was seen of other node types than these
    count: Callable[[State], int]  # slots learned
    check_size: Callable[[Task], None]  # ValueError where a state of this task would be too large


@dataclass(frozen=True, slots=True)
class Kernel:
    """A policy as its file publishes it."""

    title: str  # as the literature names it
    prepare: Prepare
    decide: Decide
    learn: Learn
    worth: Worth | None = None
    grow: Callable[[State, int], State] = grow_nothing
    measure: Callable[[State], int] = measure_nothing  # bytes held
    options: tuple[str, ...] = ()
    # The state of a new task with the experience of an earlier one: (task, state, earlier task, its state) -> state.
    inherit: Callable[[Task, State, Task, State], State] | None = None
    shared: Shared | None = None  # None: what it learned stays where it is
    experience: tuple[str, ...] = ()  # fields of the state that do not depend on the objective
    save: Callable[[State], Arrays] = flatten
    load: Callable[[State, Mapping[str, NDArray[Any]]], State] = unflatten
    any_size: bool = False  # whether it learns from changes of more than one replica, too
    # Rates that the next slot's stays below with these chances: (state, chances) -> rates.
    forecast: Callable[[State, Sequence[float]], list[float]] | None = None
    # The hot functions for changes of any size alone, and of one replica alone, which compile in less time.
    parts: tuple[HotFunctions, HotFunctions] | None = None
    compiles: bool = True  # False: the simulator interprets it as well, and the state is an object of its own


def check_options(title: str, known: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse an option that the policy of this title does not know."""
    for name in options:
        if name not in known:
            takes = suggest(name, known, "it takes {}") if known else "it takes none"
            raise BadInput(f"{title} has no option {name!r}; {takes}")


def build_policy(
    kernel: Kernel, task: Task, seed: int = 0, options: Mapping[str, Any] | None = None, model: Task | None = None
) -> Policy:
    """Build a policy for one operator.

    Args:
        kernel: the policy, from `scaler.policies.find_policy`.
        task: the operator's scaling problem.
        seed: of whatever the policy draws at random.
        options: the policy's own.
        model: the task with the service model that the policy starts from; None: the task itself.
    """
    check_options(kernel.title, kernel.options, options or {})
    return Policy(kernel, Start(task, task if model is None else model, seed, options or {}))


def narrow(kernel: Kernel, one_at_a_time: bool) -> Kernel:
    """The kernel with the hot functions alone that such tasks need."""
    return kernel if kernel.parts is None else replace(kernel, **kernel.parts[one_at_a_time]._asdict())


def hasten(kernel: Kernel) -> Kernel:
    """The kernel with its hot functions compiled, where the simulator runs."""
    worth = None if kernel.worth is None else fastest(kernel.worth)
    return replace(kernel, decide=fastest(kernel.decide), learn=fastest(kernel.learn), worth=worth)


def name_action(p: Problem, k: Integers, action: int) -> Reconfiguration:
    """The change that a kernel's action stands for."""
    return difference(k.tolist(), [int(k[i] + delta_of(p, k, action, i)) for i in range(len(k))])


class Policy:
    """A kernel and its state, driven from outside for one operator, slot by slot.

    `decide` and `learn` speak the vocabulary of a driver; `choose` and `absorb` are the same in that of the kernels,
    for the simulator's plain loop.
    """

    def __init__(self, kernel: Kernel, start: Start) -> None:
        self.kernel, self.task, self.problem = kernel, start.task, lay_out(start.task)
        self.whole, self.free = price_pause(self.problem)  # with the whole price of a pause, and with none
        self.hot = hasten(narrow(kernel, start.task.one_at_a_time)) if kernel.compiles else kernel
        self.state = kernel.prepare(start)
        self.chosen = 0  # the last action

    def decide(self, observation: Observation) -> Reconfiguration:
        k, seen = self.read(observation)
        return name_action(self.problem, k, self.choose(k, seen))

    def decide_with_others(self, observation: Observation) -> Reconfiguration:
        """The change that it wants where others pay the pause."""
        k, seen = self.read(observation)
        return name_action(self.problem, k, int(self.hot.decide(self.free, self.state, k, seen)))

    def weigh(self, observation: Observation, change: Reconfiguration, alone: bool) -> tuple[int, float]:
        """What a change is to the slot, and its worth in units of the pause's price (joint_changes.py)."""
        k, seen = self.read(observation)
        after = np.array(observation.deployment.after(change).replicas, dtype=np.int64)
        action = int(action_towards(self.problem, k, after))
        wish = int(weigh_wish(self.problem, k, seen, action, alone))
        if self.hot.worth is None:
            return wish, math.inf
        costs, stays = (float(self.hot.worth(self.free, self.state, k, seen, each)) for each in (action, 0))
        return wish, float(value_wish(self.whole, costs, stays, alone))

    def learn(self, transition: Transition) -> None:
        k_before, before = self.read(transition.before)
        k, after = self.read(transition.after)
        action = int(action_towards(self.problem, k_before, k))
        if action >= 0 or self.kernel.any_size:
            self.absorb(k, before, action, after)

    def inherit(self, other: Policy) -> bool:
        """Take over what another policy learned of the workload and the node types, whatever its objective.

        False where that is not possible (it is of another kernel, whose experience has another form): then it is to be
        learned from transitions. Where it is, `replay` those.
        """
        if self.kernel.inherit is None or other.kernel is not self.kernel:
            return False
        self.state = self.kernel.inherit(self.task, self.state, other.task, other.state)
        return True

    def replay(self, transitions: Sequence[Transition]) -> None:
        """Learn what depends on the objective, and put inherited experience back: these transitions are part of it."""
        experience = {name: copy.deepcopy(getattr(self.state, name)) for name in self.kernel.experience}
        for transition in transitions:
            self.learn(transition)
        if experience:
            self.state = self.state._replace(**experience)

    def worth(self, observation: Observation) -> dict[Reconfiguration, float]:
        """What each alternative is worth (less is better): single replicas, and the change last decided on.

        Empty if the policy does not value them.
        """
        if self.hot.worth is None:
            return {}
        k, seen = self.read(observation)
        types = len(self.problem.price)
        codes = [a for a in range(2 * types + 1) if allowed(self.problem, k, seen.count, a)]
        codes += [self.chosen] if self.chosen < 0 else []
        return {
            name_action(self.problem, k, a): float(self.hot.worth(self.whole, self.state, k, seen, a)) for a in codes
        }

    def forecast(self, shares: Sequence[float]) -> list[float]:
        """Rates that the next slot's stays below with these chances; empty if the policy forecasts none."""
        return [] if self.kernel.forecast is None else self.kernel.forecast(self.state, shares)

    def read(self, observation: Observation) -> tuple[Integers, KernelView]:
        """The observation as kernels see it."""
        k = np.array(observation.deployment.replicas, dtype=np.int64)
        seen = view_deployment(
            self.problem, k, observation.demand, observation.utilisation, observation.response, observation.rate,
            math.nan if observation.backlog is None else observation.backlog,
            math.nan if observation.batch_ratio is None else observation.batch_ratio,
        )  # fmt: skip
        return k, seen

    def choose(self, k: Integers, seen: KernelView) -> int:
        self.chosen = int(self.hot.decide(self.whole, self.state, k, seen))
        return self.chosen

    def absorb(self, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
        self.state = self.kernel.grow(self.state, 1)
        self.hot.learn(self.problem, self.state, k, before, action, seen)

    def save(self) -> Arrays:
        return self.kernel.save(self.state)

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.state = self.kernel.load(self.state, arrays)

    def count_slots(self) -> int:
        """Slots that it has learned; 0 of a kind that does not say."""
        return 0 if self.kernel.shared is None else self.kernel.shared.count(self.state)

    def held_bytes(self) -> int:
        return self.kernel.measure(self.state)
