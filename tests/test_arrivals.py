"""Made-up arrivals against the theory they come from, within five standard errors of it; and what they refuse."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from scaler.model.errors import BadInput
from sim.arrivals import GENERATORS, diurnal, generate, mmpp, poisson, spike, step

SIGMAS = 5.0  # a right generator fails once in 1.7 million
SLOTS = 20_000
SEEDS = range(4)
MONDAY = datetime(2024, 1, 1, tzinfo=UTC)

EXAMPLES: dict[str, dict[str, Any]] = {
    "poisson": {"mean_rate": 50.0, "slots": 200, "seed": 1},
    "mmpp": {"rates": [5.0, 80.0, 20.0], "mean_stay_slots": 10.0, "slots": 200, "seed": 1},
    "diurnal": {"low": 10.0, "high": 90.0, "slots": 200, "seed": 1},
    "step": {"before": 10.0, "after": 90.0, "slots": 200, "at": 80},
    "spike": {"base": 10.0, "peak": 90.0, "slots": 200, "every": 50, "width": 5, "seed": 1},
}


def differ(seen: float, theory: float, deviation: float) -> float:
    """How many standard deviations what was seen lies off theory."""
    return abs(seen - theory) / deviation


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_parameters_make_the_same_trace(name: str) -> None:
    trace = generate(name, **EXAMPLES[name], step_s=30.0)
    assert trace == generate(name, **EXAMPLES[name], step_s=30.0)
    assert (trace.name, trace.step_s, trace.rates.size) == (name, 30.0, 200)


@pytest.mark.parametrize("name", [name for name in GENERATORS if "seed" in EXAMPLES[name]])
def test_another_seed_makes_another_trace(name: str) -> None:
    assert generate(name, **EXAMPLES[name]) != generate(name, **(EXAMPLES[name] | {"seed": 2}))


@pytest.mark.parametrize("name", [name for name in GENERATORS if name not in ("step", "spike")])
def test_rates_are_whole_counts_over_the_step(name: str) -> None:
    counts = generate(name, **EXAMPLES[name], step_s=7.0).rates * 7.0
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mean_rate", "step_s"), [(0.05, 60.0), (3.0, 1.0), (400.0, 60.0)])
def test_poisson_has_the_mean_and_variance_of_its_law(mean_rate: float, step_s: float, seed: int) -> None:
    counts = poisson(mean_rate, SLOTS, seed, step_s).rates * step_s
    law = mean_rate * step_s
    assert differ(counts.mean(), law, math.sqrt(law / SLOTS)) < SIGMAS
    # Var(s^2) = (mu_4 - sigma^4) / n with mu_4 = law + 3 law^2
    assert differ(counts.var(), law, math.sqrt((law + 2.0 * law**2) / SLOTS)) < SIGMAS
    lagged = np.corrcoef(counts[1:], counts[:-1])[0, 1]
    assert differ(lagged, 0.0, 1.0 / math.sqrt(SLOTS)) < SIGMAS


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("rates", "stay"), [([5.0, 40.0], 20.0), ([1.0, 10.0, 100.0], 4.0), ([7.0], 3.0)])
def test_mmpp_has_the_mean_of_its_chain(rates: list[float], stay: float, seed: int) -> None:
    trace = mmpp(rates, stay, SLOTS, seed, step_s=1.0)
    # n states left alike for any other: the autocorrelation of the chain falls by `kept` a slot
    n, among = len(rates), float(np.var(rates))
    kept = 1.0 - n / (n - 1) / stay if n > 1 else 0.0
    variance = (among * (1.0 + kept) / (1.0 - kept) + float(np.mean(rates))) / SLOTS
    assert differ(trace.rates.mean(), float(np.mean(rates)), math.sqrt(variance)) < SIGMAS


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stay", [1.0, 2.5, 30.0])
def test_mmpp_stays_as_long_as_told(stay: float, seed: int) -> None:
    state = np.digitize(mmpp([1.0, 1000.0, 1e6], stay, SLOTS, seed).rates, [100.0, 1e5])
    moves = np.diff(state) != 0
    leave = 1.0 / stay
    assert differ(float(moves.sum()), leave * moves.size, math.sqrt(leave * (1.0 - leave) * moves.size) + 1e-9) < SIGMAS
    goes = (np.diff(state) % 3)[moves]  # 1 or 2 states on, alike
    assert differ(float((goes == 1).mean()), 0.5, 0.5 / math.sqrt(goes.size)) < SIGMAS


def shape(weekend: float = 1.0, start: datetime = MONDAY, days: int = 14) -> NDArray[np.float64]:
    """A diurnal pattern by the quarter of an hour without noise, one row a day."""
    trace = diurnal(10.0, 90.0, 96 * days, 0, weekend=weekend, noise=0.0, start=start, step_s=900.0)
    return trace.rates.reshape(days, 96)


def test_a_day_goes_from_low_at_four_to_high_at_sixteen() -> None:
    day = shape()[0]
    assert sorted(np.argsort(day)[:2]) == [15, 16]  # the quarters on either side of four
    assert sorted(np.argsort(day)[-2:]) == [63, 64]
    short = 40.0 * (1.0 - math.cos(math.pi / 96.0))  # half a quarter of an hour from the turn
    assert (day.min(), day.max()) == pytest.approx((10.0 + short, 90.0 - short))
    assert day.mean() == pytest.approx(50.0)


def test_weekends_are_quieter_and_weeks_alike() -> None:
    plain, days = shape(), shape(weekend=0.6)
    for day in range(14):
        np.testing.assert_allclose(days[day], plain[day] * (0.6 if day % 7 in (5, 6) else 1.0))


def test_the_pattern_follows_the_clock_of_the_start() -> None:
    there = timezone(timedelta(hours=5))
    np.testing.assert_allclose(shape(0.6, MONDAY.replace(tzinfo=there)), shape(0.6))
    late = diurnal(10.0, 90.0, 96, 0, 0.6, 0.0, MONDAY + timedelta(days=4, hours=12), 900.0)
    np.testing.assert_allclose(late.rates, shape(0.6).ravel()[96 * 4 + 48 :][:96])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("noise", [0.3, 1.0, 6.0])
def test_diurnal_noise_has_the_dispersion_asked_for(noise: float, seed: int) -> None:
    clean = diurnal(20.0, 300.0, SLOTS, seed, noise=0.0, start=MONDAY).rates * 60.0
    noisy = diurnal(20.0, 300.0, SLOTS, seed, noise=noise, start=MONDAY).rates * 60.0
    error = noisy - clean
    assert differ(float(error.sum()), 0.0, math.sqrt(noise * float(clean.sum()))) < SIGMAS
    # (count - mean)^2 / mean has mean `noise` and, its batches being Poisson, variance noise^2 (2 + noise / mean)
    index = error**2 / clean
    deviation = math.sqrt(float((noise**2 * (2.0 + noise / clean)).sum())) / SLOTS
    assert differ(float(index.mean()), noise, deviation) < SIGMAS


@pytest.mark.parametrize("at", [0, 3, 10])
def test_a_step_comes_where_it_is_told(at: int) -> None:
    assert step(5.0, 7.0, 10, at).rates.tolist() == [5.0] * at + [7.0] * (10 - at)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("every", "width"), [(30, 4), (10, 10), (7, 1)])
def test_every_period_has_one_whole_spike(every: int, width: int, seed: int) -> None:
    trace = spike(10.0, 90.0, 40 * every, every, width, seed)
    for period in trace.rates.reshape(40, every):
        first = int(period.argmax())
        assert period.tolist() == [10.0] * first + [90.0] * width + [10.0] * (every - first - width)


@pytest.mark.parametrize("seed", SEEDS)
def test_spikes_come_anywhere_alike(seed: int) -> None:
    every, width, periods = 50, 6, 4000
    firsts = spike(1.0, 2.0, periods * every, every, width, seed).rates.reshape(periods, every).argmax(axis=1)
    last = every - width
    deviation = math.sqrt(((last + 1) ** 2 - 1) / 12.0 / periods)  # of the mean of uniform numbers from 0 to `last`
    assert differ(float(firsts.mean()), last / 2.0, deviation) < SIGMAS
    assert (firsts.min(), firsts.max()) == (0, last)


def test_a_last_period_cut_short_is_cut() -> None:
    whole = spike(1.0, 2.0, 100, 20, 5, 3).rates
    np.testing.assert_array_equal(spike(1.0, 2.0, 91, 20, 5, 3).rates, whole[:91])


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("poisson", {"mean_rate": -1.0}, "mean_rate is -1.0, and must be a number, 0 or more"),
        ("poisson", {"mean_rate": math.nan}, "mean_rate is nan, and must be a number"),
        ("poisson", {"mean_rate": math.inf}, "mean_rate is inf, and must be a number"),
        ("poisson", {"mean_rate": "4"}, "mean_rate is '4', and must be a number"),
        ("poisson", {"mean_rate": 1e300}, "a slot has 6e[+]301 tuples, and may have 1e[+]18; lower the rate"),
        ("poisson", {"slots": 0}, "slots is 0, and must be a whole number, 1 or more"),
        ("poisson", {"slots": 2.5}, "slots is 2.5, and must be a whole number"),
        ("poisson", {"seed": -1}, "seed is -1, and must be a whole number, 0 or more"),
        ("poisson", {"step_s": 0.0}, "step_s is 0, and must be positive"),
        ("mmpp", {"rates": []}, "rates is empty, and must name at least one rate"),
        ("mmpp", {"rates": [1.0, -2.0]}, "rates is -2.0, and must be a number"),
        ("mmpp", {"mean_stay_slots": 0.5}, "mean_stay_slots is 0.5, and must be a number, 1 or more"),
        ("diurnal", {"low": 95.0}, "high is 90.0, and must be a number, 95 or more"),
        ("diurnal", {"weekend": -0.1}, "weekend is -0.1, and must be a number"),
        ("diurnal", {"noise": -1.0}, "noise is -1.0, and must be a number"),
        ("diurnal", {"start": datetime(2024, 1, 1)}, "has no time zone, and must have one"),
        ("step", {"at": 201}, "at is 201, and must be a whole number, from 0 to 200"),
        ("spike", {"every": 0}, "every is 0, and must be a whole number, 1 or more"),
        ("spike", {"width": 51}, "width is 51, and must be a whole number, from 1 to 50"),
        ("spike", {"every": 4}, "width is 5, and must be a whole number, from 1 to 4"),
    ],
)
def test_a_wrong_parameter_is_named(name: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        generate(name, **(EXAMPLES[name] | changes))


def test_an_unknown_generator_or_parameter_is_named() -> None:
    with pytest.raises(BadInput, match="there is no generator 'weibull'; choose one of poisson, mmpp, diurnal, step"):
        generate("weibull")
    with pytest.raises(BadInput, match="generator 'poisson' has no parameter 'mean'; it takes mean_rate, slots, seed"):
        generate("poisson", mean=4.0, slots=3, seed=0)
    with pytest.raises(BadInput, match="generator 'poisson' needs the parameter 'seed'; it takes mean_rate, slots"):
        generate("poisson", mean_rate=4.0, slots=3)
