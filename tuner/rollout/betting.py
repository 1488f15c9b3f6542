"""Anytime-valid sequential test that a share of slots exceeds its limit (testing by betting).

Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024. A gambler who starts with 1
stakes a part of his wealth on every block: with x the share of broken slots in it and m the limit, wealth is multiplied
by 1 + l (x - m), where l in [0, 1 / m) is his bet. Were the limit kept, wealth would be a supermartingale, and would
ever reach 1 / alpha with probability alpha at most (Ville), however often it is checked. The best bet is not known
beforehand, so the wealth is split evenly over several gamblers.

Neighbouring slots resemble each other: a burst of broken ones would be counted as many witnesses where it is one. Hence
blocks, and bets that leave a good part of the wealth alone in a block without any broken slot. Over a day of minutes at
the very limit, in bursts of 3 on average, false alarms stay within alpha = 5 %; in bursts of 6 they reach about 7 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scaler.model.kernel import Floats

BLOCK = 20  # slots
BETS = (0.1, 0.2, 0.4, 0.6)  # parts of the wealth that a block without a broken slot costs
MIN_LIMIT = 1e-4


def cut_blocks(broken: Sequence[bool] | NDArray[np.bool_], block: int = BLOCK) -> Floats:
    """Share of broken slots in every whole block [B]; the rest at the end waits for more."""
    flags = np.asarray(broken, dtype=np.float64)
    whole = flags.size // block * block
    return np.asarray(flags[:whole].reshape(-1, block).mean(axis=1))


def find_wealth(shares: Floats, limit: float) -> Floats:
    """Wealth of all gamblers together after every block [B]."""
    m = min(max(limit, MIN_LIMIT), 1.0)
    bets = np.array(BETS)[:, None] / m
    return np.asarray(np.cumprod(1.0 + bets * (shares[None, :] - m), axis=1).mean(axis=0))


def measure_doubt(broken: Sequence[bool] | NDArray[np.bool_], limit: float, block: int = BLOCK) -> float:
    """Largest probability that slots within the limit would ever have looked so bad; 1 before any block."""
    wealth = find_wealth(cut_blocks(broken, block), limit)
    return float(min(1.0, 1.0 / wealth.max())) if wealth.size else 1.0


def exceeds(broken: Sequence[bool] | NDArray[np.bool_], limit: float, alpha: float, block: int = BLOCK) -> bool:
    """Whether more than the limit break; wrong with probability alpha at most."""
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha is {alpha}, and must lie between 0 and 1")
    return measure_doubt(broken, limit, block) <= alpha


def share_of(broken: Sequence[bool] | NDArray[np.bool_]) -> float:
    flags = np.asarray(broken, dtype=np.float64)
    return float(flags.mean()) if flags.size else math.nan
