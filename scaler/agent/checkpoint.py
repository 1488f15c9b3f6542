"""Convert what a Decider remembers to plain arrays by dotted name, and back.

Objectives and single values are JSON, under "pilot"; transitions are numbers, a row each. The keys are those of format
2, whatever the fields are called. Format 2 is read, too: its observations end before the backlog, a change is of one
replica, and beside a transition's two observations it has the change between them, which they show.
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

FORMAT = 3
OLD_FORMAT = 2  # until changes were of any size
FIGURES = ("time", "rate", "utilisation", "response", "completeness", "catch_up_rate", "backlog", "batch_ratio")
MAY_BE_UNKNOWN = ("backlog", "batch_ratio")
OLD_FIGURES = FIGURES[:-2]


@dataclass(slots=True)
class DeciderMemory:
    """What belongs to the operator, whatever the objective."""

    transitions: deque[Transition]  # for policies to come
    history: ChangeHistory = field(default_factory=ChangeHistory)
    failed: dict[tuple[int, bool], float] = field(default_factory=dict)  # by type, adding (True) or removing
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
        "failed": [[*what, when] for what, when in memory.failed.items()],
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
                "history_s": instance.history_s,
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
    if rest["format"] == OLD_FORMAT:
        arrays, rest = convert(arrays, rest)
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
        if f"replays.{number}.before" in arrays:
            instance.replays.extend(unpack_transitions(f"replays.{number}.", arrays))
        instance.history_s = float(table.get("history_s", 0.0))
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
        failed={(int(node_type), bool(adding)): float(when) for node_type, adding, when in rest["failed"]},
        before=None if rest["before"] is None else seen_of(rest["before"]),
        pending=None if rest["pending"] is None else read_step(rest["pending"]),
        leaderless_since=rest["since"],
        latest=float(rest["latest"]),
    )
    return memory, instances, last


def convert(
    arrays: Mapping[str, NDArray[Any]], rest: dict[str, Any]
) -> tuple[Mapping[str, NDArray[Any]], dict[str, Any]]:
    """A checkpoint of format 2 as one of this format."""
    observed = ("kept.", "behind.", "replays.")
    wider = {
        name: np.apply_along_axis(lambda row: convert_row(row.tolist()), 1, rows) if len(rows) else rows
        for name, rows in arrays.items()
        if name.startswith(observed) and not name.endswith(".done")
    }
    seats = [
        {**seat, "virtual": {**virtual, "before": convert_row(virtual["before"])}} if virtual else seat
        for seat in rest["seats"]
        for virtual in [seat["virtual"]]
    ]
    pending = rest["pending"]
    changes = {} if pending is None else {name: convert_change(pending[name]) for name in ("change", "proposed")}
    return {**arrays, **wider}, {
        **rest,
        "format": FORMAT,
        "failed": [[node_type, delta > 0, when] for delta, node_type, when in rest["failed"]],
        "before": convert_row(rest["before"]),
        "pending": None if pending is None else {**pending, **changes},
        "seats": seats,
    }


def convert_row(row: Sequence[float] | None) -> list[float] | None:
    """An observation of format 2, which says nothing of the backlog and of batches."""
    if row is None:
        return None
    old = len(OLD_FIGURES)
    return [*row[:old], *[math.nan] * (len(FIGURES) - old), *row[old:]]


def convert_change(table: Mapping[str, int]) -> list[list[int]]:
    return [[table["node_type"], table["delta"]]] if table["delta"] else []


def pack_transitions(prefix: str, transitions: Iterable[Transition], types: int) -> Arrays:
    rows = list(transitions)
    width = len(FIGURES) + types
    return {
        f"{prefix}before": np.array([row_of(t.before) for t in rows]).reshape(len(rows), width),
        f"{prefix}after": np.array([row_of(t.after) for t in rows]).reshape(len(rows), width),
    }


def unpack_transitions(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> list[Transition]:
    before, after = (arrays[prefix + name].tolist() for name in ("before", "after"))
    return [Transition(seen_of(a), seen_of(b)) for a, b in zip(before, after, strict=True)]


def row_of(seen: Observation) -> list[float]:
    """The figures, those not known as NaN, and the replicas by node type."""
    figures = [getattr(seen, name) for name in FIGURES]
    return [math.nan if value is None else float(value) for value in (*figures, *seen.deployment.replicas)]


def seen_of(row: Sequence[float]) -> Observation:
    figures = dict(zip(FIGURES, row, strict=False))
    known: dict[str, Any] = {
        name: value for name, value in figures.items() if not (name in MAY_BE_UNKNOWN and math.isnan(value))
    }
    return Observation(**known, deployment=Deployment(tuple(int(n) for n in row[len(FIGURES) :])))


def read_history(table: Mapping[str, Any]) -> ChangeHistory:
    return ChangeHistory(tuple(map(float, table["changes"])), int(table["wish"]), float(table["wished_since"]))


def write_step(step: Step) -> dict[str, Any]:
    return {"decision": step.decision.to_json(), "change": step.change.changes, "proposed": step.proposed.changes}


def read_step(table: Mapping[str, Any]) -> Step:
    return Step(parse_decision(table["decision"]), read_changes(table["change"]), read_changes(table["proposed"]))


def read_changes(table: Iterable[Sequence[int]]) -> Reconfiguration:
    return Reconfiguration(tuple((int(node_type), int(delta)) for node_type, delta in table))


def write_shadow(shadow: ShadowState) -> dict[str, Any]:
    return {
        "deployment": list(shadow.deployment.replicas),
        "history": asdict(shadow.history),
        "before": None if shadow.before is None else row_of(shadow.before),
    }


def read_shadow(table: Mapping[str, Any]) -> ShadowState:
    before = None if table["before"] is None else seen_of(table["before"])
    return ShadowState(Deployment(tuple(table["deployment"])), read_history(table["history"]), before)
