"""Bodies of requests: their fields with types and limits, checked by pydantic."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)  # fmt: skip

from scaler.model.sample import Sample
from scaler.model.sketch import MAX_BUCKETS
from scaler.model.wire import unspell
from tuner.service.exchange.wire_documents import SPECIAL, shorten
from tuner.store.json_fields import write_json

MAX_NAME = 200
MAX_TEXT = 2_000
MAX_TIME = 1e11  # seconds since 1970: the year 5138
MAX_ROWS = 2_000  # samples, or decisions, of one report
MAX_KEYS = 2_000  # of a document: its operators, its node types
MAX_OBJECTIONS = 200  # of a decision
MAX_DECISION = 1 << 14  # bytes of JSON; those of the agents have about two thousand
MAX_DETAIL = 1 << 12  # bytes of JSON that an agent tells of itself; `/scalers` lists a thousand of them
MAX_WHOLE = 2**31 - 1  # of a column for versions


def check_name(name: str) -> str:
    """Of an application, an operator, an instance."""
    if not name.strip() or name != name.strip() or not name.isprintable() or len(name) > MAX_NAME:
        limits = f"1 to {MAX_NAME} printable characters without space around them"
        raise ValueError(f"must be {limits}, not {shorten(name)!a}")
    return name


def refuse_control(text: str) -> str:
    """Terminals obey escape codes, also in names of node types."""
    if not text.isprintable():
        raise ValueError(f"must be printable characters, not {shorten(text)!a}")
    return text


def refuse_nan(value: float) -> float:
    if math.isnan(value):
        raise ValueError("is NaN, and must be a number, or missing where it is not known")
    return value


Name = Annotated[str, AfterValidator(check_name), Field(min_length=1, max_length=MAX_NAME)]
Label = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(refuse_control)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Sentence = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
Moment = Annotated[float, Field(ge=0.0, le=MAX_TIME, description="Seconds since 1970 in UTC.")]
Amount = Annotated[float, Field(ge=0.0)]
Positive = Annotated[float, Field(gt=0.0)]
Spelled = Annotated[
    float, Field(allow_inf_nan=True), AfterValidator(refuse_nan), BeforeValidator(unspell),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "enum": list(SPECIAL[:2])}]}),
]  # fmt: skip
Duration = Annotated[
    float, Field(allow_inf_nan=True, ge=0.0), BeforeValidator(unspell),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "enum": [SPECIAL[0]]}]}),
]  # fmt: skip
Version = Annotated[int, Field(ge=1, le=MAX_WHOLE)]
Document = Annotated[dict[str, Any], Field(max_length=MAX_KEYS)]
Kind = Literal["SCALED", "NO_CHANGE", "BLOCKED", "HELD", "ACTUATION_FAILED", "DRY_RUN"]
Bounds = Annotated[dict[Name, Positive], Field(min_length=1, max_length=MAX_KEYS)]


class Body(BaseModel):
    """Nothing is taken for what it is not: no number in a text, no field that nobody reads."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def exemplify(**example: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"example": example})


class Window(Body):
    """What an operator did in [start, end); what is not known is left out, and is not 0."""

    operator: Name | None = Field(None, description="The scaler's own operator where it is left out.")
    start: Moment
    end: Moment
    evidence: Literal["records", "progress", "tasks", "table"]
    node_type: Label | None = None
    completeness: float = Field(1.0, ge=0.0, le=1.0)

    @model_validator(mode="after")
    def check_window(self) -> Self:
        if not self.start < self.end:
            raise ValueError(f"is from {self.start} to {self.end}, and must end after it starts")
        return self


Bucket = Annotated[str, Field(pattern=r"^-?[0-9]{1,4}$")]
Sketch = Annotated[dict[Bucket, Amount], Field(max_length=MAX_BUCKETS)]
FIGURES: dict[str, Any] = {
    field.name: ((Sketch if "Mapping" in str(field.type) else Amount) | None, None)
    for field in fields(Sample)
    if field.name not in {*Window.model_fields, "application", "key"}
}
SampleBody = create_model("SampleBody", __base__=Window, __doc__=Window.__doc__, **FIGURES)


class ObjectionBody(Body):
    """One reason against a change, or against deciding at all: a guard's, a limit's, for want of metrics or orders."""

    model_config = ConfigDict(extra="ignore")
    source: Label
    code: Label
    message: Text
    data: Document = {}


class DecisionBody(Body):
    """What the operator's scaler did in the slot that starts at `time`, and why; keys of newer agents are ignored."""

    model_config = ConfigDict(extra="ignore")
    time: Moment
    kind: Kind
    reason: Text
    action: Label | None = None
    objective_version: Version | None = None
    rate: Amount | None = None
    response: Duration | None = None
    bound: Duration | None = None
    price: Amount | None = None
    seen: Document = {}
    alternatives: Annotated[dict[str, Spelled | None], Field(max_length=MAX_KEYS)] = {}
    shadow: Document | None = None
    code: Label | None = None
    proposed: Annotated[dict[Label, int], Field(max_length=MAX_KEYS)] | None = None
    objections: Annotated[list[ObjectionBody], Field(max_length=MAX_OBJECTIONS)] | None = None
    sequence: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        None, description="Higher in each report of the instance; of two reports of a slot the higher one stands."
    )

    @model_validator(mode="after")
    def check_size(self) -> Self:
        """Readers ask for a thousand decisions at a time."""
        size = len(self.model_dump_json().encode())
        if size > MAX_DECISION:
            raise ValueError(f"has {size:,} bytes of JSON, and may have {MAX_DECISION:,}; tell less of the slot")
        return self


DECISION_EXAMPLE = {
    "time": 1.7e9, "kind": "SCALED", "reason": "the rate is expected to rise", "code": "policy",
    "proposed": {"small": 1}, "objections": [], "action": "+1 small", "objective_version": 3, "rate": 90.0,
    "response": 0.031, "bound": 0.04, "price": 2.0,
    "seen": {"utilisation": 0.7, "deployment": {"small": 2}, "completeness": 1.0},
    "alternatives": {"no change": 0.31, "+1 small": 0.24},
}  # fmt: skip


def check_detail(detail: dict[str, Any]) -> dict[str, Any]:
    size = len(write_json(detail).encode())
    if size > MAX_DETAIL:
        raise ValueError(f"has {size:,} bytes of JSON, and may have {MAX_DETAIL:,}; tell less of the agent")
    return detail


class ReportBody(Body):
    """What one scaler saw and did since it last said so."""

    model_config = exemplify(
        instance="driver-1",
        operator="parse",
        revision=7,
        samples=[{"start": 1.7e9, "end": 1.7e9 + 60, "evidence": "progress", "arrived": 5400.0}],
        decisions=[DECISION_EXAMPLE],
        detail={},
    )
    instance: Name
    operator: Name
    revision: Version | None = None
    samples: Annotated[list[SampleBody], Field(max_length=MAX_ROWS), FailFast()] = []  # type: ignore[valid-type]
    decisions: Annotated[list[DecisionBody], Field(max_length=MAX_ROWS), FailFast()] = []
    detail: Annotated[Document, AfterValidator(check_detail)] = {}


class AcknowledgementBody(Body):
    """That a scaler acts under these orders now."""

    instance: Name
    operator: Name
    revision: Version


class ApplicationBody(Body):
    """An application as a scenario's tables, what is demanded of it included; no table may name a file."""

    model_config = exemplify(
        document={
            "application": {"operator": [{"name": "parse", "service_rate": 180.0, "scv": 0.5, "k_max": 10}]},
            "infrastructure": {"node": [{"name": "small", "speedup": 1.0, "price": 1.0}]},
            "qos": {"r_max": 0.05, "eta_v": 0.05, "eta_r": 0.1},
            "policy": {"name": "planner"},
        }
    )
    document: Document


class TuningBody(Body):
    """How to search, where it is not to be as the settings of the retuning have it."""

    budget: Annotated[int, Field(ge=1, le=100_000, description="Evaluations.")] | None = None
    engine: Label | None = None
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    why: Text = ""


class RetuningBody(Body):
    """When to tune again by itself, and how; what is left out goes back to its default."""

    settings: Document


class WeightsBody(Body):
    """What a broken bound, a reconfiguration and the resources weigh; they add up to 1."""

    perf: float = Field(ge=0.0, le=1.0)
    rcf: float = Field(ge=0.0, le=1.0)
    res: float = Field(ge=0.0, le=1.0)

    @model_validator(mode="after")
    def check_sum(self) -> Self:
        total = self.perf + self.rcf + self.res
        if not math.isclose(total, 1.0, abs_tol=1e-6):
            raise ValueError(f"add up to {total:g}, and must add up to 1")
        return self


class ObjectiveBody(Body):
    """An objective by hand: weights, and a latency bound in seconds for every operator."""

    model_config = exemplify(weights={"perf": 0.6, "rcf": 0.2, "res": 0.2}, bounds={"parse": 0.05}, why="a trial")
    weights: WeightsBody
    bounds: Bounds
    why: Text = ""


class PushBody(Body):
    """How far to let the objective in, and why."""

    stage: Literal["shadow", "canary", "full"]
    why: Sentence


class RollbackBody(Body):
    why: Sentence
    version: Version | None = None


class ControlBody(Body):
    """A guard's settings, until when, and a note for others."""

    model_config = exemplify(settings={"only": "out"}, until=2.0e9, note="sale until Monday")
    settings: Document = {}
    until: Moment | None = None
    note: Text = ""


BODIES: tuple[type[Body], ...] = (
    ReportBody, AcknowledgementBody, ApplicationBody, TuningBody, RetuningBody, ObjectiveBody, PushBody, RollbackBody,
    ControlBody,
)  # fmt: skip
