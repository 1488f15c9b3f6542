"""Choose the first target of an operator for which this driver ordered nothing yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from scaler.agent.pending import add_up
from scaler.guards.deployments import Span


@dataclass(frozen=True, slots=True)
class Restored:
    """What the driver before this one ordered, until it is ordered again."""

    target: Mapping[str, int] = field(default_factory=dict)  # replicas
    rest: Mapping[str, int] = field(default_factory=dict)  # of its changes under way


def choose_first(
    there: Mapping[str, int],
    served_last: Mapping[str, int],
    restored: Restored,
    limits: Span,
    find_places: Callable[[Mapping[str, int]], Mapping[str, int]],
) -> Mapping[str, int] | None:
    """The first target, as far as there is room; None where it is what serves and no change is under way.

    `find_places` says how many of so many more replicas may be ordered.
    """
    before = restored.target
    if restored.rest and not any(there.values()):  # nothing serves that would have to stay meanwhile
        before = add_up(before, restored.rest)
    wanted = choose_initial(there, served_last, before, limits.least)
    more = {name: n - there.get(name, 0) for name, n in wanted.items() if n > there.get(name, 0)}
    places = find_places(more) if more else {}
    free = {name: there.get(name, 0) + count for name, count in places.items()}
    target = raise_target(there, free, limits.most)
    return None if target == there and not restored.rest else target


def choose_initial(
    serving: Mapping[str, int], served_last: Mapping[str, int], restored: Mapping[str, int], least: int = 1
) -> Mapping[str, int]:
    """Choose the initial replicas of an operator, before its policy has decided anything.

    An operator without a replica serves and reports nothing: it gets those that served last, or the least. One whose
    driver was started again gets those that the driver before ordered (`restored`), whatever Spark has started by
    itself.
    """
    if any((*restored.values(), *serving.values())):
        return restored
    return served_last or {next(iter(serving)): max(1, least)}


def raise_target(serving: Mapping[str, int], wanted: Mapping[str, int], limit: float) -> dict[str, int]:
    """Raise each type to what is wanted of it, within the limit on all."""
    target = dict(serving)
    for name in target:
        more = max(0, wanted.get(name, 0) - target[name])
        target[name] += int(max(0, min(more, limit - sum(target.values()))))
    return target


def adjust_rest(restored: Mapping[str, int], rest: Mapping[str, int], target: Mapping[str, int]) -> dict[str, int]:
    """The rest of a change that a driver before ordered, now that its replicas have this target.

    What is to go goes as far as it is there; what is to come is what the target lacks.
    """
    left = {name: restored.get(name, 0) + delta - target.get(name, 0) for name, delta in rest.items()}
    return {name: gap for name, gap in left.items() if gap * rest[name] > 0}
