"""Deep Q-learning (DQL) and its post-decision forms (DQL+PDS, DQL+PDS+), trained on batches of stored lessons.

One class over a `Variant`, the few functions in which they differ. Random numbers are a function of the seed, the clock
and a generator that is part of the checkpoint.

- DQL, epsilon-greedy on the schedule of Q-learning: Q(s, a) -> c + g min_a' Q(s', a'), over the actions allowed in s'.
  The published code takes the least over all outputs, so that actions which can never be taken keep their untrained
  values in every target; `as_published` does so too. It explains much of the published cost on infrastructure B.
- DQL+PDS, greedy: V(s+) -> c_u + g min_a [c_k(s', a) + V(s'+)]. As in pds.py, what a decision costs for sure is added
  to the network's value and not learned; the + form also adds the violation cost that the service model expects and
  learns the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.model.errors import BadInput
from scaler.model.kernel import Floats, Integers, KernelView, Problem, lay_out
from scaler.model.policy import Arrays, Kernel, Start
from scaler.policies.learning.deep.encoding import Encoding, Prospect, find_encoding, own_state, post_states, replicas
from scaler.policies.learning.deep.network import HIDDEN, copy_network, draw_network, evaluate, fit
from scaler.policies.learning.deep.replay_memory import (
    Lesson,
    draw,
    dump_sampler,
    empty_memory,
    kept,
    remember,
    restore_sampler,
    sampler,
)
from scaler.policies.learning.q_values import cool_down, exploration, explores, first_rates, slot_cost
from scaler.policies.learning.value_iteration import violating_levels

BATCH = 32
EVERY = 5  # slots from one training step to the next
PROSPECTS = 8192  # states whose prospects are kept at hand
OPTIONS = ("encoding", "hidden_layers", "learning_rate", "target_sync", "as_published", "schedules_as_written")
MOST_HIDDEN = 8

Foresee = Callable[[Problem, Encoding, Integers, Integers, Integers], Prospect]
Teach = Callable[[Problem, Integers, KernelView, int, KernelView], Lesson]


@dataclass(frozen=True, slots=True)
class Variant:
    """In what the deep policies differ."""

    title: str
    explores: bool
    estimates: bool  # whether a service model says which rate levels violate
    foresee: Foresee  # what the actions from a state lead to
    teach: Teach  # what a slot taught


@dataclass(frozen=True, slots=True)
class DeepOptions:
    """The options of a deep policy."""

    encoding: str = "reduced2"
    hidden_layers: int = HIDDEN
    learning_rate: float = 0.1
    target_sync: int = 0  # training steps between copies of the network to the one that targets are read from; 0: none
    schedules_as_written: bool = False  # as in the paper's text: learning rate and exploration fall without a floor
    as_published: bool = False  # bits and targets of the published code (encoding.py), and no guards

    def __post_init__(self) -> None:
        if not 0.0 < self.learning_rate < float("inf"):
            raise BadInput(f"the option learning_rate is {self.learning_rate}, and must be a positive number")
        if not 1 <= self.hidden_layers <= MOST_HIDDEN:
            raise BadInput(f"the option hidden_layers is {self.hidden_layers}, and must be from 1 to {MOST_HIDDEN}")
        if self.target_sync < 0:
            raise BadInput(f"the option target_sync is {self.target_sync}, and must be 0 or a number of training steps")


def tune(options: Mapping[str, Any]) -> DeepOptions:
    """The options as a person gave them, the others as in the paper."""
    kinds = {"encoding": str, "hidden_layers": int, "learning_rate": float, "target_sync": int, "as_published": bool}
    kinds["schedules_as_written"] = bool
    return DeepOptions(**{name: kinds[name](value) for name, value in options.items()})


class DeepState:
    """A network, a memory and a clock."""

    def __init__(self, variant: Variant, start: Start) -> None:
        self.variant, self.tuning, self.problem = variant, tune(start.options), lay_out(start.task)
        tuning, seed = self.tuning, start.seed
        self.ceiling = float("inf") if tuning.as_published else highest_value(self.problem)
        self.seed = np.array([seed], np.int64)
        self.clock = np.zeros(1, np.int64)
        self.rates = first_rates()
        self.first_bad = violating_levels(start.model, variant.estimates)
        self.encoding = find_encoding(tuning.encoding, self.problem, tuning.as_published)
        self.prospects: dict[int, Prospect] = {}  # by state; a function of the problem alone
        codes, known = self.foresee(1, 0)
        outputs = known.shape[0] // codes.shape[0]
        rng = np.random.default_rng([seed, 0xDEE9])
        self.network = draw_network(self.encoding.length, outputs, rng, tuning.hidden_layers)
        self.target = copy_network(self.network) if tuning.target_sync else self.network
        self.memory = empty_memory(Prospect(codes, known))
        self.rng = sampler(seed)

    def value(self, key: int, level: int) -> Floats:
        """What each action is worth in a state [A]; infinite where it is not allowed."""
        codes, known = self.foresee(key, level)
        values: Floats = known + evaluate(self.network, codes).reshape(-1)
        return values

    def foresee(self, key: int, level: int) -> Prospect:
        """The prospect of one state, from those at hand if it is among them."""
        state = key * self.problem.levels + level
        if state not in self.prospects:
            if len(self.prospects) == PROSPECTS:
                self.prospects.clear()
            self.prospects[state] = self.foresee_all(np.array(key), np.array(level))
        return self.prospects[state]

    def foresee_all(self, keys: Integers, levels: Integers) -> Prospect:
        """The prospects of states by deployment key and rate level."""
        return self.variant.foresee(self.problem, self.encoding, self.first_bad, replicas(self.problem, keys), levels)

    def train(self) -> None:
        """One step of descent on a batch from the memory."""
        memory, network, tuning = self.memory, self.network, self.tuning
        places = draw(memory, self.rng, BATCH)
        codes, known = memory.next_codes[places], memory.next_known[places]
        if tuning.as_published and codes.shape[1] == 1:
            known = np.zeros_like(known)  # outputs of actions that are not allowed count as well
        ahead = evaluate(self.target, codes.reshape(-1, codes.shape[-1])).reshape(BATCH, -1)
        targets = memory.costs[places] + self.problem.gamma * (known + ahead).min(axis=1)
        targets = np.clip(targets, -self.ceiling, self.ceiling)
        columns = memory.states[places, 2]
        fit(network, memory.codes[places], columns, targets, tuning.learning_rate, not tuning.as_published)
        if tuning.target_sync and self.clock[0] % (EVERY * tuning.target_sync) == 0:
            self.target = copy_network(network)

    def arrays(self) -> Arrays:
        """What never changes its shape, as it lies in memory, by name."""
        networks = {"network": self.network} | ({"target": self.target} if self.tuning.target_sync else {})
        named: Arrays = {"seed": self.seed, "clock": self.clock, "rates": self.rates, "first_bad": self.first_bad}
        for name, network in networks.items():
            named |= {f"{name}.weights.{i}": weights.numpy() for i, weights in enumerate(network.weights)}
            named |= {f"{name}.biases.{i}": biases.numpy() for i, biases in enumerate(network.biases)}
        return named | {"memory.written": self.memory.written}

    def save(self) -> Arrays:
        count = kept(self.memory)
        lessons = {"memory.states": self.memory.states[:count].copy(), "memory.costs": self.memory.costs[:count].copy()}
        return {name: a.copy() for name, a in self.arrays().items()} | lessons | {"sampler": dump_sampler(self.rng)}

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> DeepState:
        check_checkpoint(arrays, self.arrays(), len(self.memory.costs))
        for name, own in self.arrays().items():
            np.copyto(own, arrays[name])
        restore_sampler(self.rng, arrays["sampler"])
        count = kept(self.memory)
        self.prospects.clear()
        states, memory = arrays["memory.states"], self.memory
        memory.states[:count], memory.costs[:count] = states, arrays["memory.costs"]
        memory.codes[:count] = self.foresee_all(states[:, 0], states[:, 1]).codes[:, 0]
        memory.next_codes[:count], memory.next_known[:count] = self.foresee_all(states[:, 3], states[:, 4])
        return self

    def held_bytes(self) -> int:
        """Networks and memory; what is kept at hand can be had again."""
        return sum(a.nbytes for a in self.arrays().values()) + sum(a.nbytes for a in self.memory)


def highest_value(p: Problem) -> float:
    """What costs can add up to when each slot has all of them, later ones discounted.

    Targets are cut to this size. The published code does not: read back from states never visited, values can then
    drive each other up without end (seen on small problems, at the paper's learning rate). Sound ones never come near.
    """
    return float((p.w_perf + p.w_rcf + p.w_res * p.k_max * p.price.max()) / (1.0 - p.gamma))


def check_checkpoint(arrays: Mapping[str, NDArray[Any]], own: Arrays, capacity: int) -> None:
    """Refuse a checkpoint that was not saved by such a policy, before any of it is taken over."""
    lessons = min(int(arrays["memory.written"][0]), capacity) if "memory.written" in arrays else 0
    shapes = {name: a.shape for name, a in own.items()}
    shapes |= {"memory.states": (lessons, 5), "memory.costs": (lessons,), "sampler": (6,)}
    for name, shape in shapes.items():
        if name not in arrays:
            raise BadInput(f"the checkpoint lacks {name!r}; it belongs to another policy or version")
        if arrays[name].shape != shape:
            raise BadInput(f"{name!r} in the checkpoint is {arrays[name].shape} and must be {shape}: another task's?")


def decide(p: Problem, s: DeepState, k: Integers, seen: KernelView) -> int:
    seed, clock = int(s.seed[0]), int(s.clock[0])
    if s.variant.explores and explores(seed, clock, s.rates[1]):
        return int(exploration(s.problem, k, seen.count, seed, clock))
    return int(s.value(int(seen.key), int(seen.level)).argmin())


def learn(p: Problem, s: DeepState, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
    lesson = s.variant.teach(s.problem, s.first_bad, before, action, seen)
    code = s.foresee(lesson.key, lesson.level).codes[0]  # of the state itself: the first action is to do nothing
    remember(s.memory, lesson, code, s.foresee(lesson.next_key, lesson.next_level))
    cool_down(s.rates, s.clock, not s.tuning.schedules_as_written)
    if s.clock[0] % EVERY == 0 and kept(s.memory) >= BATCH:
        s.train()


def worth(p: Problem, s: DeepState, k: Integers, seen: KernelView, action: int) -> float:
    return float(s.value(int(seen.key), int(seen.level))[action])


def kernel(variant: Variant) -> Kernel:
    """The variant as the registry lists it."""
    return Kernel(
        title=variant.title,
        prepare=lambda start: DeepState(variant, start),
        decide=decide,
        learn=learn,
        worth=worth,
        measure=DeepState.held_bytes,
        options=OPTIONS,
        save=DeepState.save,
        load=DeepState.load,
        compiles=False,
    )


def teach_action(p: Problem, first_bad: Integers, before: KernelView, action: int, seen: KernelView) -> Lesson:
    cost = float(slot_cost(p, action, seen))
    return Lesson(int(before.key), int(before.level), action, cost, int(seen.key), int(seen.level))


def teach_post_decision(p: Problem, first_bad: Integers, before: KernelView, action: int, seen: KernelView) -> Lesson:
    """The deployment that met the slot, at the level on which it was chosen; the violation less the expected one."""
    expected = before.level >= first_bad[seen.count, seen.slowest]
    cost = p.w_perf * (float(seen.violated) - float(expected))
    return Lesson(int(seen.key), int(before.level), 0, cost, int(seen.key), int(seen.level))


DQL = kernel(Variant("DQL", explores=True, estimates=False, foresee=own_state, teach=teach_action))
DQL_PDS = kernel(Variant("DQL+PDS", False, estimates=False, foresee=post_states, teach=teach_post_decision))
DQL_PDS_PLUS = kernel(Variant("DQL+PDS+", False, estimates=True, foresee=post_states, teach=teach_post_decision))
