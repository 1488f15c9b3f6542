"""The fitted model of an application: every operator's moments, speedups and calibrated response times; a plain record.

All times in seconds at speedup 1, all rates in tuples per second. It goes to the database as a document and comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from scaler.model.errors import BadInput, suggest
from tuner.store.records import HEALTH, SurrogateRecord
from tuner.surrogate.estimate import Estimate

FORMAT = 1


class CheckResult(NamedTuple):
    """A verdict (pass, warn, fail), and what was seen, what was wanted and what to do."""

    verdict: str
    says: str


@dataclass(frozen=True, slots=True)
class Speedup:
    """How fast a node type is; `assumed` where it was declared and not seen at work."""

    node_type: str
    speed: Estimate
    tuples: float
    assumed: bool


@dataclass(frozen=True, slots=True)
class LoadGroup:
    """Held-out windows of about the same load, together."""

    utilisation: float
    observed: float
    predicted: float
    windows: int


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How far predictions are off on windows that neither the fit nor the choice of a model saw, as shares of 1."""

    error: Estimate  # mean over groups of equal load of |predicted / observed - 1|
    bias: float  # mean over those groups of predicted / observed - 1
    per_window: float  # mean over single windows of |predicted / observed - 1|, with the luck of each window in it
    groups: tuple[LoadGroup, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """One model of response times with its parameters, and how well it predicts."""

    model: str
    parameters: dict[str, float]
    accuracy: Accuracy | None
    chosen_by: float | None = None  # quantile of response times by whose error the model was chosen; None: their mean


@dataclass(frozen=True, slots=True)
class QuantileAccuracy:
    """How well a quantile of response times is predicted on held-out windows, by the model fitted on their means."""

    quantile: float
    accuracy: Accuracy


@dataclass(frozen=True, slots=True)
class PredictedWindow:
    """One window as it was, and as it was predicted."""

    time: float
    utilisation: float
    observed: float
    predicted: float
    held_out: bool


@dataclass(frozen=True, slots=True)
class RateDistribution:
    """The distribution of arrival rates: quantiles at equal steps from least to greatest."""

    quantiles: tuple[float, ...]
    effective: float  # as many independent windows as those seen are worth


@dataclass(frozen=True, slots=True)
class StateSize:
    """State of an operator as it was last reported, and how it grows; None is not known."""

    bytes: float | None
    rows: float | None
    partitions: int | None
    growth: Estimate | None  # bytes per tuple taken in
    load: Estimate | None  # seconds to load one store from the checkpoint


@dataclass(frozen=True, slots=True)
class ReconfigurationTime:
    """Extra seconds of batches after reconfigurations in one direction, beyond what their tuples explain."""

    direction: str  # out or in
    events: int
    seconds: Estimate | None  # mean; None below three events
    base_s: float | None  # of `seconds` by size: base_s + each_s |replicas|
    each_s: float | None
    sizes: tuple[SizeTime, ...]


class SizeTime(NamedTuple):
    """The same of reconfigurations by so many replicas."""

    replicas: int
    events: int
    seconds: Estimate | None


class StartQuantile(NamedTuple):
    """A quantile of start-up times, in seconds."""

    quantile: float
    seconds: Estimate


@dataclass(frozen=True, slots=True)
class LearnedSupply:
    """Supply of a node type, as the agents of all operators saw it."""

    node_type: str
    ordered: int  # replicas
    came: int  # of these, whose start-up time is known, at least within a span
    given_up: int  # missed their deadline
    refused: int  # wanted, and not ordered for want of room; once a slot
    lost: int  # gone, and nobody had removed them
    replica_hours: float  # in which these would have been seen
    most: int  # there ever were at a time, of all operators: the capacity is no less
    start_s: tuple[float, ...]  # equally likely seconds from order to serving; empty below three
    start: tuple[StartQuantile, ...]
    lost_per_hour: Estimate | None  # None below three


@dataclass(frozen=True, slots=True)
class OperatorSurrogate:
    operator: str
    evidence: str  # of the moments: records, tasks, busy
    reference: str  # the node type on which the moments were seen
    reference_speed: float
    windows: int
    tuples: float
    mean: Estimate
    variance: Estimate | None  # None: unknown, and taken as that of an exponential service
    overhead: Estimate | None  # of a task
    selectivity: Estimate | None
    speedups: tuple[Speedup, ...]
    rates: RateDistribution
    utilisation: tuple[float, float]  # 5 and 95 % quantile
    response: Calibration | None  # None: no response times were seen
    replayed: Calibration | None  # what the simulator replays in its stead
    points: tuple[PredictedWindow, ...]
    state: StateSize | None = None  # None: stateless, or nobody reported it
    reconfiguration: tuple[ReconfigurationTime, ...] = ()  # by direction, where there was any
    quantiles: tuple[QuantileAccuracy, ...] = ()  # of what is replayed, where held-out windows tell theirs


@dataclass(frozen=True, slots=True)
class Check:
    """One question that a surrogate must answer before anything is tuned on it."""

    name: str
    operator: str
    verdict: str
    says: str


@dataclass(frozen=True, slots=True)
class Surrogate:
    application: str
    start: float
    end: float
    window_s: float
    holdout: float
    seed: int
    operators: tuple[OperatorSurrogate, ...]
    checks: tuple[Check, ...] = ()
    supply: tuple[LearnedSupply, ...] = ()  # by node type; empty: no agent told of any


def worst(checks: tuple[Check, ...]) -> str:
    """The gravest verdict."""
    return max((check.verdict for check in checks), key=HEALTH.index, default="fail")


def is_fit_for_tuning(checks: tuple[Check, ...]) -> bool:
    """Whether anything may be tuned on it: it was checked, and nothing failed."""
    return bool(checks) and worst(checks) != "fail"


def find_operator(surrogate: Surrogate, name: str) -> OperatorSurrogate:
    for operator in surrogate.operators:
        if operator.operator == name:
            return operator
    known = suggest(name, [operator.operator for operator in surrogate.operators], "it has {}")
    raise BadInput(
        f"the surrogate of {surrogate.application!r} has no operator {name!r}; {known} (the description must name "
        "operators as the monitoring does)"
    )


def to_document(surrogate: Surrogate) -> dict[str, Any]:
    return {"format": FORMAT, **asdict(surrogate)}


def from_document(document: Mapping[str, Any]) -> Surrogate:
    """The surrogate that a document holds, or one sentence on why it holds none."""
    if document.get("format") != FORMAT:
        raise BadInput(
            f"the surrogate has format {document.get('format')!r}, and this program reads {FORMAT}; fit it again"
        )
    from pydantic import TypeAdapter, ValidationError  # late, for most that imports this module reads no document

    try:
        return TypeAdapter(Surrogate).validate_python(document)
    except ValidationError as error:
        flaw = error.errors()[0]
        place = f"{'.'.join(map(str, flaw['loc']))}: {flaw['msg']}"
        raise BadInput(f"the surrogate's document is not whole ({place}); fit it again") from error


def to_record(surrogate: Surrogate, now: float) -> SurrogateRecord:
    """Its error is that of the worst operator; None where one has none."""
    accuracies = [o.response.accuracy if o.response else None for o in surrogate.operators]
    errors = [accuracy.error.value for accuracy in accuracies if accuracy is not None]
    return SurrogateRecord(
        application=surrogate.application,
        document=to_document(surrogate),
        start=surrogate.start,
        end=surrogate.end,
        windows=max(o.windows for o in surrogate.operators),
        health=worst(surrogate.checks),
        created=now,
        error=max(errors) if len(errors) == len(accuracies) else None,
    )


def from_record(record: SurrogateRecord) -> Surrogate:
    return from_document(record.document)
