"""Evaluate several parameters at a time, on the cores of this machine or on the executors of a Spark cluster.

A task of Spark's costs tens of milliseconds to send, so each gets a second of work or more. Executors replay what would
be replayed here, with the same seeds, and come to the same figures; they need this package installed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scaler.model.policy import Kernel
from scaler.policies import find_policy
from tuner.search.evaluation import Evaluation, EvaluationSpec, evaluate
from tuner.search.space.space import Parameters
from tuner.simulation.parallel import count_cores, run_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Job = tuple[EvaluationSpec, Parameters, float]


def evaluate_locally(spec: EvaluationSpec, parameters: Sequence[Parameters], ceiling: float) -> Iterator[Evaluation]:
    """On all cores: threads where the policy compiles, for its kernels let others run, else processes."""
    if len(parameters) == 1:
        yield evaluate(spec, parameters[0], ceiling)
    elif isinstance(find_policy(spec.setting.policy), Kernel):
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
        """How many evaluations to ask for at a time, unless told otherwise."""
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
