"""Keys of a plan, their kinds, defaults and flags."""

from __future__ import annotations

from typing import Any

from tuner.scenario.layout import DEFAULTS
from tuner.scenario.toml_table import NUMBER, SHARES, TABLE, TABLES, TEXT, TEXTS, WHOLE, WHOLES, Kind

PLAN: dict[str, Kind] = {
    "name": TEXT,
    "workload": TABLES,
    "application": TABLES,
    "infrastructures": TEXTS,
    "n_res": WHOLES,
    "k_max": WHOLES,
    "policies": TEXTS,
    "options": TABLE,
    "seeds": WHOLES,
    "r_max": NUMBER,
    "weights": SHARES,
    "plant": TEXT,
    "levels": WHOLE,
    "gamma": NUMBER,
}
WORKLOAD: dict[str, Kind] = {"name": TEXT, "trace": TABLE, "application": TABLE}
PLAN_DEFAULTS: dict[str, Any] = {
    "application": [{}],
    "infrastructures": [DEFAULTS["infrastructure"]["name"]],
    "n_res": None,  # as many as a scenario takes
    "k_max": None,  # the application's own
    "policies": DEFAULTS["policy"]["names"],
    "options": {},
    "seeds": DEFAULTS["run"]["seeds"],
    "r_max": DEFAULTS["qos"]["r_max"],
    "weights": DEFAULTS["weights"],
    "plant": DEFAULTS["run"]["plant"],
    "levels": DEFAULTS["run"]["levels"],
    "gamma": DEFAULTS["run"]["gamma"],
}
LISTS = ("infrastructures", "n_res", "k_max")
FLAGS = {
    "policies": "--policy",
    "options": "--option",
    "seeds": "--seeds",
    "n_res": "--n-res",
    "k_max": "--k-max",
}
