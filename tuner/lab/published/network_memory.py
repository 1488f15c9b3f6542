"""Figure 18: memory of each representation of the value function, by number of node types.

A table holds one float64 for every (deployment, rate level, action) or, on post-decision states, for every (deployment,
rate level); a network its weights and biases. Ours, beside it, is what a run over the trace really held, since states
never visited have no row.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import comb

LEVELS = 30
WORD = 8


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of every representation for one size of problem."""

    n_res: int
    k_max: int
    deployments: int
    q_table: int
    pds_table: int
    tiles: int
    networks: dict[str, int]  # by state encoding


def count_deployments(n_res: int, k_max: int) -> int:
    """Ways to place 1 to k_max replicas on n_res node types."""
    return comb(n_res + k_max, n_res) - 1


def weigh_tiles(n_res: int, k_max: int, levels: int = LEVELS) -> int:
    """Two rectangular tilings over half the rate levels and one of stripes, for each set of node types."""
    masks = 2**n_res - 1
    return WORD * (masks * (2 * (k_max + 1) * -(-levels // 2) + k_max + 1) + 2)


def encoding_lengths(n_res: int, k_max: int, levels: int = LEVELS) -> dict[str, int]:
    """Inputs of the four state encodings."""
    one_hot = k_max * n_res + levels
    return {
        "minimal": n_res + 1,
        "reduced1": one_hot,
        "reduced2": one_hot + 2**n_res - 1,
        "large": count_deployments(n_res, k_max) + levels,
    }


def weigh_network(inputs: int, outputs: int, word: int = 4) -> int:
    """Weights and biases of three hidden layers, each three quarters of its input."""
    widths = [inputs]
    for _ in range(3):
        widths.append(max(1, round(0.75 * widths[-1])))
    widths.append(outputs)
    return word * sum((a + 1) * b for a, b in pairwise(widths))


def weigh(n_res: int, k_max: int) -> Footprint:
    """Every representation of a problem of this size; networks as for post-decision states, with one output."""
    states = count_deployments(n_res, k_max) * LEVELS
    return Footprint(
        n_res=n_res,
        k_max=k_max,
        deployments=count_deployments(n_res, k_max),
        q_table=states * (2 * n_res + 1) * WORD,
        pds_table=states * WORD,
        tiles=weigh_tiles(n_res, k_max),
        networks={name: weigh_network(n, 1) for name, n in encoding_lengths(n_res, k_max).items()},
    )
