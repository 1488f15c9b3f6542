"""What makes no difference to a policy is not searched: seen by replays, and kept to by every engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sim.arrivals import generate
from sim.graphs import find_application
from sim.infrastructure import find_infrastructure
from sim.setting import Setting
from sim.trace import window
from tests.search.problems import ask_for, evaluate, quadratic, search
from tuner.scenario.layout import QoS
from tuner.search.engines import ENGINES, find_engine
from tuner.search.engines.naive import fitting_shares
from tuner.search.evaluation import EvaluationSpec
from tuner.search.fixed_parameters import FIRST_SLOTS, find_fixed, fix_parameters
from tuner.search.space.space import SearchSpace, make_space

TRACE = generate("diurnal", low=50.0, high=500.0, slots=FIRST_SLOTS + 1_000, seed=2)


@pytest.mark.parametrize(
    ("policy", "fixed"),
    [
        ("threshold-s", ("shares", "weights")),
        ("static", ("shares", "weights")),
        ("drs-s", ("weights",)),  # sizes operators by their bounds
        ("planner", ()),  # weighs violations against resources, within bounds
        ("ql-pds-plus", ()),
    ],
)
def test_a_policy_shows_what_it_looks_at(policy: str, fixed: tuple[str, ...]) -> None:
    assert find_fixed(*make_case(policy)) == fixed


@pytest.mark.parametrize("policy", ["threshold-s", "planner"])
def test_on_a_short_trace_nothing_is_fixed(policy: str) -> None:
    """A planner that has learned nothing yet looks at no bounds, and a daemon tuned it on equal shares alone."""
    assert find_fixed(*make_case(policy, slots=FIRST_SLOTS - 1)) == ()


def make_case(policy: str, slots: int = len(TRACE.rates)) -> tuple[EvaluationSpec, SearchSpace]:
    qos, trace = QoS(0.05), window(TRACE, 0, slots)
    setting = Setting(find_application("pipeline"), find_infrastructure("A", 3), trace, policy, r_max=0.05)
    return EvaluationSpec(setting, qos, (0,)), make_space(setting.application, setting.infrastructure, qos)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("part", ["shares", "weights"])
def test_no_engine_searches_what_is_fixed(engine: str, part: str) -> None:
    whole = quadratic()
    problem = replace(whole, problem=fix_parameters(whole.problem, (part,)))
    history = search(problem, find_engine(engine), 3, 14)
    tried = np.array([[*o.parameters.shares, *o.parameters.weights.to_json().values()] for o in history])
    n = len(problem.problem.space.operators)
    kept, free = (tried[:, :n], tried[:, n:]) if part == "shares" else (tried[:, n:], tried[:, :n])
    fixed = fitting_shares(problem.problem.space) if part == "shares" else np.full(3, 1.0 / 3.0)
    assert kept == pytest.approx(np.tile(fixed, (len(history), 1)))
    assert len(np.unique(free.round(9), axis=0)) == len(history)
    assert len(history) == (1 if engine == "naive" else 14)


def test_algorithm_4_goes_from_shares_to_shares_where_weights_are_fixed() -> None:
    whole = quadratic()
    problem = replace(whole, problem=fix_parameters(whole.problem, ("weights",)))
    notes = [outcome.note for outcome in search(problem, find_engine("skopt"), 3, 27)]
    assert [(note["round"], note["phase"]) for note in notes[24:]] == [(0, "shares"), (1, "shares"), (1, "shares")]


def test_nothing_is_searched_where_all_is_fixed() -> None:
    problem = ask_for(find_application("pipeline"))
    assert fix_parameters(problem, ("shares", "weights")).budget == 0
    assert fix_parameters(problem, ("weights",)).budget == problem.budget
    assert evaluate(quadratic(), find_engine("naive")(problem, [], 1)[0]).price > 0.0
