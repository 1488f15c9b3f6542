"""Predict what an operator will look like once its pending replicas serve.

A decision that waited for the one before it would add a replica each time that one arrives; one that counts pending
replicas adds as many as are needed. The arrival rate is kept; the work that replicas were seen to do is shared with
those to come, by the speed of the slowest. Their response time is not known before they serve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scaler.model.nodes import Deployment, NodeType
from scaler.model.policy import Observation

SATURATED = 1.0


def expect_arrivals(seen: Observation, asked: Deployment, nodes: Sequence[NodeType]) -> Observation:
    """As a policy is to see it; what serves more than was asked for is on its way out."""
    now, then = find_speed(seen.deployment, nodes), find_speed(asked, nodes)
    share = 1.0 if then <= 0.0 or (seen.utilisation == SATURATED and then > now) else now / then
    return replace(seen, deployment=asked, utilisation=share * seen.utilisation)


def find_speed(deployment: Deployment, nodes: Sequence[NodeType]) -> float:
    """Replicas' worth of work under an even split."""
    speeds = [node.speedup for node, n in zip(nodes, deployment.replicas, strict=True) if n > 0]
    return deployment.parallelism * min(speeds, default=0.0)


def describe_pending(seen: Deployment, asked: Deployment, names: Sequence[str]) -> str:
    """ "2 on small, now 1"."""
    pairs = zip(names, asked.replicas, seen.replicas, strict=True)
    return ", ".join(f"{wanted} on {name}, now {there}" for name, wanted, there in pairs if wanted != there)
