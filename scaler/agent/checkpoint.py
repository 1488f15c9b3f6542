"""Convert what a Decider knows to plain arrays by dotted name, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.agent.policy_instance import PolicyInstance, build_policy_instance
from scaler.agent.shadow_run import Virtual
from scaler.guards.guard import ChangeHistory
from scaler.model.decision import Step, parse_decision
from scaler.model.errors import BadInput
from scaler.model.nodes import Deployment, NodeType, Reconfiguration
from scaler.model.orders import parse_objective
from scaler.model.policy import Arrays, Observation, Transition

FORMAT = 2
FIGURES = ("time", "rate", "utilisation", "response", "completeness", "catch_up_rate")


@dataclass(frozen=True, slots=True)
class DeciderMemory:
    """What belongs to the operator, whatever the objective."""

    names: tuple[str, ...]
    history: ChangeHistory
    failed: Mapping[Reconfiguration, float]
    kept: Iterable[Transition]
    before: Observation | None
    pending: Step | None
    since: float | None
    latest: float


def pack(memory: DeciderMemory, instances: Mapping[int, PolicyInstance], last: PolicyInstance | None) -> Arrays:
    """Objectives and single values as JSON, what is long as numbers."""
    types = len(memory.names)
    arrays = pack_transitions("kept.", memory.kept, types)
    built = [*instances.values()]
    if last is not None and all(last is not instance for instance in built):
        built.append(last)
    for number, instance in enumerate(built):
        arrays |= pack_transitions(f"behind.{number}.", instance.unlearned, types)
        arrays |= pack_transitions(f"replays.{number}.", instance.replays, types)
        if instance.policy is not None and not instance.fault:
            arrays |= {f"seat.{number}.{name}": value for name, value in instance.policy.save().items()}
    rest = {
        "format": FORMAT,
        "names": list(memory.names),
        "history": asdict(memory.history),
        "failed": [[*pair_of(change), when] for change, when in memory.failed.items()],
        "before": None if memory.before is None else row_of(memory.before),
        "pending": None if memory.pending is None else write_step(memory.pending),
        "since": memory.since,
        "latest": memory.latest,
        "seats": [
            write_instance(instance, any(instance is s for s in instances.values()), instance is last)
            for instance in built
        ],
    }
    return arrays | {"pilot": np.array(json.dumps(rest))}


def unpack(
    arrays: Mapping[str, NDArray[Any]], operator: str, nodes: Sequence[NodeType], k_max: int | None, seed: int
) -> tuple[DeciderMemory, dict[int, PolicyInstance], PolicyInstance | None]:
    """The same from plain arrays; BadInput where they are no checkpoint of such a pilot."""
    try:
        return read(arrays, operator, nodes, k_max, seed)
    except BadInput:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(
            f"the checkpoint of operator {operator!r} cannot be read ({error!r}); begin without it"
        ) from error


def read(
    arrays: Mapping[str, NDArray[Any]], operator: str, nodes: Sequence[NodeType], k_max: int | None, seed: int
) -> tuple[DeciderMemory, dict[int, PolicyInstance], PolicyInstance | None]:
    rest = json.loads(str(arrays["pilot"]))
    names = tuple(node.name for node in nodes)
    if rest["format"] != FORMAT or tuple(rest["names"]) != names:
        was = f"format {rest['format']}, node types {', '.join(rest['names'])}"
        raise BadInput(f"the checkpoint of operator {operator!r} is of another kind ({was}); begin without it")
    instances: dict[int, PolicyInstance] = {}
    last = None
    for number, table in enumerate(rest["seats"]):
        prefix = f"seat.{number}."
        own = {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
        objective = parse_objective(table["objective"])
        instance = build_policy_instance(
            objective, operator, nodes, k_max, seed, unpack_transitions(f"behind.{number}.", arrays), own
        )
        if f"replays.{number}.done" in arrays:
            instance.replays.extend(unpack_transitions(f"replays.{number}.", arrays))
        if table["fault"]:
            instance.fault = table["fault"]
        elif instance.fault:  # it could decide when it was saved
            raise BadInput(f"the checkpoint of operator {operator!r} cannot be gone on with: {instance.fault}")
        instance.virtual = None if table["virtual"] is None else read_virtual(table["virtual"])
        if table["sits"]:
            instances[objective.version] = instance
        if table["last"]:
            last = instance
    memory = DeciderMemory(
        names=names,
        history=read_history(rest["history"]),
        failed={Reconfiguration(int(delta), int(kind)): float(when) for delta, kind, when in rest["failed"]},
        kept=unpack_transitions("kept.", arrays),
        before=None if rest["before"] is None else seen_of(rest["before"]),
        pending=None if rest["pending"] is None else read_step(rest["pending"]),
        since=rest["since"],
        latest=float(rest["latest"]),
    )
    return memory, instances, last


def pack_transitions(prefix: str, transitions: Iterable[Transition], types: int) -> Arrays:
    """Transitions as numbers, a row each."""
    rows = list(transitions)
    width = len(FIGURES) + types
    return {
        f"{prefix}before": np.array([row_of(t.before) for t in rows]).reshape(len(rows), width),
        f"{prefix}after": np.array([row_of(t.after) for t in rows]).reshape(len(rows), width),
        f"{prefix}done": np.array([pair_of(t.done) for t in rows], dtype=np.int64).reshape(len(rows), 2),
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


def pair_of(change: Reconfiguration) -> list[int]:
    return [change.delta, change.node_type]


def read_history(table: Mapping[str, Any]) -> ChangeHistory:
    return ChangeHistory(tuple(map(float, table["changes"])), int(table["wish"]), float(table["wished_since"]))


def write_step(step: Step) -> dict[str, Any]:
    return {"decision": step.decision.to_json(), "change": asdict(step.change), "proposed": asdict(step.proposed)}


def read_step(table: Mapping[str, Any]) -> Step:
    changes = (Reconfiguration(**table[name]) for name in ("change", "proposed"))
    return Step(parse_decision(table["decision"]), *changes)


def write_instance(instance: PolicyInstance, sits: bool, last: bool) -> dict[str, Any]:
    virtual = instance.virtual
    return {
        "objective": instance.objective.to_json(),
        "fault": instance.fault,
        "sits": sits,
        "last": last,
        "virtual": None
        if virtual is None
        else {
            "deployment": list(virtual.deployment.replicas),
            "history": asdict(virtual.history),
            "before": None if virtual.before is None else row_of(virtual.before),
            "done": pair_of(virtual.done),
        },
    }


def read_virtual(table: Mapping[str, Any]) -> Virtual:
    return Virtual(
        deployment=Deployment(tuple(table["deployment"])),
        history=read_history(table["history"]),
        before=None if table["before"] is None else seen_of(table["before"]),
        done=Reconfiguration(*table["done"]),
    )
