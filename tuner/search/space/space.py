"""The search space of an application (shares of R_max that fit every path, three weights), and outcomes of its points.

Notation: n operators, P paths; x [n] shares of R_max; A [P, n] is 1 where the path has the operator. Allowed is
`low <= A x <= high` and `x >= least`. A sum along a path is scaled to its limit by scaling all its shares alike, which
is the projection in the sense of Kullback and Leibler; doing so for path after path nears the inside of all limits
(Bregman), and what is not there soon is drawn towards the middle of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.model.errors import BadInput
from scaler.model.kernel import Floats
from scaler.model.task import Weights, parse_weights
from sim.application import Application, name_path, paths
from sim.infrastructure import Infrastructure
from tuner.scenario.layout import QoS


@dataclass(frozen=True, slots=True)
class Parameters:
    """A point of a `Space`: `shares` in the order of its operators, as parts of R_max."""

    shares: tuple[float, ...]
    weights: Weights


def to_document(operators: Sequence[str], parameters: Parameters) -> dict[str, Any]:
    """As the database keeps it."""
    return {
        "shares": dict(zip(operators, parameters.shares, strict=True)),
        "weights": parameters.weights.to_json(),
    }


def from_document(operators: Sequence[str], document: Mapping[str, Any]) -> Parameters:
    shares = tuple(float(document["shares"][name]) for name in operators)
    return Parameters(shares, parse_weights(document["weights"]))


def to_bounds(operators: Sequence[str], parameters: Parameters, r_max: float) -> dict[str, float]:
    """The latency bound of every operator, in seconds."""
    return {name: r_max * share for name, share in zip(operators, parameters.shares, strict=True)}


@dataclass(frozen=True, slots=True)
class EvaluationOutcome:
    """One evaluation. Violations and reconfigurations are shares of the slots, price is per hour."""

    parameters: Parameters
    price: float  # NaN, like the others, where the evaluation failed
    violations: float
    reconfigurations: float
    price_error: float = 0.0  # standard errors
    violations_error: float = 0.0
    reconfigurations_error: float = 0.0
    whole: bool = True  # False where it was given up early: its figures are those of the slots replayed
    note: Mapping[str, Any] = field(default_factory=dict)  # what the engine wrote down with its suggestion
    age: float = 0.0  # how far the workload has moved since, for outcomes of earlier runs; 0: of this run


History = Sequence[EvaluationOutcome]
FIGURES = (
    *("price", "violations", "reconfigurations"),
    *("price_error", "violations_error", "reconfigurations_error"),
)  # of an outcome, and of the trial that it is stored as


def meets(outcome: EvaluationOutcome, qos: QoS) -> bool:
    """Whether both constraints were met, taken at face value."""
    return outcome.violations <= qos.eta_v and outcome.reconfigurations <= qos.eta_r


def measure_slack(outcome: EvaluationOutcome, qos: QoS) -> float:
    """The lesser of both constraints' slacks, as a part of what is allowed; negative where one is broken."""
    if math.isnan(outcome.price):
        return math.nan
    return min(1.0 - outcome.violations / qos.eta_v, 1.0 - outcome.reconfigurations / qos.eta_r)


Flags = NDArray[np.bool_]
EPS = 0.05  # how far the shares along a path may sum to less or more than its whole bound
IDLE = 1.05  # a bound is at least so many times what a tuple takes where nothing else is
ROUNDS = 100
WITHIN = 1e-9
LEAST_WEIGHT = 1e-3  # of a weight: with none at all, a scaler has nothing to weigh against


@dataclass(frozen=True, slots=True, eq=False)
class SearchSpace:
    """The shares and weights among which a search chooses."""

    operators: tuple[str, ...]
    paths: tuple[str, ...]
    incidence: Floats  # [P, n]
    low: Floats  # [P]
    high: Floats  # [P]
    least: Floats  # [n] shares, like `idle`
    idle: Floats  # [n] what a tuple takes where nothing else is, on the fastest node type
    centre: Floats  # [n] shares inside all limits, as far from the nearest as can be
    scatter: Floats  # [n] second moment of the service time over its squared mean
    r_max: float
    fixed_shares: tuple[float, ...] | None = None  # where bounds make no difference to the policy
    fixed_weights: Weights | None = None  # likewise

    @property
    def size(self) -> int:
        """Coordinates of the unit cube that box-minded engines search: a score per operator, two for the weights."""
        return len(self.operators) + 2


def make_space(application: Application, infrastructure: Infrastructure, qos: QoS, eps: float = EPS) -> SearchSpace:
    """The space of an application; refused where no shares fit all paths."""
    if not 0.0 < eps < 1.0:
        raise BadInput(f"eps is {eps}, and must lie between 0 and 1")
    names = tuple(operator.name for operator in application.operators)
    routes = paths(application)
    titles = tuple(name_path(application, route) for route in routes)
    for title in qos.paths:
        if title not in titles:
            known = ", ".join(titles[:5]) + (", ..." if len(titles) > 5 else "")
            raise BadInput(f"a bound is given for the path {title!r}; the paths are {known}")
    budget = np.array([qos.paths.get(title, qos.r_max) / qos.r_max for title in titles])
    incidence = np.zeros((len(routes), len(names)))
    for row, route in zip(incidence, routes, strict=True):
        row[list(route)] = 1.0
    fastest = max(node.speedup for node in infrastructure.types)
    moments = [operator.moments for operator in application.operators]
    idle = np.array([m.mean for m in moments]) / fastest / qos.r_max
    space = SearchSpace(
        operators=names,
        paths=titles,
        incidence=incidence,
        low=np.where(is_part(incidence, budget), 0.0, (1.0 - eps) * budget),
        high=(1.0 + eps) * budget,
        least=IDLE * idle,
        idle=idle,
        centre=np.full(len(names), np.nan),
        scatter=np.array([1.0 + m.variance / m.mean**2 for m in moments]),
        r_max=qos.r_max,
    )
    check_idle(space)
    centre = find_centre(space)
    if centre is None:
        raise BadInput(
            "no shares make every path add up to its own bound within eps; allow a larger eps, or bring the bounds of "
            f"the paths nearer to each other: {', '.join(space.paths[:5])}"
        )
    return replace(space, centre=centre)


def is_part(incidence: Floats, budget: Floats) -> Flags:
    """Paths whose operators all lie on another one that is bound at least as tightly: these need not be used up."""
    contained = incidence @ (1.0 - incidence).T == 0.0  # [P, P] the row's operators are all the column's
    np.fill_diagonal(contained, False)
    return np.asarray((contained & (budget[None, :] <= budget[:, None] + WITHIN)).any(axis=1))


def check_idle(space: SearchSpace) -> None:
    """Refuse a path on which the service alone takes longer than the bound."""
    for title, row, high in zip(space.paths, space.incidence, space.high, strict=True):
        if row @ space.least >= high:
            slowest = space.operators[int(np.argmax(row * space.idle))]
            alone = row @ space.idle * space.r_max
            raise BadInput(
                f"path {title}: its services alone take {alone:.4g} s on the fastest node type, most of it at "
                f"{slowest!r}, and the bound is {high * space.r_max:.4g} s; allow more, or add a faster type"
            )


def find_centre(space: SearchSpace) -> Floats | None:
    """The shares whose least slack is greatest, by linear programming; None where no shares fit."""
    from scipy.optimize import linprog

    rows, ends = list_limits(space)
    n = rows.shape[1]
    slack = np.append(np.zeros(n), -1.0)
    found = linprog(slack, np.hstack([rows, np.ones((len(rows), 1))]), ends, bounds=[(0.0, None)] * n + [(None, None)])
    return np.asarray(found.x[:n]) if found.status == 0 and found.x[n] > WITHIN else None


def list_limits(space: SearchSpace) -> tuple[Floats, Floats]:
    """All limits as rows [m, n] and ends [m]: shares fit where rows @ shares <= ends."""
    used = space.low > 0.0
    rows = np.concatenate([space.incidence, -space.incidence[used], -np.eye(space.incidence.shape[1])])
    return rows, np.concatenate([space.high, -space.low[used], -space.least])


def fits(space: SearchSpace, shares: Floats, within: float = 1e-6) -> Flags:
    """Which rows of shares [m, n] lie in the space."""
    sums = shares @ space.incidence.T
    along = (sums >= space.low - within) & (sums <= space.high + within)
    return np.asarray(along.all(axis=1) & (shares >= space.least - within).all(axis=1))


def project_to_limits(space: SearchSpace, scores: Floats) -> Floats:
    """Shares in the space with the proportions of positive scores [m, n], as far as the paths let them keep these."""
    sums = scores @ space.incidence.T
    # scaled alike as far as all limits let them, to the middle of what these leave: what is settled then stays so
    up = (space.high / sums).min(axis=1)
    down = np.maximum((space.low / sums).max(axis=1), (space.least / scores).max(axis=1))
    shares = np.asarray(scores * np.sqrt(up * down)[:, None])
    rows, left = np.arange(len(shares)), shares  # those that do not fit yet: few, after the first rounds
    for _ in range(ROUNDS):
        left = np.maximum(left, space.least)
        for row, low, high in zip(space.incidence > 0.0, space.low, space.high, strict=True):
            total = left[:, row].sum(axis=1)
            factor = np.clip(total, low, high) / total
            if np.any(factor != 1.0):
                left[:, row] *= factor[:, None]
        shares[rows] = left
        out = ~fits(space, left, WITHIN)
        rows, left = rows[out], left[out]
        if len(rows) == 0:
            return shares
    shares[rows] = draw_in(space, left)
    return shares


def draw_in(space: SearchSpace, shares: Floats) -> Floats:
    """Rows that do not fit, moved towards the centre until they do."""
    rows, ends = list_limits(space)
    beyond, inside = shares @ rows.T - ends, rows @ space.centre - ends  # the latter is negative
    out = beyond > 0.0
    needed = np.where(out, beyond / np.where(out, beyond - inside, 1.0), 0.0).max(axis=1, keepdims=True)
    return shares + needed * (space.centre - shares)


def from_cube(space: SearchSpace, points: Floats) -> list[Parameters]:
    """Points [m, n + 2] of the open unit cube, spread evenly over the space where the application is one path.

    A score is exponential, and scores over their sum are then even on the simplex; so are sticks broken off twice.
    """
    n = len(space.operators)
    inner = np.clip(points, 1e-6, 1.0 - 1e-6)
    shares = project_to_limits(space, -np.log1p(-inner[:, :n]))
    first = 1.0 - np.sqrt(1.0 - inner[:, n])
    rest = (1.0 - first) * inner[:, n + 1]
    return [fix(space, one) for one in gather(shares, np.stack([first, rest, 1.0 - first - rest], axis=1))]


def to_cube(space: SearchSpace, parameters: Parameters) -> Floats:
    """A point of the cube that `from_cube` brings back to these parameters."""
    shares = np.array(parameters.shares)
    scores = -np.expm1(-shares * len(shares) / shares.sum())
    w = parameters.weights
    first = min(w.performance, 1.0 - 1e-9)
    return np.array([*scores, 1.0 - (1.0 - first) ** 2, w.reconfiguration / (1.0 - first)]).clip(0.0, 1.0)


def gather(shares: Floats, weights: Floats) -> list[Parameters]:
    """Rows of shares [m, n] and of weights [m, 3] (performance, reconfiguration, resources) as parameters."""
    floored = np.maximum(weights, LEAST_WEIGHT)
    floored /= floored.sum(axis=1, keepdims=True)
    return [Parameters(tuple(map(float, x)), Weights(*map(float, w))) for x, w in zip(shares, floored, strict=True)]


def fix(space: SearchSpace, parameters: Parameters) -> Parameters:
    """The parameters with what is not searched as it is fixed."""
    shares = parameters.shares if space.fixed_shares is None else space.fixed_shares
    return Parameters(shares, parameters.weights if space.fixed_weights is None else space.fixed_weights)
