"""The network of the deep policies: codes of states in, values out; a batch of targets in, one step of descent done.

Three hidden layers, each three quarters as wide as what it reads, with ReLU; a linear output; mean squared error; plain
stochastic gradient descent (paper). The squared error is averaged over the batch and over all outputs, of which only
one has a target: so did the published code, and it scales the learning rate of a network with many outputs.

Values are computed by numpy, whose calls cost less on networks of this size, on the memory that torch trains in place.

Notation: n inputs, h1 h2 h3 hidden widths, w entries of a code, B codes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from scaler.errors import BadInput
from scaler.policies.deep.encoding import Codes
from scaler.problem import Floats, Integers

HIDDEN = 3
NARROWING = 0.75
DIVERGED = 1e12  # a squared error that no cost explains, well before single precision overflows

Singles = NDArray[np.float32]


class Network(NamedTuple):
    """Layers from input to output; the first has one more row of weights, of zeros, for bits that are not there."""

    weights: list[Singles]  # [n + 1, h1], [h1, h2], [h2, h3], [h3, outputs]
    biases: list[Singles]
    leaves: list[torch.Tensor]  # weights and bias of each layer after the first, on the same memory


def widths(inputs: int, outputs: int) -> list[int]:
    """Of every layer; halves are rounded up, as by the published code."""
    layers = [inputs]
    for _ in range(HIDDEN):
        layers.append(max(1, int(NARROWING * layers[-1] + 0.5)))
    return [*layers, outputs]


def draw_network(inputs: int, outputs: int, rng: np.random.Generator) -> Network:
    """Xavier's normal weights, no biases."""
    layers = widths(inputs, outputs)
    weights = []
    for fan_in, fan_out in pairwise(layers):
        spread = np.sqrt(2.0 / (fan_in + fan_out))
        weights.append((spread * rng.standard_normal((fan_in, fan_out))).astype(np.float32))
    weights[0] = np.concatenate([weights[0], np.zeros((1, layers[1]), np.float32)])
    return join(weights, [np.zeros(width, np.float32) for width in layers[1:]])


def join(weights: list[Singles], biases: list[Singles]) -> Network:
    """The network over these arrays."""
    pairs = zip(weights[1:], biases[1:], strict=True)
    return Network(weights, biases, [torch.from_numpy(a).requires_grad_() for pair in pairs for a in pair])


def copy_network(network: Network) -> Network:
    return join([w.copy() for w in network.weights], [b.copy() for b in network.biases])


def enter(network: Network, codes: Codes) -> Singles:
    """What the first layer makes of codes [B, w], before its ReLU."""
    if codes.dtype == np.float32:
        entered: Singles = codes @ network.weights[0][:-1]
    else:
        entered = network.weights[0].take(codes, axis=0).sum(axis=1)
    entered += network.biases[0]
    return entered


def evaluate(network: Network, codes: Codes) -> Singles:
    """The outputs [B, outputs] for codes [B, w]."""
    layer = enter(network, codes)
    for weights, bias in zip(network.weights[1:], network.biases[1:], strict=True):
        np.maximum(layer, 0.0, out=layer)
        layer = layer @ weights
        layer += bias
    return layer


def fit(network: Network, codes: Codes, columns: Integers, targets: Floats, learning_rate: float) -> None:
    """One step of descent towards targets [B] of one output each (columns [B])."""
    entered = torch.from_numpy(enter(network, codes)).requires_grad_()
    layer = entered
    for weights, bias in zip(network.leaves[::2], network.leaves[1::2], strict=True):
        layer = torch.addmm(bias, torch.relu(layer), weights)
    chosen = layer.gather(1, torch.from_numpy(columns[:, None]))[:, 0]
    error = (chosen - torch.from_numpy(targets.astype(np.float32))).square().sum() / layer.numel()
    if not error.item() < DIVERGED:
        raise BadInput(f"the network diverges at a learning_rate of {learning_rate:g}; a lower one would be right")
    slopes = torch.autograd.grad(error, [entered, *network.leaves])
    with torch.no_grad():
        for leaf, slope in zip(network.leaves, slopes[1:], strict=True):
            leaf.sub_(slope, alpha=learning_rate)
    descend_first(network, codes, slopes[0], learning_rate)


def descend_first(network: Network, codes: Codes, slopes: torch.Tensor, learning_rate: float) -> None:
    """The first layer's step, on the rows that the codes read and no others; slopes [B, h1]."""
    rows = torch.from_numpy(network.weights[0])
    if codes.dtype == np.float32:
        rows[:-1].sub_(torch.from_numpy(codes).T @ slopes, alpha=learning_rate)
    else:
        places = torch.from_numpy(codes.reshape(-1))
        rows.index_add_(0, places, slopes.repeat_interleave(codes.shape[1], 0), alpha=-learning_rate)
        rows[-1] = 0.0
    network.biases[0] -= learning_rate * slopes.sum(0).numpy()
