"""Choose the initial replicas of an operator, before its policy has decided anything.

An operator without a replica serves nothing and reports nothing: it gets those that it had, or one. One whose driver
was started again gets those that were ordered before, whatever Spark has started by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from scaler.model.orders import Orders


def choose_initial(there: Mapping[str, int], had: Mapping[str, int], restored: Mapping[str, int]) -> Mapping[str, int]:
    """`had`: replicas that served last; `restored`: that the driver before this one wanted."""
    if any((*restored.values(), *there.values())):
        return restored
    return had or {next(iter(there)): 1}


def find_replica_limit(orders: Orders | None, operator: str, k_max: int | None) -> float:
    """Replicas at most, by the driver and by the objective."""
    targets = {} if orders is None or orders.objective is None else orders.objective.model.operators
    limits = [k_max, targets[operator].k_max if operator in targets else None]
    return min((k for k in limits if k is not None), default=float("inf"))


def raise_target(there: Mapping[str, int], wanted: Mapping[str, int], most: float) -> dict[str, int]:
    """As many more as are wanted, type by type, and no more in all than there may be."""
    target = dict(there)
    for name in target:
        more = max(0, wanted.get(name, 0) - target[name])
        target[name] += int(max(0, min(more, most - sum(target.values()))))
    return target
