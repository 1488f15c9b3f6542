"""Values of states from samples: counted transitions and rewards, then value iteration (Dutreilh et al. 2011).

With C, R and P the samples' counts, sums of rewards and followers of every state and action,

    Q(s, a) = R / C + gamma sum over s' of P / C V(s'),    V(s) = max over a of Q(s, a)

and 0 where nothing was sampled. The code that the thesis ran takes V of the state in which the action *began* instead,
so that where it leads does not matter: `as_published`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scaler.model.jit import jit
from scaler.model.kernel import Floats


class Samples(NamedTuple):
    """What was seen to follow, by state and action."""

    counts: Floats  # [S, A]
    rewards: Floats  # [S, A] sums
    followers: Floats  # [S, A, S] counts
    values: Floats  # [S] of the last sweep


def no_samples(states: int, actions: int) -> Samples:
    """Nothing was sampled yet."""
    counts, rewards = np.zeros((states, actions)), np.zeros((states, actions))
    return Samples(counts, rewards, np.zeros((states, actions, states)), np.zeros(states))


@jit
def sample(samples: Samples, state: int, action: int, reward: float, follower: int) -> None:
    """Count one step."""
    samples.counts[state, action] += 1.0
    samples.rewards[state, action] += reward
    samples.followers[state, action, follower] += 1.0


@jit
def iterate_values(samples: Samples, q: Floats, gamma: float, sweeps: int, as_published: bool) -> None:
    """Write what so many sweeps make of the samples into `q` [S, A]; what was not sampled is 0."""
    states, actions = q.shape
    for s in range(states):
        samples.values[s] = 0.0
    for _ in range(sweeps):
        for s in range(states):
            for a in range(actions):
                q[s, a] = sampled_value(samples, s, a, gamma, as_published)
        for s in range(states):
            best = q[s, 0]
            for a in range(1, actions):
                best = max(best, q[s, a])
            samples.values[s] = best


@jit
def sampled_value(samples: Samples, s: int, a: int, gamma: float, as_published: bool) -> float:
    many = samples.counts[s, a]
    if many == 0.0:
        return 0.0
    if as_published:
        return samples.rewards[s, a] / many + gamma * samples.values[s]
    ahead = 0.0
    for follower in range(samples.values.shape[0]):
        ahead += samples.followers[s, a, follower] * samples.values[follower]
    return (samples.rewards[s, a] + gamma * ahead) / many
