"""The plan of the live demo: its trace, service times, node types and objective.

    operator  input           work                                      service time on a node of speedup 1
    parse     lines of text   splits them into words                   125 ms
    count     words           keeps how often each came (with state)    75 ms

Service times are slept, so that they are known and two cores suffice; a worker's environment sets its speed.
The rate of lines triples a quarter of the way in, and falls back a good third before the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.nodes import NodeType
from scaler.model.queueing import mg1_rate_within

APP = "demo"
PARSE, COUNT = OPERATORS = ("parse", "count")
SMALL, LARGE = NODES = (NodeType("small", 1.0, 1.0), NodeType("large", 1.8, 2.1))
MEANS = {PARSE: 0.125, COUNT: 0.075}  # seconds
SCV = 0.5  # squared coefficient of variation of the service time
BOUNDS = {PARSE: 4.0, COUNT: 4.0}  # seconds, on the whole response time of each
WEIGHTS = {"perf": 0.6, "rcf": 0.03, "res": 0.37}
K_MAX = 4
SLOT_S = 10.0
CALM, TIMES = 5.0, 3.0  # lines per second, and by how much that rises
RISE, HIGH, FALL = 0.25, 0.28, 0.60  # shares of the run: the rate begins to rise, is high, begins to fall
LOW = 0.64  # is low again
PIECE_S = 0.6  # of lines in a file
TRIGGER_S = 1.5
TABLE = 1000  # costs repeat after so many records, so that their mean is known and not estimated
TEXT = (
    "a stream that is never the same carries what it was given on and on until somebody counts the words it brought "
    "and finds that none was lost and none came twice though workers came and went while it ran"
)
WORDS = TEXT.split()
LENGTHS = (1, 2, 2)  # words of a line, in turn
WORDS_A_LINE = sum(LENGTHS) / len(LENGTHS)


@dataclass(frozen=True, slots=True)
class Plan:
    """A run of the demo."""

    minutes: float = 3.0
    seed: int = 1
    on: Mapping[str, str] = field(default_factory=dict)  # operators that are kept on one node type, and on which

    def node_types(self, operator: str) -> list[str]:
        """The node types that it may use."""
        return [self.on[operator]] if operator in self.on else [node.name for node in NODES]

    @property
    def seconds(self) -> float:
        return 60.0 * self.minutes

    def rate(self, second: float) -> float:
        """Lines per second, so many seconds after the start."""
        high = CALM * TIMES
        marks = [self.seconds * share for share in (RISE, HIGH, FALL, LOW)]
        return float(np.interp(second, marks, [CALM, high, high, CALM]))

    def pieces(self) -> list[int]:
        """Number of lines of each file."""
        starts = np.arange(0.0, self.seconds, PIECE_S)
        generator = np.random.default_rng(self.seed)
        return [int(generator.poisson(PIECE_S * self.rate(start + 0.5 * PIECE_S))) for start in starts]


def write_line(number: int) -> str:
    """The line of this number, of a word or two."""
    return " ".join(WORDS[(number * 7 + i) % len(WORDS)] for i in range(LENGTHS[number % len(LENGTHS)]))


def list_costs(operator: str) -> Floats:
    """Seconds on a node of speedup 1 of records 0, 1, ..., of exactly the stated mean."""
    drawn = np.random.default_rng(OPERATORS.index(operator)).gamma(1.0 / SCV, 1.0, TABLE)
    costs: Floats = drawn * (MEANS[operator] / drawn.mean())
    return costs


def describe(plan: Plan) -> dict[str, Any]:
    """The description of the application for the manager: a scenario's tables."""
    operators = [
        {"name": PARSE, "service_time": MEANS[PARSE], "scv": SCV, "k_max": K_MAX, "selectivity": WORDS_A_LINE},
        {"name": COUNT, "service_time": MEANS[COUNT], "scv": SCV, "k_max": K_MAX, "stateful": True},
    ]
    slots = max(4, round(plan.seconds / SLOT_S))
    step = {"before": CALM, "after": CALM * TIMES, "slots": slots, "at": max(1, round(RISE * slots)), "step_s": SLOT_S}
    return {
        "application": {"name": APP, "operator": operators, "edge": [{"from": PARSE, "to": COUNT}]},
        "trace": {"generator": "step", **step},
        "infrastructure": {"node": [{"name": n.name, "speedup": n.speedup, "price": n.price} for n in NODES]},
        "qos": {"r_max": sum(BOUNDS.values()), "eta_v": 0.1, "eta_r": 0.5},
        "weights": WEIGHTS,
        "policy": {"name": "planner"},
        "run": {"slot_s": SLOT_S},
    }


def count_static() -> dict[str, int]:
    """Large replicas of each operator that serve the highest rate within its bound, were they there all the time."""
    needed = {}
    for operator, gain in ((PARSE, 1.0), (COUNT, WORDS_A_LINE)):
        mean = MEANS[operator] / LARGE.speedup
        each = mg1_rate_within(BOUNDS[operator], mean, SCV * mean * mean, 1.0)
        needed[operator] = int(np.ceil(CALM * TIMES * gain / each))
    return needed
