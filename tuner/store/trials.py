"""Trials of tuning runs: add one, load a history, list a page, count them by application."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, and_, case, func, insert, nulls_last, select
from sqlalchemy.orm import Session
from sqlalchemy.sql.operators import eq, ge, is_, lt

from scaler.model.errors import BadInput
from tuner.store.faults import require
from tuner.store.json_fields import as_stored
from tuner.store.ordinals import lock_numbers, of_ordinal, take_ordinal
from tuner.store.records import ObjectiveRecord, Trial, TuningRun
from tuner.store.rows import given
from tuner.store.runs import load_run, of_application, renew_run
from tuner.store.tables import APPLICATIONS, BATCH, RUNS, TRIALS, VERSIONS

NO_TRIAL = "there is no trial {}; `tuner trials APP` lists those that there are"
SORTS = ("id", "ordinal", "number", "price", "violations", "reconfigurations", "slack", "seconds", "ended")


@dataclass(frozen=True, slots=True)
class TrialFilter:
    """Which trials: None leaves a question open."""

    application: str | None = None
    run_id: int | None = None
    state: str | None = None
    feasible: bool | None = None
    since: float | None = None  # by when they ended
    until: float | None = None


def add_trial(session: Session, run: TuningRun, trial: Trial, now: float) -> Trial:
    """Keep a trial of a run that this process holds, and renew its lease; the same with its id and ordinal.

    Saving it again comes to the same, so that a commit whose answer was lost can be repeated; another trial under its
    number is refused. `LeaseLost` where the run is another process's by now.
    """
    lock_numbers(session, run.application_version_id)
    renew_run(session, run, now)
    if trial.run_id != run.id:
        raise ValueError(f"trial {trial.number} is of run {trial.run_id}, and was given to run {run.id}")
    columns = TRIALS.to_columns(trial)
    columns |= {"parameters": as_stored(trial.parameters), "detail": as_stored(trial.detail)}
    there = TRIALS.find(session, TRIALS.c.run_id == trial.run_id, TRIALS.c.number == trial.number)
    if there is None:
        numbered = take_ordinal(session, TRIALS, run.application_version_id)
        made = session.scalar(insert(TRIALS.table).values(columns | numbered).returning(TRIALS.c.id))
        return Trial(**{**columns, "ordinal": numbered["ordinal"]}, id=made)
    if (there.parameters, there.seed, there.ended) != (columns["parameters"], trial.seed, trial.ended):
        raise ValueError(f"run {run.id} has another trial {trial.number} already")
    return there


def load_trial(session: Session, trial_id: int) -> Trial:
    return require(TRIALS.find(session, TRIALS.c.id == trial_id), NO_TRIAL.format(trial_id))


def find_trial(session: Session, application: str, ordinal: int) -> Trial:
    """The application's trial of the number that people see."""
    missing = (
        f"application {application!r} has no trial {ordinal}; `tuner trials {application}` lists those that there are"
    )
    return require(TRIALS.find(session, *of_ordinal(TRIALS, application, ordinal)), missing)


def find_made_of(session: Session, one: ObjectiveRecord) -> tuple[Trial | None, TuningRun | None]:
    """The trial that an objective was made of, and its run; None where they are gone or there are none."""
    if one.trial_id is None:
        return None, None
    with suppress(BadInput):
        trial = load_trial(session, one.trial_id)
        return trial, load_run(session, trial.run_id)
    return None, None


def load_history(session: Session, run_id: int) -> list[Trial]:
    """All trials of a run in the order of their numbers: what an engine asks on from."""
    return list_trials(session, TrialFilter(run_id=run_id), sort="number")


@dataclass(frozen=True, slots=True)
class Repeats:
    """Which trial of a run verifies which; trials by their run and their number in it."""

    trials: Mapping[tuple[int, int], Trial] = field(default_factory=dict)
    verifications: Mapping[tuple[int, int], Trial] = field(default_factory=dict)  # of the trial of this number

    def find_repeated(self, trial: Trial) -> Trial | None:
        """The trial that a verification repeats; None of any other trial."""
        return None if trial.about.of is None else self.trials.get((trial.run_id, trial.about.of))

    def find_verification(self, trial: Trial) -> Trial | None:
        """The newest verification of a trial."""
        return self.verifications.get((trial.run_id, trial.number))


def load_repeats(session: Session, run_ids: Iterable[int]) -> Repeats:
    """The trials of these runs that were verified, and their verifications."""
    trials = [trial for run_id in sorted(set(run_ids)) for trial in load_history(session, run_id)]
    verifications = {(trial.run_id, of): trial for trial in trials if (of := trial.about.of) is not None}
    return Repeats({(t.run_id, t.number): t for t in trials if (t.run_id, t.number) in verifications}, verifications)


def list_trials(
    session: Session,
    chosen: TrialFilter,
    sort: str = "id",
    descending: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> list[Trial]:
    """A page of the chosen trials; those without the figure they are sorted by come last."""
    if sort not in SORTS:
        raise BadInput(f"trials cannot be sorted by {sort!r}; sort by one of {', '.join(SORTS)}")
    column = TRIALS.c[sort]
    key = column.desc() if descending else column.asc()
    query = apply_filter(TRIALS.select(), chosen).order_by(nulls_last(key), TRIALS.c.id).limit(limit)
    return TRIALS.load(session, (query.offset(offset) if offset else query).execution_options(yield_per=BATCH))


def count_trials(session: Session, chosen: TrialFilter) -> int:
    return session.scalar(apply_filter(select(func.count(TRIALS.c.id)), chosen)) or 0


def apply_filter(query: Select[Any], chosen: TrialFilter) -> Select[Any]:
    if chosen.application is not None:
        query = query.where(TRIALS.c.run_id.in_(of_application(select(RUNS.c.id), chosen.application)))
    conditions = given(
        (TRIALS.c.run_id, eq, chosen.run_id),
        (TRIALS.c.state, eq, chosen.state),
        (TRIALS.c.feasible, is_, chosen.feasible),
        (TRIALS.c.ended, ge, chosen.since),
        (TRIALS.c.ended, lt, chosen.until),
    )
    return query.where(*conditions)


@dataclass(frozen=True, slots=True)
class TrialCounts:
    """Over all versions of one application."""

    runs: int = 0
    trials: int = 0
    best: float | None = None  # price per hour, of complete and feasible trials
    tuned: float | None = None  # when the newest trial ended


def count_trials_by_application(session: Session, name: str | None = None) -> dict[str, TrialCounts]:
    """By the name of each application, or of this one, that was searched at all."""
    counts = and_(TRIALS.c.state == "complete", TRIALS.c.feasible.is_(True))
    query = (
        select(
            APPLICATIONS.c.name,
            func.count(RUNS.c.id.distinct()),
            func.count(TRIALS.c.id),
            func.min(case((counts, TRIALS.c.price))),
            func.max(TRIALS.c.ended),
        )
        .join_from(APPLICATIONS, VERSIONS)
        .join(RUNS.table, RUNS.c.application_version_id == VERSIONS.c.id)
        .outerjoin(TRIALS.table, TRIALS.c.run_id == RUNS.c.id)
        .group_by(APPLICATIONS.c.name)
    )
    if name is not None:
        query = query.where(APPLICATIONS.c.name == name)
    return {row[0]: TrialCounts(*row[1:]) for row in session.execute(query)}
