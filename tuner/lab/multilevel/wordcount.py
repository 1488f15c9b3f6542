"""Setting of the paper: WordCount on three regions, under the taxi trace read as tuples per second.

The paper leaves open which operator runs where, how many nodes its simple policy keeps idle, and the rate levels and
latency bounds of the operators' learners. The readings here bring its tables out: regions (dc1, dc2, dc3, dc3), two
idle nodes, ten levels up to 700 tuples per second at the source, and 11 ms each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from scaler.model.nodes import NodeType
from scaler.model.pool import Region
from scaler.model.task import Moments, Weights
from sim.application import Application, Edge, Operator
from sim.estate import Site
from sim.estate_replay import EstateSetting
from sim.infrastructure import Infrastructure
from sim.setting import Setting
from sim.trace import Trace, window
from tuner.lab.published.tables import read_workload

SLOTS = 100_000
SERVICE_RATE = 330.0  # tuples per second of a replica
R_MAX, R_MAX_EACH = 0.060, 0.011  # seconds
K_MAX = 20
HIGHEST_RATE, LEVELS = 700.0, 10
THIRDS = Weights(1 / 3, 1 / 3, 1 / 3)
OPERATORS = (("splitter", 5.0), ("filter", 0.4), ("counter", 1.0), ("consumer", 1.0))  # tuples out for each in
HOMES = {"splitter": "dc1", "filter": "dc2", "counter": "dc3", "consumer": "dc3"}
DELAYS = {("dc1", "dc2"): 0.002, ("dc1", "dc3"): 0.002, ("dc2", "dc3"): 0.001}
NODE_SLOTS, MOST_NODES = 2, 50
APPLICATION_POLICIES = {"threshold": "threshold-c", "RL": "full-backup"}
APPLICATION_OPTIONS: dict[str, dict[str, Any]] = {"threshold": {}, "RL": {"backup_every": 1}}


@dataclass(frozen=True, slots=True)
class PoolChoice:
    """A pool policy with its options, as a row names it."""

    pool: str
    options: tuple[tuple[str, Any], ...] = ()

    def to_options(self) -> Mapping[str, Any]:
        return dict(self.options)


def make_wordcount() -> Application:
    """Splitter, filter, counter and consumer in a row; services of fixed length."""
    operators = tuple(
        Operator(name, Moments(1.0 / SERVICE_RATE, 0.0), K_MAX, selectivity) for name, selectivity in OPERATORS
    )
    names = [name for name, _ in OPERATORS]
    edges = tuple(Edge(one, other) for one, other in pairwise(names))
    return Application(operators, edges, name="wordcount")


def make_site() -> Site:
    names = ("dc1", "dc2", "dc3")
    return Site(tuple(Region(name, NODE_SLOTS, MOST_NODES) for name in names), HOMES, DELAYS)


@cache
def load_rates(folder: Path, slots: int) -> Trace:
    """The first slots of the taxi trace; read once a worker."""
    trace = read_workload("taxi", folder)
    return window(trace, 0, min(slots, trace.rates.size))


def make_estate_setting(
    trace: Trace, application_policy: str, choice: PoolChoice, empties: bool = False
) -> EstateSetting:
    """One row: a policy of the operators, and one of the pools."""
    setting = Setting(
        application=make_wordcount(),
        infrastructure=Infrastructure("uniform", (NodeType("node", 1.0, 1.0),), 1.0),
        trace=trace,
        policy=APPLICATION_POLICIES[application_policy],
        r_max=R_MAX,
        bounds=dict.fromkeys(HOMES, R_MAX_EACH),
        weights=THIRDS,
        highest_rate=HIGHEST_RATE,
        levels=LEVELS,
        options=APPLICATION_OPTIONS[application_policy],
    )
    return EstateSetting(setting, make_site(), choice.pool, choice.to_options(), empties=empties)
