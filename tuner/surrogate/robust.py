"""Fit a model's parameters robustly (Huber's loss, Levenberg-Marquardt).

Huber's loss of log(predicted / observed), so that a window counts by its relative error and an odd one does not rule;
Levenberg-Marquardt steps within bounds, from each of several starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scaler.model.kernel import Floats

TUNING = 1.345  # of Huber's loss: 95 % efficient where errors are normal
NORMAL = 1.4826  # from the median absolute deviation to the standard deviation
STEPS = 60
LEAST = 1e-12

Predict = Callable[[Floats], Floats]


def fit_robustly(predict: Predict, observed: Floats, starts: Sequence[Sequence[float]], low: Floats) -> Floats:
    """The parameters [P], none below `low`; windows whose prediction is infinite count as far off."""
    fits = [descend(predict, observed, np.maximum(low, np.array(start, dtype=np.float64)), low) for start in starts]
    return min(fits, key=lambda fit: fit[1])[0]


def descend(predict: Predict, observed: Floats, at: Floats, low: Floats) -> tuple[Floats, float]:
    """The end of the way down from one start, and the mean absolute residual there."""
    errors = residuals(predict, observed, at)
    damping = 1e-3
    for _ in range(STEPS):
        weight = weigh(errors)
        slopes = differentiate(predict, observed, at, errors)
        square = slopes.T @ (weight[:, None] * slopes)
        pull = slopes.T @ (weight * errors)
        step = np.linalg.lstsq(square + damping * np.diag(np.diag(square) + LEAST), -pull, rcond=None)[0]
        ahead = np.maximum(low, at + step)
        there = residuals(predict, observed, ahead)
        if np.sum(weight * there**2) < np.sum(weight * errors**2):
            still = np.all(np.abs(ahead - at) <= 1e-9 * (np.abs(at) + LEAST))
            at, errors, damping = ahead, there, damping * 0.3
            if still:
                break
        else:
            damping *= 5.0
            if damping > 1e9:
                break
    return at, float(np.mean(np.abs(errors)))


def residuals(predict: Predict, observed: Floats, at: Floats) -> Floats:
    predicted = np.clip(np.nan_to_num(predict(at), nan=1e9, posinf=1e9), LEAST, 1e9)
    return np.clip(np.log(predicted / observed), -5.0, 5.0)


def differentiate(predict: Predict, observed: Floats, at: Floats, errors: Floats) -> Floats:
    """Slopes of the residuals [W, P]."""
    slopes = np.empty((errors.size, at.size))
    for i in range(at.size):
        ahead = at.copy()
        ahead[i] += (width := 1e-6 * max(abs(at[i]), 1e-3))
        slopes[:, i] = (residuals(predict, observed, ahead) - errors) / width
    return slopes


def weigh(errors: Floats) -> Floats:
    """Huber's weights, by the spread of the errors themselves."""
    scale = max(NORMAL * float(np.median(np.abs(errors - np.median(errors)))), 1e-6)
    return np.minimum(1.0, TUNING * scale / np.maximum(np.abs(errors), LEAST))
