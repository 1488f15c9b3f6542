"""The plan of the live demo: its trace, service times, node types and objective.

    operator  input           work                                      service time on a node of speedup 1
    parse     lines of text   splits them into words                   125 ms
    count     words           keeps how often each came (with state)    75 ms

Service times are slept, so that they are known and two cores suffice; a worker's environment sets its speed.
The rate of lines is that of a day, as long as the run: a quiet night, a busy day, and in the afternoon a spike. Days
like it were recorded before, and agents begin with what the planner learns from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.micro_batches import load_within
from scaler.model.nodes import NodeType

APP = "demo"
PARSE, COUNT = OPERATORS = ("parse", "count")
SMALL, LARGE = NODES = (NodeType("small", 1.0, 1.0), NodeType("large", 1.8, 2.1))
MEANS = {PARSE: 0.125, COUNT: 0.075}  # seconds
SCV = 0.5  # squared coefficient of variation of the service time
BOUNDS = {PARSE: 5.0, COUNT: 5.0}  # seconds, on the whole response time of each
ETA_V, ETA_R = 0.1, 0.3
WEIGHTS = {"perf": 0.5, "rcf": 0.05, "res": 0.45}
K_MAX = 4
SLOT_S = 10.0
NIGHT, NOON, SPIKE = 4.0, 9.0, 15.0  # lines per second
DAY = (  # share of the run, and lines per second there
    (0.0, NIGHT), (0.25, NIGHT), (0.38, NOON), (0.58, NOON), (0.60, SPIKE), (0.68, SPIKE), (0.70, NOON), (0.75, NOON),
    (0.95, NIGHT), (1.0, NIGHT),
)  # fmt: skip
LEAST_DAYS, LEAST_SLOTS = 3, 120  # that were recorded before, from which agents begin with what a day is like
HIGHEST = 20.0  # lines per second that a slot may have: the spike's, and what chance adds
WARM_UP_S = 60.0  # of night before the day begins, in which queries and their executors start
PIECE_S = 0.6  # of lines in a file
TRIGGER_S, OVERHEAD_S, NOISE_S = 2.0, 0.8, 0.3  # of a batch, seconds; the last two as seen on two cores
# Of a change, as seen on two cores: new executors start their Python in a batch, and slow each other.
HOLD_S = {"out": {"base_s": 0.5, "each_s": 2.7}, "in": {"base_s": 0.5}}
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

    minutes: float = 8.0
    seed: int = 1
    on: Mapping[str, str] = field(default_factory=dict)  # operators that are kept on one node type, and on which

    def node_types(self, operator: str) -> list[str]:
        """The node types that it may use."""
        return [self.on[operator]] if operator in self.on else [node.name for node in NODES]

    @property
    def seconds(self) -> float:
        return 60.0 * self.minutes

    def rate(self, second: float) -> float:
        """Lines per second, so many seconds after the day began."""
        shares, rates = zip(*DAY, strict=True)
        return float(np.interp(second / self.seconds, shares, rates))

    def pieces(self) -> list[int]:
        """Number of lines of each file, from the warm-up on."""
        starts = np.arange(-WARM_UP_S, self.seconds, PIECE_S)
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


def record_days(plan: Plan, file: Path) -> Path:
    """Write the rates of the days before, slot by slot: of the same shape, and drawn apart from the run's own."""
    slots = count_slots(plan)
    days = max(LEAST_DAYS, -(-LEAST_SLOTS // slots))
    means = np.array([plan.rate((slot + 0.5) * SLOT_S) for slot in range(slots)] * days)
    rates = np.random.default_rng([plan.seed, days]).poisson(SLOT_S * means) / SLOT_S
    file.write_text("".join(f"{rate:g}\n" for rate in rates))
    return file


def count_slots(plan: Plan) -> int:
    return max(4, round(plan.seconds / SLOT_S))


def describe(plan: Plan, days: Path) -> dict[str, Any]:
    """The description of the application: a scenario's tables. `days` is the file of its recorded rates."""
    batches = {"trigger_s": TRIGGER_S, "overhead_s": OVERHEAD_S, "noise_s": NOISE_S}
    shared = {"scv": SCV, "k_max": K_MAX, "batches": batches, "hold": HOLD_S}
    operators = [
        {"name": PARSE, "service_time": MEANS[PARSE], "selectivity": WORDS_A_LINE, **shared},
        {"name": COUNT, "service_time": MEANS[COUNT], "stateful": True, **shared},
    ]
    return {
        "application": {"name": APP, "operator": operators, "edge": [{"from": PARSE, "to": COUNT}]},
        "trace": {"file": str(days), "step_s": SLOT_S, "highest_rate": HIGHEST},
        "infrastructure": {"node": [{"name": n.name, "speedup": n.speedup, "price": n.price} for n in NODES]},
        "qos": {"r_max": sum(BOUNDS.values()), "eta_v": ETA_V, "eta_r": ETA_R},
        "weights": WEIGHTS,
        "policy": {"name": "planner"},
        "run": {"slot_s": SLOT_S, "plant": "batches"},
    }


def count_static() -> dict[str, int]:
    """Large replicas of each operator that serve the spike within its bound, were they there all the time."""
    load = load_within(BOUNDS[PARSE], TRIGGER_S, OVERHEAD_S, 0.0, 1.0)
    return {
        operator: int(np.ceil(SPIKE * gain * MEANS[operator] / (LARGE.speedup * load)))
        for operator, gain in ((PARSE, 1.0), (COUNT, WORDS_A_LINE))
    }
