"""What an agent decided in a slot, and why: one value with one codec for driver, wire, database, page and metrics.

A decision has a kind, a reason code to count by, a sentence for people, and as data the proposed change and every
objection to it. Nothing is ever parsed out of a sentence. `parse_decision` reads what agents of other versions sent:
missing keys take their defaults, unknown keys and values of other types are passed over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, TypeVar

from scaler.model.nodes import Deployment, Reconfiguration
from scaler.model.supply_record import SupplyRecord, parse_supply
from scaler.model.wire import read_number, read_table, read_text, write_fields

Record = TypeVar("Record")

SCALED, NO_CHANGE, BLOCKED, HELD = "SCALED", "NO_CHANGE", "BLOCKED", "HELD"
ACTUATION_FAILED = "ACTUATION_FAILED"
DRY_RUN = "DRY_RUN"  # it would have been SCALED, had not a person switched actuation off
KINDS = (SCALED, NO_CHANGE, BLOCKED, HELD, ACTUATION_FAILED, DRY_RUN)

GUARD, LIMIT, METRICS, ORDERS, POLICY, ACTUATION = "guard", "limit", "metrics", "orders", "policy", "actuation"
SOURCES = (GUARD, LIMIT, METRICS, ORDERS, POLICY, ACTUATION)  # of objections

# Reason codes besides the names of guards.
PROPOSED = "policy"  # the policy's own proposal, change or none
OVER_LIMIT = "over_limit"  # more replicas than allowed go
UNDER_LIMIT = "under_limit"  # fewer replicas than allowed are made up to them
FALLBACK = "fallback"  # the threshold policy's proposal, without an objective
REPLICA_LIMIT = "replica_limit"
PENDING = "pending"
BACKLOG = "backlog"
METRICS_HELD = "metrics_held"  # the last known metrics stand for the slot
UNAVAILABLE = "node_type_unavailable"
FAILED_LATELY = "failed_lately"
METRICS_INCOMPLETE = "metrics_incomplete"
METRICS_MISSING = "metrics_missing"
DEPLOYMENT_UNKNOWN = "deployment_unknown"
NO_REPLICA = "no_replica"
NO_ORDERS = "no_orders"
NO_OBJECTIVE = "no_objective"
NODE_TYPE_UNKNOWN = "node_type_unknown"
GUARDS_UNREADABLE = "guards_unreadable"
POLICY_FAILED = "policy_failed"
NO_LIMIT = "no_limit"
NOT_ACTUATED = "not_actuated"
CHANGE_BUDGET = "change_budget"  # of the application: no token is left for the change, or too few for what it is worth
STAGE_WAITS = "stage_waits"  # for a resource profile that no executor serves
CODES = (
    PROPOSED, OVER_LIMIT, UNDER_LIMIT, FALLBACK, REPLICA_LIMIT, PENDING, BACKLOG, METRICS_HELD,
    UNAVAILABLE, FAILED_LATELY, METRICS_INCOMPLETE, METRICS_MISSING, DEPLOYMENT_UNKNOWN, NO_REPLICA,
    NO_ORDERS, NO_OBJECTIVE, NODE_TYPE_UNKNOWN, GUARDS_UNREADABLE, POLICY_FAILED, NO_LIMIT, NOT_ACTUATED, STAGE_WAITS,
    CHANGE_BUDGET,
)  # fmt: skip

NO_ACTION = "no change"  # the action among alternatives
MAX_TEXT = 2000  # characters of a sentence on the wire
MAX_REPLICAS = 2**31  # of a node type in a document


@dataclass(frozen=True, slots=True)
class Objection:
    """One reason against a change, or against deciding at all."""

    source: str  # one of SOURCES
    code: str  # a guard's name, or one of CODES
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)  # the setting and the figures behind the message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        return write_fields(self) | {"message": self.message[:MAX_TEXT]}


@dataclass(frozen=True, slots=True)
class RecordedNote:
    """One thing out of the ordinary in a slot, as sensors noted it."""

    code: str  # "" of older agents
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlotFigures:
    """What was known of a slot besides rate, response time and price; None where it is not known."""

    utilisation: float | None = None
    completeness: float | None = None  # share of the metrics that arrived
    deployment: Mapping[str, int] = field(default_factory=dict)  # replicas by node type that met the slot
    target: Mapping[str, int] = field(default_factory=dict)  # replicas once all ordered ones have arrived, if any
    backlog: float | None = None  # tuples
    notes: tuple[RecordedNote, ...] = ()
    tokens: float | None = None  # left of the application's budget of changes, after the slot
    history_s: float | None = None  # seconds of the application's history that its policy began with
    supply: tuple[SupplyRecord, ...] = ()  # what became of replicas since the slot before; empty: not known

    def to_json(self) -> dict[str, Any]:
        """Figures that are seldom there are left out where they are not."""
        document = write_fields(self)
        document["asked"] = document.pop("target")
        usual = ("utilisation", "deployment", "completeness")
        return {key: value for key, value in document.items() if key in usual or value not in (None, {}, [])}


@dataclass(frozen=True, slots=True)
class ShadowDecision:
    """What a candidate objective would have done in its own, imagined deployment."""

    version: int | None
    change: Mapping[str, int] = field(default_factory=dict)  # replicas to add (or remove, below 0) by node type
    action: str | None = None
    deployment: Mapping[str, int] = field(default_factory=dict)
    response: float | None = None
    bound: float | None = None
    price: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """One slot of one operator."""

    time: float  # start of the slot, seconds since the epoch
    kind: str  # one of KINDS
    reason: str  # a sentence for people
    code: str = ""  # why, for counting: the first objection's, or one of CODES; "" of agents that sent none
    action: str | None = None  # "+1 small": the decided change in words
    proposed: Mapping[str, int] = field(default_factory=dict)  # by the policy: replicas to add or remove by node type
    objections: tuple[Objection, ...] = ()
    objective_version: int | None = None
    rate: float | None = None
    response: float | None = None  # whole response time as measured; infinite where overloaded
    bound: float | None = None  # on the whole response time
    price: float | None = None  # of the deployment that met the slot, per hour
    seen: SlotFigures = field(default_factory=SlotFigures)
    alternatives: Mapping[str, float | None] = field(default_factory=dict)  # what each is worth, less is better
    shadow: ShadowDecision | None = None

    @property
    def wanted(self) -> str | None:
        """The policy's proposal in words, done or not; None for no change."""
        return name_change(self.proposed) or self.action

    @property
    def late(self) -> bool | None:
        """Whether the response time exceeds its bound; None where either is not known."""
        return None if self.response is None or self.bound is None else self.response > self.bound

    def to_json(self) -> dict[str, Any]:
        """As a document of plain values; `scaler.model.wire` writes its infinities."""
        return write_fields(self) | {"reason": self.reason[:MAX_TEXT]}


@dataclass(frozen=True, slots=True)
class Step:
    """What a slot calls for: the decision if all goes well, and the change to make, in the driver's node types."""

    decision: Decision
    change: Reconfiguration
    proposed: Reconfiguration  # by the policy, before the guards


def parse_decision(document: Mapping[str, Any]) -> Decision:
    """A decision from its document, of this or another version."""
    return read_record(Decision, document)


def read_record(kind: type[Record], value: Any, renamed: Mapping[str, str] | None = None) -> Record:
    """Read every field of a dataclass by its declared type; `renamed` are keys that differ from the fields' names."""
    table, keys = read_table(value), renamed or {}
    plain: Any = kind  # mypy knows no protocol of dataclasses
    return kind(**{one.name: READERS[str(one.type)](table.get(keys.get(one.name, one.name))) for one in fields(plain)})


def parse_figures(value: Any) -> SlotFigures:
    return read_record(SlotFigures, value, {"target": "asked"})


def parse_note(value: Any) -> RecordedNote:
    """A note; older agents sent its message alone."""
    return RecordedNote("", value) if isinstance(value, str) else read_record(RecordedNote, value)


def parse_shadow(value: Any) -> ShadowDecision | None:
    return read_record(ShadowDecision, value) if read_table(value) else None


def read_list(parse: Callable[[Any], Record], value: Any) -> tuple[Record, ...]:
    return tuple(map(parse, value)) if isinstance(value, list | tuple) else ()


def read_whole(value: Any) -> int | None:
    number = read_number(value)
    return None if number is None or not math.isfinite(number) else int(number)


def read_counts(value: Any) -> dict[str, int]:
    """The counts of a mapping by node type, as far as they are counts."""
    numbers = {name: read_number(item) for name, item in read_table(value).items()}
    return {name: int(n) for name, n in numbers.items() if n is not None and abs(n) < MAX_REPLICAS and n == int(n)}


def name_change(change: Mapping[str, int]) -> str | None:
    """Render a change as "+1 small"; None for no change."""
    return ", ".join(f"{delta:+d} {name}" for name, delta in change.items() if delta) or None


def list_changes(change: Reconfiguration, types: Sequence[str]) -> dict[str, int]:
    """Replicas to add, or to remove (below 0), by node type; empty for no change."""
    return {types[node_type]: delta for node_type, delta in change.changes}


def name_action(change: Reconfiguration, types: Sequence[str]) -> str | None:
    return name_change(list_changes(change, types))


def name_alternative(change: Reconfiguration, types: Sequence[str]) -> str:
    return name_action(change, types) or NO_ACTION


def describe_change(change: Reconfiguration, types: Sequence[str]) -> str:
    """A change within a sentence: "adding 2 replicas on small and removing a replica on large"."""
    return (
        " and ".join(
            f"{'adding' if delta > 0 else 'removing'} {count_replicas(abs(delta))} on {types[node_type]}"
            for node_type, delta in sorted(change.changes, key=lambda pair: pair[1] < 0)
        )
        or NO_ACTION
    )


def count_replicas(count: int) -> str:
    return "a replica" if count == 1 else f"{count} replicas"


def count_by_name(deployment: Deployment, types: Sequence[str]) -> dict[str, int]:
    return dict(zip(types, deployment.replicas, strict=True))


READERS: Mapping[str, Callable[[Any], Any]] = {  # by the declared type of a field; a missing value is None
    "float": lambda value: read_number(value) or 0.0,
    "float | None": read_number,
    "int | None": read_whole,
    "str": lambda value: read_text(value) or "",
    "str | None": read_text,
    "Mapping[str, Any]": read_table,
    "Mapping[str, int]": read_counts,
    "Mapping[str, float | None]": lambda value: {name: read_number(v) for name, v in read_table(value).items()},
    "tuple[Objection, ...]": partial(read_list, partial(read_record, Objection)),
    "tuple[RecordedNote, ...]": partial(read_list, parse_note),
    "tuple[SupplyRecord, ...]": parse_supply,
    "SlotFigures": parse_figures,
    "ShadowDecision | None": parse_shadow,
}
