"""Tighten the limits that a search keeps to, where what it recommends is verified for other days.

A recommendation passes where the next run, which has other days, keeps each limit with confidence. Parameters that just
keep a limit on the days replayed therefore fail. How much room they need is read off a replay of the naive parameters:
with e the error over days, as a part of the share of slots that is limited, a share s passes where s (1 + t e sqrt(2))
is within the limit, t being Student's quantile of that confidence. That part grows as shares fall; e is taken larger.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from scaler.model.errors import BadInput
from sim.simulate import simulate
from tuner.search.engines import SearchProblem
from tuner.search.engines.naive import EQUAL_WEIGHTS, fitting_shares
from tuner.search.evaluation import EvaluationSpec, apply_parameters
from tuner.search.other_days import ENOUGH_DAYS, bootstrap_days, count_days
from tuner.search.recommendation import CONFIDENCE
from tuner.search.space.space import gather
from tuner.simulation.workers import count_cores
from tuner.surrogate.estimate import student

LEAST_ROOM = 0.5  # of a limit: the tightest that it is made
LARGER = 1.25  # times the naive parameters' error, whose shares are larger than those of what is searched for


def tighten(problem: SearchProblem, spec: EvaluationSpec, verifications: int) -> SearchProblem:
    """The problem with limits for other days; as it is where too few days are replayed, or the replay fails."""
    if count_days(spec.slots, spec.setting.trace.step_s) < ENOUGH_DAYS:
        return problem
    naive = gather(fitting_shares(problem.space)[None], np.array([EQUAL_WEIGHTS]))[0]
    try:
        run = simulate(apply_parameters(spec, naive), spec.seeds[0], cores=count_cores())
    except (BadInput, ValueError, ArithmeticError):
        return problem
    errors = bootstrap_days([run], spec.setting.trace.step_s)
    if errors is None:
        return problem
    violations = leave_room(errors.violations, run.violations, verifications)
    reconfigurations = leave_room(errors.reconfigurations, run.reconfigurations, verifications)
    qos = problem.qos
    return replace(problem, tighter=replace(qos, eta_v=qos.eta_v * violations, eta_r=qos.eta_r * reconfigurations))


def leave_room(error: float, share: float, verifications: int) -> float:
    """Part of a limit that a share with such an error over days may use."""
    if share <= 0.0:
        return 1.0
    return max(
        LEAST_ROOM,
        1.0 / (1.0 + student(CONFIDENCE, max(1, verifications - 1)) * math.sqrt(2.0) * LARGER * error / share),
    )
