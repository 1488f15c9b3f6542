"""What policies learn from a history: a replay of it, of which the policies are what matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scaler.model.policy import Policy
from sim.compiler import start_compiling
from sim.lockstep import LockstepReplay, shares_anything
from sim.operator_replay import begin_replay
from sim.replay import Record
from sim.setting import Setting, tasks
from sim.simulate import advance_all, operator_seed, simulate


def learn_from_history(setting: Setting, seed: int = 0) -> dict[str, Policy]:
    """Replay the setting's trace; each operator's policy as it is at the end."""
    start_compiling()
    rates, operators = setting.trace.rates, setting.application.operators
    operations = [
        begin_replay(task, setting, operator, operator_seed(seed, i))
        for i, (task, operator) in enumerate(zip(tasks(setting), operators, strict=True))
    ]
    n, sums = len(rates), np.zeros((1, 4))
    records = [Record(np.empty(n), np.empty(n), np.empty(n, np.int64)) for _ in operations]
    if shares_anything(setting) or not operations[0].policy.kernel.compiles:
        LockstepReplay(setting, operations, seed).advance(rates, 0, n, sums, records)
    else:
        advance_all(setting, operations, rates, n, sums, records, 1)
    return {operator.name: one.policy for operator, one in zip(operators, operations, strict=True)}


def weigh_history(setting: Setting, seed: int = 0) -> float:
    """Cost of the second half of the setting's trace with the first half known, as a multiple of that without.

    Loads change: what was learned of one that does not come back is a burden. Whoever has nothing but the history can
    still see whether a history helps there.
    """
    rates, trace = setting.trace.rates, setting.trace
    half = rates.size // 2
    top = setting.highest_rate if setting.highest_rate is not None else float(rates.max())
    rest = replace(setting, trace=replace(trace, rates=rates[half:]), highest_rate=top)
    known = replace(rest, options={**setting.options, "history": rates[:half]})
    without = simulate(rest, seed).cost
    return simulate(known, seed).cost / without if without > 0.0 else 1.0
