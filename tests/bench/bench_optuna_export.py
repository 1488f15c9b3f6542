"""Time the export to Optuna's journal, beside the same trials added to Optuna's SQLite storage.

python -m tests.bench.bench_optuna_export [TRIALS] [TRIALS IN SQLITE]

Optuna's SQLite storage counts the trials before each one: a trial takes the longer the more there are, so that figures
of few trials flatter it. 50,000 and 1,000 trials unless given.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import optuna
from sqlalchemy import insert

from tuner.store import tables
from tuner.store.applications import add_application
from tuner.store.connection import Store, open_store
from tuner.store.export import export_to_optuna, open_journal, to_frozen
from tuner.store.records import Trial, TuningRun
from tuner.store.runs import start_run

TRIALS = 50_000
CHUNK = 250
OPERATORS = 8


def make_trial(run: TuningRun, i: int) -> Trial:
    shares = {f"operator {j}": 1.0 / OPERATORS for j in range(OPERATORS)}
    parameters = {"shares": shares, "weights": {"perf": 0.6, "rcf": 0.2, "res": 0.2}}
    figures = {"price": 10.0 + i % 997, "violations": 0.04, "reconfigurations": 0.02}
    errors = {"price_error": 0.1, "violations_error": 0.001, "reconfigurations_error": 0.001}
    ended = {"feasible": i % 3 == 0, "slack": 0.2, "slots": 50_000, "seconds": 0.3, "detail": {"purpose": "search"}}
    return Trial(run.id or 0, i, parameters, "complete", i, 1.7e9 + i, 1.7e9 + i + 1, **figures, **errors, **ended)  # type: ignore[arg-type]


def fill(store: Store, trials: int) -> TuningRun:
    with store.begin() as session:
        version = add_application(session, "shop", {}, 0.0)
        settings = {"qos": {"r_max": 0.05, "eta_v": 0.05, "eta_r": 0.1}}
        run = start_run(session, TuningRun(version.id or 0, "gp", 1, trials, 0.0, settings), "me", 0.0)
        session.connection().execute(
            insert(tables.TRIALS.table), [tables.TRIALS.to_columns(make_trial(run, i)) for i in range(trials)]
        )
    return run


def add_to_database(path: Path, trials: Sequence[Trial], run: TuningRun) -> Iterator[tuple[int, float]]:
    """Add trials to Optuna's SQLite storage; how many are in, and after how many seconds."""
    frozen = list(to_frozen(trials, run, None))
    study = optuna.create_study(storage=f"sqlite:///{path}")
    began = time.perf_counter()
    for i in range(0, len(frozen), CHUNK):
        study.add_trials(frozen[i : i + CHUNK])
        yield min(i + CHUNK, len(frozen)), time.perf_counter() - began


def main() -> None:
    given = [int(text) for text in sys.argv[1:]]
    ours, theirs = (given[0] if given else TRIALS), (given[1] if len(given) > 1 else TRIALS // 50)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as name, closing(open_store(Path(name) / "tuner.db")) as store:
        run = fill(store, ours)
        began = time.perf_counter()
        export_to_optuna(store, None, Path(name) / "journal.log")
        took = time.perf_counter() - began
        print(f"export of {ours:,} trials: {took:.1f} s, {1e6 * took / ours:.0f} us a trial")
        began = time.perf_counter()
        with open_journal(Path(name) / "journal.log") as storage:
            study = optuna.load_study(study_name=f"shop, run {run.id}", storage=storage)
            print(f"read by Optuna: {len(study.trials):,} trials in {time.perf_counter() - began:.1f} s")
        for done, slow in add_to_database(Path(name) / "slow.db", [make_trial(run, i) for i in range(theirs)], run):
            ratio = (slow / done) / (took / ours)
            print(f"into SQLite, {done:,}: {slow:.1f} s, {1e6 * slow / done:.0f} us a trial, x {ratio:.0f}")


if __name__ == "__main__":
    main()
