"""Evaluate several parameters on the cores of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from scaler.model.policy import Kernel
from scaler.policies import find_policy
from tuner.search.evaluation import Evaluation, EvaluationSpec, evaluate
from tuner.search.space.parameters import Parameters
from tuner.simulation.parallel import count_cores, run_all

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
