"""What each action leads to: the network inputs, and the part of its cost that is known beforehand.

The value of an action is what is known plus what the network says: `known + V(codes)`. All of it is computed for many
states at once, leading dimensions first.

Notation: N node types, A = 2 N + 1 actions, w entries of a code; R codes a state, 1 where one code yields the values of
all actions, A where each action has a code of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.kernel import Floats, Integers, Problem
from scaler.policies.learning.deep.encoding import Codes, Encoding


class Prospect(NamedTuple):
    """Of one state, or of many along leading dimensions."""

    codes: Codes  # [..., R, w]
    known: Floats  # [..., A] infinite where an action is not allowed


def replicas(p: Problem, keys: Integers) -> Integers:
    """The counts [..., N] of deployments by their keys [...]."""
    counts: Integers = keys[..., None] // p.radix % (p.k_max + 1)
    return counts


def reach(p: Problem, counts: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Counts after each action [..., A, N], and whether it is allowed [..., A]; unchanged where it is not."""
    one = np.eye(len(p.price), dtype=np.int64)
    moves = np.concatenate([np.zeros_like(one[:1]), -one, one])
    after = counts[..., None, :] + moves
    total = after.sum(axis=-1)
    allowed = (after.min(axis=-1) >= 0) & (total >= 1) & (total <= p.k_max)
    return np.where(allowed[..., None], after, counts[..., None, :]), allowed


def own_state(p: Problem, encoding: Encoding, first_bad: Integers, counts: Integers, levels: Integers) -> Prospect:
    """For a network that values every action of a state: the state itself, and nothing known beforehand."""
    _, allowed = reach(p, counts)
    return Prospect(encoding.encode(counts, levels)[..., None, :], np.where(allowed, 0.0, np.inf))


def post_states(p: Problem, encoding: Encoding, first_bad: Integers, counts: Integers, levels: Integers) -> Prospect:
    """For a network that values post-decision states: one per action, with the cost that is known or estimated."""
    after, allowed = reach(p, counts)
    levels = np.broadcast_to(levels[..., None], allowed.shape)
    known = p.w_res * (after @ p.price) + p.w_perf * expected_bad(p, first_bad, after, levels)
    known[..., 1:] += p.w_rcf
    return Prospect(encoding.encode(after, levels), np.where(allowed, known, np.inf))


def expected_bad(p: Problem, first_bad: Integers, counts: Integers, levels: Integers) -> NDArray[np.bool_]:
    """Whether by the model deployments [..., N] violate the bound at levels [...]."""
    slowest = np.where(counts > 0, p.rank, len(p.price)).min(axis=-1)
    bad: NDArray[np.bool_] = levels >= first_bad[counts.sum(axis=-1), slowest]
    return bad
