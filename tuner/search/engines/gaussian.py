"""Gaussian processes of several noisy figures over the same points.

One batched process of GPyTorch: a Matern 5/2 kernel with a length scale for every coordinate and figure, in float64.
Priors: length scales Gamma(3, 6), a half in the mean, on coordinates that span about one; the scale of the figures,
which come standardised, Gamma(2, .15) is GPyTorch's usual one and weak.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import gpytorch
import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from scaler.model.kernel import Floats
from tuner.search.engines.marginal_likelihood import Data, Gamma, Raw, ascend, square_differences

FIRST_STEPS = 60
LATER_STEPS = 15  # from where the last fit ended
MANY, SELDOM = 60, 5  # points from which on the fit goes on with every fifth point alone: a step is dear by then
LEAST_NOISE = 1e-5
LENGTH_PRIOR, SCALE_PRIOR = Gamma(3.0, 6.0), Gamma(2.0, 0.15)


def scatter(dimensions: int, count: int, seed: int) -> Floats:
    """Points of a scrambled Sobol sequence [count, dimensions]; scipy.stats has it too, and takes a third of a second
    to load.
    """
    sequence = torch.quasirandom.SobolEngine(dimensions, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    points: Floats = sequence.draw(count, dtype=torch.float64).numpy()
    return points


class Scaled(gpytorch.kernels.ScaleKernel):  # type: ignore[misc]
    """A scale of each figure's own, over a kernel of the same batch: broadcasting the two would load sympy."""

    @property
    def batch_shape(self) -> torch.Size:
        return self._batch_shape

    @batch_shape.setter
    def batch_shape(self, shape: torch.Size) -> None:
        self._batch_shape = shape


def as_prior(gamma: Gamma) -> gpytorch.priors.GammaPrior:
    return gpytorch.priors.GammaPrior(gamma.shape, gamma.rate)


class Processes(gpytorch.models.ExactGP):  # type: ignore[misc]
    """Independent processes over the same points."""

    def __init__(self, x: Tensor, y: Tensor, noise: Tensor) -> None:
        batch = torch.Size([len(y)])
        likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(
            noise, learn_additional_noise=True, batch_shape=batch
        )
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=batch)
        kernel = gpytorch.kernels.MaternKernel(
            nu=2.5, ard_num_dims=x.shape[-1], batch_shape=batch, lengthscale_prior=as_prior(LENGTH_PRIOR)
        )
        self.covar_module = Scaled(kernel, batch_shape=batch, outputscale_prior=as_prior(SCALE_PRIOR))

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Processes given their points; `solved` and `root` are what every prediction needs."""

    model: Processes
    x: Tensor  # [n, d]
    y: Tensor  # [figures, n]
    noise: Tensor  # [figures, n]
    root: Tensor  # [figures, n, n] Cholesky
    solved: Tensor  # [figures, n]


@contextmanager
def alone() -> Iterator[None]:
    """One thread, and exact algebra: these matrices are too small for anything else to pay."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    exact, at_once = gpytorch.settings.fast_computations(False, False, False), gpytorch.settings.lazily_evaluate_kernels
    try:
        with exact, at_once(False), gpytorch.settings.max_cholesky_size(100_000), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)


def fit(x: Floats, y: Floats, noise: Floats, before: Sequence[float] | None = None) -> Fitted:
    """Processes of figures y [figures, n] at points x [n, d], begun where an earlier fit ended."""
    points, figures = torch.from_numpy(x), torch.from_numpy(y)
    spread = torch.from_numpy(np.maximum(noise, LEAST_NOISE))
    model = Processes(points, figures, spread).double()
    warm = before is not None and load(model, before)
    if not warm:
        climb(model, FIRST_STEPS)
    elif len(x) < MANY or len(x) % SELDOM == 0:
        climb(model, LATER_STEPS)
    model.eval()
    return condition(model, points, figures, spread)


def climb(model: Processes, steps: int) -> None:
    """Raise the marginal likelihood, times the priors."""
    kernel, learned = model.covar_module.base_kernel, model.likelihood.second_noise_covar
    with torch.no_grad():
        data = Data(
            squares=square_differences(model.train_inputs[0]),
            y=model.train_targets,
            noise=model.likelihood.noise_covar.noise,
            least_noise=float(learned.raw_noise_constraint.lower_bound),
            scale_prior=SCALE_PRIOR,
            length_prior=LENGTH_PRIOR,
        )
        raw = Raw(
            noise=learned.raw_noise.data.view(-1),
            mean=model.mean_module.raw_constant.data,
            scale=model.covar_module.raw_outputscale.data,
            length=kernel.raw_lengthscale.data.squeeze(-2),
        )
        ascend(data, raw, steps)


def save(model: Processes) -> list[float]:
    """The hyperparameters as plain numbers."""
    values: list[float] = parameters_to_vector(model.parameters()).tolist()
    return values


def load(model: Processes, values: Sequence[float]) -> bool:
    """Set the hyperparameters that `save` gave; False where they are of other processes."""
    fits = sum(parameter.numel() for parameter in model.parameters()) == len(values)
    if fits:
        vector_to_parameters(torch.tensor(values, dtype=torch.float64), model.parameters())
    return fits


def condition(model: Processes, x: Tensor, y: Tensor, noise: Tensor) -> Fitted:
    """The same processes on these points."""
    with torch.no_grad():
        covariance = model.covar_module(x).to_dense() + torch.diag_embed(noise + roughness(model))
        root = torch.linalg.cholesky(covariance)
        centred = (y - level(model)).unsqueeze(-1)
        solved = torch.cholesky_solve(centred, root).squeeze(-1)
    return Fitted(model, x, y, noise, root, solved)


def predict(fitted: Fitted, x: Floats) -> tuple[Floats, Floats]:
    """Means and standard deviations [figures, m] of the figures at new points, their roughness included."""
    points = torch.from_numpy(x)
    with torch.no_grad():
        across = fitted.model.covar_module(points, fitted.x).to_dense()  # [figures, m, n]
        mean = level(fitted.model) + (across @ fitted.solved.unsqueeze(-1)).squeeze(-1)
        explained = torch.linalg.solve_triangular(fitted.root, across.mT, upper=False).square().sum(dim=-2)
        whole = fitted.model.covar_module.outputscale.unsqueeze(-1) + roughness(fitted.model)
    return mean.numpy(), (whole - explained).clamp_min(1e-12).sqrt().numpy()


def recall(fitted: Fitted) -> tuple[Floats, Floats]:
    """The same at the points that were tried [figures, n]: what was seen, less what of it is thought to be noise."""
    inverse = torch.cholesky_inverse(fitted.root).diagonal(dim1=-1, dim2=-2)
    mean = fitted.y - fitted.noise * fitted.solved
    variance = fitted.noise - fitted.noise.square() * inverse
    return mean.numpy(), variance.clamp_min(1e-12).sqrt().numpy()


def level(model: Processes) -> Tensor:
    """[figures, 1] The constant mean."""
    return model.mean_module.constant.detach().unsqueeze(-1)


def roughness(model: Processes) -> Tensor:
    """[figures, 1] Variance of what the smooth processes leave unexplained beyond the noise.

    Scalers settle on one of many whole deployments, so the figures jump between neighbouring points, and jump there
    again the next time: there is something to be found, and to be kept, that averaging would hide.
    """
    return model.likelihood.second_noise.detach().reshape(-1, 1)


def imagine(fitted: Fitted, x: Floats) -> Fitted:
    """The processes as if the points had been tried and had come out as predicted."""
    mean, _ = predict(fitted, x)
    points = torch.cat([fitted.x, torch.from_numpy(x)])
    figures = torch.cat([fitted.y, torch.from_numpy(mean)], dim=1)
    spread = torch.cat([fitted.noise, torch.full(mean.shape, LEAST_NOISE, dtype=torch.float64)], dim=1)
    return condition(fitted.model, points, figures, spread)
