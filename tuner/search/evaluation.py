"""Evaluate parameters by replaying the real policies, on this machine or on the executors of a Spark cluster.

Every trial meets the same slots with the same seeds (common random numbers). A short look at the first slots comes
first, and ends there where the constraints are broken far beyond all hope; then one seed over the whole trace. Other
seeds follow only where that one is about as cheap as the best so far, for these decide what is recommended, and a third
only where two disagree.

A task of Spark's costs tens of milliseconds to send, so each gets a second of work or more. Executors replay what would
be replayed here, with the same seeds, and come to the same figures; they need this package installed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.kernel import Floats
from scaler.policies import find_policy
from sim.operator_replay import is_left_to_chance
from sim.setting import Setting
from sim.simulate import Run, simulate
from sim.trace import window
from tuner.scenario.layout import QoS
from tuner.search.space.space import FIGURES, EvaluationOutcome, Parameters, to_bounds
from tuner.simulation.workers import count_cores, run_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEASURES = ("resources", "violations", "reconfigurations")
HOPELESS = 4.0  # times what is allowed, in the second half of a short look
NEAR = 1.03  # of the best cost so far
NEARLY = 1.25  # times what is allowed
ALIKE = 0.005  # parts of the cost, and of what is allowed, by which two seeds may differ without more being asked


@dataclass(frozen=True, slots=True)
class EvaluationSpec:
    """How parameters are tried; `setting` says everything else."""

    setting: Setting
    qos: QoS
    seeds: tuple[int, ...] = (0, 1, 2)
    short: int = 0  # slots of the first look; 0: none

    @property
    def slots(self) -> int:
        return self.setting.trace.rates.size


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An outcome and what it took."""

    outcome: EvaluationOutcome
    seeds: tuple[int, ...]
    slots: int
    saved: int  # slots that all seeds over the whole trace would have taken more
    seconds: float
    replicas: Floats  # [operators, N] mean replicas by node type
    failure: str | None = None


def apply_parameters(spec: EvaluationSpec, parameters: Parameters) -> Setting:
    """The setting in which these parameters are replayed."""
    operators = [operator.name for operator in spec.setting.application.operators]
    bounds = to_bounds(operators, parameters, spec.qos.r_max)
    return replace(spec.setting, bounds=bounds, weights=parameters.weights, path_bounds=spec.qos.paths)


def evaluate(spec: EvaluationSpec, parameters: Parameters, ceiling: float = math.inf, cores: int = 1) -> Evaluation:
    """Try parameters; `ceiling` is the cost of the best feasible trial so far. A replay that fails is a result too."""
    began = time.perf_counter()
    try:
        return replay(spec, parameters, ceiling, cores)
    except (BadInput, ValueError, ArithmeticError) as error:
        nothing = EvaluationOutcome(parameters, math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, whole=False)
        return Evaluation(nothing, (), 0, 0, time.perf_counter() - began, np.zeros((0, 0)), str(error))


def replay(spec: EvaluationSpec, parameters: Parameters, ceiling: float, cores: int) -> Evaluation:
    setting, began = apply_parameters(spec, parameters), time.perf_counter()
    looked = 0
    if 0 < spec.short < spec.slots:
        look = simulate(replace(setting, trace=window(setting.trace, 0, spec.short)), spec.seeds[0], cores=cores)
        looked = look.slots
        if is_hopeless(look, spec.qos):
            return summarise(spec, parameters, [look], looked, time.perf_counter() - began)
    runs = [simulate(setting, spec.seeds[0], cores=cores)]
    if is_promising(runs[0], spec.qos, ceiling) and len(spec.seeds) > 1:
        if is_left_to_chance(setting):
            runs.append(simulate(setting, spec.seeds[1], cores=cores))
            if not agree(runs, spec.qos):
                runs += replay_seeds(setting, spec.seeds[2:])
        else:
            runs.append(repeat(runs[0], spec.seeds[1]))
    return summarise(spec, parameters, runs, looked + count_replayed(runs), time.perf_counter() - began)


def replay_seeds(setting: Setting, seeds: Sequence[int]) -> list[Run]:
    """One run a seed; where nothing is left to chance one run stands for all."""
    if len(seeds) > 1 and not is_left_to_chance(setting):
        first = simulate(setting, seeds[0], cores=count_cores())
        return [first, *(repeat(first, seed) for seed in seeds[1:])]
    runs = replay_each(setting, seeds[:2])
    if len(seeds) > 2 and setting.plant == "memoryless" and are_equal(*runs):  # chance is the policy's alone there
        return [*runs, *(repeat(runs[0], seed) for seed in seeds[2:])]
    return [*runs, *replay_each(setting, seeds[2:])]


def repeat(run: Run, seed: int) -> Run:
    """The run of another seed that comes to the same, and took no time."""
    return replace(run, seed=seed, seconds=0.0)


def count_replayed(runs: Sequence[Run]) -> int:
    """Slots of the runs that took any time."""
    return sum(run.slots for run in runs if run.seconds > 0.0)


def replay_each(setting: Setting, seeds: Sequence[int]) -> list[Run]:
    """One run a seed, on all cores where the policy compiles: its kernels let other threads run."""
    if len(seeds) < 2 or not find_policy(setting.policy).compiles:
        return [simulate(setting, seed) for seed in seeds]
    with ThreadPoolExecutor(min(count_cores(), len(seeds))) as threads:
        return list(threads.map(lambda seed: simulate(setting, seed), seeds))


def are_equal(one: Run, other: Run) -> bool:
    """Whether two runs came to the same in every block, to the last digit."""
    return all(np.array_equal(one.blocks[name], other.blocks[name]) for name in one.blocks)


def is_hopeless(look: Run, qos: QoS) -> bool:
    """Whether a constraint is broken many times over even after the scalers have had half the look to learn."""
    _, violations, reconfigurations = average_last(look, look.slots // 2)
    return bool(violations > HOPELESS * qos.eta_v or reconfigurations > HOPELESS * qos.eta_r)


def is_promising(run: Run, qos: QoS, ceiling: float) -> bool:
    near = run.violations <= NEARLY * qos.eta_v and run.reconfigurations <= NEARLY * qos.eta_r
    return near and run.resources <= NEAR * ceiling


def agree(runs: Sequence[Run], qos: QoS) -> bool:
    """Whether seeds say the same, as they do for a policy that leaves little to chance."""
    figures = np.array([average_last(run, 0) for run in runs])
    allowed = np.array([figures[0, 0], qos.eta_v, qos.eta_r])
    return bool(np.all(np.ptp(figures, axis=0) <= ALIKE * allowed))


def average_last(run: Run, last: int) -> Floats:
    """Cost, violations and reconfigurations over the blocks that make up the last so many slots [3]; over all for 0."""
    slots = run.blocks["slots"]
    behind = np.cumsum(slots[::-1])[::-1]  # slots from each block to the end
    kept = behind <= last if 0 < last < behind[0] else np.ones(len(slots), bool)
    kept[-1] = True
    return np.array([np.average(run.blocks[name][kept], weights=slots[kept]) for name in MEASURES])


def average(parameters: Parameters, runs: Sequence[Run], whole: bool, last: int = 0) -> EvaluationOutcome:
    """The mean over runs of several seeds, with its standard error where there are several."""
    figures = np.array([average_last(run, last) for run in runs])  # [seeds, 3]
    errors = figures.std(axis=0, ddof=1) / math.sqrt(len(runs)) if len(runs) > 1 else np.full(3, np.nan)
    known = zip(FIGURES, np.append(figures.mean(axis=0), errors).tolist(), strict=True)
    return EvaluationOutcome(parameters, **dict(known), whole=whole)


def summarise(
    spec: EvaluationSpec, parameters: Parameters, runs: Sequence[Run], slots: int, seconds: float
) -> Evaluation:
    return Evaluation(
        outcome=average(parameters, runs, whole=runs[0].slots == spec.slots),
        seeds=tuple(run.seed for run in runs),
        slots=slots,
        saved=spec.slots * len(spec.seeds) - slots,
        seconds=seconds,
        replicas=np.mean([run.replicas for run in runs], axis=0),
    )


def describe_replicas(setting: Setting, replicas: Floats) -> Mapping[str, Any]:
    """Mean replicas by operator and node type."""
    types = [node.name for node in setting.infrastructure.types]
    return {
        operator.name: dict(zip(types, map(float, row), strict=True))
        for operator, row in zip(setting.application.operators, replicas, strict=True)
    }


Job = tuple[EvaluationSpec, Parameters, float]


def evaluate_locally(spec: EvaluationSpec, parameters: Sequence[Parameters], ceiling: float) -> Iterator[Evaluation]:
    """On all cores: threads where the policy compiles, for its kernels let others run, else processes."""
    if len(parameters) == 1:
        yield evaluate(spec, parameters[0], ceiling, count_cores())
    elif find_policy(spec.setting.policy).compiles:
        with ThreadPoolExecutor(min(count_cores(), len(parameters))) as threads:
            yield from threads.map(lambda one: evaluate(spec, one, ceiling), parameters)
    else:
        yield from run_all(evaluate_job, [(spec, one, ceiling) for one in parameters])


def evaluate_job(job: Job) -> Evaluation:
    return evaluate(*job)


LEAST_TASK_S = 1.0
EACH = 2  # evaluations in a batch for each of the cluster's cores


@dataclass(slots=True)
class SparkPool:
    """A cluster, and how long an evaluation took last."""

    spark: SparkSession
    pace: list[float] = field(default_factory=list)  # seconds of recent evaluations

    @property
    def batch(self) -> int:
        """Number of evaluations to suggest at a time by default."""
        return EACH * self.spark.sparkContext.defaultParallelism

    def spread(self, spec: EvaluationSpec, parameters: Sequence[Parameters], ceiling: float) -> Iterator[Evaluation]:
        """The results in the order of the parameters; the first of all is found here, to see how long it takes."""
        rest = list(parameters)
        if not self.pace and rest:
            yield self.time(evaluate(spec, rest.pop(0), ceiling))
        if not rest:
            return
        context = self.spark.sparkContext
        tasks = count_tasks(len(rest), sum(self.pace) / len(self.pace))
        jobs = context.parallelize([(spec, one, ceiling) for one in rest], tasks)
        for result in jobs.map(evaluate_job).collect():
            yield self.time(result)

    def time(self, result: Evaluation) -> Evaluation:
        self.pace = [*self.pace[-15:], result.seconds]
        return result


def count_tasks(evaluations: int, seconds: float) -> int:
    """As many tasks as there can be with so much work in each."""
    return max(1, min(evaluations, math.floor(evaluations * seconds / LEAST_TASK_S)))


@contextmanager
def open_spark_pool(start: Callable[[], SparkSession]) -> Iterator[SparkPool]:
    """A cluster for as long as the search takes."""
    spark = start()
    try:
        yield SparkPool(spark)
    finally:
        spark.stop()
