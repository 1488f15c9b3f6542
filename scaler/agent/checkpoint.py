"""Convert what a Decider remembers to plain arrays by dotted name, and back.

Objectives and single values are JSON, under "pilot"; transitions are numbers, a row each. The keys are those of format
2, whatever the fields are called.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.agent.policy_instance import PolicyInstance, ShadowState, build_policy_instance
from scaler.guards.guard import ChangeHistory
from scaler.model.decision import Step, parse_decision
from scaler.model.errors import BadInput
from scaler.model.nodes import Deployment, NodeType, Reconfiguration
from scaler.model.orders import parse_objective
from scaler.model.policy import Arrays, Observation, Transition

FORMAT = 2
FIGURES = ("time", "rate", "utilisation", "response", "completeness", "catch_up_rate")


@dataclass(slots=True)
class DeciderMemory:
    """What belongs to the operator, whatever the objective."""

    transitions: deque[Transition]  # for policies to come
    history: ChangeHistory = field(default_factory=ChangeHistory)
    failed: dict[Reconfiguration, float] = field(default_factory=dict)  # when each change failed last
    before: Observation | None = None  # in the slot before, if it was seen whole
    pending: Step | None = None  # that nobody has reported on
    leaderless_since: float | None = None  # when the last policy that led stopped doing so
    latest: float = -math.inf  # start of the slot that was seen last


def pack(
    names: Sequence[str], memory: DeciderMemory, instances: Mapping[int, PolicyInstance], last: PolicyInstance | None
) -> Arrays:
    """Convert to arrays; `last` is the instance that led last, which may be of no objective any more."""
    current = [*instances.values()]
    gone = [] if last is None or any(last is instance for instance in current) else [last]
    arrays = pack_transitions("kept.", memory.transitions, len(names))
    for number, instance in enumerate([*current, *gone]):
        arrays |= pack_transitions(f"behind.{number}.", instance.unlearned, len(names))
        arrays |= pack_transitions(f"replays.{number}.", instance.replays, len(names))
        if instance.policy is not None and not instance.fault:
            arrays |= {f"seat.{number}.{name}": value for name, value in instance.policy.save().items()}
    rest = {
        "format": FORMAT,
        "names": list(names),
        "history": asdict(memory.history),
        "failed": [[change.delta, change.node_type, when] for change, when in memory.failed.items()],
        "before": None if memory.before is None else row_of(memory.before),
        "pending": None if memory.pending is None else write_step(memory.pending),
        "since": memory.leaderless_since,
        "latest": memory.latest,
        "seats": [
            {
                "objective": instance.objective.to_json(),
                "fault": instance.fault,
                "sits": number < len(current),
                "last": instance is last,
                "virtual": None if instance.shadow is None else write_shadow(instance.shadow),
            }
            for number, instance in enumerate([*current, *gone])
        ],
    }
    return arrays | {"pilot": np.array(json.dumps(rest))}


def unpack(
    arrays: Mapping[str, NDArray[Any]], operator: str, nodes: Sequence[NodeType], k_max: int | None, seed: int,
    max_transitions: int | None,
) -> tuple[DeciderMemory, dict[int, PolicyInstance], PolicyInstance | None]:  # fmt: skip
    """Convert back; BadInput where they are of other node types, and any error where they are no checkpoint."""
    rest = json.loads(str(arrays["pilot"]))
    if rest["format"] != FORMAT or rest["names"] != [node.name for node in nodes]:
        was = f"format {rest['format']}, node types {', '.join(rest['names'])}"
        raise BadInput(f"the checkpoint of operator {operator!r} is of another kind ({was}); begin without it")
    instances: dict[int, PolicyInstance] = {}
    last = None
    for number, table in enumerate(rest["seats"]):
        prefix = f"seat.{number}."
        own = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
        objective, unlearned = parse_objective(table["objective"]), unpack_transitions(f"behind.{number}.", arrays)
        instance = build_policy_instance(objective, operator, nodes, k_max, seed, unlearned, own)
        if f"replays.{number}.done" in arrays:
            instance.replays.extend(unpack_transitions(f"replays.{number}.", arrays))
        if table["fault"]:
            instance.fault = table["fault"]
        elif instance.fault:  # it could decide when it was saved
            raise BadInput(f"the checkpoint of operator {operator!r} cannot be gone on with: {instance.fault}")
        instance.shadow = None if table["virtual"] is None else read_shadow(table["virtual"])
        if table["sits"]:
            instances[objective.version] = instance
        if table["last"]:
            last = instance
    memory = DeciderMemory(
        transitions=deque(unpack_transitions("kept.", arrays), max_transitions),
        history=read_history(rest["history"]),
        failed={Reconfiguration(int(delta), int(kind)): float(when) for delta, kind, when in rest["failed"]},
        before=None if rest["before"] is None else seen_of(rest["before"]),
        pending=None if rest["pending"] is None else read_step(rest["pending"]),
        leaderless_since=rest["since"],
        latest=float(rest["latest"]),
    )
    return memory, instances, last


def pack_transitions(prefix: str, transitions: Iterable[Transition], types: int) -> Arrays:
    rows = list(transitions)
    done, width = [[t.done.delta, t.done.node_type] for t in rows], len(FIGURES) + types
    return {
        f"{prefix}before": np.array([row_of(t.before) for t in rows]).reshape(len(rows), width),
        f"{prefix}after": np.array([row_of(t.after) for t in rows]).reshape(len(rows), width),
        f"{prefix}done": np.array(done, dtype=np.int64).reshape(len(rows), 2),
    }


def unpack_transitions(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> list[Transition]:
    columns = (arrays[prefix + name].tolist() for name in ("before", "done", "after"))
    rows = zip(*columns, strict=True)
    return [Transition(seen_of(before), Reconfiguration(*done), seen_of(after)) for before, done, after in rows]


def row_of(seen: Observation) -> list[float]:
    return [float(getattr(seen, name)) for name in FIGURES] + [float(n) for n in seen.deployment.replicas]


def seen_of(row: Sequence[float]) -> Observation:
    figures = dict(zip(FIGURES, row, strict=False))
    return Observation(**figures, deployment=Deployment(tuple(int(n) for n in row[len(FIGURES) :])))


def read_history(table: Mapping[str, Any]) -> ChangeHistory:
    return ChangeHistory(tuple(map(float, table["changes"])), int(table["wish"]), float(table["wished_since"]))


def write_step(step: Step) -> dict[str, Any]:
    return {"decision": step.decision.to_json(), "change": asdict(step.change), "proposed": asdict(step.proposed)}


def read_step(table: Mapping[str, Any]) -> Step:
    changes = (Reconfiguration(**table[name]) for name in ("change", "proposed"))
    return Step(parse_decision(table["decision"]), *changes)


def write_shadow(shadow: ShadowState) -> dict[str, Any]:
    return {
        "deployment": list(shadow.deployment.replicas),
        "history": asdict(shadow.history),
        "before": None if shadow.before is None else row_of(shadow.before),
        "done": [shadow.done.delta, shadow.done.node_type],
    }


def read_shadow(table: Mapping[str, Any]) -> ShadowState:
    before = None if table["before"] is None else seen_of(table["before"])
    deployment, done = Deployment(tuple(table["deployment"])), Reconfiguration(*table["done"])
    return ShadowState(deployment, read_history(table["history"]), before, done)
