"""Objectives, numbered per application, with their states and the evidence of their search and stages.

Evidence is one JSON document beside the objective. `to_json` writes the parts that it knows; the store merges them over
the document, so that what other versions wrote stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from sqlalchemy import ColumnElement, insert, select, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.operators import eq, in_op

from scaler.model.orders import ObjectiveModel, parse_objective_model
from scaler.model.task import Weights
from tuner.store.epochs import find_floors
from tuner.store.faults import StaleState, require
from tuner.store.json_fields import keyed, read_fields, write_fields
from tuner.store.records import OBJECTIVE_STATES, ObjectiveRecord, check_one_of
from tuner.store.rows import given, lock_turn, next_number
from tuner.store.tables import OBJECTIVES, STREAMED, names_of

STAGES = ("proposed", "shadow", "canary", "full")
NEVER_IN_FULL = 0.0


@dataclass(frozen=True, slots=True)
class StageFigures:
    """What a stage has shown; shares of slots, prices per hour."""

    slots: int | None = None  # of which it is known whether they broke R_max
    reported: int | None = None
    violations: float | None = None
    violations_limit: float | None = None
    violations_doubt: float | None = None  # probability bound of such violations within the limit
    reconfigurations: float | None = None
    reconfigurations_limit: float | None = None
    reconfigurations_doubt: float | None = None
    price: float | None = None
    real_price: float | None = None  # in shadow: what was paid meanwhile
    outcome: str | None = None  # where the stage was rolled back


NO_FIGURES = StageFigures()


@dataclass(frozen=True, slots=True)
class StageEvidence:
    """When an objective entered a stage, who pushed it, which operators led, and what the stage ended by."""

    since: float | None = None
    who: str = ""
    why: str = ""
    skipped: tuple[str, ...] = ()  # stages that a person left out
    operators: tuple[str, ...] = ()  # of a canary: those that pursue the objective
    share: float = 1.0  # of the time for which they do
    period_s: float | None = None
    chosen: str = ""  # why these operators
    ended: float | None = None
    again: float | None = None  # when it came back into full use
    figures: StageFigures = NO_FIGURES

    def to_json(self) -> dict[str, Any]:
        table = write_fields(self, figures=None) | write_fields(self.figures)
        return table | ({"share": self.share} if self.operators else {})

    @classmethod
    def from_json(cls, document: Any) -> Self:
        return read_fields(cls, document, figures=read_fields(StageFigures, document))


@dataclass(frozen=True, slots=True)
class Improvement:
    """An objective's fresh replays against those of the one in use, over the same slots and seeds."""

    why: str = ""
    by: str | None = None  # violations, reconfigurations, cost or first; None: it is no improvement
    against: int | None = None  # version of the other; None: equal shares
    seeds: int | None = None
    cost: float | None = None
    other_cost: float | None = None
    violations: float | None = None
    other_violations: float | None = None
    reconfigurations: float | None = None
    other_reconfigurations: float | None = None
    confidence: float | None = None
    saves: float | None = None  # share of the other's cost

    @property
    def is_better(self) -> bool:
        return self.by is not None


@dataclass(frozen=True, slots=True)
class Reversion:
    """Why, when and from which stage an objective was rolled back."""

    why: str = ""
    when: float | None = None
    who: str = ""
    stage: str = ""
    figures: StageFigures = NO_FIGURES


@dataclass(frozen=True, slots=True)
class ObjectiveEvidence:
    run_id: int | None = keyed("run")  # of the search that found it
    why: str = ""  # of a person who proposed it
    model: ObjectiveModel | None = None  # what its orders say besides bounds and weights
    better: Improvement | None = None
    stages: Mapping[str, StageEvidence] = field(default_factory=dict)
    reverted: Reversion | None = None
    settled: float | None = NEVER_IN_FULL  # when it passed its last stage; None: in full use, and checked still
    replaces: int | None = None  # version that it replaced in full use

    def to_json(self) -> dict[str, Any]:
        """The parts that are known."""
        model = None if self.model is None else self.model.to_json()
        stages = {name: stage.to_json() for name, stage in self.stages.items()}
        in_full = {} if self.settled == NEVER_IN_FULL else {"settled": self.settled, "replaces": self.replaces}
        return write_fields(self, model=model, stages=None, settled=None, replaces=None) | stages | in_full

    @classmethod
    def from_json(cls, document: Any) -> Self:
        table = document if isinstance(document, Mapping) else {}
        parts = {name: part for name, part in table.items() if isinstance(part, Mapping)}
        settled = table.get("settled", NEVER_IN_FULL)
        return read_fields(
            cls,
            table,
            model=parse_model(parts.get("model")),
            stages={name: StageEvidence.from_json(parts[name]) for name in STAGES if name in parts},
            settled=settled if isinstance(settled, float | int | None) else NEVER_IN_FULL,
        )


def parse_model(document: Mapping[str, Any] | None) -> ObjectiveModel | None:
    """The stored model; None where there is none that can be read."""
    try:
        return None if document is None else parse_objective_model(document)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def add_objective(session: Session, objective: ObjectiveRecord) -> ObjectiveRecord:
    """Keep it under the application's next version; the same with its version and id."""
    lock_turn(session, f"objectives of {objective.application}")
    mine = select(OBJECTIVES.c.version).where(OBJECTIVES.c.application == objective.application)
    changed = objective.created if objective.changed is None else objective.changed
    version = max(next_number(session, mine), find_floors(session, objective.application).version + 1)
    made = replace(objective, version=version, changed=changed)
    values = OBJECTIVES.to_columns(made) | asdict(objective.weights)
    return replace(made, id=session.scalar(insert(OBJECTIVES.table).values(values).returning(OBJECTIVES.c.id)))


def move_objective(
    session: Session, application: str, version: int, before: str, after: str, now: float,
    evidence: Mapping[str, Any] | None = None,
) -> ObjectiveRecord:  # fmt: skip
    """Change the state of an objective that is `before` still, and say why; what was in full use retires for it."""
    check_one_of(after, OBJECTIVE_STATES, "the objective's state")
    lock_turn(session, f"objectives of {application}")
    there = load_objective(session, application, version)
    if there.state != before:
        raise StaleState(f"objective {version} of {application!r} is {there.state} by now, not {before}; look again")
    if after == "full":
        others = (
            OBJECTIVES.c.application == application,
            OBJECTIVES.c.state == "full",
            OBJECTIVES.c.version != version,
        )
        session.execute(update(OBJECTIVES.table).where(*others).values(state="retired", changed=now))
    moved = replace(there, state=after, changed=now, evidence={**there.evidence, **(evidence or {})})
    values = {"state": after, "changed": now, "evidence": dict(moved.evidence)}
    session.execute(update(OBJECTIVES.table).where(OBJECTIVES.c.id == there.id).values(values))
    return moved


def merge_evidence(session: Session, objective: ObjectiveRecord, evidence: Mapping[str, Any]) -> ObjectiveRecord:
    """Add parts of the evidence, over stored parts of the same name; state and its time stay."""
    stored = load_objective(session, objective.application, objective.version or 0)
    merged = {**stored.evidence, **evidence}
    session.execute(update(OBJECTIVES.table).where(OBJECTIVES.c.id == stored.id).values(evidence=merged))
    return replace(stored, evidence=merged)


def list_applications_with(session: Session, states: Sequence[str]) -> set[str]:
    """Applications with an objective in one of these states."""
    return set(session.scalars(select(OBJECTIVES.c.application).where(OBJECTIVES.c.state.in_(states)).distinct()))


def load_objective(session: Session, application: str, version: int) -> ObjectiveRecord:
    found = list_chosen(session, OBJECTIVES.c.application == application, OBJECTIVES.c.version == version)
    seen = f"`tuner objectives {application}` lists those that there are, `tuner tune {application}` finds one"
    return require(next(iter(found), None), f"application {application!r} has no objective {version}; {seen}")


def find_full_objective(session: Session, application: str) -> ObjectiveRecord | None:
    """The one in full use, None before there is one."""
    return next(iter(list_objectives(session, application, ("full",), limit=1)), None)


def list_objectives(
    session: Session, application: str, states: Sequence[str] | None = None, limit: int | None = None
) -> list[ObjectiveRecord]:
    """The newest first."""
    return list(stream_objectives(session, application, states, limit))


def stream_objectives(
    session: Session, application: str, states: Sequence[str] | None = None, limit: int | None = None
) -> Iterator[ObjectiveRecord]:
    """The newest first."""
    chosen = given((OBJECTIVES.c.application, eq, application), (OBJECTIVES.c.state, in_op, states))
    return stream_chosen(session, *chosen, limit=limit)


def list_chosen(session: Session, *where: ColumnElement[bool], limit: int | None = None) -> list[ObjectiveRecord]:
    return list(stream_chosen(session, *where, limit=limit))


def stream_chosen(session: Session, *where: ColumnElement[bool], limit: int | None = None) -> Iterator[ObjectiveRecord]:
    query = select(OBJECTIVES.table).where(*where).order_by(OBJECTIVES.c.version.desc()).limit(limit)
    with session.execute(query.execution_options(yield_per=STREAMED)) as found:
        for row in map(dict, found.mappings()):
            yield ObjectiveRecord(weights=Weights(*map(row.pop, names_of(Weights))), **row)
