"""Compile policies' loops in a process beside this one, which then finds them on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from scaler.model.change_budget import make_budget
from scaler.policies import find_policy
from sim.compiler import is_on_disk
from sim.lockstep import loop_together
from sim.replay import loop_for
from sim.simulate import simulate
from tuner.scenario.scenario import make_toy
from tuner.simulation.runner import is_compiled, warm_up
from tuner.simulation.workers import WAKE_S, count_cores, started_worker


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop by what is replayed in it; `eta_r` where changes have a budget, as `tuner tune` has them."""

    policy: str
    plant: str
    types: int  # node types
    k_max: int
    record: bool = False  # whether time lines are kept
    eta_r: float | None = None

    @property
    def is_ready(self) -> bool:
        """Whether a replay need not compile it first."""
        if not is_compiled(self.policy):
            return True
        find = loop_for if self.eta_r is None else loop_together
        return is_on_disk(find(find_policy(self.policy), self.plant, self.plant == "memoryless"))


def compile_loop(loop: Loop) -> None:
    """Compile the loop, or load it from disk."""
    if loop.eta_r is None:
        warm_up(loop.policy, loop.plant, loop.record, loop.types, loop.k_max)
        return
    toy = make_toy(loop.policy, loop.plant)
    simulate(replace(toy, together=True, change_budget=make_budget(loop.eta_r)))


@contextmanager
def compiling_ahead(loops: Sequence[Loop]) -> Iterator[Callable[[], None]]:
    """Compile loops in their order while the block does other work; yields a function that waits for the next one.

    Nothing is done without a second core, or where all are on disk. What the worker fails in is left undone: who needs
    the loop compiles it, and sees what is wrong.
    """
    if count_cores() < 2 or all(loop.is_ready for loop in loops):
        yield lambda: None
        return
    with started_worker(compile_loop) as worker:
        ahead = list(loops)
        worker.send(ahead[0])

        def wait() -> None:
            while ahead and not worker.pipe.poll(WAKE_S):
                pass
            with suppress(Exception):
                if ahead:
                    worker.receive()
                    ahead.pop(0)
                if ahead:
                    worker.send(ahead[0])

        yield wait
