"""Grant the changes that operators of one application want in a slot: together, and within a budget of changes.

A slot counts as reconfigured once, however many operators change in it: they share the pause. So each operator states
what its change is worth without the price of the pause, and all such changes are made in one slot where together they
are worth more than it ("shared fixed cost"; Russo Russo 2018 leaves this open). The price is that of the whole weight;
each operator alone plans with a lower one, because others will often pay with it.

The share of slots that may reconfigure, eta_R, is a token bucket: it is filled at eta_R a slot up to a depth, and a
reconfigured slot takes a token. The emptier it is, the more a slot's changes must be worth. A change that averts a
violation is never refused: where there is no token for it, one is owed, and paid before the bucket fills again, and the
change is made without those that would share its pause. What adds without a token is bounded by what was removed with
one, so that in T slots at most

    eta_R T + depth + (changes that only add, from the fewest replicas to the most)

are reconfigured, whatever the load and the policy; but what is lost, and replaced, comes on top.

Notation: n operators; gains [n] in units of the pause's price; account [2] tokens, and tokens owed.
"""

from __future__ import annotations

import math

import numpy as np

from scaler.model.change_budget import ChangeBudget
from scaler.model.jit import jit
from scaler.model.kernel import Floats, Integers, KernelView, Problem, delta_of

NO_WISH, PAYS_WITH_OTHERS, PAYS_ALONE, AVERTS = range(4)  # what an operator's change is to the slot
GRANTED, WORTH_LESS, NO_TOKEN, TOO_DEAR = range(4)  # what becomes of them but for those that avert
UNLIMITED = -1.0  # depth of no budget


def open_account(budget: ChangeBudget | None) -> Floats:
    """A full bucket that owes nothing."""
    return np.array([0.0 if budget is None else budget.depth, 0.0])


def price_pause(p: Problem) -> tuple[Problem, Problem]:
    """The problem with the whole price of a pause, and with none; they share its arrays."""
    return p._replace(w_rcf=p.pause), p._replace(w_rcf=0.0)


@jit
def refill(account: Floats, per_slot: float, depth: float, slots: float) -> None:
    """Fill the bucket for so many slots; what is owed is paid first."""
    filled = per_slot * slots
    paid = min(account[1], filled)
    account[1] -= paid
    account[0] = min(depth, account[0] + filled - paid)


@jit
def settle_slot(wishes: Integers, gains: Floats, account: Floats, depth: float) -> int:
    """Decide on the changes of one slot, and take the token for them; of no depth (< 0) there is no budget."""
    averts, alone, total = False, False, 0.0
    for o in range(wishes.shape[0]):
        if wishes[o] != NO_WISH:
            averts = averts or wishes[o] == AVERTS
            alone = alone or wishes[o] == PAYS_ALONE
            total += max(0.0, gains[o])
    if not averts and not alone and not total > 1.0:
        return WORTH_LESS
    if depth < 0.0:
        return GRANTED
    if account[0] < 1.0:
        account[1] += averts
        return NO_TOKEN
    if not averts and max(total, 1.0) - 1.0 < scarcity(account, depth):
        return TOO_DEAR
    account[0] -= 1.0
    return GRANTED


@jit
def is_made(outcome: int, wish: int) -> bool:
    """Whether an operator's change is made, in a slot with this outcome."""
    return wish == AVERTS or (outcome == GRANTED and wish != NO_WISH)


@jit
def scarcity(account: Floats, depth: float) -> float:
    """What changes must be worth beyond the pause, in its price: 0 with a half full bucket, 1 without a token."""
    return max(0.0, 1.0 - 2.0 * account[0] / depth) if depth > 0.0 else 0.0


@jit
def value_wish(whole: Problem, without: float, stays: float, alone: bool) -> float:
    """Worth of a change in units of the pause's price, from what it costs without the pause and what staying does."""
    gain = (stays - without) / whole.w_rcf if whole.w_rcf > 0.0 else np.inf
    return max(1.0, gain) if alone or math.isnan(gain) else gain


@jit
def weigh_wish(p: Problem, k: Integers, seen: KernelView, action: int, alone: bool) -> int:
    """What an action is to the slot.

    Adding is taken to avert a violation, for nothing is added for another reason; an exchange that adds capacity is
    where answers are late.
    """
    if action == 0:
        return NO_WISH
    capacity, removed = 0.0, 0
    for i in range(k.shape[0]):
        delta = delta_of(p, k, action, i)
        capacity += delta * p.speedup[i]
        removed += max(0, -delta)
    if alone and capacity > 0.0 and (removed == 0 or seen.violated):
        return AVERTS
    return PAYS_ALONE if alone else PAYS_WITH_OTHERS
