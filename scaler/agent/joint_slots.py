"""Settle the changes of a slot between the agents of one application in this driver (joint_changes.py).

Agents decide on threads of their own, on one grid of slots. Each hands in its change, or none, and waits until all
have, for two seconds or a tenth of the slot at most; whoever comes later is settled by itself, beside what was done.
The budget's account is in every agent's checkpoint, and the newest of them counts.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.model.change_budget import ChangeBudget
from scaler.model.joint_changes import (
    GRANTED,
    NO_TOKEN,
    NO_WISH,
    UNLIMITED,
    is_made,
    open_account,
    refill,
    scarcity,
    settle_slot,
)
from scaler.model.policy import Arrays

LONGEST_WAIT_S, LONGEST_WAIT = 2.0, 0.1  # seconds, share of a slot
ACCOUNT = "change_budget"  # in checkpoints


@dataclass(frozen=True, slots=True)
class SlotOutcome:
    """What became of an operator's change, and of the budget."""

    is_made: bool
    outcome: int  # GRANTED, WORTH_LESS, NO_TOKEN, TOO_DEAR
    worth: float  # of all changes together, in units of the pause's price
    needed: float  # what they had to be worth
    tokens: float | None = None  # left; None: there is no budget
    owed: float = 0.0


class JointSlots:
    """The board of one application's agents in a driver; one that nobody joined settles each by itself."""

    def __init__(self) -> None:
        self.turn = threading.Condition()
        self.members: set[str] = set()
        self.start = -math.inf  # of the slot on the board
        self.wishes: dict[str, tuple[int, float]] = {}
        self.outcome: int | None = None  # of the slot; None until it is settled
        self.figures = (0.0, 0.0)
        self.account: NDArray[np.float64] | None = None

    def join(self, operator: str) -> None:
        with self.turn:
            self.members.add(operator)

    def leave(self, operator: str) -> None:
        with self.turn:
            self.members.discard(operator)
            self.turn.notify_all()

    def settle(
        self, operator: str, start: float, slot_s: float, wish: tuple[int, float], budget: ChangeBudget | None
    ) -> SlotOutcome:
        """Hand in what an operator wants of a slot, and its worth; return what becomes of it once all have."""
        with self.turn:
            if start > self.start:
                self.open(start, slot_s, budget)
            late = start < self.start or self.outcome is not None
            if not late:
                self.wishes[operator] = wish
                self.turn.notify_all()
                wait = min(LONGEST_WAIT_S, LONGEST_WAIT * slot_s)
                self.turn.wait_for(lambda: self.start > start or self.is_complete(), wait)
                if self.start == start and self.outcome is None:
                    self.outcome, self.figures = self.decide(list(self.wishes.values()), budget)
                    self.turn.notify_all()
            if self.start > start or self.outcome is None or (late and self.outcome != GRANTED):
                return self.conclude(wish[0], *self.decide([wish], budget))
            return self.conclude(wish[0], self.outcome, self.figures)

    def open(self, start: float, slot_s: float, budget: ChangeBudget | None) -> None:
        """Begin a slot, with the bucket filled for those that passed."""
        if self.account is None:
            self.account = open_account(budget)
        elif budget is not None and math.isfinite(self.start):
            refill(self.account, budget.per_slot, budget.depth, (start - self.start) / slot_s)
        self.start, self.wishes, self.outcome = start, {}, None

    def is_complete(self) -> bool:
        return self.outcome is not None or self.members <= self.wishes.keys()

    def decide(self, wishes: list[tuple[int, float]], budget: ChangeBudget | None) -> tuple[int, tuple[float, float]]:
        """The outcome of these wishes; what they are worth, and had to be."""
        assert self.account is not None
        depth = UNLIMITED if budget is None else budget.depth
        worth = sum(max(0.0, gain) for wish, gain in wishes if wish != NO_WISH)
        needed = 1.0 + scarcity(self.account, depth)
        codes, gains = np.array([wish for wish, _ in wishes]), np.array([gain for _, gain in wishes])
        return int(settle_slot(codes, gains, self.account, depth)), (worth, needed)

    def conclude(self, wish: int, outcome: int, figures: tuple[float, float]) -> SlotOutcome:
        assert self.account is not None
        tokens, owed = self.account.tolist()
        return SlotOutcome(bool(is_made(outcome, wish)), outcome, *figures, tokens, owed)

    def save(self) -> Arrays:
        """The bucket and when it was filled last, for a checkpoint."""
        with self.turn:
            return {} if self.account is None else {ACCOUNT: np.array([*self.account, self.start])}

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint's bucket where that is newer."""
        saved = arrays.get(ACCOUNT)
        with self.turn:
            if saved is not None and saved.shape == (3,) and np.isfinite(saved).all() and saved[2] > self.start:
                self.account, self.start = saved[:2].astype(np.float64), float(saved[2])
                self.wishes, self.outcome = {}, NO_TOKEN
