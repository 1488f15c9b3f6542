"""Mark kernels: hot functions that run as plain Python in a Spark driver and compiled in the simulator.

A kernel is a plain function over numpy arrays and scalars, decorated by `jit`, which leaves it as it is and only lists
it. Importing kernels therefore never loads numba, in whatever order. The simulator compiles them (sim/compiler.py) when
it first replays; a driver never does, because one decision a minute is not worth the hundred megabytes of a compiler.

The random numbers of kernels are a function of (seed, step): the same in both, and `decide` stays pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
MASK = 0xFFFFFFFF

KERNELS: list[Callable[..., Any]] = []
APART: set[Callable[..., Any]] = set()  # of them, those that are called rather than inlined
_compile: list[Compile] = []  # the simulator's, once it runs in this process


def jit(kernel: Function) -> Function:
    """List a kernel for the simulator's compiler."""
    KERNELS.append(kernel)
    return kernel


def jit_apart(kernel: Function) -> Function:
    """List a kernel that is compiled once, by itself, and called: a large one, of several loops."""
    APART.add(kernel)
    return jit(kernel)


def use_compiler(compile_kernel: Compile | None) -> None:
    """Have `fastest` compile from now on (None: not). The simulator switches it on, a driver never does."""
    _compile[:] = [] if compile_kernel is None else [compile_kernel]


def fastest(kernel: Function) -> Function:
    """The kernel compiled where the simulator runs, else itself: for what plain Python calls."""
    return _compile[0](kernel) if _compile else kernel  # type: ignore[return-value]


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
