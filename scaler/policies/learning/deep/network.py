"""Network of the deep policies: values of encoded states, and one gradient step towards a batch of targets.

Hidden layers (three unless told otherwise) are each three quarters as wide as what they read, with ReLU; a linear
output; mean squared error; plain stochastic gradient descent (paper). The squared error is averaged over the batch and
over all outputs, of which only one has a target: so did the published code, and it scales the learning rate of a
network with many outputs.

A slope longer than `STEEPEST` (at the first layer, of its sums) is shortened to it. Sound steps are not that long, one
in a thousand comes to 8; without the guard, some of the first steps can throw a network so far that all its units rest
at zero, or up without end.

Notation: n inputs, h1 h2 h3 hidden widths (of three layers), w entries of a code, B codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from scaler.model.errors import BadInput
from scaler.model.kernel import Floats, Integers
from scaler.policies.learning.deep.encoding import Codes

HIDDEN = 3
NARROWING = 0.75
STEEPEST = 30.0
DIVERGED = 1e12  # a squared error that no cost explains, well before single precision overflows

Singles = NDArray[np.float32]


@contextmanager
def one_thread() -> Iterator[None]:
    """Run on one thread: on networks of this size, threads wait for each other, ten times longer on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Network(NamedTuple):
    """Layers from input to output; the first has one more row of weights, of zeros, for bits that are not there."""

    weights: list[torch.Tensor]  # [n + 1, h1], [h1, h2], [h2, h3], [h3, outputs]
    biases: list[torch.Tensor]


def widths(inputs: int, outputs: int, hidden: int = HIDDEN) -> list[int]:
    """Of every layer; halves are rounded up, as by the published code."""
    layers = [inputs]
    for _ in range(hidden):
        layers.append(max(1, int(NARROWING * layers[-1] + 0.5)))
    return [*layers, outputs]


def draw_network(inputs: int, outputs: int, rng: np.random.Generator, hidden: int = HIDDEN) -> Network:
    """Xavier's normal weights, no biases."""
    layers = widths(inputs, outputs, hidden)
    weights = []
    for fan_in, fan_out in pairwise(layers):
        spread = np.sqrt(2.0 / (fan_in + fan_out))
        weights.append((spread * rng.standard_normal((fan_in, fan_out))).astype(np.float32))
    weights[0] = np.concatenate([weights[0], np.zeros((1, layers[1]), np.float32)])
    return Network([torch.from_numpy(w) for w in weights], [torch.zeros(width) for width in layers[1:]])


def copy_network(network: Network) -> Network:
    return Network([w.clone() for w in network.weights], [b.clone() for b in network.biases])


def enter(network: Network, codes: Codes) -> torch.Tensor:
    """What the first layer makes of codes [B, w], before its ReLU."""
    rows, bias = network.weights[0], network.biases[0]
    if codes.dtype == np.float32:
        return torch.addmm(bias, torch.from_numpy(codes), rows[:-1])
    return torch.nn.functional.embedding_bag(torch.from_numpy(codes), rows, mode="sum") + bias


@one_thread()
def evaluate(network: Network, codes: Codes) -> Singles:
    """The outputs [B, outputs] for codes [B, w]."""
    with torch.inference_mode():
        layer = enter(network, codes)
        for weights, bias in zip(network.weights[1:], network.biases[1:], strict=True):
            layer = torch.addmm(bias, layer.relu_(), weights)
        values: Singles = layer.numpy()
        return values


@one_thread()
def fit(
    network: Network, codes: Codes, columns: Integers, targets: Floats, learning_rate: float, guarded: bool = True
) -> None:
    """One step of descent towards targets [B] of one output each (columns [B])."""
    entered = enter(network, codes).requires_grad_()
    leaves = [leaf.detach().requires_grad_() for pair in zip(*network, strict=True) for leaf in pair][2:]
    layer = entered
    for weights, bias in zip(leaves[::2], leaves[1::2], strict=True):
        layer = torch.addmm(bias, torch.relu(layer), weights)
    chosen = layer.gather(1, torch.from_numpy(columns[:, None]))[:, 0]
    error = (chosen - torch.from_numpy(targets.astype(np.float32))).square().sum() / layer.numel()
    if guarded and not error.item() < DIVERGED:
        raise BadInput(f"the network diverges at a learning_rate of {learning_rate:g}; a lower one would be right")
    slopes = torch.autograd.grad(error, [entered, *leaves])
    if guarded:
        learning_rate *= STEEPEST / max(STEEPEST, torch.nn.utils.get_total_norm(slopes).item())
    with torch.no_grad():
        for leaf, slope in zip(leaves, slopes[1:], strict=True):
            leaf.sub_(slope, alpha=learning_rate)
        descend_first(network, codes, slopes[0], learning_rate)


def descend_first(network: Network, codes: Codes, slopes: torch.Tensor, learning_rate: float) -> None:
    """The first layer's step, on the rows that the codes read and no others; slopes [B, h1]."""
    rows = network.weights[0]
    if codes.dtype == np.float32:
        rows[:-1].addmm_(torch.from_numpy(codes).T, slopes, alpha=-learning_rate)
    else:
        places = torch.from_numpy(codes.reshape(-1))
        rows.index_add_(0, places, slopes.repeat_interleave(codes.shape[1], 0), alpha=-learning_rate)
        rows[-1] = 0.0
    network.biases[0].sub_(slopes.sum(0), alpha=learning_rate)
