"""Generate arrival traces from a pattern, its parameters and a seed; the same arguments give the same trace."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.model.errors import BadInput, suggest
from sim.trace import EPOCH, Trace

DAY_S = 86_400.0
SATURDAY = 5
TROUGH = 4 / 24  # of the day: when the daily pattern is at its lowest
MAX_TUPLES = 1e18  # a slot; beyond this numpy draws no Poisson number


def poisson(mean_rate: float, slots: int, seed: int, step_s: float = 60.0) -> Trace:
    """A Poisson process of constant rate, counted slot by slot."""
    check_number("mean_rate", mean_rate)
    means = np.full(check_slots(slots), float(mean_rate))
    return Trace(draw(means, start_random(seed), check_step(step_s)), step_s, name="poisson")


def mmpp(rates: Sequence[float], mean_stay_slots: float, slots: int, seed: int, step_s: float = 60.0) -> Trace:
    """A Poisson process whose rate is that of a Markov chain's state.

    After each slot the chain leaves with probability 1 / mean_stay_slots for any other state alike, so that all are
    equally frequent in the long run, and the first is drawn that way.
    """
    if len(rates) == 0:
        raise BadInput("rates is empty, and must name at least one rate")
    for rate in rates:
        check_number("rates", rate)
    check_number("mean_stay_slots", mean_stay_slots, lowest=1.0)
    states, n, rng = len(rates), check_slots(slots), start_random(seed)
    first = rng.integers(states)
    leaves = rng.random(n - 1) < 1.0 / mean_stay_slots
    moves = leaves * rng.integers(1, max(states, 2), n - 1)
    chain = (first + np.concatenate([[0], np.cumsum(moves)])) % states
    means = np.array(rates, dtype=np.float64)[chain]
    return Trace(draw(means, rng, check_step(step_s)), step_s, name="mmpp")


def diurnal(
    low: float,
    high: float,
    slots: int,
    seed: int,
    weekend: float = 0.7,
    noise: float = 1.0,
    start: datetime = EPOCH,
    step_s: float = 60.0,
) -> Trace:
    """A cosine from `low` at four in the morning to `high` twelve hours on, times `weekend` on Saturdays and Sundays.

    `noise` is the variance of a slot's count over its mean: 1 is a Poisson process, 0 none. Hours and days are those of
    the start's own clock, which is not put forward in summer.
    """
    check_number("low", low)
    check_number("high", high, lowest=low)
    check_number("weekend", weekend)
    check_number("noise", noise)
    since_midnight = (start - start.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    days = (since_midnight + (np.arange(check_slots(slots)) + 0.5) * check_step(step_s)) / DAY_S
    means = low + (high - low) * (1.0 - np.cos(2.0 * np.pi * (days - TROUGH))) / 2.0
    means[(start.weekday() + days.astype(np.int64)) % 7 >= SATURDAY] *= weekend
    rng = start_random(seed)
    return Trace(draw(means, rng, step_s, noise) if noise > 0.0 else means, step_s, start, name="diurnal")


def step(before: float, after: float, slots: int, at: int, step_s: float = 60.0) -> Trace:
    """One rate up to slot `at`, another from it on."""
    check_number("before", before)
    check_number("after", after)
    n = check_slots(slots)
    check_whole("at", at, 0, n)
    return Trace(np.where(np.arange(n) < at, before, after), check_step(step_s), name="step")


def spike(base: float, peak: float, slots: int, every: int, width: int, seed: int, step_s: float = 60.0) -> Trace:
    """One spike of `width` slots somewhere in each period of `every` slots, anywhere alike: it cannot be foreseen."""
    check_number("base", base)
    check_number("peak", peak)
    n = check_slots(slots)
    check_whole("every", every, 1)
    check_whole("width", width, 1, every)
    periods = -(-n // every)
    begins = np.arange(periods) * every + start_random(seed).integers(0, every - width + 1, periods)
    since = np.arange(n) - np.repeat(begins, every)[:n]
    return Trace(np.where((since >= 0) & (since < width), peak, base), check_step(step_s), name="spike")


GENERATORS: dict[str, Callable[..., Trace]] = {
    "poisson": poisson,
    "mmpp": mmpp,
    "diurnal": diurnal,
    "step": step,
    "spike": spike,
}


def generate(name: str, **parameters: Any) -> Trace:
    """The trace of a generator known by name."""
    if name not in GENERATORS:
        raise BadInput(f"there is no generator {name!r}; {suggest(name, GENERATORS)}")
    known = inspect.signature(GENERATORS[name]).parameters
    for parameter in parameters:
        if parameter not in known:
            raise BadInput(f"generator {name!r} has no parameter {parameter!r}; it takes {', '.join(known)}")
    for parameter, kind in known.items():
        if kind.default is kind.empty and parameter not in parameters:
            raise BadInput(f"generator {name!r} needs the parameter {parameter!r}; it takes {', '.join(known)}")
    return GENERATORS[name](**parameters)


def draw(
    rates: NDArray[np.float64], rng: np.random.Generator, step_s: float, noise: float = 1.0
) -> NDArray[np.float64]:
    """Counts of slots with these mean rates, as rates: Poisson numbers of batches of `noise` tuples."""
    with np.errstate(over="ignore"):
        means = rates * (step_s / noise)
    if not means.max() <= MAX_TUPLES:
        raise BadInput(f"a slot has {means.max():g} tuples, and may have {MAX_TUPLES:g}; lower the rate or the step")
    return rng.poisson(means).astype(np.float64) * (noise / step_s)


def start_random(seed: int) -> np.random.Generator:
    check_whole("seed", seed, 0)
    return np.random.default_rng(seed)


def check_slots(slots: int) -> int:
    check_whole("slots", slots, 1)
    return int(slots)


def check_step(step_s: float) -> float:
    check_number("step_s", step_s)
    if step_s == 0.0:
        raise BadInput("step_s is 0, and must be positive")
    return step_s


def check_whole(name: str, value: int, lowest: int, highest: int | None = None) -> None:
    limit = f"{lowest} or more" if highest is None else f"from {lowest} to {highest}"
    if not isinstance(value, Integral) or value < lowest or (highest is not None and value > highest):
        raise BadInput(f"{name} is {value!r}, and must be a whole number, {limit}")


def check_number(name: str, value: float, lowest: float = 0.0) -> None:
    if not isinstance(value, Real) or not lowest <= value < math.inf:
        raise BadInput(f"{name} is {value!r}, and must be a number, {lowest:g} or more")
