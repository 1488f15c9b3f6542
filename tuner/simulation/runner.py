"""A scenario in; its runs, policy by policy and seed by seed, out: here, or on all cores when that pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from scaler.model.policy import Learner
from scaler.policies import find_policy
from sim.run import Run
from sim.setting import Setting
from sim.simulate import simulate
from tuner.scenario.policy_check import warm_up
from tuner.scenario.scenario import Scenario
from tuner.simulation.course import ReplayCourse, follow
from tuner.simulation.parallel import run_all

PATIENCE_S = 2.0  # starting workers costs about a second
INTERPRETED_PACE = 20_000  # slots per second, roughly

OnSlots = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Job:
    """One replay; with `columns`, what its charts need is kept, so wide."""

    setting: Setting
    seed: int
    columns: int = 0


@dataclass(frozen=True, slots=True)
class Replay:
    """What a job yields."""

    run: Run
    course: ReplayCourse | None = None


def list_jobs(scenario: Scenario, columns: int = 0) -> list[Job]:
    """Every policy with every seed; the first seed of each policy is what charts show."""
    return [
        Job(setting, seed, columns if seed == scenario.seeds[0] else 0)
        for setting in scenario.settings
        for seed in scenario.seeds
    ]


def replay(job: Job, progress: OnSlots | None = None) -> Replay:
    """Run one job; only what charts need of its time line leaves this process."""
    setting = job.setting
    warm_up(setting.policy, setting.plant, job.columns > 0 or len(setting.application.operators) > 1)
    run = simulate(setting, job.seed, record=job.columns > 0, progress=progress)
    course = follow(setting, run, job.columns) if job.columns > 0 else None
    return Replay(replace(run, timeline=None), course)


def run_jobs(jobs: list[Job], on_slots: OnSlots) -> list[Replay]:
    """All jobs, in their order; `on_slots` hears how many slots have been replayed in all.

    They run here one after another until one has taken long; what is left then goes to all cores. Compiling does not
    count, because workers on an empty cache would all compile the same.
    """
    here: list[Replay] = []
    done = 0

    def tell(before: int, slots: int) -> None:
        on_slots(before + slots)

    slow = expected_seconds(jobs) > PATIENCE_S
    while len(here) < len(jobs) and not (slow and len(jobs) - len(here) > 1):
        here.append(replay(jobs[len(here)], partial(tell, done)))
        done += here[-1].run.slots
        slow = here[-1].run.seconds > PATIENCE_S

    def count(_: int, result: Replay) -> None:
        nonlocal done
        done += result.run.slots
        on_slots(done)

    return here + run_all(replay, jobs[len(here) :], count)


def expected_seconds(jobs: list[Job]) -> float:
    """Seconds that the interpreted policies will take at the least; compiled ones do not count."""
    slots = [
        job.setting.trace.rates.size * len(job.setting.application.operators)
        for job in jobs
        if isinstance(find_policy(job.setting.policy), Learner)
    ]
    return sum(slots) / INTERPRETED_PACE
