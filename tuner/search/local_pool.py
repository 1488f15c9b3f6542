"""An exam and several parameters in; their results, each as soon as those before it are there, out: on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from scaler.model.policy import Kernel
from scaler.policies import find_policy
from tuner.search.evaluation import Exam, Result, evaluate
from tuner.search.space.parameters import Parameters
from tuner.simulation.parallel import count_cores, run_all

Job = tuple[Exam, Parameters, float]


def spread_here(exam: Exam, parameters: Sequence[Parameters], ceiling: float) -> Iterator[Result]:
    """On all cores: threads where the policy compiles, for its kernels let others run, else processes."""
    if len(parameters) == 1:
        yield evaluate(exam, parameters[0], ceiling)
    elif isinstance(find_policy(exam.setting.policy), Kernel):
        with ThreadPoolExecutor(min(count_cores(), len(parameters))) as threads:
            yield from threads.map(lambda one: evaluate(exam, one, ceiling), parameters)
    else:
        yield from run_all(evaluate_job, [(exam, one, ceiling) for one in parameters])


def evaluate_job(job: Job) -> Result:
    return evaluate(*job)
