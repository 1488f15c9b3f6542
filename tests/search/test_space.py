"""The space's laws over random applications, linear programming its judge; and what it refuses."""

from __future__ import annotations

import math
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from scaler.model.errors import BadInput
from scaler.model.task import Moments, Weights
from sim.application import Application, Edge, Operator, paths
from sim.graphs import find_application
from sim.infrastructure import find_infrastructure
from tuner.scenario.layout import QoS
from tuner.search.space.space import (
    Parameters,
    SearchSpace,
    fits,
    from_cube,
    from_document,
    gather,
    make_space,
    project_to_limits,
    to_bounds,
    to_cube,
    to_document,
)

TYPES = find_infrastructure("A", n_res=3)  # the fastest is of 1.3
QUALITY = QoS(0.05)
SKIP = Application(
    tuple(Operator(name, Moments(0.001, 1e-6)) for name in "abc"), (Edge("a", "b"), Edge("b", "c"), Edge("a", "c"))
)


@st.composite
def applications(draw: st.DrawFn) -> Application:
    """Any graph of up to seven operators, its edges from the earlier to the later."""
    count = draw(st.integers(1, 7))
    means = draw(st.lists(st.floats(0.0002, 0.004), min_size=count, max_size=count))
    operators = tuple(Operator(f"op{i}", Moments(mean, mean**2 / 2)) for i, mean in enumerate(means))
    ends = [(i, j) for j in range(count) for i in range(j)]
    kept = draw(st.lists(st.booleans(), min_size=len(ends), max_size=len(ends)))
    edges = (Edge(f"op{i}", f"op{j}") for (i, j), keep in zip(ends, kept, strict=True) if keep)
    return Application(operators, tuple(edges))


def make_points(space: SearchSpace, seed: int, count: int = 20) -> np.ndarray:
    """Points of the cube, the corners among them."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(count, space.size))
    points[0], points[1] = 0.0, 1.0
    points[2] = rng.integers(0, 2, space.size)
    return points


@settings(max_examples=60)
@given(applications(), st.sampled_from([0.01, 0.05, 0.2]), st.integers(0, 2**31))
def test_every_point_of_the_cube_becomes_parameters_in_the_space(
    application: Application, eps: float, seed: int
) -> None:
    try:
        space = make_space(application, TYPES, QUALITY, eps)
    except BadInput:
        return  # rightly or not: the next test
    for parameters in from_cube(space, make_points(space, seed)):
        assert fits(space, np.array([parameters.shares]), 1e-5)[0]
        w = parameters.weights
        assert math.isclose(w.performance + w.reconfiguration + w.resources, 1.0, abs_tol=1e-9)
        assert min(w.performance, w.reconfiguration, w.resources) > 0.0


@settings(max_examples=60)
@given(applications(), st.sampled_from([0.01, 0.05, 0.2]))
def test_an_application_is_refused_only_where_no_shares_fit(application: Application, eps: float) -> None:
    try:
        make_space(application, TYPES, QUALITY, eps)
    except BadInput:
        assert not is_open(application, eps)


def is_open(application: Application, eps: float) -> bool:
    """Whether there are shares clearly inside all limits, worked out from the statement of the problem alone."""
    routes = [set(route) for route in paths(application)]
    n = len(application.operators)
    rows, limits = [], []
    for route in routes:
        row = np.array([float(i in route) for i in range(n)])
        rows.append([*row, 1.0])
        limits.append(1.0 + eps)
        if not any(route < other for other in routes):  # what is part of a longer path need not use up the bound
            rows.append([*-row, 1.0])
            limits.append(eps - 1.0)
    least = [1.05 * operator.moments.mean / 1.3 / QUALITY.r_max for operator in application.operators]
    cost = [0.0] * n + [-1.0]
    answer = linprog(cost, A_ub=rows, b_ub=limits, bounds=[*((x, None) for x in least), (None, None)])
    return bool(answer.status == 0 and answer.x[-1] > 1e-3 * eps)


@settings(max_examples=60)
@given(applications(), st.integers(0, 2**31))
def test_parameters_come_back_from_the_cube(application: Application, seed: int) -> None:
    try:
        space = make_space(application, TYPES, QUALITY)
    except BadInput:
        return
    for parameters in from_cube(space, make_points(space, seed)):
        point = to_cube(space, parameters)
        assert point.shape == (space.size,)
        assert ((point >= 0.0) & (point <= 1.0)).all()
        (again,) = from_cube(space, point[None])
        # but for their common scale, where the path limits leave next to no room and shares were drawn into it
        assert again.shares == pytest.approx(parameters.shares, abs=2e-3)
        assert astuple(again.weights) == pytest.approx(astuple(parameters.weights), abs=1e-4)


@settings(max_examples=60)
@given(applications(), st.integers(0, 2**31), st.floats(0.01, 100.0))
def test_settled_shares_stay_and_their_scale_does_not_matter(application: Application, seed: int, scale: float) -> None:
    try:
        space = make_space(application, TYPES, QUALITY)
    except BadInput:
        return
    scores = np.random.default_rng(seed).exponential(size=(10, len(space.operators))) + 0.01
    shares = project_to_limits(space, scores)
    np.testing.assert_allclose(project_to_limits(space, scale * scores), shares, atol=1e-4)
    np.testing.assert_allclose(
        project_to_limits(space, shares), shares, atol=0.03
    )  # within the limits, in the middle of these


def test_along_one_path_points_of_the_cube_are_even_over_shares_and_weights() -> None:
    """Means and variances of the uniform distribution on a simplex of three."""
    application = Application(
        tuple(Operator(name, Moments(1e-5, 1e-11)) for name in "abc"), (Edge("a", "b"), Edge("b", "c"))
    )
    space = make_space(application, TYPES, QUALITY)
    tried = from_cube(space, np.random.default_rng(2).uniform(size=(20_000, space.size)))
    shares = np.array([parameters.shares for parameters in tried])
    weights = np.array([astuple(parameters.weights) for parameters in tried])
    for values in (shares / shares.sum(axis=1, keepdims=True), weights):
        np.testing.assert_allclose(values.mean(axis=0), 1 / 3, atol=5 * math.sqrt(1 / 18 / 20_000))
        np.testing.assert_allclose(values.var(axis=0), 1 / 18, atol=0.002)


def test_fits_says_which_limit_is_broken() -> None:
    space = make_space(find_application("pipeline"), TYPES, QUALITY)
    rows = [[0.3, 0.3, 0.4], [0.3, 0.3, 0.34], [0.4, 0.3, 0.36], [0.01, 0.49, 0.5]]
    assert fits(space, np.array(rows)).tolist() == [True, False, False, False]  # short, long, idle takes longer


def test_a_path_within_another_need_not_use_up_the_bound() -> None:
    """a -> c beside a -> b -> c: else b would have nothing."""
    space = make_space(SKIP, TYPES, QUALITY)
    assert space.paths == ("a -> b -> c", "a -> c")
    assert space.low == pytest.approx([0.95, 0.0])
    assert fits(space, np.array([[0.1, 0.8, 0.1], [0.5, 0.02, 0.5]])).tolist() == [True, True]
    shares = project_to_limits(space, np.array([[1.0, 8.0, 1.0]]))[0]
    assert shares / shares.sum() == pytest.approx([0.1, 0.8, 0.1])  # the short path leaves proportions alone


def test_a_path_within_another_is_held_to_a_tighter_bound_of_its_own() -> None:
    space = make_space(SKIP, TYPES, QoS(0.05, paths={"a -> c": 0.02}))
    assert space.low == pytest.approx([0.95, 0.38])
    (parameters,) = from_cube(space, np.full((1, space.size), 0.5))
    a, b, c = parameters.shares
    assert 0.38 - 1e-6 <= a + c <= 0.42 + 1e-6
    assert 0.95 - 1e-6 <= a + b + c <= 1.05 + 1e-6


def test_every_sink_has_paths_of_its_own() -> None:
    space = make_space(find_application("multi-sink"), TYPES, QoS(0.05, paths={"op1 -> op5": 0.04}))
    assert space.paths == ("op1 -> op2 -> op3", "op1 -> op2 -> op4", "op1 -> op5")
    assert space.high == pytest.approx([1.05, 1.05, 0.84])
    for parameters in from_cube(space, make_points(space, 3)):
        one, *_, five = parameters.shares
        assert 0.76 - 1e-5 <= one + five <= 0.84 + 1e-5


def test_parameters_are_written_down_and_read_again() -> None:
    space = make_space(SKIP, TYPES, QUALITY)
    (parameters,) = gather(np.array([[0.25, 0.5, 0.25]]), np.array([[2.0, 1.0, 1.0]]))
    assert parameters == Parameters((0.25, 0.5, 0.25), Weights(0.5, 0.25, 0.25))
    document = to_document(space.operators, parameters)
    assert document["weights"] == {"perf": 0.5, "rcf": 0.25, "res": 0.25}
    assert from_document(space.operators, document) == parameters
    assert to_bounds(space.operators, parameters, 0.04) == pytest.approx({"a": 0.01, "b": 0.02, "c": 0.01})


@pytest.mark.parametrize(
    ("demand", "sentence"),
    [
        ({"paths": {"a -> d": 0.02}}, r"the path 'a -> d'; the paths are a -> b -> c, a -> c"),
        ({"r_max": 0.0022}, r"path a -> b -> c: its services alone take 0.002308 s .* the bound is 0.00231 s; allow"),
        ({"paths": {"a -> c": 0.001}}, r"path a -> c: its services alone take"),
        ({"eta_v": 0.0}, "eta_v is 0.0, and must lie between 0 and 1"),
        ({"eta_r": 1.0}, "eta_r is 1.0, and must lie between 0 and 1"),
        ({"eta_v": math.nan}, "eta_v is nan, and must lie"),
        ({"r_max": -1.0}, "the bound of R_max is -1.0 s, and must be a positive number"),
        ({"r_max": math.inf}, "the bound of R_max is inf s, and must be"),
        ({"paths": {"a -> c": 0.0}}, "the bound of a -> c is 0.0 s, and must be"),
    ],
)
def test_what_cannot_be_met_is_refused_in_a_sentence(demand: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        make_space(SKIP, TYPES, QoS(**{"r_max": 0.05, **demand}))


@pytest.mark.parametrize("eps", [0.0, 1.0, math.nan])
def test_eps_is_a_part_of_the_bound(eps: float) -> None:
    with pytest.raises(BadInput, match=f"eps is {eps}, and must lie between 0 and 1"):
        make_space(SKIP, TYPES, QUALITY, eps)


def test_bounds_that_contradict_each_other_are_refused() -> None:
    """Two sources and two sinks: what the paths add up to in pairs is twice the same, and is bound differently."""
    crossed = Application(
        tuple(Operator(name, Moments(0.001, 1e-6)) for name in "abcd"),
        (Edge("a", "c"), Edge("a", "d"), Edge("b", "c"), Edge("b", "d")),
    )
    make_space(crossed, TYPES, QoS(0.05, paths={"a -> c": 0.04, "b -> c": 0.04}))
    with pytest.raises(BadInput, match="no shares make every path add up to its own bound within eps; allow a larger"):
        make_space(crossed, TYPES, QoS(0.05, paths={"a -> c": 0.02, "b -> d": 0.02}))
