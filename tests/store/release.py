"""Fill a small database of a schema to be released and dump it as SQL for `test_schema`.

Run `python -m tests.store.release` when the schema (`tuner.store.schema_version.HEAD`) is a new one; what was released
stays as it is.
"""

from __future__ import annotations

import math
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from sqlalchemy.orm import Session

from scaler.model.decision import Decision, Objection
from scaler.model.sample import Sample
from scaler.model.task import Weights
from tuner.store.applications import add_application, save_surrogate
from tuner.store.audit_log import add_event
from tuner.store.connection import Store, connect_unprepared, upgrade
from tuner.store.corrections import correct_decision
from tuner.store.decisions import save_decisions
from tuner.store.epochs import READINESS, check_write
from tuner.store.known_histories import save_history
from tuner.store.objectives import add_objective, move_objective
from tuner.store.orders import save_orders, save_scalers, set_control
from tuner.store.records import (
    Control,
    DecisionRecord,
    Epoch,
    EventRecord,
    KnownHistory,
    ObjectiveRecord,
    QuotaUse,
    Scaler,
    SourceMark,
    SurrogateRecord,
    Token,
    Trial,
    TuningRun,
)
from tuner.store.runs import save_retuning, start_run
from tuner.store.samples import save_marks, save_samples
from tuner.store.schema_version import HEAD
from tuner.store.tables import EPOCHS, QUOTA_USES
from tuner.store.tokens import add_token
from tuner.store.trials import add_trial

FOLDER = Path(__file__).parent / "released"
DOCUMENT = {"name": "clicks", "operator": [{"name": "parse", "service_rate": 500, "scv": 0.5}]}


def fill(store: Store, revision: str) -> None:
    """One or two of everything that the revision has."""
    with store.begin() as session:
        fill_measured(session)
        if revision >= "0002":
            fill_tried(session)
        if revision >= "0003":
            fill_told(session)
        if revision >= "0004":
            fill_decided(session)
        if revision >= "0006":
            fill_stateful(session)
        if revision >= "0007":
            fill_restored(session)
        if revision >= "0008":
            fill_owned(session)
        if revision >= "0009":
            fill_answered(session)
        if revision >= "0010":
            fill_corrected(session)
        if revision >= "0011":
            fill_numbered(session)
        if revision >= "0012":
            fill_known(session)
            fill_second(session)


def fill_measured(session: Session) -> None:
    add_application(session, "clicks", {}, 1.0)
    add_application(session, "clicks", DOCUMENT, 2.0)
    samples = [Sample("clicks", "parse", 60.0 * i, 60.0 * i + 60.0, "records", arrived=float(i)) for i in range(3)]
    save_samples(session, [*samples, Sample("clicks", "parse", 0.0, 60.0, "tasks", node_type="large", backlog=0.0)])
    save_marks(session, [SourceMark("clicks", "/logs/a", 2**40, 3.0, {"batch": 7})])
    save_surrogate(session, SurrogateRecord("clicks", {"mean": {"parse": 0.002}}, 0.0, 180.0, 3, "warn", 4.0, 0.125))


def fill_tried(session: Session) -> None:
    run = start_run(session, TuningRun(2, "gp", 7, 60, 5.0, {"eta_v": 0.05}), "somebody", 5.0)
    ended = Trial(run.id or 0, 0, {"x": [0.25]}, "complete", 7, 5.0, 6.0, price=0.5, feasible=True, surrogate_id=1)
    add_trial(session, run, ended, 6.0)
    add_trial(session, run, Trial(run.id or 0, 1, {"x": [0.5]}, "failed", 7, 6.0, 7.0, failure="no core left"), 7.0)
    add_objective(session, ObjectiveRecord("clicks", Weights(0.5, 0.25, 0.25), {"parse": 0.01}, 8.0, trial_id=1))
    move_objective(session, "clicks", 1, "proposed", "full", 9.0)
    save_decisions(
        session, [DecisionRecord("clicks", "parse", 60.0, "HELD", "no metrics", seen={"response": math.inf})]
    )


def fill_told(session: Session) -> None:
    token = add_token(session, Token("driver", "0" * 64, "report", "somebody", 10.0))
    add_token(session, Token("page of driver", "1" * 64, "read", "driver", 11.0, expires=20.0, parent_id=token.id))
    set_control(session, Control("clicks", "", "direction_lock", {"only": "out"}, "somebody", 12.0, until=99.0))
    save_orders(session, "clicks", {"objective": {"version": 1}}, 13.0)
    save_scalers(session, [Scaler("clicks", "parse", "driver-1", 14.0, 15.0, revision=1, acknowledged=15.0)])
    save_retuning(session, "clicks", {"period_s": 3600.0}, 16.0)
    add_event(session, EventRecord("clicks", 17.0, "somebody", "pushed", "Objective 1 is in full use.", {"version": 1}))
    figures = {"rate": 5.0, "response": 0.5, "bound": 0.01, "price": 1.5}
    shadow = {"version": 2, "action": "+1 large"}
    save_decisions(
        session, [DecisionRecord("clicks", "parse", 120.0, "SCALED", "it was time", **figures, shadow=shadow)]
    )


def fill_decided(session: Session) -> None:
    objection = Objection("guard", "cooldown", "the last change was 60 s ago, and in_s is 600", {"value": math.inf})
    decision = Decision(
        180.0, "BLOCKED", "it was too early", "cooldown", proposed={"large": -1}, objections=(objection,)
    )
    save_decisions(session, [DecisionRecord("clicks", "parse", **decision.to_json())])


def fill_stateful(session: Session) -> None:
    state = {"state_rows": 2e6, "state_bytes": 3e8, "state_partitions": 16.0, "store_loads": 4.0}
    timed = {"commit_time": 0.5, "store_load_time": 2.5}
    save_samples(session, [Sample("clicks", "count", 0.0, 60.0, "progress", **state, **timed)])


def fill_restored(session: Session) -> None:
    EPOCHS.save(session, [Epoch(1, 21.0, "somebody", "/backups/monday.db", 20.0, {"clicks": 1}, {"clicks": 1})])
    check_write(session, READINESS, 22.0)


def fill_owned(session: Session) -> None:
    add_token(session, Token("one", "2" * 64, "report", "somebody", 18.0, expires=99.0, applications=["clicks"]))
    save_decisions(session, [DecisionRecord("clicks", "parse", 240.0, "HELD", "no metrics", instance="driver-1")])


def fill_answered(session: Session) -> None:
    save_samples(session, [Sample("clicks", "count", 60.0, 120.0, "progress", responses={"-12": 3.0, "40": 97.5})])


def fill_corrected(session: Session) -> None:
    failed = DecisionRecord("clicks", "parse", 240.0, "ACTUATION_FAILED", "no worker", instance="driver-1")
    assert correct_decision(session, failed, "one", 300.0) == "corrected"


def fill_numbered(session: Session) -> None:
    numbered = DecisionRecord("clicks", "parse", 300.0, "HELD", "no metrics", instance="driver-1", sequence=2**40)
    save_decisions(session, [numbered])
    QUOTA_USES.save(session, [QuotaUse("manager 1", "token", "1", 2e6, 23.0)])


def fill_known(session: Session) -> None:
    save_history(session, KnownHistory("clicks", 1, 24.0, 20_160, 60.0, 1.5, {"parse": {"format": 1, "slots": 20_160}}))


def fill_second(session: Session) -> None:
    """Another application, whose run and trial are the first of theirs."""
    version = add_application(session, "ads", DOCUMENT, 30.0)
    run = start_run(session, TuningRun(version.id or 0, "gp", 7, 60, 31.0), "somebody", 31.0)
    made = add_trial(session, run, Trial(run.id or 0, 0, {}, "complete", 7, 31.0, 32.0, price=0.5), 32.0)
    named = f"trial {made.ordinal} of run {run.ordinal}"
    add_objective(
        session, ObjectiveRecord("ads", Weights(0.5, 0.25, 0.25), {}, 33.0, provenance=named, trial_id=made.id)
    )


def dump(revision: str) -> Path:
    target = FOLDER / f"{revision}.sql"
    with tempfile.TemporaryDirectory() as folder, closing(connect_unprepared(Path(folder) / "tuner.db")) as store:
        with store.engine.begin() as connection:
            upgrade(connection, "the new database", revision)
        fill(store, revision)
        with closing(sqlite3.connect(Path(folder) / "tuner.db")) as raw:
            target.write_text("\n".join(raw.iterdump()) + "\n")
    return target


if __name__ == "__main__":
    print(dump(HEAD))
