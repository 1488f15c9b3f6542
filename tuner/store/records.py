"""What the database keeps besides samples, as plain values; times are seconds since 1970 in UTC.

An `id` or a number that is None has not been given yet: the database gives it when the value is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from scaler.model.decision import KINDS, Decision, parse_decision
from scaler.model.errors import BadInput
from scaler.model.task import Weights
from tuner.store.json_fields import keyed, read_fields, write_fields

Document = Mapping[str, Any]  # of texts, numbers (infinite ones too), booleans, None, lists and such mappings

HEALTH = ("pass", "warn", "fail")
RUN_STATES = ("running", "done", "stopped", "failed")
BASELINE, SEARCH, VERIFY = "baseline", "search", "verify"  # what a trial was for
TRIAL_STATES = ("complete", "pruned", "failed")  # a trial is saved when it has ended, so there is no state before
OBJECTIVE_STATES = ("proposed", "shadow", "canary", "full", "reverted", "retired")


def check_one_of(value: str, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        raise BadInput(f"{what} is {value!r}, and must be one of {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class ApplicationVersion:
    """An application as it was described at a time; `tuner.scenario.description` reads its document."""

    application: str
    number: int  # 1, 2, ... of this application
    document: Document
    created: float
    id: int | None = None


@dataclass(frozen=True, slots=True)
class SourceMark:
    """How far a source was read; `detail` is for the reader of that kind of source alone."""

    application: str
    source: str  # a path or an address
    position: int  # bytes, lines or offsets: whatever the reader counts
    read_at: float
    detail: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SurrogateRecord:
    """A fitted surrogate; the columns besides `document` are what one lists and chooses by."""

    application: str
    document: Document
    start: float  # of the samples that it was fitted on
    end: float
    windows: int
    health: str
    created: float
    error: float | None = None  # relative, of response times on held-out windows
    number: int | None = None  # 1, 2, ... of this application
    id: int | None = None

    def __post_init__(self) -> None:
        check_one_of(self.health, HEALTH, "the surrogate's health")


@dataclass(frozen=True, slots=True)
class TuningRun:
    """A search: what it was asked to do, how it stands, and which process has it until when."""

    application_version_id: int
    engine: str
    seed: int
    budget: int  # evaluations
    created: float
    settings: Document = field(default_factory=dict)
    state: str = "running"
    owner: str | None = None
    heartbeat: float | None = None
    lease_until: float | None = None
    fence: int = 0  # how often the run was claimed
    ended: float | None = None
    failure: str | None = None
    ordinal: int | None = None  # 1, 2, ... of its application: the number that people see
    id: int | None = None

    def __post_init__(self) -> None:
        check_one_of(self.state, RUN_STATES, "the run's state")


@dataclass(frozen=True, slots=True)
class HeldOutFigures:
    """Figures of a verification on the part of the trace that was not searched."""

    price: float | None = keyed("cost")
    violations: float | None = None
    reconfigurations: float | None = None
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class TrialDetail:
    """What a trial was for, and on what it was replayed; older programs left parts of it out."""

    purpose: str = SEARCH
    of: int | None = None  # of a verification: the number of its trial
    policy: str | None = None
    seeds: tuple[int, ...] = ()
    slots_saved: int = 0
    replicas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # mean, by operator and node type
    note: Document = field(default_factory=dict)  # the engine's own
    held_out: HeldOutFigures | None = None
    confidence: float | None = None  # that the constraints are met

    def to_json(self) -> dict[str, Any]:
        held_out = None if self.held_out is None else write_fields(self.held_out)
        stated = {one.name: getattr(self, one.name) for one in fields(self)} | {"held_out": held_out}
        return {key: value for key, value in stated.items() if value is not None}

    @classmethod
    def from_json(cls, document: Document) -> TrialDetail:
        tables = {key: value if isinstance(value := document.get(key), Mapping) else {} for key in ("replicas", "note")}
        listed = document.get("seeds")
        seeds = tuple(seed for seed in listed if isinstance(seed, int)) if isinstance(listed, list | tuple) else ()
        return read_fields(cls, document, seeds=seeds, **tables)


@dataclass(frozen=True, slots=True)
class Trial:
    """One evaluation that has ended; figures are None where it failed before it had them."""

    run_id: int
    number: int  # 0, 1, ... of this run
    parameters: Document
    state: str
    seed: int
    started: float
    ended: float
    price: float | None = None  # per hour, mean over the slots
    violations: float | None = None
    reconfigurations: float | None = None
    price_error: float | None = None  # standard errors
    violations_error: float | None = None
    reconfigurations_error: float | None = None
    feasible: bool | None = None
    slack: float | None = None  # the least of the constraints' slacks; negative where one is broken
    slots: int | None = None
    seconds: float | None = None  # of work, which `ended - started` is not when trials share the cores
    surrogate_id: int | None = None
    trace: str | None = None
    failure: str | None = None
    detail: Document = field(default_factory=dict)
    ordinal: int | None = None  # 1, 2, ... of its application: the number that people see
    id: int | None = None

    def __post_init__(self) -> None:
        check_one_of(self.state, TRIAL_STATES, f"trial {self.number}: the state")

    @property
    def about(self) -> TrialDetail:
        return TrialDetail.from_json(self.detail)


@dataclass(frozen=True, slots=True)
class ObjectiveRecord:
    """What the scalers of an application pursue: weights, a latency bound per operator, and where they came from."""

    application: str
    weights: Weights
    bounds: Mapping[str, float]  # seconds, by operator
    created: float
    state: str = "proposed"
    provenance: str = ""  # in words: which trial of which run, or whose hand
    trial_id: int | None = None
    surrogate_id: int | None = None
    evidence: Document = field(default_factory=dict)  # why it was believed better than the one before
    changed: float | None = None  # when it got its state
    version: int | None = None  # 1, 2, ... of this application
    id: int | None = None

    def __post_init__(self) -> None:
        check_one_of(self.state, OBJECTIVE_STATES, "the objective's state")


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One decision of one operator's agent: `Decision` by columns, None where an agent sent none, and who wrote it."""

    application: str
    operator: str
    time: float
    kind: str
    reason: str
    action: str | None = None  # "+1 large"
    objective_version: int | None = None
    rate: float | None = None
    response: float | None = None  # infinite where more came than could be served
    bound: float | None = None  # on the response time, that the objective set
    price: float | None = None  # of the deployment that met the slot, per hour
    seen: Document = field(default_factory=dict)  # utilisation, deployment by node type, completeness, and so on
    alternatives: Document = field(default_factory=dict)  # what each was worth
    shadow: Document | None = None  # what a candidate objective would have done, and what would have come of it
    code: str | None = None
    proposed: Document | None = None  # replicas to add or remove by node type
    objections: list[Document] | None = None
    instance: str | None = None  # of the agent that wrote it; not known of those before schema 0008
    sequence: int | None = None  # of the agent's reports; of two reports of a slot the one with the higher stands
    corrections: int | None = None  # so many earlier reports of it are superseded; None: it stands as first reported

    def __post_init__(self) -> None:
        check_one_of(self.kind, KINDS, "the decision's kind")

    @property
    def decision(self) -> Decision:
        """The value that the agent made."""
        return parse_decision({name: getattr(self, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True)
class SupersededDecision:
    """A decision as its agent reported it before a correction."""

    application: str
    operator: str
    time: float
    number: int  # 1: as first reported
    superseded: float  # when the correction came
    who: str  # name of the token that sent the correction
    document: Document  # all other fields

    @property
    def record(self) -> DecisionRecord:
        return DecisionRecord(self.application, self.operator, self.time, **self.document)


@dataclass(frozen=True, slots=True)
class Token:
    """A right to scopes; the secret itself is nowhere, only its digest."""

    name: str
    digest: str
    scopes: str  # separated by spaces
    made_by: str
    created: float
    expires: float | None = None
    revoked: float | None = None
    used: float | None = None
    parent_id: int | None = None  # of a page session: the token that opened it
    applications: list[str] | None = None  # by name; None: all of them
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """A guard that a person put before the scalers of an application, or of one operator."""

    application: str
    operator: str  # "": all of them
    kind: str  # a name in `scaler.guards.GUARDS`
    settings: Document
    who: str
    since: float
    note: str = ""
    until: float | None = None
    ended: float | None = None
    ended_by: str | None = None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class OrdersRecord:
    """What the agents of an application receive; `scaler.model.orders` reads the document."""

    application: str
    revision: int
    issued: float
    document: Document


@dataclass(frozen=True, slots=True)
class KnownHistory:
    """What the policy of an objective learned from its application's history; of 0 slots where there is none."""

    application: str
    version: int  # of the objective
    created: float
    slots: int
    slot_s: float
    since: float | None  # seconds since 1970; None: the history has no date
    document: Document = field(default_factory=dict)  # by operator, as `scaler.model.experience` writes it
    why: str = ""  # there is none

    @property
    def seconds(self) -> float:
        return self.slots * self.slot_s


@dataclass(frozen=True, slots=True)
class Scaler:
    """One operator's scaler in one driver, as it last reported."""

    application: str
    operator: str
    instance: str
    first_seen: float
    last_seen: float
    revision: int | None = None  # of the orders that it acts under
    acknowledged: float | None = None
    detail: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RetuningRecord:
    """What the daemons are to do about an application, how far they are, and which of them is at it."""

    application: str
    settings: Document = field(default_factory=dict)
    phase: str = "idle"
    detail: Document = field(default_factory=dict)
    due: float = 0.0
    asked: Document = field(default_factory=dict)  # by people, and not yet taken up
    owner: str | None = None
    heartbeat: float | None = None
    lease_until: float | None = None
    fence: int = 0  # how often it was claimed


@dataclass(frozen=True, slots=True)
class EventRecord:
    """Something that was done, by whom, and why in one sentence; a row of the audit log (`tuner.store.audit_log`)."""

    application: str  # "": of none, as a log-in
    time: float
    who: str
    what: str  # a word: "pushed", "rolled back", "pinned"
    message: str
    detail: Document = field(default_factory=dict)
    number: int | None = None  # 1, 2, ... in the order of the commits; None until it is sealed
    previous: str | None = None  # hash of the row before
    hash: str | None = None
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Epoch:
    """The time from one restoration of the database to the next; the numbers that were used before it stay used.

    Both mappings are by application; "" stands for those that are not named.
    """

    number: int  # 1, 2, ...; a database that was never restored has none
    began: float
    who: str
    source: str  # file that was restored
    copied: float  # moment that the file shows
    versions: Mapping[str, int]  # highest version of an objective that agents may know
    revisions: Mapping[str, int]  # likewise of orders


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """What one manager let through of a quota, since it started."""

    manager: str
    kind: str  # what has the quota
    key: str
    used: float
    told: float  # when that was written, by the database's clock


@dataclass(frozen=True, slots=True)
class WriteCheck:
    """When the database last took a write that shows that it does."""

    writer: str  # "readiness" of a service, or "copy" of the moment that a copy shows
    time: float
