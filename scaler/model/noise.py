"""Random numbers that are a function of (seed, step): the same interpreted and compiled, and `decide` stays pure."""

from __future__ import annotations

from scaler.model.jit import jit

MASK = 0xFFFFFFFF


@jit
def scramble(x: int) -> int:
    """A 32-bit finaliser (xor-shift and multiply): neighbouring inputs come out unrelated.

    The arithmetic is exact in Python and wraps in 64 bits when compiled; the low 32 bits agree.
    """
    x = (x ^ (x >> 16)) & MASK
    x = (x * 0x7FEB352D) & MASK
    x = (x ^ (x >> 15)) & MASK
    x = (x * 0x846CA68B) & MASK
    return (x ^ (x >> 16)) & MASK


@jit
def uniform(seed: int, step: int) -> float:
    """A number in [0, 1) for this seed and step."""
    low = scramble((int(step) & MASK) ^ 0x9E3779B9)
    return scramble(low ^ scramble(int(seed) & MASK) ^ ((int(step) >> 32) & MASK)) / 4294967296.0
