"""Grant a slot's changes for one token of a bucket; it is filled at the share of slots that may change.

The budget of changes (scaler/model/joint_changes.py): all changes of a slot share a token, and one that averts a
violation is never refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from scaler.model.change_budget import make_budget
from scaler.model.jit import jit
from scaler.model.joint_changes import NO_WISH, is_made, open_account, refill, settle_slot
from scaler.model.kernel import Floats, Integers
from scaler.model.pool import GRANTED, OVER_BUDGET, GrantKernel, Requests
from scaler.policies.homogeneous import read_number

ETA_R = 0.1


class State(NamedTuple):
    account: Floats  # [2] tokens, and tokens owed
    per_slot: float
    depth: float


def prepare(operators: int, options: Mapping[str, Any]) -> State:
    budget = make_budget(read_number(options, "eta_r", ETA_R, 0.0, 1.0))
    return State(open_account(budget), budget.per_slot, budget.depth)


@jit
def grant(s: State, requests: Requests, reasons: Integers) -> None:
    refill(s.account, s.per_slot, s.depth, 1.0)
    outcome = settle_slot(requests.wish, requests.worth, s.account, s.depth)
    for o in range(requests.wish.shape[0]):
        made = requests.wish[o] == NO_WISH or is_made(outcome, requests.wish[o])
        reasons[o] = GRANTED if made else OVER_BUDGET


TOKENS = GrantKernel("tokens", prepare, grant, ("eta_r",))
