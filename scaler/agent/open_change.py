"""Changes of which not all is done yet: what is left of each when replicas do not come or go, and their checkpoint.

The ledger is of replicas, not of steps: of a step that ordered three replicas of which two came, two were done.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.agent.checkpoint import read_changes, read_step, write_step
from scaler.model.decision import Step
from scaler.model.errors import BadInput
from scaler.model.nodes import Reconfiguration

UNFINISHED = "unfinished"  # among a checkpoint's arrays


@dataclass(frozen=True, slots=True)
class OpenChange:
    """A step that was carried out, and what of its change was not given up since."""

    step: Step
    done: Reconfiguration


def charge(
    changes: Sequence[OpenChange], failed: Mapping[str, int], names: Sequence[str]
) -> tuple[tuple[OpenChange, ...], tuple[OpenChange, ...]]:
    """Charge replicas that did not come (below 0: go) to the changes that ordered them, the latest first.

    Returns all changes, and of these the ones that were charged.
    """
    left, charged, after = dict(failed), [], []
    for one in reversed(changes):
        done = dict(one.done.changes)
        for i, delta in one.done.changes:
            short = left.get(names[i], 0)
            lost = (min if delta > 0 else max)(short, delta) if short * delta > 0 else 0
            done[i] -= lost
            left[names[i]] = short - lost
        found = replace(one, done=Reconfiguration(tuple((i, delta) for i, delta in done.items() if delta)))
        after.append(found)
        charged += [found] if found != one else []
    return tuple(reversed(after)), tuple(reversed(charged))


def select_unsettled(
    changes: Sequence[OpenChange], unsettled: Container[str], names: Sequence[str]
) -> tuple[OpenChange, ...]:
    """The changes of which replicas are still to come or to go."""
    return tuple(one for one in changes if any(names[i] in unsettled for i, _ in one.done.changes))


def write_unfinished(rest: Mapping[str, int], changes: Sequence[OpenChange]) -> dict[str, NDArray[Any]]:
    """What a driver that starts again needs to go on with changes under way."""
    opened = [{"step": write_step(one.step), "done": one.done.changes} for one in changes]
    return {UNFINISHED: np.array(json.dumps({"rest": dict(rest), "open": opened}))}


def read_unfinished(arrays: Mapping[str, NDArray[Any]]) -> tuple[dict[str, int], tuple[OpenChange, ...]]:
    """The rest by node type and the open changes; none of a checkpoint that says nothing of them."""
    if UNFINISHED not in arrays:
        return {}, ()
    try:
        document = json.loads(str(arrays[UNFINISHED]))
        rest = {str(name): int(delta) for name, delta in document["rest"].items()}
        opened = [OpenChange(read_step(one["step"]), read_changes(one["done"])) for one in document["open"]]
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise BadInput(f"the changes under way cannot be read ({error!r})") from error
    return rest, tuple(opened)
