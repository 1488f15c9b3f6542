"""`tuner db`: what a person types, on both databases, and what they are told."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from sqlalchemy import select, text
from sqlalchemy.orm import Session

import tuner.store as store_package
from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from scaler.model.wire import read_json
from tests.commands import run_or_raise
from tests.store.conftest import POSTGRES
from tests.store.release import fill
from tuner.cli.options import parse_span
from tuner.store.applications import load_surrogate, save_surrogate
from tuner.store.connection import Store, open_store
from tuner.store.export import count_rows, export_store
from tuner.store.maintenance import check_store, prune
from tuner.store.runs import end_run, load_run
from tuner.store.samples import save_samples
from tuner.store.schema_version import HEAD, VERSION_TABLE
from tuner.store.tables import METADATA

FILLED = {
    "applications": 2,
    "application_versions": 3,
    "samples": 6,
    "source_marks": 1,
    "surrogates": 1,
    "tuning_runs": 2,
    "trials": 3,
    "objectives": 2,
    "decisions": 5,
    "superseded_decisions": 1,
    "tokens": 3,
    "controls": 1,
    "orders": 1,
    "scalers": 1,
    "watches": 1,
    "events": 1,
    "epochs": 1,
    "experiences": 1,
    "quota_uses": 1,
    "write_checks": 1,
}


def run(*arguments: object, address: str | None = None) -> Result:
    return run_or_raise("db", *arguments, env={"TUNER_STORE": address})


def everything(session: Session) -> dict[str, list[tuple[object, ...]]]:
    return {
        name: [tuple(row) for row in session.execute(select(table).order_by(*table.primary_key.columns))]
        for name, table in METADATA.tables.items()
    }


@pytest.fixture
def filled(store: Store) -> Store:
    fill(store, HEAD)
    return store


def test_the_store_loads_neither_compilers_nor_the_history() -> None:
    names = [f"tuner.store.{path.stem}" for path in Path(store_package.__file__ or "").parent.glob("*.py")]
    heavy = ["numba", "numpy", "pandas", "pyspark", "torch", "alembic", "psycopg"]
    code = f"import sys, {', '.join(names)}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_upgrade_says_what_it_did(address: str) -> None:
    assert run("upgrade", address=address).output.endswith(f"was empty and has schema {HEAD} now.\n")
    assert run("upgrade", address=address).output.endswith(f"is up to date (schema {HEAD}).\n")
    with closing(open_store(address)) as store:
        assert check_store(store) == []


def test_check_says_what_there_is(filled: Store, address: str) -> None:
    told = run("check", address=address)
    assert told.exit_code == 0
    assert told.output.endswith(
        "It holds 2 applications, 3 application versions, 6 samples, 1 source mark, 1 surrogate, 2 tuning runs, "
        "3 trials, 2 objectives, 5 decisions, 1 superseded decision, 3 tokens, 1 control, 1 order, "
        "1 experience, 1 scaler, 1 watch, 1 event, 1 epoch, 1 quota use and 1 write check.\n"
    )


def test_check_says_what_is_wrong(filled: Store, address: str) -> None:
    with filled.begin() as session:
        session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0001'"))
    told = run("check", address=address)
    assert told.exit_code == 1
    assert f"has the older schema 0001; `tuner db upgrade` brings it to {HEAD}.\n" in told.output


def test_check_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no database"):
        run("check", "--store", tmp_path / "tuner.db")
    assert list(tmp_path.iterdir()) == []


def test_a_copy_has_every_row(filled: Store, address: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    assert "6 samples" in run("export", copy, address=address).output
    with filled.read() as session:
        wanted = everything(session)
        assert count_rows(session) == {**FILLED, "events": 2}  # the other says who copied it
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("copy")] == ["copy.db"]
    with closing(open_store(copy)) as again:
        assert check_store(again) == []
        with again.read() as session:
            assert everything(session) == wanted
        with again.begin() as session:  # it goes on as a database of its own
            assert save_surrogate(session, replace(load_surrogate(session, "clicks"), id=None)).number == 2


def test_lines_have_every_row(filled: Store, address: str, tmp_path: Path) -> None:
    run("export", tmp_path / "all.jsonl", address=address)
    lines = [read_json(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert lines[0] == {"table": VERSION_TABLE, "version_num": HEAD}
    with filled.read() as session:
        wanted = everything(session)
    found: dict[str, list[tuple[object, ...]]] = {name: [] for name in wanted}
    for line in lines[1:]:
        found[line.pop("table")].append(tuple(line.values()))
    assert found == wanted
    assert all(json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("copy.csv", "ends in .csv; end it in one of .jsonl"), ("no/copy.db", "there is no folder"), ("copy", "nothing")],
)
def test_an_export_that_cannot_be(tmp_path: Path, name: str, sentence: str) -> None:
    open_store(tmp_path / "tuner.db").close()
    with pytest.raises(BadInput, match=sentence):
        run("export", tmp_path / name, "--store", tmp_path / "tuner.db")


def test_a_database_is_not_exported_onto_itself(tmp_path: Path) -> None:
    open_store(tmp_path / "tuner.db").close()
    with pytest.raises(BadInput, match="is the database itself"):
        run("export", tmp_path / "tuner.db", "--store", tmp_path / "tuner.db")


def test_an_export_shows_one_moment(filled: Store, address: str, tmp_path: Path) -> None:
    """What is written while the file is made is not half in it."""
    later = open_store(address)

    def write(done: int) -> None:
        later.write(lambda session: save_samples(session, [Sample("clicks", "parse", 1e6 + done, 2e6, "records")]))

    export_store(filled, tmp_path / "all.jsonl", write)
    later.close()
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 1 + sum(FILLED.values())


def test_prune_takes_what_is_old_and_needed_by_nothing(filled: Store) -> None:
    with filled.begin() as session:
        save_samples(session, [Sample("clicks", "parse", 960.0, 1000.0, "records")])
        expected = prune(session, before=500.0, dry_run=True)
        assert count_rows(session) == {**FILLED, "samples": 7}
        assert prune(session, before=500.0) == expected
        # the run has not ended, the surrogate is the newest
        kept = {"trials": 0, "tuning_runs": 0, "surrogates": 0}
        assert expected == {"samples": 6, "decisions": 5, "superseded_decisions": 1, **kept, "scalers": 1, "tokens": 1}
    with filled.begin() as session:
        end_run(session, load_run(session, 1), "done", 10.0)
        save_surrogate(session, replace(load_surrogate(session, "clicks"), id=None))
        assert sum(prune(session, before=500.0).values()) == 0  # a trial of the run is an objective
        session.execute(text("DELETE FROM objectives"))
        assert prune(session, before=500.0) == {
            "samples": 0,
            "decisions": 0,
            "superseded_decisions": 0,
            "trials": 2,
            "tuning_runs": 1,
            "surrogates": 1,
            "scalers": 0,
            "tokens": 0,
        }
    assert check_store(filled) == []


def test_prune_tells_before_it_does(filled: Store, address: str) -> None:
    dry = run("prune", "--older-than", "90d", "--dry-run", address=address).output
    assert (
        dry
        == "Of what is older than 90d, 6 samples, 5 decisions, 1 superseded decision, 1 scaler and 1 token would go.\n"
    )
    assert run("prune", "--older-than", "90d", address=address).output.startswith(
        "Took out 6 samples, 5 decisions, 1 superseded decision, 1 scaler and 1 token.\n"
    )
    assert run("prune", "--older-than", "90d", address=address).output == "Took out nothing.\n"


def test_prune_leaves_what_is_new(store: Store, address: str) -> None:
    now = time.time()
    with store.begin() as session:
        save_samples(session, [Sample("clicks", "parse", now - 7200.0, now - 7140.0, "records")])
    assert run("prune", "--older-than", "3h", address=address).output == "Took out nothing.\n"
    assert run("prune", "--older-than", "1h", address=address).output.startswith("Took out 1 sample.\n")


@pytest.mark.parametrize("age", ["90", "d", "-1d", "1y", "0d", "ninety days"])
def test_ages_that_are_none(age: str) -> None:
    with pytest.raises(BadInput, match="as in 12h, 30d or 26w"):
        parse_span("--older-than", age)


@POSTGRES
def test_a_password_is_not_told(postgres: str) -> None:
    with pytest.raises(BadInput) as refused:
        run("check", "--store", postgres.replace("//postgres:@/postgres", "//postgres:hunter2@/nowhere"))
    assert "hunter2" not in str(refused.value)
