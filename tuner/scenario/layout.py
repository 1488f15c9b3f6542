"""What a scenario may state: its tables, their keys and kinds, their defaults, and the flags that say the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.task import check_quantile
from sim.toml_table import (
    FLAG,
    MOMENT,
    NUMBER,
    SHARES,
    TABLE,
    TABLES,
    TEXT,
    TEXTS,
    WHOLE,
    WHOLES,
    Kind,
)

FIRST = Kind(
    "a node type or a table of whole numbers by node type",
    lambda value: TEXT.fits(value) or (isinstance(value, dict) and all(map(WHOLE.fits, value.values()))),
)
MIGRATION = Kind("a strategy's name or a table of it", lambda value: TEXT.fits(value) or TABLE.fits(value))
SLOT_S = 60.0  # seconds of a slot where nothing states it
TWO_WEEKS = 20_160  # slots of a minute
DEFAULTS: dict[str, dict[str, Any]] = {
    "application": {"builtin": "single", "service_rate": 180.0, "k_max": 10},
    "trace": {"generator": "diurnal", "low": 50.0, "high": 600.0, "start": date(2026, 1, 5)},
    "infrastructure": {"name": "A"},
    "qos": {"r_max": 0.05, "eta_v": 0.05, "eta_r": 0.10},
    "weights": {"perf": 0.6, "rcf": 0.2, "res": 0.2},
    "policy": {"names": ["threshold-c", "planner"]},
    "run": {"seeds": [0], "plant": "memoryless", "levels": 30, "gamma": 0.99},
}
KINDS: dict[str, dict[str, Kind]] = {
    "application": {
        "builtin": TEXT,
        "file": TEXT,
        "operator": TABLES,
        "edge": TABLES,
        "sources": SHARES,
        "name": TEXT,
        "service_rate": NUMBER,
        "k_max": WHOLE,
    },
    "trace": {
        "file": TEXT,
        "generator": TEXT,
        "step_s": NUMBER,
        "start": MOMENT,
        "slots": WHOLE,
        "highest_rate": NUMBER,
    },
    "infrastructure": {
        "name": TEXT,
        "file": TEXT,
        "node": TABLES,
        "normaliser_price": NUMBER,
        "n_res": WHOLE,
        "first": FIRST,
    },
    "qos": {"r_max": NUMBER, "bounds": SHARES, "paths": SHARES, "quantile": NUMBER, "eta_v": NUMBER, "eta_r": NUMBER},
    "weights": {"perf": NUMBER, "rcf": NUMBER, "res": NUMBER},
    "policy": {"name": TEXT, "names": TEXTS, "options": TABLE},
    "run": {
        "seeds": WHOLES,
        "plant": TEXT,
        "one_at_a_time": FLAG,
        "together": FLAG,
        "budget": FLAG,
        "migration": MIGRATION,
        "slot_s": NUMBER,
        "pause_s": NUMBER,
        "start_s": NUMBER,
        "levels": WHOLE,
        "gamma": NUMBER,
    },
}
SOURCES = {  # keys of which a table has one: they say where the rest comes from
    "application": ("builtin", "file", "operator"),
    "trace": ("file", "generator"),
    "infrastructure": ("name", "file", "node"),
    "policy": ("name", "names"),
}
FLAGS: dict[str, dict[str, str]] = {
    "application": {
        "builtin": "--application",
        "file": "--application",
        "service_rate": "--service-rate",
        "k_max": "--k-max",
    },
    "trace": {"file": "--trace", "generator": "--generator", "slots": "--slots", "highest_rate": "--highest-rate"},
    "infrastructure": {"name": "--infrastructure", "file": "--infrastructure", "n_res": "--n-res"},
    "qos": {"r_max": "--r-max", "quantile": "--quantile"},
    "policy": {"names": "--policy", "options": "--option"},
    "run": {"plant": "--plant", "migration": "--migration", "seeds": "--seed/--seeds"},
}


def name_flag(table: str, key: str) -> str:
    if table == "weights":
        return "--weights"
    if table == "qos" and key.startswith("eta"):  # of `tuner app add` and `tuner tune`
        return f"--{key.replace('_', '-')}"
    return FLAGS.get(table, {}).get(key, f"--parameter {key}" if table == "trace" else f"{table} {key}")


@dataclass(frozen=True, slots=True)
class QoS:
    """R_max in seconds, for every path or by path ("parse -> count"); how often it and the deployment may be broken.

    R_max is about the mean of a slot's response times, or about a quantile of them.
    """

    r_max: float
    eta_v: float = 0.05  # share of slots in which an answer may be late
    eta_r: float = 0.10  # share of slots in which replicas may be added or removed
    paths: Mapping[str, float] = field(default_factory=dict, hash=False)
    quantile: float | None = None  # .5 to .999; None: the mean, as in the paper

    def __post_init__(self) -> None:
        for name, value in (("R_max", self.r_max), *self.paths.items()):
            if not 0.0 < value < math.inf:
                raise BadInput(f"the bound of {name} is {value} s, and must be a positive number")
        for name, value in (("eta_v", self.eta_v), ("eta_r", self.eta_r)):
            if not 0.0 < value < 1.0:
                raise BadInput(f"{name} is {value}, and must lie between 0 and 1: it is a share of the slots")
        check_quantile(self.quantile)
