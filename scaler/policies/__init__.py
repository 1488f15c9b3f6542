"""Every policy by name. Adding one is one file and one line here; the contract tests pick it up."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from scaler.model.errors import BadInput

POLICIES: dict[str, str] = {
    "static": "static:STATIC",
    "threshold-c": "threshold:THRESHOLD_C",
    "threshold-s": "threshold:THRESHOLD_S",
    "threshold-o": "threshold:THRESHOLD_O",
    "ql": "q_learning:Q_LEARNING",
    "ql-pds": "pds:PDS",
    "ql-pds-plus": "pds:PDS_PLUS",
    "ql-pds-planned": "pds:PDS_PLANNED",
    "ql-fa": "linear:QL_FA",
    "dql": "deep.q_network:DQL",
    "dql-pds": "deep.pds_network:DQL_PDS",
    "dql-pds-plus": "deep.pds_network:DQL_PDS_PLUS",
    "planner": "planner:PLANNER",
    "value-iteration": "value_iteration:VALUE_ITERATION",
    "model-based": "model_based:MODEL_BASED",
    "drs-c": "drs:DRS_C",
    "drs-s": "drs:DRS_S",
    "drs-o": "drs:DRS_O",
    "lohrmann-c": "lohrmann:LOHRMANN_C",
    "lohrmann-s": "lohrmann:LOHRMANN_S",
    "lohrmann-o": "lohrmann:LOHRMANN_O",
    "heinze-c": "heinze:HEINZE_C",
    "heinze-s": "heinze:HEINZE_S",
    "heinze-o": "heinze:HEINZE_O",
    "ds2-c": "ds2:DS2_C",
    "ds2-s": "ds2:DS2_S",
    "ds2-o": "ds2:DS2_O",
    "dhalion-c": "dhalion:DHALION_C",
    "dhalion-s": "dhalion:DHALION_S",
    "dhalion-o": "dhalion:DHALION_O",
    "pid-c": "pid:PID_C",
    "pid-s": "pid:PID_S",
    "pid-o": "pid:PID_O",
    "spark-ratio-c": "spark_ratio:SPARK_RATIO_C",
    "spark-ratio-s": "spark_ratio:SPARK_RATIO_S",
    "spark-ratio-o": "spark_ratio:SPARK_RATIO_O",
    "flink-c": "flink:FLINK_C",
    "flink-s": "flink:FLINK_S",
    "flink-o": "flink:FLINK_O",
    "threshold-search-c": "threshold_search:THRESHOLD_SEARCH_C",
    "threshold-search-s": "threshold_search:THRESHOLD_SEARCH_S",
    "threshold-search-o": "threshold_search:THRESHOLD_SEARCH_O",
}


def find_policy(name: str) -> Any:
    """The policy of this name; its module is loaded now, so that torch is imported by those who ask for it."""
    if name not in POLICIES:
        raise BadInput(f"there is no policy {name!r}; choose one of {', '.join(POLICIES)}")
    module, _, attribute = POLICIES[name].partition(":")
    try:
        return getattr(import_module(f"scaler.policies.{module}"), attribute)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        needs = "needs torch, which the extra 'deep' installs (pip install torch==2.13.0)"
        raise BadInput(f"policy {name!r} {needs}") from error
