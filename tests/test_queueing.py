"""Response-time formulas against theory, against their inverses and against a discrete-event simulator."""

from __future__ import annotations

import math

import ciw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def ciw_response(rho: float, service: ciw.dists.Distribution, seeds: range, horizon: float) -> tuple[float, float]:
    """Mean response time of one server of mean service 1 and its standard error over independent runs."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=rho)],
        service_distributions=[service],
        number_of_servers=[1],
    )
    means = []
    for seed in seeds:
        ciw.seed(seed)
        simulation = ciw.Simulation(network)
        simulation.simulate_until_max_time(horizon)
        records = simulation.get_all_records()
        means.append(np.mean([r.exit_date - r.arrival_date for r in records if r.arrival_date > horizon / 10]))
    return float(np.mean(means)), float(np.std(means, ddof=1) / math.sqrt(len(means)))


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
    observed, error = ciw_response(rho, service, range(12), 2000.0)
    # 12 runs: 4.44 standard errors is the two-sided 99.9 % point of Student's t with 11 degrees of freedom
    assert abs(mg1_response(rho, 1.0, scv, 1.0) - observed) < 4.44 * error
