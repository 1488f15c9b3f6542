"""Find which parameters make no difference to a policy, and leave them out of the search.

A rule such as threshold scaling looks neither at latency bounds nor at weights; others look at the bounds alone. That
is seen by replays under opposite parameters with one seed: over the first slots, and only where these come to the same
to the last digit, over the whole trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.task import Weights
from scaler.policies import find_policy
from sim.simulate import Run, simulate
from sim.trace import window
from tuner.search.engines import SearchProblem
from tuner.search.engines.naive import EQUAL_WEIGHTS, fitting_shares
from tuner.search.evaluation import EvaluationSpec, apply_parameters, are_equal
from tuner.search.space.space import Parameters, SearchSpace, project_to_limits

FIRST_SLOTS = 2_000  # in which a policy that looks at them nearly always differs
CHEAP, SAFE = Weights(0.04, 0.01, 0.95), Weights(0.95, 0.01, 0.04)
TILT = 4.0  # times the first operators' proportions of the last one's, between the two shares that are compared
PARTS = ("shares", "weights")


def find_fixed(spec: EvaluationSpec, space: SearchSpace) -> tuple[str, ...]:
    """The parts of the parameters that the policy ignores on this trace.

    None where replays take long or fail, nor on a short trace, over which a policy that learns may not have come to
    where they matter.
    """
    if not find_policy(spec.setting.policy).compiles or spec.slots < FIRST_SLOTS:
        return ()
    equal = fitting_shares(space)
    tilt = np.geomspace(TILT, 1.0, len(equal))
    one, other = (Parameters(tuple(map(float, x)), SAFE) for x in project_to_limits(space, equal * [tilt, 1.0 / tilt]))
    try:
        same = {
            "shares": come_to_the_same(spec, (one, other)),
            "weights": come_to_the_same(spec, (one, replace(one, weights=CHEAP))),
        }
    except (BadInput, ValueError, ArithmeticError):
        return ()
    return tuple(part for part in PARTS if same[part])


def come_to_the_same(spec: EvaluationSpec, tried: Sequence[Parameters]) -> bool:
    """Whether both replays are alike in every block: of the first slots, then of all."""
    for slots in sorted({FIRST_SLOTS, spec.slots}):
        if not are_equal(*(replay_first(spec, parameters, slots) for parameters in tried)):
            return False
    return True


def replay_first(spec: EvaluationSpec, parameters: Parameters, slots: int) -> Run:
    setting = apply_parameters(spec, parameters)
    # the cost that blocks report is by the weights, whatever the policy makes of them
    run = simulate(replace(setting, trace=window(setting.trace, 0, slots)), spec.seeds[0])
    return replace(run, blocks={name: values for name, values in run.blocks.items() if name != "cost"})


def fix_parameters(problem: SearchProblem, fixed: Sequence[str]) -> SearchProblem:
    """The problem without these parts: they stay naive. Where nothing is left the baseline is all there is to try."""
    space = replace(
        problem.space,
        fixed_shares=tuple(map(float, fitting_shares(problem.space))) if "shares" in fixed else None,
        fixed_weights=Weights(*EQUAL_WEIGHTS) if "weights" in fixed else None,
    )
    return replace(problem, space=space, budget=0 if set(fixed) == set(PARTS) else problem.budget)


def list_fixed(space: SearchSpace) -> list[str]:
    """The parts of the parameters that are not searched there."""
    fixed = (space.fixed_shares, space.fixed_weights)
    return [part for part, value in zip(PARTS, fixed, strict=True) if value is not None]
