"""What policies learn from a history: a replay of it, of which the policies are what matters."""

from __future__ import annotations

import numpy as np

from scaler.model.policy import Policy
from sim.compiler import start_compiling
from sim.lockstep import LockstepReplay, shares_anything
from sim.operator_replay import begin_replay
from sim.replay import Record
from sim.setting import Setting, tasks
from sim.simulate import advance_all, operator_seed


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
