"""Search problems with known optima over the space of a chain of operators, without noise.

The n - 1 free dimensions of the shares along one path, by sticks broken off a whole, and the two of the weights are
coordinates z of a unit cube, each of them even where parameters are drawn evenly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from botorch.test_functions.synthetic import Branin, ConstrainedGramacy, ConstrainedHartmann
from numpy.typing import NDArray

from scaler.model.task import Moments
from sim.application import Application, Edge, Operator
from sim.infrastructure import find_infrastructure
from tuner.scenario.layout import QoS
from tuner.search.engines import Engine, SearchProblem, Suggestion
from tuner.search.space.space import EvaluationOutcome, Parameters, make_space, meets

Point = NDArray[np.float64]
QUALITY = QoS(0.05)


@dataclass(frozen=True)
class Problem:
    """`judge` makes of z the cost above the optimum's and what is left of both constraints, negative where broken."""

    name: str
    problem: SearchProblem
    judge: Callable[[Point], tuple[float, float, float]]
    best: Point  # where the optimum is
    cost: float = 5.0  # there


def chain(length: int) -> Application:
    operators = tuple(Operator(f"op{i}", Moments(0.001, 1e-6)) for i in range(length))
    edges = tuple(Edge(a.name, b.name) for a, b in pairwise(operators))
    return Application(operators, edges)


def ask_for(application: Application, budget: int = 60, qos: QoS = QUALITY) -> SearchProblem:
    return SearchProblem(make_space(application, find_infrastructure("A", n_res=3), qos), qos, budget)


def to_coordinates(parameters: Parameters) -> Point:
    """z of the parameters: of what is left of the whole, the part that is broken off, made even."""
    shares = np.array(parameters.shares) / sum(parameters.shares)
    z, left = [], 1.0
    for i, share in enumerate(shares[:-1]):
        z.append(1.0 - max(0.0, 1.0 - share / left) ** (len(shares) - 1 - i))
        left -= share
    w = parameters.weights
    return np.array([*z, 1.0 - (1.0 - w.performance) ** 2, w.reconfiguration / (1.0 - w.performance)])


def evaluate(problem: Problem, suggestion: Suggestion) -> EvaluationOutcome:
    above, slack_v, slack_r = problem.judge(to_coordinates(suggestion.parameters))
    qos = problem.problem.qos
    return EvaluationOutcome(
        suggestion.parameters,
        problem.cost + above,
        qos.eta_v * max(0.0, 1.0 - slack_v),
        qos.eta_r * max(0.0, 1.0 - slack_r),
        note=suggestion.note,
    )


def search(problem: Problem, ask: Engine, seed: int, budget: int, count: int = 1) -> list[EvaluationOutcome]:
    """The trials of a search, as many as are asked for at the most."""
    history: list[EvaluationOutcome] = []
    while len(history) < budget:
        suggestions = ask(problem.problem, history, seed, min(count, budget - len(history)))
        if not suggestions:
            break
        history += [evaluate(problem, suggestion) for suggestion in suggestions]
    return history


def find_regret(problem: Problem, history: list[EvaluationOutcome]) -> float:
    """How much dearer than the optimum the best trial is that meets both constraints; infinite where none does."""
    met = [outcome.price for outcome in history if meets(outcome, problem.problem.qos)]
    return min(met, default=math.inf) - problem.cost


def quadratic(length: int = 3) -> Problem:
    """The nearest point to a target that breaks both constraints, z0 + z1 <= 0.8 and z2 <= 0.4."""
    size = length + 1
    target = np.array([0.5, 0.7, 0.6, *[0.3] * (size - 3)])
    best = np.array([0.3, 0.5, 0.4, *[0.3] * (size - 3)])  # the target, moved square to each of the constraints

    def judge(z: Point) -> tuple[float, float, float]:
        above = float(((z - target) ** 2).sum() - ((best - target) ** 2).sum())
        return 20.0 * above, 2.0 * float(0.8 - z[0] - z[1]), 2.0 * float(0.4 - z[2])

    return Problem("quadratic", ask_for(chain(length)), judge, best)


def twenty() -> Problem:
    """The same of twenty operators."""
    return quadratic(20)


def gramacy() -> Problem:
    """Two constraints, one of them in waves, on the shares; the weights have no effect."""
    function = ConstrainedGramacy()

    def judge(z: Point) -> tuple[float, float, float]:
        x = torch.tensor(z[None, :2])
        slack = function.evaluate_slack_true(x)[0]
        return 10.0 * (float(function.evaluate_true(x)) - function.optimal_value), float(slack[0]), float(slack[1])

    return Problem("gramacy", ask_for(chain(3)), judge, np.array([*ConstrainedGramacy._optimizers[0], 0.5, 0.5]))


def hartmann() -> Problem:
    """Six coordinates, four of them of the shares, inside the unit ball."""
    function = ConstrainedHartmann(dim=6)

    def judge(z: Point) -> tuple[float, float, float]:
        x = torch.tensor(z[None])
        above = float(function.evaluate_true(x)) - function.optimal_value
        return 5.0 * above, float(function.evaluate_slack_true(x)), 0.5

    return Problem("hartmann", ask_for(chain(5)), judge, np.array(function._optimizers[0]))


def branin() -> Problem:
    """Of three minima a constraint leaves one; both coordinates are of the shares, and the weights have no effect."""
    function = Branin()
    low, high = (np.array(bound) for bound in zip(*Branin._bounds, strict=True))

    def judge(z: Point) -> tuple[float, float, float]:
        x = torch.tensor(low + (high - low) * z[None, :2])
        return 0.2 * (float(function.evaluate_true(x)) - function.optimal_value), 1 - 4 * abs(float(z[0]) - 0.5), 0.5

    minimum = (np.array(Branin._optimizers[1]) - low) / (high - low)
    return Problem("branin", ask_for(chain(3)), judge, np.array([*minimum, 0.5, 0.5]))


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "quadratic": quadratic,
    "gramacy": gramacy,
    "hartmann": hartmann,
    "branin": branin,
    "twenty": twenty,
}
