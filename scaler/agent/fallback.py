"""Propose a change without an objective: the threshold policy on utilisation, after the manager was silent for long.

It uses the node type that meets the last known bound at the least price; where none was ever known, the type that the
stream runs on most, for a cheaper one might be too slow to be of use.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scaler.agent.node_view import NodeView
from scaler.model.kernel import lay_out, view_deployment
from scaler.model.nodes import Deployment, NodeType, Reconfiguration, decode
from scaler.model.policy import Observation
from scaler.model.task import Moments, Task
from scaler.policies.homogeneous import optimal
from scaler.policies.rules.threshold import decide, prepare

UNKNOWN = Moments(1e-3, 1e-6)  # thresholds do not ask for it


def fall_back(seen: Observation, nodes: tuple[NodeType, ...], k_max: int, view: NodeView | None) -> Reconfiguration:
    """The change that the threshold policy wants, in the driver's node types."""
    counts = seen.deployment.replicas
    usual = counts.index(max(counts))
    if seen.deployment.parallelism > k_max:
        return Reconfiguration(-1, usual)
    if view is not None and not view.unknown(seen.deployment):
        task = replace(view.task, k_max=k_max)
        choice = optimal(task)
        deployment = Deployment(tuple(counts[i] for i in view.places))
    else:
        task = Task(types=nodes, k_max=k_max, moments=UNKNOWN, bound=1.0, highest_rate=1.0)
        choice, deployment = usual, seen.deployment
    k = np.array(deployment.replicas, dtype=np.int64)
    p = lay_out(task)
    shown = view_deployment(p, k, min(seen.demand, 1e6 * task.highest_rate), seen.utilisation, seen.response)
    change = decode(int(decide(p, prepare(task, task, 0, {}, choice), k, shown)), len(task.types))
    placed = view is not None and not view.unknown(seen.deployment)
    return view.name_change(change) if placed and view is not None else change
