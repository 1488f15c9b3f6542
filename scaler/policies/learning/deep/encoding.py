"""Encode states and what actions lead to as inputs of a network (the paper's four encodings).

Where inputs are bits, a code holds the places of the ones and not the vector, so that a network's first layer is a sum
of a few rows of weights. A bit that is not there is the place just past the last, whose weights stay zero.

In the published code, a node type out of use writes the bit just before its own: that of K replicas of the type before
it, or for the first type the very last bit, of the highest level. `as_published` does so in `reduced2`,
from which the tables come.

The value of an action is `known + V(codes)`: what is known of its cost beforehand plus what the network says.

Notation: N node types, K the most replicas, L rate levels, A = 2 N + 1 actions, w entries of a code; R codes a state:
1 where one code yields the values of all actions, A where each action has a code of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scaler.model.errors import BadInput
from scaler.model.kernel import Floats, Integers, Problem

LONGEST = 2048  # inputs; a network of this width has 6 million weights, and its training step takes some 20 ms

Codes = NDArray[Any]  # [..., w] places of ones (int64), or [..., length] inputs (float32)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How many inputs a network has, and what it reads of counts [..., N] at levels [...]."""

    length: int
    encode: Callable[[Integers, Integers], Codes]


def minimal(p: Problem, as_published: bool = False) -> Encoding:
    """Each count as a share of K, the level as a share of the highest: N + 1 real inputs."""

    def encode(counts: Integers, levels: Integers) -> Codes:
        height = levels[..., None] / max(1, p.levels - 1)
        return np.concatenate([counts / p.k_max, height], axis=-1).astype(np.float32)

    return Encoding(len(p.price) + 1, encode)


def large(p: Problem, as_published: bool = False) -> Encoding:
    """One bit per deployment of 1 to K replicas, one per level.

    Deployments are numbered without gaps by the combinatorial number system: the partial sums of the counts, each made
    strictly larger than the one before, are a combination of N out of N + K; the empty one comes first and is left out.
    """
    types = len(p.price)
    deployments = comb(types + p.k_max, types) - 1
    check_length("large", deployments + p.levels)
    rising = np.arange(types)
    binomials = np.array([[comb(top, i + 1) for top in range(types + p.k_max)] for i in rising])

    def encode(counts: Integers, levels: Integers) -> Codes:
        numbers = binomials[rising, counts.cumsum(axis=-1) + rising].sum(axis=-1) - 1
        return np.stack([numbers, deployments + levels], axis=-1)

    return Encoding(deployments + p.levels, encode)


def reduced1(p: Problem, as_published: bool = False) -> Encoding:
    """One bit per node type and count of 1 to K; the level as a share of the highest, one number: K N + 1 inputs."""
    bits = p.k_max * len(p.price)
    check_length("reduced1", bits + 1)

    def encode(counts: Integers, levels: Integers) -> Codes:
        places = count_places(p, counts, bits, False)
        vectors = np.zeros((*places.shape[:-1], bits + 2), np.float32)  # the last for types that are not in use
        np.put_along_axis(vectors, np.where(places < bits, places, bits + 1), 1.0, axis=-1)
        vectors[..., bits] = levels / max(1, p.levels - 1)
        return np.ascontiguousarray(vectors[..., :-1])

    return Encoding(bits + 1, encode)


def reduced2(p: Problem, as_published: bool = False) -> Encoding:
    """One bit per node type and count of 1 to K, one per level: K N + L inputs."""
    bits = p.k_max * len(p.price)
    length = bits + p.levels
    check_length("reduced2", length)

    def encode(counts: Integers, levels: Integers) -> Codes:
        places = [count_places(p, counts, length, as_published), bits + levels[..., None]]
        return once(np.concatenate(places, axis=-1), length)

    return Encoding(length, encode)


def count_places(p: Problem, counts: Integers, length: int, as_published: bool) -> Integers:
    """The place of each type's count among K N bits [..., N]; past the last where the type is not in use."""
    groups = p.k_max * np.arange(len(p.price))
    absent = (groups - 1) % length if as_published else np.full_like(groups, length)
    return np.where(counts > 0, groups + counts - 1, absent)


def once(places: Codes, absent: int) -> Codes:
    """A bit written twice is still one bit."""
    places = np.sort(places, axis=-1)
    again = places[..., 1:] == places[..., :-1]
    places[..., 1:][again] = absent
    return places


def check_length(name: str, length: int) -> None:
    if length > LONGEST:
        raise BadInput(f"encoding {name!r} needs {length} inputs, above {LONGEST}: take 'minimal' or fewer node types")


ENCODINGS: dict[str, Callable[[Problem, bool], Encoding]] = {
    "minimal": minimal,
    "large": large,
    "reduced1": reduced1,
    "reduced2": reduced2,
}


def find_encoding(name: str, p: Problem, as_published: bool = False) -> Encoding:
    """The encoding of this name for a problem."""
    if name not in ENCODINGS:
        raise BadInput(f"there is no encoding {name!r}; choose one of {', '.join(ENCODINGS)}")
    return ENCODINGS[name](p, as_published)


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
