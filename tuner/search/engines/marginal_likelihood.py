"""Gradient of the Gaussian processes' marginal likelihood, times the priors, in closed form, and its ascent by Adam.

Autograd through GPyTorch's modules comes to the same, and takes six times as long on matrices as small as these.

Notation: m figures over n points in d coordinates. With K the covariance of a figure's noisy values, its Cholesky root,
and a = K^-1 (y - mean), the gradient by anything that K depends on is half the sum of (a a' - K^-1) dK. Matern 5/2 with
distance r in length scales l is s (1 + q + q^2 / 3) exp(-q), q = sqrt(5) r; its derivative by l_j is
s 5/3 (1 + q) exp(-q) (x_j - x'_j)^2 / l_j^3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

RATE, BETAS, TINY = 0.1, (0.8, 0.95), 1e-8  # of Adam


@dataclass(frozen=True, slots=True)
class Gamma:
    """A prior's shape and rate."""

    shape: float
    rate: float

    def slope(self, x: Tensor) -> Tensor:
        """Derivative of its log density."""
        return (self.shape - 1.0) / x - self.rate


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """Parameters before softplus makes them positive; the means as they are."""

    noise: Tensor  # [m]
    mean: Tensor  # [m]
    scale: Tensor  # [m]
    length: Tensor  # [m, d]

    def split(self) -> tuple[Tensor, ...]:
        return self.noise, self.mean, self.scale, self.length


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """What the processes are fitted to, and their priors."""

    squares: Tensor  # [d, n, n] of differences between points
    y: Tensor  # [m, n]
    noise: Tensor  # [m, n] variance that is known of each
    least_noise: float  # of what is learned beside it
    scale_prior: Gamma
    length_prior: Gamma


def square_differences(x: Tensor) -> Tensor:
    """Squared differences [d, n, n] of points [n, d] in each coordinate."""
    return (x.T.unsqueeze(2) - x.T.unsqueeze(1)).square()


def find_gradient(data: Data, raw: Raw) -> Raw:
    """Gradient of the log marginal likelihood with the log priors, over n, by the raw parameters."""
    squares, n = data.squares, data.y.shape[-1]
    length, scale = softplus(raw.length), softplus(raw.scale)
    q = torch.einsum("md,dij->mij", 5.0 / length.square(), squares).sqrt()
    fall = scale[:, None, None] * torch.exp(-q)
    smooth = fall * (1.0 + q + q.square() / 3.0)
    noise = data.noise + (softplus(raw.noise) + data.least_noise).unsqueeze(-1)
    root = torch.linalg.cholesky(smooth + torch.diag_embed(noise))
    inverse = torch.cholesky_inverse(root)
    solved = torch.cholesky_solve((data.y - raw.mean.unsqueeze(-1)).unsqueeze(-1), root).squeeze(-1)
    pull = 0.5 * (solved.unsqueeze(-1) * solved.unsqueeze(-2) - inverse)
    by_noise = pull.diagonal(dim1=-2, dim2=-1).sum(-1)
    by_scale = (pull * smooth).sum((-2, -1)) / scale + data.scale_prior.slope(scale)
    by_length = torch.einsum("mij,dij->md", pull * fall * (1.0 + q), squares) * 5.0 / 3.0 / length**3
    by_length = by_length + data.length_prior.slope(length)
    return Raw(
        noise=by_noise * torch.sigmoid(raw.noise) / n,
        mean=solved.sum(-1) / n,
        scale=by_scale * torch.sigmoid(raw.scale) / n,
        length=by_length * torch.sigmoid(raw.length) / n,
    )


def ascend(data: Data, raw: Raw, steps: int) -> None:
    """Raise the likelihood by steps of Adam, in place."""
    first = [torch.zeros_like(one) for one in raw.split()]
    second = [torch.zeros_like(one) for one in raw.split()]
    for step in range(1, steps + 1):
        share, root = 1.0 - BETAS[0] ** step, math.sqrt(1.0 - BETAS[1] ** step)
        for one, slope, mean, square in zip(raw.split(), find_gradient(data, raw).split(), first, second, strict=True):
            mean.mul_(BETAS[0]).add_(slope, alpha=1.0 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(slope, slope, value=1.0 - BETAS[1])
            one.addcdiv_(mean, (square.sqrt() / root).add_(TINY), value=RATE / share)
