"""The history of the tables: every released schema comes up to the newest, which is what the models say."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, create_engine, event, insert, inspect, select, text

from scaler.model.errors import BadInput
from tests.store.conftest import POSTGRES
from tests.store.release import DOCUMENT, FOLDER
from tuner.store.applications import list_versions, load_application, load_surrogate, save_surrogate
from tuner.store.audit_log import check_chain
from tuner.store.connection import Store, configure, connect_unprepared, open_store, upgrade, upgrade_store
from tuner.store.corrections import list_superseded
from tuner.store.decisions import list_decisions
from tuner.store.maintenance import check_store, compare
from tuner.store.objectives import find_full_objective
from tuner.store.orders import list_controls, list_revisions
from tuner.store.ordinals import has_unnumbered
from tuner.store.records import Trial, TuningRun
from tuner.store.runs import claim_run, find_run, start_run
from tuner.store.samples import load_marks, load_samples, save_samples
from tuner.store.schema_version import HEAD, VERSION_TABLE
from tuner.store.tables import METADATA
from tuner.store.tokens import list_tokens
from tuner.store.trials import TrialFilter, add_trial, find_trial, list_trials

RELEASED = sorted(path.stem for path in FOLDER.glob("*.sql"))


def put_released(address: str, revision: str, scratch: Path) -> Store:
    """A database as a tuner of that time left it."""
    store = connect_unprepared(address)
    path = store.address.path or scratch / "released.db"
    with closing(sqlite3.connect(path)) as file:
        file.executescript((FOLDER / f"{revision}.sql").read_text())
    if store.address.path is None:
        copy_to_server(store, f"sqlite:///{path}", revision)
    return store


def copy_to_server(store: Store, source: str, revision: str) -> None:
    """The same rows in the same tables, which the history up to that revision makes."""
    tables, engine = MetaData(), create_engine(source)
    with store.engine.begin() as target, engine.connect() as origin:
        upgrade(target, "the server", revision)
        tables.reflect(origin)
        for table in tables.sorted_tables:
            if table.name == VERSION_TABLE:
                continue
            rows = [dict(row) for row in origin.execute(select(table)).mappings()]
            target.execute(insert(table), rows)
            if "id" in table.c:
                target.execute(text(f"SELECT setval('{table.name}_id_seq', {max(row['id'] for row in rows)})"))
    engine.dispose()


def test_every_revision_was_released_with_a_database() -> None:
    history = ScriptDirectory.from_config(configure())
    assert [history.get_current_head()] == history.get_heads() == [HEAD]
    assert sorted(script.revision for script in history.walk_revisions()) == RELEASED


@pytest.mark.parametrize("revision", RELEASED)
def test_a_released_database_comes_up_and_goes_on_being_used(address: str, revision: str, tmp_path: Path) -> None:
    old = put_released(address, revision, tmp_path)
    assert upgrade_store(old) == (revision, HEAD)
    old.close()
    store = open_store(address)
    assert check_store(store) == []
    with store.read() as session:
        assert [v.document for v in list_versions(session, "clicks")] == [{}, DOCUMENT]
        parsed = load_samples(session, "clicks", operators=["parse"])
        assert {s.state_bytes for s in parsed} == {None}
        assert [(s.start, s.node_type, s.arrived) for s in parsed] == [
            (0.0, None, 0.0),
            (0.0, "large", None),
            (60.0, None, 1.0),
            (120.0, None, 2.0),
        ]
        assert load_marks(session, "clicks")["/logs/a"].position == 2**40
        assert load_surrogate(session, "clicks").error == 0.125
        if revision >= "0002":
            assert [(t.state, t.price) for t in list_trials(session, TrialFilter("clicks"))] == [
                ("complete", 0.5),
                ("failed", None),
            ]
            standing = find_full_objective(session, "clicks")
            assert standing is not None
            assert standing.bounds == {"parse": 0.01}
            assert list_decisions(session, "clicks")[-1].seen == {"response": float("inf")}
        if revision >= "0003":
            told = list_decisions(session, "clicks", until=180.0)[0]
            assert (told.response, told.decision.reason, told.decision.objections) == (0.5, "it was time", ())
            assert [c.settings for c in list_controls(session, "clicks", 50.0)] == [{"only": "out"}]
            assert list_revisions(session) == {"clicks": 1}
        if revision >= "0004":
            (objection,) = list_decisions(session, "clicks", until=240.0)[0].decision.objections
            assert (objection.code, objection.data) == ("cooldown", {"value": float("inf")})
        if revision >= "0006":
            counted, *later = load_samples(session, "clicks", operators=["count"])
            assert (counted.state_rows, counted.state_partitions, counted.store_load_time) == (2e6, 16.0, 2.5)
            assert [one.responses for one in (counted, *later)] == [None, *[{"-12": 3.0, "40": 97.5} for _ in later]]
            assert len(later) == (revision >= "0009")
        if revision >= "0008":
            assert list_decisions(session, "clicks")[0].instance == "driver-1"
            assert [token.applications for token in list_tokens(session)] == [None, ["clicks"]]
        if revision >= "0010":
            assert check_chain(session).rows == 1
            assert [(one.number, one.record.kind) for one in list_superseded(session, "clicks")] == [(1, "HELD")]
    use(store)
    store.close()


def use(store: Store) -> None:
    with store.begin() as session:
        save_samples(session, [replace(s, arrived=9.0) for s in load_samples(session, "clicks")])
        surrogate = save_surrogate(session, replace(load_surrogate(session, "clicks"), id=None))
        assert surrogate.number == 2
        version = load_application(session, "clicks").id or 0
        run = start_run(session, TuningRun(version, "gp", 1, 10, 10.0), "me", 10.0)
        add_trial(session, run, Trial(run.id or 0, 0, {}, "complete", 1, 10.0, 11.0, surrogate_id=surrogate.id), 11.0)
        assert claim_run(session, run.id or 0, "next", 1000.0) is not None


@pytest.mark.parametrize(
    ("action", "proposed"),
    [("+1 large", {"large": 1}), ("-1 an odd 'name\"", {"an odd 'name\"": -1}), (None, None), ("two large", None)],
)
def test_upgrade_fills_proposals_of_older_decisions(
    address: str, action: str | None, proposed: dict[str, int] | None, tmp_path: Path
) -> None:
    old = put_released(address, "0003", tmp_path)
    with old.engine.begin() as connection:
        connection.execute(text("UPDATE decisions SET action = :action"), {"action": action})
    upgrade_store(old)
    old.close()
    with closing(open_store(address)) as store, store.read() as session:
        assert {(d.action, d.kind) for d in list_decisions(session, "clicks")} == {(action, "HELD"), (action, "SCALED")}
        assert [d.proposed for d in list_decisions(session, "clicks")] == [proposed] * 2
        assert [d.code for d in list_decisions(session, "clicks")] == [None] * 2


def test_upgrade_numbers_runs_and_trials_by_application(address: str, tmp_path: Path) -> None:
    """Ids ran through all applications; an objective's origin named its trial and run by them."""
    old = put_released(address, "0011", tmp_path)
    columns = "parameters, state, seed, started, ended, detail"
    with old.engine.begin() as connection:
        for statement in (
            "INSERT INTO applications (id, name, created) VALUES (5, 'ads', 1)",
            "INSERT INTO application_versions (id, application_id, number, document, created)"
            " VALUES (7, 5, 1, '{}', 1)",
            "INSERT INTO tuning_runs (id, application_version_id, engine, seed, budget, created, settings, state,"
            " fence) VALUES (9, 7, 'gp', 1, 1, 1, '{}', 'done', 1)",
            f"INSERT INTO trials (id, run_id, number, {columns}) VALUES (11, 9, 0, '{{}}', 'failed', 1, 1, 1, '{{}}')",
            f"INSERT INTO trials (id, run_id, number, {columns}) VALUES (12, 1, 2, '{{}}', 'failed', 1, 1, 1, '{{}}')",
            "UPDATE objectives SET trial_id = 11, provenance = 'trial 11 of run 9'",
        ):
            connection.execute(text(statement))
    upgrade_store(old)
    old.close()
    with closing(open_store(address)) as store:
        with store.read() as session:
            numbers = {
                app: [one.ordinal for one in list_trials(session, TrialFilter(app))] for app in ("ads", "clicks")
            }
            assert numbers == {"ads": [1], "clicks": [1, 2, 3]}
            assert (find_run(session, "ads", 1).id, find_trial(session, "ads", 1).id) == (9, 11)
            standing = find_full_objective(session, "clicks")
            assert standing is not None
            assert standing.provenance == "trial 1 of run 1"
            assert not has_unnumbered(session)
        with store.begin() as session:
            again = start_run(session, TuningRun(7, "gp", 1, 10, 10.0), "me", 10.0)
            assert again.ordinal == 2


def test_the_history_makes_what_the_models_say(store: Store) -> None:
    with store.engine.connect() as connection:
        assert compare(connection) == []


def test_a_difference_from_the_models_is_seen(store: Store) -> None:
    with store.engine.begin() as connection:
        connection.execute(text("DROP INDEX ix_trials_ended"))
        connection.execute(text("ALTER TABLE trials DROP COLUMN failure"))
    assert len(check_store(store)) == 2
    assert any("add column" in sentence and "failure" in sentence for sentence in check_store(store))


def test_a_schema_of_a_newer_tuner_is_refused(store: Store, address: str) -> None:
    with store.begin() as session:
        session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(BadInput, match=r"has schema 9999, made by a newer tuner, .* upgrade the tuner"):
        open_store(address)


def test_a_schema_of_nobody_is_refused(store: Store, address: str) -> None:
    with store.begin() as session:
        session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = 'abcdef'"))
    with pytest.raises(BadInput, match="unknown schema 'abcdef'"):
        open_store(address)


def test_an_older_file_is_brought_up_when_it_is_opened(tmp_path: Path) -> None:
    put_released(str(tmp_path / "tuner.db"), "0001", tmp_path).close()
    with closing(open_store(tmp_path / "tuner.db")) as store:
        assert check_store(store) == []


@POSTGRES
def test_an_older_server_is_left_to_who_knows_its_users(server_store: Store) -> None:
    with server_store.begin() as session:
        session.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0001'"))
    with pytest.raises(BadInput, match="older schema 0001; run `tuner db upgrade`"):
        open_store(server_store.engine.url.render_as_string(hide_password=False))


def test_an_upgrade_that_fails_leaves_what_was(address: str, tmp_path: Path) -> None:
    """As on a full disk, or when the process is killed: the tables change in one transaction, on SQLite too."""
    store = put_released(address, "0001", tmp_path)

    def break_down(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if "CREATE TABLE objectives" in statement:
            raise KeyboardInterrupt

    event.listen(store.engine, "before_cursor_execute", break_down)
    with pytest.raises(KeyboardInterrupt):
        upgrade_store(store)
    event.remove(store.engine, "before_cursor_execute", break_down)
    with store.engine.connect() as connection:
        assert "tuning_runs" not in inspect(connection).get_table_names()
    assert upgrade_store(store) == ("0001", HEAD)
    assert set(METADATA.tables) | {VERSION_TABLE} == set(inspect(store.engine).get_table_names())
    store.close()
