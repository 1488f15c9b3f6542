"""Refuse a search that no deployment could satisfy, and find by evaluating what would have to give."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from scaler.model.errors import BadInput
from scaler.model.kernel import predict_response
from scaler.model.nodes import NodeType
from scaler.model.units import format_duration, format_share
from sim.application import name_path
from sim.setting import Setting, gains, path_limits, tasks
from tuner.scenario.layout import QoS
from tuner.search.evaluation import EvaluationSpec, evaluate
from tuner.search.space.space import EvaluationOutcome, Parameters, meets


def check_feasible(setting: Setting, qos: QoS) -> None:
    """Refuse a path that is too slow in more slots than may be, even with the most replicas of the fastest type."""
    rates = setting.trace.rates
    high = float(sorted(rates)[math.ceil((1.0 - qos.eta_v) * len(rates)) - 1])  # exceeded in no more than eta_v of them
    fastest = max(node.speedup for node in setting.infrastructure.types)
    least = [  # what every operator takes while tuples come from outside at the high rate
        predict_response(task, high * gain, task.k_max, fastest)
        for task, gain in zip(tasks(setting), gains(setting.application), strict=True)
    ]
    names = [operator.name for operator in setting.application.operators]
    for path, limit in path_limits(setting).items():
        total = sum(least[i] for i in path)
        if total > limit:
            worst = max(path, key=lambda i: least[i])
            takes = f"{least[worst]:.4g} s" if math.isfinite(least[worst]) else "more than it can serve"
            raise BadInput(
                f"path {name_path(setting.application, path)}: no deployment answers within {limit:.4g} s in "
                f"{format_share(1.0 - qos.eta_v)} of the slots; operator {names[worst]!r} alone takes {takes} at "
                f"{high:.4g} tuples/s with all of its {setting.application.operators[worst].k_max} replicas on the "
                "fastest node type; allow a larger R_max, more replicas (k_max), or add a faster type"
            )


STEPS = (1.25, 1.5, 2.0, 3.0)
Widen = Callable[[EvaluationSpec, float], tuple[EvaluationSpec, str]]  # by how many times; the new spec, and in words


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The least of the steps in one direction with which the constraints were met; None where none sufficed."""

    what: str
    outcome: EvaluationOutcome | None


def find_relaxations(spec: EvaluationSpec, parameters: Parameters) -> list[Relaxation]:
    """Every direction by itself, with the parameters as they are: shares grow with R_max."""
    return [try_steps(spec, parameters, name, change) for name, change in DIRECTIONS.items()]


def try_steps(spec: EvaluationSpec, parameters: Parameters, name: str, change: Widen) -> Relaxation:
    for step in STEPS:
        changed, what = change(spec, step)
        outcome = evaluate(changed, parameters).outcome
        if outcome.whole and meets(outcome, spec.qos):
            return Relaxation(what, outcome)
    return Relaxation(f"{name} would not do, up to {STEPS[-1]:g} times", None)


def allow_longer(spec: EvaluationSpec, step: float) -> tuple[EvaluationSpec, str]:
    qos = replace(spec.qos, r_max=spec.qos.r_max * step, paths={k: v * step for k, v in spec.qos.paths.items()})
    what = f"an R_max of {format_duration(qos.r_max)} instead of {format_duration(spec.qos.r_max)}"
    return replace(spec, qos=qos, setting=replace(spec.setting, r_max=qos.r_max, path_bounds=qos.paths)), what


def add_replicas(spec: EvaluationSpec, step: float) -> tuple[EvaluationSpec, str]:
    application = spec.setting.application
    operators = tuple(replace(o, k_max=round(o.k_max * step + 0.499)) for o in application.operators)
    pairs = zip(application.operators, operators, strict=True)
    what = "k_max of " + ", ".join(f"{b.k_max} -> {a.k_max} at {b.name!r}" for b, a in pairs)
    return replace(spec, setting=replace(spec.setting, application=replace(application, operators=operators))), what


def add_faster(spec: EvaluationSpec, step: float) -> tuple[EvaluationSpec, str]:
    infrastructure = spec.setting.infrastructure
    fastest = max(infrastructure.types, key=lambda node: node.speedup)
    faster = NodeType(f"{fastest.name} x {step:g}", fastest.speedup * step, fastest.price * step)
    widened = replace(infrastructure, types=(*infrastructure.types, faster))
    what = f"a node type of speedup {faster.speedup:.4g}, {step:g} times the fastest there is"
    return replace(spec, setting=replace(spec.setting, infrastructure=widened)), what


DIRECTIONS: dict[str, Widen] = {
    "a larger R_max": allow_longer,
    "more replicas": add_replicas,
    "a faster node type": add_faster,
}
