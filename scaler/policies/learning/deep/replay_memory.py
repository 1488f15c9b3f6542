"""Experience replay: a ring of lessons from which batches are drawn without replacement.

A lesson says which output of the network, for which state, cost how much and led to where. What the network will read
of it is encoded once, when it is remembered, and kept beside the facts.

Notation: M lessons kept, w entries of a code, R codes and A actions of a prospect.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.kernel import Floats, Integers
from scaler.policies.learning.deep.encoding import Codes, Prospect

CAPACITY = 10_000


class Lesson(NamedTuple):
    """The state that was valued, the output that valued it, what it cost, and the state seen next."""

    key: int
    level: int
    column: int
    cost: float
    next_key: int
    next_level: int


class ReplayMemory(NamedTuple):
    """A ring of lessons: the facts that a checkpoint keeps, then what is encoded from them."""

    states: Integers  # [M, 5] key, level, column, next key, next level
    costs: Floats  # [M]
    written: Integers  # [1] lessons ever remembered
    codes: Codes  # [M, w] of the state that was valued
    next_codes: Codes  # [M, R, w]
    next_known: Floats  # [M, A]


def empty_memory(example: Prospect, capacity: int = CAPACITY) -> ReplayMemory:
    """Room for lessons whose next states look like this one."""
    codes, known = example
    return ReplayMemory(
        states=np.zeros((capacity, 5), np.int64),
        costs=np.zeros(capacity),
        written=np.zeros(1, np.int64),
        codes=np.zeros((capacity, codes.shape[-1]), codes.dtype),
        next_codes=np.zeros((capacity, *codes.shape), codes.dtype),
        next_known=np.zeros((capacity, *known.shape)),
    )


def kept(memory: ReplayMemory) -> int:
    """How many lessons there are."""
    return min(int(memory.written[0]), len(memory.costs))


def remember(memory: ReplayMemory, lesson: Lesson, code: Codes, ahead: Prospect) -> None:
    """Keep a lesson, in place of the oldest once the memory is full."""
    place = int(memory.written[0]) % len(memory.costs)
    memory.states[place] = lesson.key, lesson.level, lesson.column, lesson.next_key, lesson.next_level
    memory.costs[place] = lesson.cost
    memory.codes[place] = code
    memory.next_codes[place] = ahead.codes
    memory.next_known[place] = ahead.known
    memory.written[0] += 1


def draw(memory: ReplayMemory, rng: np.random.Generator, batch: int) -> Integers:
    """Places of so many different lessons.

    Repeats are drawn again: numpy's own choice without replacement takes ten times as long at these sizes.
    """
    lessons = kept(memory)
    places = dict.fromkeys(rng.integers(lessons, size=batch).tolist())
    while len(places) < batch:
        places[int(rng.integers(lessons))] = None
    return np.fromiter(places, np.int64, batch)


def sampler(seed: int) -> np.random.Generator:
    """The generator of one policy's batches."""
    return np.random.Generator(np.random.SFC64([seed, 0x5A3B1E]))


def dump_sampler(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Its state as an array [6]."""
    state = rng.bit_generator.state
    return np.array([*state["state"]["state"], state["has_uint32"], state["uinteger"]], np.uint64)


def restore_sampler(rng: np.random.Generator, words: NDArray[np.uint64]) -> None:
    """Put it into a state that was dumped."""
    state = {"state": words[:4].astype(np.uint64)}
    has, spare = int(words[4]), int(words[5])
    rng.bit_generator.state = {"bit_generator": "SFC64", "state": state, "has_uint32": has, "uinteger": spare}
