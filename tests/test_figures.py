"""The main paper's figures: how a claim becomes a verdict, and the searches of whole applications in small."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from scaler.model.errors import BadInput
from scaler.model.task import Weights
from sim.graphs import single
from sim.infrastructure import find_infrastructure
from sim.setting import Setting
from sim.trace import Trace
from tests.commands import succeed
from tuner.lab.engine_benchmark import EngineCell
from tuner.lab.paper import ClaimCheck
from tuner.lab.published.application_figures import (
    Searched,
    SearchJob,
    check_cheaper,
    compare_limits,
    run_search,
    run_searches,
)
from tuner.lab.published.course_figures import check_acceptable
from tuner.lab.published.figure_runs import make_taxi_setting
from tuner.lab.published.figures import FigureRequest
from tuner.lab.published.memory_figures import check_encodings, check_memory, encoding_lengths
from tuner.lab.published.operator_figures import WEIGHTS, check_baselines, spread_weights
from tuner.lab.published.tables import Known, run_missing
from tuner.lab.shifts import raise_prices_but_last
from tuner.search.space.space import EvaluationOutcome, Parameters

TRACE = Trace(np.random.default_rng(1).poisson(150.0 + 100.0 * np.sin(np.arange(600) / 50.0)).astype(float))
CELL = EngineCell("pipeline", 1, 0.05, 0.05, 0.10, 0)
SHARES = (1 / 3, 1 / 3, 1 / 3)
SIZES = (3, 6, 10)


def make_outcome(price: float, violations: float = 0.0) -> EvaluationOutcome:
    return EvaluationOutcome(Parameters(SHARES, Weights(1 / 3, 1 / 3, 1 / 3)), price, violations, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(("searched", "fixed"), [("shares", "weights"), ("weights", "shares")])
def test_one_half_is_searched_and_the_other_stays_naive(searched: str, fixed: str) -> None:
    found = run_search(SearchJob(CELL, TRACE, searched, 6))
    assert len(found.outcomes) == 7  # the baseline first
    assert len({getattr(outcome.parameters, searched) for outcome in found.outcomes}) == 7
    values = np.array([_numbers(getattr(outcome.parameters, fixed)) for outcome in found.outcomes])
    np.testing.assert_allclose(values, np.broadcast_to(values[0], values.shape), atol=1e-9)
    assert found.best.price <= found.baseline.price or not found.keeps(found.baseline)


@pytest.mark.slow
def test_a_longer_search_goes_on_where_a_shorter_one_ended() -> None:
    whole = run_search(SearchJob(CELL, TRACE, "both", 9))
    shorter = run_search(SearchJob(CELL, TRACE, "both", 7))
    continued = run_search(SearchJob(CELL, TRACE, "both", 9, shorter.outcomes))
    assert continued.outcomes[:8] == shorter.outcomes
    assert [outcome.parameters for outcome in continued.outcomes] == [outcome.parameters for outcome in whole.outcomes]


@pytest.mark.slow
def test_figures_share_their_searches(tmp_path: Path) -> None:
    succeed("lab", "traces", tmp_path / "made")
    request = FigureRequest(tmp_path / "made", 1, False, lambda share: None)
    cell = ("pipeline", 1, 0.05, 0.05, 0.10)
    (first,) = run_searches(request, [cell], "both", 3)
    (longer,) = run_searches(request, [cell], "both", 5)
    assert len(longer.outcomes) == 6
    assert all(one is other for one, other in zip(first.outcomes, longer.outcomes, strict=False))


def test_what_another_part_has_computed_is_not_computed_again() -> None:
    known: Known = {2: "kept"}
    assert run_missing(str, [1, 2], lambda share: None, known) == ["1", "kept"]
    assert run_missing(fail, [2, 1], lambda share: None, known) == ["kept", "1"]


def fail(job: int) -> str:
    raise AssertionError(f"{job} is known")


def _numbers(value: tuple[float, ...] | Weights) -> tuple[float, ...]:
    return (value.performance, value.reconfiguration, value.resources) if isinstance(value, Weights) else value


@pytest.mark.parametrize(
    ("baseline", "best", "holds"),
    [
        (make_outcome(10.0), make_outcome(9.0), True),
        (make_outcome(10.0), make_outcome(11.0), False),
        (make_outcome(10.0, violations=0.5), make_outcome(11.0), True),  # limits are kept that were broken
    ],
)
def test_bo_is_to_be_cheaper_or_to_keep_the_limits(
    baseline: EvaluationOutcome, best: EvaluationOutcome, holds: bool
) -> None:
    assert check_cheaper("x", [Searched(CELL, (baseline, best))]).holds is holds


def test_limits_are_compared_where_all_else_is_alike() -> None:
    cells = [replace(CELL, eta_v=eta_v, eta_r=eta_r) for eta_v in (0.01, 0.1) for eta_r in (0.05, 0.1)]
    found = [Searched(cell, (make_outcome(12.0 if cell.eta_v == 0.01 else 9.0),)) for cell in cells]
    assert compare_limits(found, "eta_v") == pytest.approx(0.75)
    assert compare_limits(found, "eta_r") == pytest.approx(1.0)


def test_weights_sum_to_one_whichever_grows() -> None:
    for name in WEIGHTS:
        weights = spread_weights(name, 0.4)
        assert getattr(weights, name) == 0.4
        assert weights.performance + weights.reconfiguration + weights.resources == pytest.approx(1.0)


def test_baselines_are_judged_by_the_texts_claims() -> None:
    rules = [f"{rule}-{node}" for rule in ("threshold", "drs", "lohrmann", "heinze") for node in "cso"]
    policies = [*rules, "QL+PDS+"]
    costs = {cell: np.array([0.03, 0.0, 0.0, 1.0]) for cell in product(policies, ("A", "B", "B2"), SIZES)}
    for n in SIZES:
        for dearer in ("heinze-c", "lohrmann-c"):
            costs[dearer, "A", n] = np.array([0.06, 0.0, 0.0, 1.0])
        for part in ("B", "B2"):
            costs |= {(p, part, n): np.array([0.6, 1.0, 0.0, 1.0]) for p in rules}
            costs["QL+PDS+", part, n] = np.array([0.01, 0.0, 0.0, 1.0])
        costs["threshold-s", "B", n] = np.array([0.02, 0.0, 0.0, 1.0])
    assert [check.claim for check in check_baselines(costs, policies) if not check.holds] == []
    costs["QL+PDS+", "B2", 3] = np.array([0.4, 0.0, 0.0, 1.0])
    broken = [check.part for check in check_baselines(costs, policies) if not check.holds]
    assert broken == ["B2, N_res 3"]


def test_acceptable_is_twice_the_cheapest() -> None:
    costs = {"a": 1.0, "b": 2.0, "c": 2.1}
    assert check_acceptable("x", costs, ("a", "b")).holds
    assert not check_acceptable("x", costs, ("b", "c")).holds


def test_memory_claims_hold_by_counting() -> None:
    assert all(check.holds for check in check_memory())


def test_encodings_are_judged_by_layers_and_spread() -> None:
    costs = {cell: 0.1 - 0.001 * cell[2] for cell in product(SIZES, encoding_lengths(3, 10), (1, 2, 3))}
    costs |= {(3, "large", layers): 0.08 for layers in (1, 2, 3)}
    costs |= {(n, "reduced2", layers): 0.098 for n in SIZES for layers in (1, 2, 3)}

    def verdicts() -> list[bool]:
        checks: list[ClaimCheck] = check_encodings(dict(costs))
        return [check.holds for check in checks]

    assert verdicts() == [True, True, True, True]
    costs[6, "reduced2", 1] = 0.3
    assert verdicts() == [False, True, True, False]


def test_the_last_type_is_spared_when_prices_rise() -> None:
    setting = Setting(single(180.0), find_infrastructure("A", 3), TRACE, "ql", r_max=0.05)
    world = raise_prices_but_last(setting)
    assert world.shift is not None
    prices = [node.price for node in world.shift.setting.infrastructure.types]
    assert prices == pytest.approx([100.0, 70.0, 1.3])


@pytest.mark.slow
def test_dp_asks_for_its_history(tmp_path: Path) -> None:
    succeed("lab", "traces", tmp_path / "made")
    assert make_taxi_setting(tmp_path / "made", "DP").policy == "value-iteration"
    (tmp_path / "made" / "taxi_history.txt.gz").unlink()
    with pytest.raises(BadInput, match=r"taxi_history\.txt\.gz is not there"):
        make_taxi_setting(tmp_path / "made", "DP")
