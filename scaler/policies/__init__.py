"""Registry of policies: one file and one line each; the contract tests run over all of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from scaler.model.errors import BadInput

POLICIES: dict[str, str] = {
    "static": "rules.static:STATIC",
    "threshold-c": "rules.threshold:THRESHOLD_C",
    "threshold-s": "rules.threshold:THRESHOLD_S",
    "threshold-o": "rules.threshold:THRESHOLD_O",
    "ql": "learning.q_learning:Q_LEARNING",
    "ql-pds": "learning.pds:PDS",
    "ql-pds-plus": "learning.pds:PDS_PLUS",
    "ql-pds-planned": "learning.pds:PDS_PLANNED",
    "ql-fa": "learning.linear:QL_FA",
    "dql": "learning.deep.deep_q_learning:DQL",
    "dql-pds": "learning.deep.deep_q_learning:DQL_PDS",
    "dql-pds-plus": "learning.deep.deep_q_learning:DQL_PDS_PLUS",
    "planner": "planner.planner:PLANNER",
    "value-iteration": "learning.value_iteration:VALUE_ITERATION",
    "model-based": "learning.model_based:MODEL_BASED",
    "drs-c": "rules.drs:DRS_C",
    "drs-s": "rules.drs:DRS_S",
    "drs-o": "rules.drs:DRS_O",
    "lohrmann-c": "rules.lohrmann:LOHRMANN_C",
    "lohrmann-s": "rules.lohrmann:LOHRMANN_S",
    "lohrmann-o": "rules.lohrmann:LOHRMANN_O",
    "heinze-c": "learning.heinze:HEINZE_C",
    "heinze-s": "learning.heinze:HEINZE_S",
    "heinze-o": "learning.heinze:HEINZE_O",
    "ds2-c": "rules.ds2:DS2_C",
    "ds2-s": "rules.ds2:DS2_S",
    "ds2-o": "rules.ds2:DS2_O",
    "dhalion-c": "rules.dhalion:DHALION_C",
    "dhalion-s": "rules.dhalion:DHALION_S",
    "dhalion-o": "rules.dhalion:DHALION_O",
    "pid-c": "rules.pid:PID_C",
    "pid-s": "rules.pid:PID_S",
    "pid-o": "rules.pid:PID_O",
    "spark-ratio-c": "rules.spark_ratio:SPARK_RATIO_C",
    "spark-ratio-s": "rules.spark_ratio:SPARK_RATIO_S",
    "spark-ratio-o": "rules.spark_ratio:SPARK_RATIO_O",
    "flink-c": "rules.flink:FLINK_C",
    "flink-s": "rules.flink:FLINK_S",
    "flink-o": "rules.flink:FLINK_O",
    "threshold-search-c": "rules.threshold_search:THRESHOLD_SEARCH_C",
    "threshold-search-s": "rules.threshold_search:THRESHOLD_SEARCH_S",
    "threshold-search-o": "rules.threshold_search:THRESHOLD_SEARCH_O",
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
