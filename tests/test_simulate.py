"""Whole applications through the simulator: against a slot-by-slot twin, across shifts, and their standard errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from scaler.model.errors import BadInput
from scaler.model.nodes import NodeType
from scaler.model.task import Moments
from sim.application import Application, Edge, Operator, order, paths
from sim.graphs import find_application
from sim.infrastructure import find_infrastructure
from sim.replicas import Inertia
from sim.setting import Setting, Shift, gains, perturb_model, tasks
from sim.simulate import batch_error, operator_seed, simulate
from sim.trace import Trace
from tests.examples import make_rates
from tests.oracles.application import replay_application
from tests.oracles.learners import PostDecision, QLearning

R = 0.08
APPLICATION = Application(
    operators=(
        Operator("split", Moments(1 / 400, (1 / 400) ** 2), 4, selectivity=1.5),
        Operator("left", Moments(1 / 300, (1 / 300) ** 2 / 2), 4),
        Operator("right", Moments(1 / 200, (1 / 200) ** 2 / 2), 4, selectivity=0.4),
        Operator("join", Moments(1 / 500, 0.0), 4),
        Operator("alarm", Moments(1 / 900, (1 / 900) ** 2), 4),
    ),
    edges=(
        Edge("split", "left", 0.5),
        Edge("split", "right", 0.3),
        Edge("left", "join"),
        Edge("right", "join"),
        Edge("right", "alarm"),
    ),
    name="fork",
)


def make_setting(policy: str = "ql-pds-plus", slots: int = 1500, **changes: object) -> Setting:
    fields: dict[str, object] = {
        "application": APPLICATION,
        "infrastructure": find_infrastructure("A", 2),
        "trace": Trace(make_rates(slots, 2)),
        "policy": policy,
        "r_max": R,
        "levels": 12,
    }
    return Setting(**(fields | changes))  # type: ignore[arg-type]


def alone(policy: str = "ql-pds", **changes: object) -> Setting:
    return make_setting(policy, application=find_application("single", service_rate=180.0, k_max=5), **changes)


TWINS = {
    "ql": QLearning,
    "ql-pds-plus": lambda task, seed: PostDecision(task, perturb_model(task, seed), False),
}


@pytest.mark.parametrize("policy", TWINS)
def test_an_application_equals_its_slot_by_slot_twin(policy: str) -> None:
    setting = make_setting(policy, perturbed=True)
    names = [operator.name for operator in APPLICATION.operators]

    def inflow(i: int, external: float, outputs: dict[int, float]) -> float:
        feeds = [e for e in APPLICATION.edges if e.downstream == names[i]]
        return (external if not feeds else 0.0) + sum(
            outputs[names.index(e.upstream)]
            * APPLICATION.operators[names.index(e.upstream)].selectivity
            * e.selectivity
            for e in feeds
        )

    stated = tasks(setting)
    controllers = [TWINS[policy](task, operator_seed(7, i)) for i, task in enumerate(stated)]
    rows = replay_application(
        stated, controllers, order(APPLICATION), inflow, paths(APPLICATION), R, setting.trace.rates.tolist()
    )
    run = simulate(setting, seed=7)
    assert run.violations == pytest.approx(np.mean([row.violated for row in rows]), abs=1e-12)
    assert run.reconfigurations == pytest.approx(np.mean([row.reconfigured for row in rows]), abs=1e-12)
    assert run.resources == pytest.approx(np.mean([row.resources for row in rows]), rel=1e-12)


def test_rates_reach_operators_times_selectivities() -> None:
    assert gains(APPLICATION) == pytest.approx([1.0, 0.75, 0.45, 0.75 + 0.45 * 0.4, 0.45 * 0.4])


@pytest.mark.parametrize("plant", ["memoryless", "backlog"])
def test_the_fast_path_of_one_operator_equals_the_general_one(plant: str) -> None:
    setting = alone(plant=plant, inertia=Inertia(60.0, 3.0, 20.0))
    quick, general = simulate(setting, 1), simulate(setting, 1, record=True)
    for name in ("cost", "violations", "reconfigurations", "resources"):
        assert getattr(quick, name) == pytest.approx(getattr(general, name), rel=1e-12)
    np.testing.assert_allclose(quick.replicas, general.replicas)


def test_the_time_line_tells_what_the_averages_sum_up() -> None:
    setting = make_setting("threshold-c")
    run = simulate(setting, record=True)
    assert run.timeline is not None
    for i in range(len(APPLICATION.operators)):
        np.testing.assert_allclose(run.timeline.replicas(i).mean(axis=0), run.replicas[i])
    slow = np.zeros(run.slots, bool)
    for path in paths(APPLICATION):
        slow |= run.timeline.responses[list(path)].sum(axis=0) > R
    assert run.violations == slow.mean()


def test_progress_reaches_the_last_slot() -> None:
    heard: list[int] = []
    simulate(alone(slots=150_000), progress=heard.append)
    assert heard == sorted(heard)
    assert heard[-1] == 150_000
    assert len(heard) > 1


def test_prices_shift_when_announced() -> None:
    setting = alone("static", slots=1000)
    types = tuple(NodeType(t.name, t.speedup, 3 * t.price) for t in setting.infrastructure.types)
    dearer = replace(setting, infrastructure=replace(setting.infrastructure, types=types))
    before, after = simulate(setting).resources, simulate(setting, shifts=[Shift(300, dearer)]).resources
    assert after == pytest.approx(before * (0.3 + 0.7 * 3))


def test_a_slower_service_violates_without_an_announcement() -> None:
    setting = alone("static", trace=Trace(np.full(1000, 100.0)))
    (operator,) = setting.application.operators
    slower = replace(operator, moments=Moments(operator.moments.mean * 2, operator.moments.variance * 4))
    worse = replace(setting, application=replace(setting.application, operators=(slower,)))
    assert simulate(setting).violations == 0.0
    assert simulate(setting, shifts=[Shift(600, worse, announced=False)]).violations == pytest.approx(0.4)


@pytest.mark.parametrize("at", [[0], [1000], [500, 500], [-3]])
def test_shifts_lie_inside_the_trace_and_in_order(at: list[int]) -> None:
    setting = alone("static", slots=1000)
    with pytest.raises(BadInput, match="inside the trace"):
        simulate(setting, shifts=[Shift(t, setting) for t in at])


def test_the_first_replica_may_start_on_any_type() -> None:
    run = simulate(alone("static", first={"A2": 1}))
    np.testing.assert_array_equal(run.replicas, [[0.0, 1.0]])
    with pytest.raises(BadInput, match="'Z9'; A has A1, A2"):
        alone(first={"Z9": 1})


def test_standard_errors_cover_the_truth() -> None:
    """Of many independent runs of independent slots, 95 % intervals must hold the mean about 95 % of the time."""
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(400):
        sums = rng.poisson(3.0, size=(64, 50)).sum(axis=1).astype(float)
        error = batch_error(sums, np.full(64, 50.0))
        covered += abs(sums.sum() / (64 * 50) - 3.0) < stats.t.ppf(0.975, 63) * error
    assert stats.binomtest(covered, 400, 0.95).pvalue > 1e-4


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"r_max": 0.0}, "R_max is 0.0 s, and must be positive"),
        ({"plant": "magic"}, "no plant 'magic'; choose one of memoryless, backlog"),
        ({"bounds": {"nobody": 0.1}}, "operator 'nobody'; fork has split, left, right, join, alarm"),
        ({"levels": 0}, "the number of rate levels is 0"),
        ({"gamma": 1.0}, "gamma is 1.0, and must lie in"),
        ({"options": {"tune": 1}}, "static has no option 'tune'; it takes none"),
    ],
)
def test_wrong_settings_get_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        simulate(make_setting("static", **changes))
