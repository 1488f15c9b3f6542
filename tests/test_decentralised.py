"""Centralised and decentralised control: plans against a dense solver, box minima, learners, the command."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import tuner.lab.decentralised.outcome as outcome_module
from scaler.model.queueing import mg1_response, response_at
from sim.application_floor import least_in_box
from sim.level_chain import LevelChain, count_chain, draw_levels
from sim.trace import Trace
from tests.commands import succeed
from tests.oracles.joint_optimum import Chain
from tuner.lab.decentralised.chained_operators import (
    FORBIDDEN,
    GAMMA,
    K_MAX,
    SERVICE_RATES,
    WEIGHTS,
    JointSpace,
    load_chain,
    make_joint_space,
    make_operator_space,
)
from tuner.lab.decentralised.control import KNOWN, LEARNED, PLANNED, control, empty_memory, plan_jointly
from tuner.lab.decentralised.printed_table import read_table_1
from tuner.lab.decentralised.years import TABLE_PIPELINE, charge

TRACES = Path(__file__).parents[2] / "shared" / "traces"
needs_traces = pytest.mark.skipif(not TRACES.exists(), reason=f"the traces folder {TRACES} is not there")
SMALL = LevelChain(np.array([2.0, 6.0, 11.0]), np.array([[0.8, 0.2, 0.0], [0.2, 0.6, 0.2], [0.0, 0.3, 0.7]]), 0)


def solve_densely(space: JointSpace, chances: np.ndarray) -> np.ndarray:
    """V [L, J] by policy iteration over joint actions one by one, each policy solved as linear equations."""
    levels, states = space.late.shape
    many = levels * states
    policy = np.zeros((levels, states), np.int64)
    while True:
        transition, cost = np.zeros((many, many)), np.zeros(many)
        for level, j in product(range(levels), range(states)):
            to = space.near[j, policy[level, j]]
            row = level * states + j
            cost[row] = space.rent[to] + space.w_rcf * (to != j) + space.w_late * chances[level] @ space.late[:, to]
            transition[row, np.arange(levels) * states + to] += chances[level]
        values = np.linalg.solve(np.eye(many) - space.gamma * transition, cost).reshape(levels, states)
        onward = space.rent + chances @ (space.w_late * space.late + space.gamma * values)
        moved = space.w_rcf * (np.arange(space.near.shape[1]) > 0)
        worth = np.where(space.near == FORBIDDEN, np.inf, onward[:, space.near] + moved)
        better = worth.argmin(axis=2)
        kept = np.take_along_axis(worth, policy[..., None], 2)[..., 0] <= worth.min(axis=2) + 1e-9
        better[kept] = policy[kept]
        if np.array_equal(better, policy):
            return values
        policy = better


@pytest.mark.parametrize("operators", [1, 2])
def test_joint_plan_is_the_dense_solvers_optimum(operators: int) -> None:
    space = make_joint_space(SERVICE_RATES[:operators], 0.65 * operators, SMALL)
    onward = plan_jointly(space, SMALL.chances)
    moves = np.where(space.near == FORBIDDEN, np.inf, onward[:, space.near])
    moves[:, :, 1:] += space.w_rcf
    assert moves.min(axis=2) == pytest.approx(solve_densely(space, SMALL.chances), abs=1e-4)


@pytest.mark.parametrize("operators", [1, 2, 3])
def test_box_minimum_is_that_over_every_joint_action(operators: int) -> None:
    space = make_joint_space(SERVICE_RATES[:operators], 1.9, SMALL)
    values = np.random.default_rng(operators).random(len(space.rent))
    box = np.empty_like(values)
    least_in_box(space.choices, values, np.empty_like(values), box)
    assert box.tolist() == np.where(space.near == FORBIDDEN, np.inf, values[space.near]).min(axis=1).tolist()


def test_costs_are_those_of_an_independent_twin() -> None:
    twin = Chain(SERVICE_RATES[:3], K_MAX, 1.9, (0.4, 0.4, 0.2), SMALL.rates, SMALL.chances)
    space = make_joint_space(SERVICE_RATES[:3], 1.9, SMALL)
    assert space.late.T.reshape(twin.late.shape).tolist() == twin.late.tolist()
    assert space.rent == pytest.approx(WEIGHTS.resources * twin.resources[..., 0].ravel())
    assert (space.gamma, space.w_late, space.w_rcf) == (GAMMA, 0.4, 0.4)


def test_a_target_utilisation_is_a_latency_bound() -> None:
    mean, target = 1.0 / 3.3, 0.7
    space = make_operator_space(3.3, target, SMALL)
    used = SMALL.rates[:, None] / (np.arange(1, K_MAX + 1) * 3.3)
    assert space.late.tolist() == (used > target).tolist()
    assert response_at(target, mean, 0.0, 1.0) == mg1_response(target / mean, mean, 0.0, 1.0)


def test_drawn_levels_follow_the_traces_transition_matrix() -> None:
    rates = np.repeat([5.0, 25.0, 25.0, 45.0], 30)
    chain = count_chain(Trace(np.tile(rates, 5)), 20.0)
    assert chain.rates.tolist() == [10.0, 30.0, 50.0]
    assert chain.chances.sum(axis=1) == pytest.approx(1.0)
    levels = draw_levels(chain, 60_000, 1)
    counts = np.zeros((3, 3))
    np.add.at(counts, (levels[:-1], levels[1:]), 1.0)
    shares = counts / counts.sum(axis=1, keepdims=True)
    error = 4.0 * np.sqrt(chain.chances * (1.0 - chain.chances) / counts.sum(axis=1, keepdims=True))
    assert (np.abs(shares - chain.chances) <= error).all()


@pytest.mark.parametrize("knows", [PLANNED, KNOWN, LEARNED])
def test_control_moves_each_operator_by_one_at_most(knows: int) -> None:
    space = make_joint_space(SERVICE_RATES[:2], 1.3, SMALL)
    states = control(space, knows, SMALL, draw_levels(SMALL, 4_000, 0))
    places = states[:, None] // space.choices.stride % K_MAX
    assert np.abs(np.diff(places, axis=0)).max() == 1
    assert len(set(states.tolist())) > 2


def test_learning_comes_near_the_plan() -> None:
    space = make_joint_space(SERVICE_RATES[:2], 1.3, SMALL)
    levels = draw_levels(SMALL, 60_000, 3)
    costs = [charge(space, levels, control(space, knows, SMALL, levels)).cost for knows in (PLANNED, KNOWN, LEARNED)]
    assert costs[0] <= min(costs[1:]) * 1.01
    assert costs[1] <= 1.03 * costs[0]
    assert costs[2] <= 1.15 * costs[0]


def test_what_was_not_seen_is_worth_nothing_yet() -> None:
    space = make_joint_space(SERVICE_RATES[:1], 0.65, SMALL)
    memory = empty_memory(space, LEARNED)
    assert memory.values.max() == memory.lateness.max() == 0.0


@pytest.fixture
def short_year(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome_module, "YEAR", 3_000)
    monkeypatch.setattr(outcome_module, "run_jobs", lambda work, jobs, on_share: [work(job) for job in jobs])


@pytest.mark.slow
@pytest.mark.usefixtures("short_year")
def test_the_command_prints_every_row_with_a_verdict(tmp_path: Path) -> None:
    succeed("lab", "traces", tmp_path / "made")
    printed = json.loads(
        succeed("lab", "reproduce", "decentralised", "--traces", tmp_path / "made", "--seeds", 1, "--json")
    )
    judged = [pair for pair in printed["figures"] if pair["published"] is not None]
    assert printed["printed"] == len(judged) == 4 * (3 + 2 * 3)
    assert {pair["part"] for pair in printed["figures"]} == {"Table 1", "Figure 2a", "Figure 2b"}
    assert all(pair["agrees"] == (abs(pair["ours"] - pair["published"]) <= pair["allowed"]) for pair in judged)
    assert {claim["part"] for claim in printed["claims"]} == {"Table 1", "Figure 2a", "Figure 2b"}


@needs_traces
@pytest.mark.slow
def test_the_published_optimum_comes_out() -> None:
    """A drawn year of the plan costs what is printed."""
    chain = load_chain(TRACES)
    space = make_joint_space(SERVICE_RATES[:3], TABLE_PIPELINE[1], chain)
    levels = draw_levels(chain, 525_600, 11)
    year = charge(space, levels, control(space, PLANNED, chain, levels))
    published = read_table_1()[0]
    assert year.cost == pytest.approx(published.cost, rel=0.04)
    assert year.violations == pytest.approx(published.violations, rel=0.15)
    assert year.reconfigurations == pytest.approx(published.reconfigurations, rel=0.15)
    assert year.instances == pytest.approx(published.instances, rel=0.04)
