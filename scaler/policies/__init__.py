"""Registries of policies and of coordinators: one file and one line each; the contract tests run over all of them."""

from __future__ import annotations

from scaler.model.errors import BadInput, suggest
from scaler.model.policy import Kernel
from scaler.model.registry import load_named
from scaler.policies.coordinator import Coordinator

NODE_CHOICES = "csop"  # {} below: on the cheapest, the fastest, the first node type, the cheapest at the peak
REGISTRY: dict[str, str] = {
    "static": "rules.static:STATIC",
    "threshold-{}": "rules.threshold:THRESHOLD_{}",
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
    "full-backup": "learning.full_backup:FULL_BACKUP",
    "drs-{}": "rules.drs:DRS_{}",
    "lohrmann-{}": "rules.lohrmann:LOHRMANN_{}",
    "heinze-{}": "learning.heinze:HEINZE_{}",
    "azimi-{}": "learning.azimi:AZIMI_{}",
    "ds2-{}": "rules.ds2:DS2_{}",
    "dhalion-{}": "rules.dhalion:DHALION_{}",
    "pid-{}": "rules.pid:PID_{}",
    "spark-ratio-{}": "rules.spark_ratio:SPARK_RATIO_{}",
    "flink-{}": "rules.flink:FLINK_{}",
    "opo-{}": "rules.opo:OPO_{}",
    "threshold-search-{}": "rules.threshold_search:THRESHOLD_SEARCH_{}",
}
POLICIES = {
    name.format(letter): place.format(letter.upper())
    for name, place in REGISTRY.items()
    for letter in (NODE_CHOICES if "{}" in name else ("",))
}
COORDINATORS = {  # decide for all operators of an application at once
    "ds2-graph-c": "rules.ds2_graph:DS2_GRAPH_C",
    "ds2-graph-s": "rules.ds2_graph:DS2_GRAPH_S",
    "ds2-graph-o": "rules.ds2_graph:DS2_GRAPH_O",
    "ds2-graph-p": "rules.ds2_graph:DS2_GRAPH_P",
    "drs-graph-c": "rules.drs_graph:DRS_GRAPH_C",
    "drs-graph-s": "rules.drs_graph:DRS_GRAPH_S",
    "drs-graph-o": "rules.drs_graph:DRS_GRAPH_O",
    "drs-graph-p": "rules.drs_graph:DRS_GRAPH_P",
    "dhalion-graph-c": "rules.dhalion_graph:DHALION_GRAPH_C",
    "dhalion-graph-s": "rules.dhalion_graph:DHALION_GRAPH_S",
    "dhalion-graph-o": "rules.dhalion_graph:DHALION_GRAPH_O",
    "dhalion-graph-p": "rules.dhalion_graph:DHALION_GRAPH_P",
    "pid-delay-c": "rules.pid_delay:PID_DELAY_C",
    "pid-delay-s": "rules.pid_delay:PID_DELAY_S",
    "pid-delay-o": "rules.pid_delay:PID_DELAY_O",
    "pid-delay-p": "rules.pid_delay:PID_DELAY_P",
}


def find_coordinator(name: str) -> Coordinator:
    """The coordinator of this name."""
    coordinator: Coordinator = load_named("coordinator", COORDINATORS, name, __name__)
    return coordinator


def find_policy(name: str) -> Kernel:
    """The policy of this name; its module is loaded now, so that torch is imported by those who ask for it."""
    if name in COORDINATORS:
        raise BadInput(f"{name!r} decides for all operators at once, and runs in replays alone; choose another policy")
    try:
        kernel: Kernel = load_named("policy", POLICIES, name, __name__)
        return kernel
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        needs = "needs torch, which the extra 'deep' installs (pip install torch==2.13.0)"
        raise BadInput(f"policy {name!r} {needs}") from error


def find_any(name: str) -> Kernel | Coordinator:
    """The policy or the coordinator of this name."""
    if name not in COORDINATORS and name not in POLICIES:
        raise BadInput(f"there is no policy {name!r}; {suggest(name, (*POLICIES, *COORDINATORS))}")
    return find_coordinator(name) if name in COORDINATORS else find_policy(name)
