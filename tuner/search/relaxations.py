"""A search that found nothing feasible in; what would have to give, found out by trying it, out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from scaler.model.nodes import NodeType
from sim.setting import Setting
from tuner.scenario.qos import QoS
from tuner.search.evaluation import Exam, evaluate
from tuner.search.space.evaluated import Outcome, meets
from tuner.search.space.parameters import Parameters

STEPS = (1.25, 1.5, 2.0, 3.0)


@dataclass(frozen=True, slots=True)
class Relief:
    """The least of the steps in one direction with which the constraints were met; None where none sufficed."""

    what: str
    outcome: Outcome | None


def find_relief(exam: Exam, parameters: Parameters) -> list[Relief]:
    """Every direction by itself, with the parameters as they are: shares grow with R_max."""
    return [try_steps(exam, parameters, name, change) for name, change in DIRECTIONS.items()]


def try_steps(exam: Exam, parameters: Parameters, name: str, change: Callable[[Exam, float], Exam]) -> Relief:
    for step, changed in widen(exam, change):
        outcome = evaluate(changed, parameters).outcome
        if outcome.whole and meets(outcome, exam.qos):
            return Relief(say(name, exam, changed, step), outcome)
    return Relief(f"no {name} up to {STEPS[-1]:g} times", None)


def widen(exam: Exam, change: Callable[[Exam, float], Exam]) -> Iterator[tuple[float, Exam]]:
    for step in STEPS:
        yield step, change(exam, step)


def say(name: str, before: Exam, after: Exam, step: float) -> str:
    if name == "larger R_max":
        return f"an R_max of {1000 * after.qos.r_max:.4g} ms instead of {1000 * before.qos.r_max:.4g} ms"
    if name == "more replicas":
        operators = zip(before.setting.application.operators, after.setting.application.operators, strict=True)
        return "k_max of " + ", ".join(f"{b.k_max} -> {a.k_max} at {b.name!r}" for b, a in operators)
    fastest = max(node.speedup for node in before.setting.infrastructure.types)
    return f"a node type of speedup {fastest * step:.4g}, {step:g} times the fastest there is"


def allow_longer(exam: Exam, step: float) -> Exam:
    qos = replace(exam.qos, r_max=exam.qos.r_max * step, paths={k: v * step for k, v in exam.qos.paths.items()})
    return replace(exam, qos=qos, setting=bound_by(exam.setting, qos))


def bound_by(setting: Setting, qos: QoS) -> Setting:
    return replace(setting, r_max=qos.r_max, path_bounds=qos.paths)


def add_replicas(exam: Exam, step: float) -> Exam:
    application = exam.setting.application
    operators = tuple(replace(o, k_max=round(o.k_max * step + 0.499)) for o in application.operators)
    return replace(exam, setting=replace(exam.setting, application=replace(application, operators=operators)))


def add_faster(exam: Exam, step: float) -> Exam:
    infrastructure = exam.setting.infrastructure
    fastest = max(infrastructure.types, key=lambda node: node.speedup)
    faster = NodeType(f"{fastest.name} x {step:g}", fastest.speedup * step, fastest.price * step)
    return replace(
        exam,
        setting=replace(exam.setting, infrastructure=replace(infrastructure, types=(*infrastructure.types, faster))),
    )


DIRECTIONS: dict[str, Callable[[Exam, float], Exam]] = {
    "larger R_max": allow_longer,
    "more replicas": add_replicas,
    "faster node type": add_faster,
}
