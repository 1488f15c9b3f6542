"""Limits of a search leave the room for other days that verification asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler.model.task import Weights
from sim.arrivals import generate
from sim.trace import window
from tuner.lab.engine_benchmark import EngineCell, Rules, make_evaluation, make_setting
from tuner.scenario.layout import QoS
from tuner.search.engines import SearchProblem
from tuner.search.other_days import DayErrors
from tuner.search.recommendation import CONFIDENCE, measure_confidence
from tuner.search.search_target import LARGER, LEAST_ROOM, leave_room, tighten
from tuner.search.space.space import EvaluationOutcome, Parameters, make_space

QUALITY, SEEDS = QoS(0.05, 0.05, 0.1), 8
DAYS = generate("diurnal", low=50.0, high=500.0, slots=13_000, seed=2)  # nine of them


@pytest.mark.parametrize("relative", [0.05, 0.2])
def test_a_share_that_leaves_the_room_passes(relative: float) -> None:
    share = QUALITY.eta_v * leave_room(relative, 1.0, SEEDS)
    parameters = Parameters((1.0,), Weights(0.3, 0.3, 0.4))

    def confidence(violations: float) -> float:
        days = DayErrors(relative * violations, 0.0)
        return measure_confidence(EvaluationOutcome(parameters, 1.0, violations, 0.0), QUALITY, SEEDS, days)

    assert confidence(0.999 * share) > CONFIDENCE > confidence(LARGER * share)


def test_a_limit_keeps_half_of_itself_at_least() -> None:
    assert leave_room(9.0, 1.0, SEEDS) == LEAST_ROOM
    assert leave_room(0.0, 0.0, SEEDS) == 1.0


def test_limits_are_tightened_where_a_week_is_replayed() -> None:
    setting = make_setting(Rules(("gp",), DAYS), EngineCell("pipeline", 1, 0.05, 0.05, 0.1, 0))
    problem = SearchProblem(make_space(setting.application, setting.infrastructure, QUALITY), QUALITY, 10)
    target = tighten(problem, make_evaluation(setting, QUALITY, 0), SEEDS).target
    assert LEAST_ROOM * QUALITY.eta_v <= target.eta_v < QUALITY.eta_v
    assert target.r_max == QUALITY.r_max
    short = replace(setting, trace=window(DAYS, 0, 5_000))
    assert tighten(problem, make_evaluation(short, QUALITY, 0), SEEDS).target == QUALITY
