"""Model-based pool: learn refusals and load of a region, and plan the number of its nodes (Russo Russo et al., 2018).

State (k, u, f): active nodes, mean utilisation of the region's replicas in tenths, whether a node is empty. Actions:
one node more, one empty node fewer, none. A slot costs w_d if any request found no slot, and w_r times the share of
all nodes; w_d + w_r = 1. Utilisation is taken not to depend on the nodes, and f' on f and the action alone, so that

    p(s' | s, a) = [k' = k + a] P_u[u, u'] P_f[f, a, f'],

both counted. What refusals cost is learned by the next state, an exponential average; more nodes or less utilisation is
never dearer, whatever f. Every slot each state is backed up once, from zero; the choice is greedy, no change on ties.
A load that was never left stays, an unseen pair (f, a) keeps f.

Notation: U = 11 levels of utilisation, K the most nodes; a slot and what follows it, once (k', f') are known, cost

    onward[f', u, k'] = sum_u' P_u[u, u'] (refusal[f', u', k'] + g V[f', u', k']).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats
from scaler.model.pool import PoolKernel, PoolStart, PoolView
from scaler.policies.homogeneous import read_number

LEVELS = 11  # of utilisation: tenths
ACTIONS = 3  # one fewer, none, one more
GAMMA, ALPHA, W_REFUSED = 0.99, 0.1, 0.7


class State(NamedTuple):
    values: Floats  # [2, U, K + 1] V
    refusal: Floats  # [2, U, K + 1] learned cost of refusals
    loads: Floats  # [U, U] how often load u' followed u
    shares: Floats  # [U, U] P_u
    empties: Floats  # [2, 3, 2] how often f' followed (f, a)
    onward: Floats  # [2, U, K + 1]
    w_refused: float
    gamma: float
    alpha: float


def prepare(start: PoolStart) -> State:
    shape = (2, LEVELS, start.region.most_nodes + 1)
    return State(
        values=np.zeros(shape),
        refusal=np.zeros(shape),
        loads=np.zeros((LEVELS, LEVELS)),
        shares=np.eye(LEVELS),
        empties=np.zeros((2, ACTIONS, 2)),
        onward=np.zeros(shape),
        w_refused=read_number(start.options, "w_refused", W_REFUSED, 0.0, 1.0),
        gamma=read_number(start.options, "gamma", GAMMA, 0.0, 0.9999),
        alpha=read_number(start.options, "alpha", ALPHA, 0.001, 1.0),
    )


@jit
def load_level(view: PoolView) -> int:
    """Utilisation to the nearest tenth."""
    return int(min(1.0, view.utilisation) * (LEVELS - 1) + 0.5)


@jit
def empty_chance(s: State, f: int, action: int) -> float:
    """P_f: the chance that a node is empty after an action (-1, 0, 1)."""
    total = s.empties[f, action + 1, 0] + s.empties[f, action + 1, 1]
    return s.empties[f, action + 1, 1] / total if total > 0.0 else float(f)


@jit
def worth(s: State, u: int, k: int, chance: float) -> float:
    """Cost of having so many nodes next, with this chance that one is empty, and of what follows."""
    rent = (1.0 - s.w_refused) * k / (s.values.shape[2] - 1)
    return rent + (1.0 - chance) * s.onward[0, u, k] + chance * s.onward[1, u, k]


@jit
def decide(s: State, view: PoolView) -> int:
    k, u, f = view.active + view.starting, load_level(view), int(view.empty > 0)
    choice, least = 0, worth(s, u, k, empty_chance(s, f, 0))
    if k > 0 and f == 1:
        fewer = worth(s, u, k - 1, empty_chance(s, f, -1))
        if fewer < least:
            choice, least = -1, fewer
    if k < s.values.shape[2] - 1 and worth(s, u, k + 1, empty_chance(s, f, 1)) < least:
        choice = 1
    return choice


@jit
def learn(s: State, before: PoolView, action: int, seen: PoolView) -> None:
    u, after = load_level(before), load_level(seen)
    s.loads[u, after] += 1.0
    total = s.loads[u].sum()
    for i in range(LEVELS):
        s.shares[u, i] = s.loads[u, i] / total
    step = max(-1, min(1, action))
    f = int(seen.empty > 0)
    s.empties[int(before.empty > 0), step + 1, f] += 1.0
    cost = s.w_refused if seen.refused > 0 else 0.0
    average_refusal(s, seen.active + seen.starting, after, f, cost)
    back_up(s)


@jit
def average_refusal(s: State, k: int, u: int, f: int, cost: float) -> None:
    """Take a slot's refusals into the average of its state, and keep the averages of all others in order."""
    old = s.refusal[f, u, k]
    new = old + s.alpha * (cost - old)
    if new == old:
        return
    s.refusal[f, u, k] = new
    for other in range(2):
        for lower in range(u + 1 if new < old else 0):
            for more in range(k, s.refusal.shape[2]):
                s.refusal[other, lower, more] = min(s.refusal[other, lower, more], new)
        for higher in range(u, LEVELS if new > old else 0):
            for fewer in range(k + 1):
                s.refusal[other, higher, fewer] = max(s.refusal[other, higher, fewer], new)


@jit
def back_up(s: State) -> None:
    """One sweep over all states and actions."""
    nodes = s.values.shape[2]
    for f in range(2):
        for u in range(LEVELS):
            for k in range(nodes):
                s.onward[f, u, k] = 0.0
            for after in range(LEVELS):
                share = s.shares[u, after]
                if share > 0.0:
                    for k in range(nodes):
                        s.onward[f, u, k] += share * (s.refusal[f, after, k] + s.gamma * s.values[f, after, k])
    for f in range(2):
        stay, more, fewer = empty_chance(s, f, 0), empty_chance(s, f, 1), empty_chance(s, f, -1)
        for u in range(LEVELS):
            for k in range(nodes):
                s.values[f, u, k] = worth(s, u, k, stay)
            for k in range(nodes - 1):
                s.values[f, u, k] = min(s.values[f, u, k], worth(s, u, k + 1, more))
            for k in range(1, nodes if f == 1 else 0):
                s.values[f, u, k] = min(s.values[f, u, k], worth(s, u, k - 1, fewer))


LEARNED_NODES = PoolKernel("model-based", prepare, decide, learn, ("w_refused", "gamma", "alpha"))
