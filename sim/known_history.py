"""Policies that begin a replay with a history: what a policy learned from it goes through the codec of experience.

So a replay with a history is worth what a driver has that the tuner sent the same history to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scaler.model.experience import adopt_experience, parse_experience, share_experience
from scaler.model.kernel import Floats
from scaler.model.policy import Policy
from sim.replay import Record

NOT_RECORDED = Record(np.empty(0), np.empty(0), np.empty(0, np.int64))


def learn_history(operation: Any, rates: Floats) -> Policy:
    """Replay the rates, and return the policy with what it learned."""
    operation.advance(rates, max(1, len(rates)), np.zeros((1, 4)), NOT_RECORDED)
    learned: Policy = operation.policy
    return learned


def hand_on(learned: Policy, new: Policy, name: str, slot_s: float) -> None:
    """Let a new policy begin with what another learned, as it would arrive at a driver."""
    document = share_experience(learned, name, slot_s)
    if document is not None:
        adopt_experience(new, parse_experience(document))
