"""Markov chain of rate levels: counted in a trace, drawn from, and what its levels stand for.

Level l holds the rates from l to l + 1 quanta, and its middle stands for it, as everywhere in this project. The chance
that level l' follows l is its relative frequency in the trace; a level that was seen last alone stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers
from sim.compiler import compile_kernel
from sim.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class LevelChain:
    """Chances that levels follow each other [L, L], and the rate in the middle of each [L]."""

    rates: Floats
    chances: Floats
    start: int  # level of the trace's first slot


def count_chain(trace: Trace, quantum: float) -> LevelChain:
    """The chain of a trace whose rates fall into levels of one quantum."""
    if not quantum > 0.0:
        raise BadInput(f"the quantum of the rate levels is {quantum}, and must be positive")
    levels = (trace.rates / quantum).astype(np.int64)
    many = int(levels.max()) + 1
    counts = np.zeros((many, many))
    np.add.at(counts, (levels[:-1], levels[1:]), 1.0)
    unseen = np.flatnonzero(counts.sum(axis=1) == 0.0)
    counts[unseen, unseen] = 1.0
    chances: Floats = counts / counts.sum(axis=1, keepdims=True)
    middles: Floats = (np.arange(many, dtype=np.float64) + 0.5) * quantum
    return LevelChain(middles, chances, int(levels[0]))


def draw_levels(chain: LevelChain, slots: int, seed: int) -> Integers:
    """Levels of so many slots of the chain, from the trace's first level on."""
    levels = np.empty(slots, np.int64)
    chances = np.random.default_rng(seed).random(slots)
    compile_kernel(walk_chain)(chain.chances.cumsum(axis=1), chain.start, chances, levels)
    return levels


@jit
def walk_chain(edges: Floats, start: int, chances: Floats, levels: Integers) -> None:
    """Follow the chain; `edges` [L, L] are its cumulated chances."""
    level = start
    last = edges.shape[0] - 1
    for t in range(levels.shape[0]):
        levels[t] = level
        after = 0
        while after < last and edges[level, after] <= chances[t]:
            after += 1
        level = after
