"""The tables, as SQLAlchemy models; what the history in migrations/ builds is the same, and a test compares them.

Names of applications are spelled out in samples, marks, surrogates, objectives and decisions: these arrive from
clusters for applications that nobody has described yet, and must not be turned away for it.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Double, ForeignKey, Index, MetaData, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
CLUSTERED = {"sqlite_with_rowid": False}  # rows lie in the order of the primary key: one index less to write


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {float: Double, str: Text, dict[str, Any]: JSON}  # noqa: RUF012  SQLAlchemy's way


class ApplicationRow(Base):
    __tablename__ = "applications"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created: Mapped[float]


class ApplicationVersionRow(Base):
    __tablename__ = "application_versions"
    __table_args__ = (UniqueConstraint("application_id", "number"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    application_id: Mapped[int] = mapped_column(ForeignKey("applications.id", ondelete="CASCADE"))
    number: Mapped[int]
    document: Mapped[dict[str, Any]]
    created: Mapped[float]


class SampleRow(Base):
    """A folded window, as in `scaler.model.sample.Sample`; the node type is "" where the source cannot tell."""

    __tablename__ = "samples"
    __table_args__ = (Index(None, "end"), CLUSTERED)

    application: Mapped[str] = mapped_column(primary_key=True)
    operator: Mapped[str] = mapped_column(primary_key=True)
    start: Mapped[float] = mapped_column(primary_key=True)
    end: Mapped[float] = mapped_column(primary_key=True)
    node_type: Mapped[str] = mapped_column(primary_key=True)
    evidence: Mapped[str]
    arrived: Mapped[float | None]
    tuples_in: Mapped[float | None]
    tuples_out: Mapped[float | None]
    backlog: Mapped[float | None]
    service_n: Mapped[float | None]
    service_sum: Mapped[float | None]
    service_squares: Mapped[float | None]
    task_n: Mapped[float | None]
    task_records: Mapped[float | None]
    task_time: Mapped[float | None]
    task_inverse: Mapped[float | None]
    task_rates: Mapped[float | None]
    task_squares: Mapped[float | None]
    busy: Mapped[float | None]
    replicas: Mapped[float | None]
    batches: Mapped[float | None]
    batch_time: Mapped[float | None]
    batch_interval: Mapped[float | None]
    response_n: Mapped[float | None]
    response_sum: Mapped[float | None]
    completeness: Mapped[float]


class SourceMarkRow(Base):
    __tablename__ = "source_marks"

    application: Mapped[str] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger)
    read_at: Mapped[float]
    detail: Mapped[dict[str, Any]]


class SurrogateRow(Base):
    __tablename__ = "surrogates"
    __table_args__ = (UniqueConstraint("application", "number"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    application: Mapped[str]
    number: Mapped[int]
    document: Mapped[dict[str, Any]]
    start: Mapped[float]
    end: Mapped[float]
    windows: Mapped[int]
    health: Mapped[str]
    error: Mapped[float | None]
    created: Mapped[float]


class RunRow(Base):
    __tablename__ = "tuning_runs"

    id: Mapped[int] = mapped_column(primary_key=True)
    application_version_id: Mapped[int] = mapped_column(ForeignKey("application_versions.id"), index=True)
    engine: Mapped[str]
    seed: Mapped[int] = mapped_column(BigInteger)
    budget: Mapped[int]
    settings: Mapped[dict[str, Any]]
    state: Mapped[str]
    owner: Mapped[str | None]
    heartbeat: Mapped[float | None]
    lease_until: Mapped[float | None]
    fence: Mapped[int]
    created: Mapped[float]
    ended: Mapped[float | None]
    failure: Mapped[str | None]


class TrialRow(Base):
    __tablename__ = "trials"
    __table_args__ = (UniqueConstraint("run_id", "number"), Index(None, "run_id", "price"))

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("tuning_runs.id", ondelete="CASCADE"))
    number: Mapped[int]
    parameters: Mapped[dict[str, Any]]
    state: Mapped[str]
    seed: Mapped[int] = mapped_column(BigInteger)
    started: Mapped[float]
    ended: Mapped[float] = mapped_column(index=True)
    price: Mapped[float | None]
    violations: Mapped[float | None]
    reconfigurations: Mapped[float | None]
    price_error: Mapped[float | None]
    violations_error: Mapped[float | None]
    reconfigurations_error: Mapped[float | None]
    feasible: Mapped[bool | None]
    slack: Mapped[float | None]
    slots: Mapped[int | None] = mapped_column(BigInteger)
    seconds: Mapped[float | None]
    surrogate_id: Mapped[int | None] = mapped_column(ForeignKey("surrogates.id"), index=True)
    trace: Mapped[str | None]
    failure: Mapped[str | None]
    detail: Mapped[dict[str, Any]]


class ObjectiveRow(Base):
    __tablename__ = "objectives"
    __table_args__ = (UniqueConstraint("application", "version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    application: Mapped[str]
    version: Mapped[int]
    performance: Mapped[float]
    reconfiguration: Mapped[float]
    resources: Mapped[float]
    bounds: Mapped[dict[str, Any]]
    state: Mapped[str]
    provenance: Mapped[str]
    trial_id: Mapped[int | None] = mapped_column(ForeignKey("trials.id"), index=True)
    surrogate_id: Mapped[int | None] = mapped_column(ForeignKey("surrogates.id"), index=True)
    evidence: Mapped[dict[str, Any]]
    created: Mapped[float]
    changed: Mapped[float]


class DecisionRow(Base):
    __tablename__ = "decisions"
    __table_args__ = (Index(None, "application", "time"), Index(None, "time"), CLUSTERED)

    application: Mapped[str] = mapped_column(primary_key=True)
    operator: Mapped[str] = mapped_column(primary_key=True)
    time: Mapped[float] = mapped_column(primary_key=True)
    kind: Mapped[str]
    reason: Mapped[str]
    action: Mapped[str | None]
    objective_version: Mapped[int | None]
    rate: Mapped[float | None]
    response: Mapped[float | None]
    bound: Mapped[float | None]
    price: Mapped[float | None]
    seen: Mapped[dict[str, Any]]
    alternatives: Mapped[dict[str, Any]]
    shadow: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    code: Mapped[str | None]
    proposed: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    objections: Mapped[list[dict[str, Any]] | None] = mapped_column(JSON(none_as_null=True))


class TokenRow(Base):
    """Who may do what; a page session is a token too, made from another and gone with it."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    digest: Mapped[str] = mapped_column(unique=True)
    scopes: Mapped[str]
    made_by: Mapped[str]
    created: Mapped[float]
    expires: Mapped[float | None]
    revoked: Mapped[float | None]
    used: Mapped[float | None]
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("tokens.id", ondelete="CASCADE"), index=True)


class ControlRow(Base):
    __tablename__ = "controls"

    id: Mapped[int] = mapped_column(primary_key=True)
    application: Mapped[str] = mapped_column(index=True)
    operator: Mapped[str]
    kind: Mapped[str]
    settings: Mapped[dict[str, Any]]
    who: Mapped[str]
    note: Mapped[str]
    since: Mapped[float]
    until: Mapped[float | None]
    ended: Mapped[float | None]
    ended_by: Mapped[str | None]


class OrdersRow(Base):
    """What the scalers of an application are told, whole, as it was made with what changed it."""

    __tablename__ = "orders"

    application: Mapped[str] = mapped_column(primary_key=True)
    revision: Mapped[int]
    issued: Mapped[float]
    document: Mapped[dict[str, Any]]


class ScalerRow(Base):
    __tablename__ = "scalers"
    __table_args__ = (CLUSTERED,)

    application: Mapped[str] = mapped_column(primary_key=True)
    operator: Mapped[str] = mapped_column(primary_key=True)
    instance: Mapped[str] = mapped_column(primary_key=True)
    first_seen: Mapped[float]
    last_seen: Mapped[float]
    revision: Mapped[int | None]
    acknowledged: Mapped[float | None]
    detail: Mapped[dict[str, Any]]


class RetuningRow(Base):
    """What the daemons do about an application, and which of them has it in hand until when."""

    __tablename__ = "watches"

    application: Mapped[str] = mapped_column(primary_key=True)
    settings: Mapped[dict[str, Any]]
    phase: Mapped[str]
    detail: Mapped[dict[str, Any]]
    due: Mapped[float]
    asked: Mapped[dict[str, Any]]
    owner: Mapped[str | None]
    heartbeat: Mapped[float | None]
    lease_until: Mapped[float | None]
    fence: Mapped[int]


class EventRow(Base):
    """What people and daemons did, and why, in the order in which they did it."""

    __tablename__ = "events"
    __table_args__ = (Index(None, "application", "time"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    application: Mapped[str]
    time: Mapped[float]
    who: Mapped[str]
    what: Mapped[str]
    message: Mapped[str] = mapped_column("says")
    detail: Mapped[dict[str, Any]]
