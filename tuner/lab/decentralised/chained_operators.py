"""Setting of the paper: a pipeline of M/D/1 operators under a chain of taxi rates, and what one decision maker sees.

Readings of what the paper leaves open. T_SLA of 650 ms is less than the 944 ms that three operators serve a tuple for:
Table 1 comes out with 1.9 s for the whole path, and Figure 2b is computed with .65 s for each operator. Levels are
taken by floor and stand for their middle; the rate of the slot in which new replicas serve decides its violation.

A target utilisation of an M/D/1 operator is a latency bound: its response time at that utilisation. An Operator
Manager is therefore the same problem as an Application Manager, of one operator with that bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, Problem, lay_out
from scaler.model.nodes import NodeType
from scaler.model.queueing import response_at
from scaler.model.task import Weights
from sim.application import Application, Edge
from sim.application_floor import Choices, list_choices, place_all, respond_all
from sim.compiler import compile_kernel
from sim.graphs import make_operator
from sim.infrastructure import Infrastructure
from sim.level_chain import LevelChain, count_chain
from sim.setting import Setting, gains, tasks
from sim.sharing import Links, is_late, link
from sim.trace import Trace
from tuner.lab.published.tables import read_workload

SERVICE_RATES = (3.7, 3.3, 2.7, 3.3)  # tuples per second
K_MAX = 5
PER_MINUTE = 1.0 / 60.0  # the trace counts tuples per minute
QUANTUM = 20.0 * PER_MINUTE
WEIGHTS = Weights(performance=0.4, reconfiguration=0.4, resources=0.2)
GAMMA, ALPHA = 0.99, 0.1
YEAR = 525_600  # slots
TABLE_LIMIT_S = 1.9
LIMIT_EACH_S = 0.65
FORBIDDEN = -1


class JointSpace(NamedTuple):
    """All states of the operators that one decision maker scales: L levels, J joint states, A joint actions."""

    choices: Choices
    near: Integers  # [J, A] state that each joint action leads to, staying first; FORBIDDEN where it may not be taken
    rent: Floats  # [J] resource cost of a slot
    late: npt.NDArray[np.bool_]  # [L, J]
    w_late: float
    w_rcf: float
    gamma: float


@cache
def load_chain(folder: Path) -> LevelChain:
    """The chain of the taxi trace, whose values are tuples per minute; read once a worker."""
    trace = read_workload("taxi", folder)
    return count_chain(Trace(trace.rates * PER_MINUTE, trace.step_s), QUANTUM)


def make_pipeline(service_rates: Sequence[float], limit: float, chain: LevelChain) -> Setting:
    """Operators in a row with this bound on their path."""
    operators = tuple(make_operator(f"op{i}", rate, 0.0, K_MAX) for i, rate in enumerate(service_rates, 1))
    edges = tuple(Edge(one.name, other.name) for one, other in pairwise(operators))
    return Setting(
        application=Application(operators, edges, name="pipeline"),
        infrastructure=Infrastructure("uniform", (NodeType("node", 1.0, 1.0),), 1.0),
        trace=Trace(chain.rates),
        policy="static",
        r_max=limit,
        weights=WEIGHTS,
        gamma=GAMMA,
        one_at_a_time=True,
    )


def make_joint_space(service_rates: Sequence[float], limit: float, chain: LevelChain) -> JointSpace:
    """What an Application Manager of these operators decides over."""
    setting = make_pipeline(service_rates, limit, chain)
    stated = tasks(setting)
    choices, _ = list_choices(stated, setting)
    states = int(np.prod(np.diff(choices.begin)))
    late, price = np.zeros((len(chain.rates), states), bool), np.zeros(states)
    compile_kernel(judge_states)(
        tuple(map(lay_out, stated)), choices, np.array(gains(setting.application)), link(setting), chain.rates,
        np.zeros(len(choices.count)), np.zeros(len(stated), np.int64), late, price,
    )  # fmt: skip
    rent = WEIGHTS.resources * price / sum(task.dearest for task in stated)
    return JointSpace(
        choices, list_near(choices, states), rent, late, WEIGHTS.performance, WEIGHTS.reconfiguration, GAMMA
    )


def make_operator_space(service_rate: float, target: float, chain: LevelChain) -> JointSpace:
    """What an Operator Manager with a target utilisation decides over."""
    moments = make_operator("operator", service_rate, 0.0, K_MAX).moments
    return make_joint_space((service_rate,), response_at(target, moments.mean, moments.variance, 1.0), chain)


def list_near(choices: Choices, states: int) -> Integers:
    """Where each joint action leads: every operator to a neighbour of its own or nowhere."""
    steps = np.array(sorted(product((0, -1, 1), repeat=len(choices.stride)), key=any))  # [A, n]
    sizes = np.diff(choices.begin)
    places = np.arange(states)[:, None] // choices.stride % sizes  # [J, n]
    to = places[:, None] + steps
    near: Integers = np.where(((to >= 0) & (to < sizes)).all(axis=2), to @ choices.stride, FORBIDDEN)
    return near


@jit
def judge_states(
    problems: tuple[Problem, ...], choices: Choices, gain: Floats, links: Links, rates: Floats, responses: Floats,
    place: Integers, late: npt.NDArray[np.bool_], price: Floats,
) -> None:  # fmt: skip
    """Write which joint states are late at each rate, and the price of each."""
    for level in range(rates.shape[0]):
        respond_all(problems, choices, gain, rates[level], responses)
        for j in range(price.shape[0]):
            price[j] = place_all(choices, j, place)
            late[level, j] = is_late(links, responses, place)
