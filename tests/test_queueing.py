"""Response-time formulas against theory, against their inverses and against a discrete-event simulator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import ciw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.model.queue_quantiles import (
    SCV_GRID,
    Floats,
    grid_rate_within,
    grid_scv,
    mg1_quantile_grid,
    mg1_quantile_table,
    replica_rate_within,
    replica_response_time,
    solve_quantiles,
)
from scaler.model.queueing import gg1_response, mg1_rate_within, mg1_response, mgk_response

loads = st.floats(0.01, 0.98)
means = st.floats(1e-4, 1e2)
scvs = st.floats(0.0, 10.0)
speeds = st.floats(0.05, 30.0)


@given(loads, means, scvs, speeds)
def test_mg1_is_pollaczek_khinchine(rho: float, m: float, scv: float, s: float) -> None:
    h, x = m / s, rho * s / m
    number_waiting = rho**2 * (1 + scv) / (2 * (1 - rho))  # L_q; Little turns it into a wait
    assert mg1_response(x, m, scv * m * m, s) == pytest.approx(h + number_waiting / x, rel=1e-12)


@given(loads, means, speeds)
def test_special_cases(rho: float, m: float, s: float) -> None:
    x = rho * s / m
    mm1 = 1.0 / (s / m - x)
    assert mg1_response(x, m, m * m, s) == pytest.approx(mm1, rel=1e-9)
    assert mg1_response(x, m, 0.0, s) == pytest.approx(m / s * (2 - rho) / (2 * (1 - rho)), rel=1e-9)
    assert gg1_response(x, m, m * m, s, 1.0) == pytest.approx(mm1, rel=1e-9)
    assert mgk_response(x, m, m * m, s, 1, 1.0) == pytest.approx(mm1, rel=1e-9)


@given(loads, means, scvs, speeds)
def test_kingman_is_exact_for_poisson_arrivals(rho: float, m: float, scv: float, s: float) -> None:
    x, v = rho * s / m, scv * m * m
    assert gg1_response(x, m, v, s, 1.0) == pytest.approx(mg1_response(x, m, v, s), rel=1e-9)


@given(st.floats(1.0, 5.0), means, speeds)
def test_overload_is_infinitely_slow(rho: float, m: float, s: float) -> None:
    x = math.nextafter(rho * s / m, math.inf) * (1 + 1e-12)
    assert mg1_response(x, m, m * m, s) == math.inf
    assert gg1_response(x, m, m * m, s, 1.0) == math.inf
    assert mgk_response(x, m, m * m, s, 1, 1.0) == math.inf


@given(st.floats(1.01, 100.0), means, scvs, speeds)
def test_highest_rate_within_a_bound_just_meets_it(factor: float, m: float, scv: float, s: float) -> None:
    bound = factor * m / s
    x = mg1_rate_within(bound, m, scv * m * m, s)
    assert mg1_response(x, m, scv * m * m, s) == pytest.approx(bound, rel=1e-6)
    assert mg1_rate_within(0.99 * m / s, m, scv * m * m, s) == 0.0


def test_erlang_c_of_two_servers() -> None:
    # closed form for k = 2: P(wait) = 2 rho^2 / (1 + rho)
    m, x = 1.0, 1.5
    rho = x * m / 2
    wait = 2 * rho**2 / (1 + rho) * m / (2 - x * m)
    assert mgk_response(x, m, m * m, 1.0, 2, 1.0) == pytest.approx(m + wait, rel=1e-12)


HORIZON, RUNS = 2000.0, 12
# 12 runs: 4.44 standard errors is the two-sided 99.9 % point of Student's t with 11 degrees of freedom
SURE = 4.44


@cache
def ciw_responses(kind: str, rho: float, horizon: float = HORIZON) -> list[Floats]:
    """Response times of one server of mean service 1, in independent runs, without their first tenth."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=rho)],
        service_distributions=[SERVICES[kind][0]],
        number_of_servers=[1],
    )
    runs = []
    for seed in range(RUNS):
        ciw.seed(seed)
        simulation = ciw.Simulation(network)
        simulation.simulate_until_max_time(horizon)
        records = simulation.get_all_records()
        runs.append(np.array([r.exit_date - r.arrival_date for r in records if r.arrival_date > horizon / 10]))
    return runs


def over_runs(values: list[float]) -> tuple[float, float]:
    """Mean and standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


SERVICES = {  # mean 1 each; squared coefficient of variation beside it
    "deterministic": (ciw.dists.Deterministic(value=1.0), 0.0),
    "gamma": (ciw.dists.Gamma(shape=2.0, scale=0.5), 0.5),
    "exponential": (ciw.dists.Exponential(rate=1.0), 1.0),
    "hyperexponential": (ciw.dists.HyperExponential(rates=[0.4, 3.0], probs=[0.3076923, 0.6923077]), 3.0),
}


@pytest.mark.parametrize("kind", SERVICES)
@pytest.mark.parametrize("rho", [0.3, 0.6, 0.8])
def test_mg1_agrees_with_a_discrete_event_simulation(kind: str, rho: float) -> None:
    service, scv = SERVICES[kind]
    if kind == "hyperexponential":
        p, r = service.probs, service.rates
        mean = sum(a / b for a, b in zip(p, r, strict=True))
        scv = 2 * sum(a / b**2 for a, b in zip(p, r, strict=True)) / mean**2 - 1
        assert mean == pytest.approx(1.0, rel=1e-6)
    observed, error = over_runs([float(run.mean()) for run in ciw_responses(kind, rho)])
    assert abs(mg1_response(rho, 1.0, scv, 1.0) - observed) < SURE * error


QUANTILES = [0.5, 0.9, 0.95, 0.99, 0.999]
quantiles = st.sampled_from(QUANTILES)


def check_shares(runs: Sequence[Floats], predicted: float, quantile: float) -> None:
    """Shares beyond a predicted quantile, which unlike quantiles of runs have no bias; constant service has an atom."""
    beyond, error = over_runs([float((run > predicted * (1.0 + 1e-5)).mean()) for run in runs])
    reached, other_error = over_runs([float((run > predicted * (1.0 - 1e-5)).mean()) for run in runs])
    assert beyond - SURE * error <= 1.0 - quantile <= reached + SURE * other_error


# far out and under load a run has but a few busy spells that matter, so these take more customers
@pytest.mark.parametrize(("rho", "tried"), [(0.3, QUANTILES), (0.6, QUANTILES[:3])])
@pytest.mark.parametrize("kind", ["deterministic", "gamma", "exponential"])
def test_quantiles_agree_with_a_discrete_event_simulation(kind: str, rho: float, tried: list[float]) -> None:
    for quantile in tried:
        predicted = replica_response_time(rho, 1.0, SERVICES[kind][1], 1.0, quantile)
        check_shares(ciw_responses(kind, rho), predicted, quantile)


@pytest.mark.slow
def test_far_quantiles_agree_with_long_simulations() -> None:
    for quantile in QUANTILES:
        predicted = replica_response_time(0.7, 1.0, SERVICES["gamma"][1], 1.0, quantile)
        check_shares(ciw_responses("gamma", 0.7, 6000.0), predicted, quantile)


@pytest.mark.parametrize("scv", [0.0, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("rho", [0.3, 0.7])
def test_quantiles_agree_with_lindley_recursion(rho: float, scv: float) -> None:
    rng, runs = np.random.default_rng(1), 2000
    wait, responses = np.zeros(runs), []
    for _ in range(800):
        service = rng.gamma(1.0 / scv, scv, runs) if scv > 0.0 else np.ones(runs)
        responses.append(wait + service)
        wait = np.maximum(0.0, wait + service - rng.exponential(1.0 / rho, runs))
    for quantile in QUANTILES:
        check_shares(np.array(responses[200:]).T, replica_response_time(rho, 1.0, scv, 1.0, quantile), quantile)


@given(loads, means, speeds, quantiles)
def test_quantiles_of_exponential_service_are_closed_form(rho: float, m: float, s: float, quantile: float) -> None:
    expected = -math.log(1.0 - quantile) / (s / m - rho * s / m)  # a response is exponential itself
    assert replica_response_time(rho * s / m, m, m * m, s, quantile) == pytest.approx(expected, rel=2e-6)


@pytest.mark.parametrize("quantile", QUANTILES)
@pytest.mark.parametrize("scv", [0.0, 0.001, 0.1, 0.5, 10.0])
def test_quantiles_between_table_steps_are_within_stated_error(scv: float, quantile: float) -> None:
    rho = np.random.default_rng(5).uniform(0.0, 0.995, 100)
    exact = solve_quantiles(rho, scv, quantile)
    found = np.array([replica_response_time(x, 1.0, scv, 1.0, quantile) for x in rho])
    off = np.abs(found / exact - 1.0)
    near = (scv < 0.01) & (np.abs(rho / (1.0 - quantile) - 1.0) < 0.3)
    assert off[~near].max() < 0.003
    assert off.max() < 0.025


@pytest.mark.parametrize("scv", [0.0, 0.5, 3.0])
def test_table_meets_heavy_traffic_limit(scv: float) -> None:
    table = mg1_quantile_table(scv, 0.95)
    assert table[-1] == pytest.approx(-math.log(0.05) * (1.0 + scv) / 2.0, rel=1e-12)
    assert table[-2] == pytest.approx(table[-1], rel=0.01)


@given(st.floats(1.01, 100.0), means, st.sampled_from([0.0, 0.3, 1.0, 4.0]), speeds, quantiles)
def test_highest_rate_within_a_quantile_just_meets_it(
    factor: float, m: float, scv: float, s: float, quantile: float
) -> None:
    least = replica_response_time(0.0, m, scv * m * m, s, quantile)
    x = replica_rate_within(factor * least, m, scv * m * m, s, quantile)
    assert 0.0 < x * m / s < 1.0
    assert replica_response_time(x, m, scv * m * m, s, quantile) == pytest.approx(factor * least, rel=1e-5)
    assert replica_rate_within(0.99 * least, m, scv * m * m, s, quantile) == 0.0


def test_without_a_quantile_the_mean_is_meant() -> None:
    assert replica_response_time(0.5, 1.0, 0.5, 1.0, None) == mg1_response(0.5, 1.0, 0.5, 1.0)
    assert replica_rate_within(2.0, 1.0, 0.5, 1.0, None) == mg1_rate_within(2.0, 1.0, 0.5, 1.0)
    assert replica_response_time(1.0, 1.0, 0.5, 1.0, 0.95) == math.inf


@pytest.mark.parametrize("quantile", [0.9, 0.95, 0.999])
@pytest.mark.parametrize("scv", [0.0, 0.03, 0.3, 1.4, 5.0, 90.0])
def test_rates_between_tables_of_the_grid_are_within_stated_error(scv: float, quantile: float) -> None:
    grid, h = mg1_quantile_grid(quantile), 0.02
    known = min(scv, float(SCV_GRID[-1]))  # beyond the grid its last table counts
    for rho in (0.4, 0.7, 0.95):
        bound = replica_response_time(rho / h, h, known * h * h, 1.0, quantile)
        assert grid_rate_within(grid, bound, h, scv) == pytest.approx(rho / h, rel=0.02)
        assert grid_scv(grid, rho / h, h, bound) == pytest.approx(known, rel=0.02, abs=0.01)
    assert grid_rate_within(grid, 1e-9, h, scv) == 0.0


def test_a_response_beyond_the_grid_counts_as_its_end() -> None:
    grid = mg1_quantile_grid(0.95)
    assert grid_scv(grid, 0.5, 1.0, 1e6) == SCV_GRID[-1]
    assert grid_scv(grid, 0.5, 1.0, 1e-6) == SCV_GRID[0]
