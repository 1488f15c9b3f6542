"""The deployment of a shadow run: what a candidate would see had it led from the start."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scaler.agent.node_view import NodeView
from scaler.guards.guard import ChangeHistory
from scaler.model.nodes import NOTHING, Deployment, Reconfiguration
from scaler.model.policy import Observation
from scaler.model.queueing import mg1_response


@dataclass(frozen=True, slots=True)
class Virtual:
    """Where a candidate's deployment would stand by now."""

    deployment: Deployment
    history: ChangeHistory
    before: Observation | None = None  # in this world, in the slot before; None after a gap
    done: Reconfiguration = NOTHING


def imagine(view: NodeView, deployment: Deployment, seen: Observation) -> Observation:
    """The slot as an M/G/1 queue on the worst replica of this deployment would have met it."""
    share = seen.rate / deployment.parallelism
    moments, speed = view.task.moments, view.slowest(deployment).speedup
    response = float(mg1_response(share, moments.mean, moments.variance, speed)) + view.constant
    return replace(seen, utilisation=share * moments.mean / speed, response=response, deployment=deployment)
