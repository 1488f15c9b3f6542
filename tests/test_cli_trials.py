"""`tuner trials`, `trial` and `report`: tables, CSV, JSON, the scenario that replays a trial, refusals."""

from __future__ import annotations

import csv
import io
import json
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scaler.model.task import Weights
from tests.commands import refuse, run, succeed
from tuner.cli import tune_command
from tuner.cli.list_commands import SORTS as OFFERED
from tuner.cli.list_commands import STATES
from tuner.scenario.scenario import read_scenario
from tuner.store.applications import add_application, load_application
from tuner.store.connection import open_store
from tuner.store.objectives import add_objective
from tuner.store.records import TRIAL_STATES, ObjectiveRecord, Trial, TuningRun
from tuner.store.runs import find_state, list_runs, name_machine, name_owner, start_run
from tuner.store.trials import SORTS, add_trial
from tuner.views.grid import deal_out

START = 1_777_636_800.0  # 2026-05-01T12:00:00Z
SHARES = {"op1": 0.2, "op2": 0.5, "op3": 0.3}
WEIGHTS = {"perf": 0.5, "rcf": 0.125, "res": 0.375}
QOS = {"r_max": 0.06, "eta_v": 0.05, "eta_r": 0.1, "paths": {"op1 -> op2 -> op3": 0.058}}
DOCUMENT: dict[str, Any] = {
    "application": {"builtin": "pipeline"},
    "trace": {"generator": "diurnal", "low": 20.0, "high": 200.0, "slots": 400, "start": "2026-01-05"},
    "qos": {"r_max": 0.06},
    "policy": {"names": ["static", "threshold-c"], "options": {"threshold": 0.6}},
}
FIGURES: dict[str, Any] = {
    "price": 9.5,
    "violations": 0.03,
    "reconfigurations": 0.02,
    "price_error": 0.25,
    "violations_error": 0.001,
    "feasible": True,
    "slack": 0.4,
    "slots": 40_000,
    "seconds": 0.31,
}


def make_trial(run: TuningRun, i: int) -> Trial:
    """Every fifth one fails, every fifth is given up; the third is a verification. The first is the dearest."""
    state = {3: "failed", 4: "pruned"}.get(i % 5, "complete")
    given = {} if state == "failed" else {**FIGURES, "price": 20.0 - i, "feasible": i % 2 == 0}
    detail = {
        "purpose": "verify" if i == 2 else "search",
        "of": 0 if i == 2 else None,
        "note": {"expected": 9.0},
        "policy": "threshold-c",
        "seeds": [3, 4],
        "replicas": {"op1": {"A1": 1.5, "A2": 0.0}, "op2": {"A1": 2.0, "A2": 0.25}},
        "slots_saved": 1_000,
    }
    return Trial(
        *(run.id or 0, i, {"shares": SHARES, "weights": WEIGHTS}, state, i, START + 60.0 * i, START + 60.0 * i + 30.0),
        **given,
        failure="no core left" if state == "failed" else None,
        detail={key: value for key, value in detail.items() if value is not None},
    )


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of ten and two trials, and another application without any."""
    path = tmp_path / "tuner.db"
    monkeypatch.setenv("TUNER_STORE", str(path))
    with closing(open_store(path)) as store, store.begin() as session:
        version = add_application(session, "shop", DOCUMENT, START)
        add_application(session, "clicks", DOCUMENT, START)
        settings = {"document": version.document, "qos": QOS, "policy": "threshold-c", "seeds": [3, 4]}
        for count in (10, 2):
            run = start_run(session, TuningRun(version.id or 0, "gp", 7, 60, START, settings), "me", START)
            for i in range(count):
                add_trial(session, run, make_trial(run, i), START)
        bounds = {name: 0.06 * share for name, share in SHARES.items()}
        evidence = {"cost": 9.5, "cost_error": 0.25}
        add_objective(session, ObjectiveRecord("shop", Weights(0.5, 0.25, 0.25), bounds, START, evidence=evidence))
    return path


def numbers(*arguments: object) -> list[int]:
    return [trial["trial"] for trial in json.loads(succeed("trials", "shop", *arguments, "--json"))]


def test_what_is_offered_is_what_there_is() -> None:
    assert {"trial": "ordinal"}.get(OFFERED[0]) in SORTS
    assert set(OFFERED[1:]) <= set(SORTS)
    assert STATES == TRIAL_STATES


def test_trials_are_a_table_that_lines_up(db: Path) -> None:
    result = run("trials", "shop", "--limit", 8)
    head, rule, *rows = result.stdout.splitlines()
    assert len(rows) == 8
    assert {len(row) for row in rows} == {len(head), len(rule)}
    for name in ("price/h", "violations %", "reconfigurations %", "seconds"):
        end = head.index(name) + len(name)
        assert all(row[end - 1] != " " and row[end] == " " for row in rows)
    said = [" ".join(row.split()) for row in rows]
    assert said[0] == "5 1 pruned search 16.000 0.250 3.00 2.00 yes 0.400 40,000 0.31 2026-05-01 12:04:30 UTC -"
    assert said[4] == "9 1 failed search - - - - - - - - 2026-05-01 12:08:30 UTC -"
    assert result.stderr == "8 of 12; --limit 0 shows all.\n"


def test_trials_can_be_chosen_and_sorted(db: Path) -> None:
    assert numbers() == list(range(1, 13))
    assert numbers("--limit", 3) == [10, 11, 12]
    assert numbers("--limit", 3, "--descending") == [12, 11, 10]
    assert numbers("--run", 2) == [11, 12]
    assert numbers("--feasible", "--sort", "price") == [7, 5, 3, 1, 11]
    assert numbers("--infeasible", "--sort", "price", "--descending", "--limit", 2) == [2, 12]
    assert numbers("--state", "failed") == [4, 9]
    assert numbers("--run", 1, "--since", "2026-05-01T12:07", "--until", "2026-05-01T12:09") == [8, 9]
    assert numbers("--sort", "price", "--limit", 0)[-2:] == [4, 9]  # what has no cost comes last


def test_csv_has_a_column_for_every_parameter(db: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(succeed("trials", "shop", "--csv", "--limit", 0))))
    assert len(rows) == 12
    assert (rows[0]["share op2"], rows[0]["weight res"], rows[2]["purpose"]) == ("0.5", "0.375", "verify")
    assert (rows[3]["price"], rows[3]["failure"]) == ("", "no core left")
    empty = succeed("trials", "clicks", "--csv")
    assert empty.startswith("trial,run,")
    assert len(empty.splitlines()) == 1


def test_no_trials_are_told_from_no_application(db: Path) -> None:
    result = run("trials", "clicks")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "There are no such trials of 'clicks'.\n"
    assert json.loads(succeed("trials", "clicks", "--json")) == []
    assert refuse("trials", "shap") == "there is no application 'shap'; did you mean 'shop'?"
    assert refuse("trials", "shop", "--run", 3) == "application 'shop' has no run 3; its runs are 2 and 1"
    assert refuse("trials", "clicks", "--run", 1) == "application 'clicks' has no run 1; it was not tuned yet"
    assert refuse("trials", "shop", "--json", "--csv").startswith("--json and --csv both say how to print")
    wrong = run("trials", "shop", "--sort", "prise")
    assert wrong.exit_code == 2
    assert all(word in wrong.stderr for word in ("--sort", "'prise'", "'price'"))
    assert refuse("trial", "shop", 99) == (
        "application 'shop' has no trial 99; `tuner trials shop` lists those that there are"
    )
    assert refuse("trial", "shap", 1) == "there is no application 'shap'; did you mean 'shop'?"
    assert "has no tuning run 3; `tuner runs shop`" in refuse("report", "shop", "--run", 3)


def test_a_trial_is_shown_in_full(db: Path) -> None:
    shown = succeed("trial", "shop", 3)
    lines = [line.split() for line in shown.splitlines()]
    assert shown.startswith("Trial 3, of run 1 (gp, seed 7) of shop, version 1, on the described service times.")
    assert "complete, for verify of trial 1, ended 2026-05-01 12:02:30 UTC after 0.31 s of work." in shown
    assert ["op2", "0.5000", "30"] in lines
    assert "weights: perf 0.5000, rcf 0.1250, res 0.3750" in shown
    assert ["price/h", "18.000", "0.250", "-"] in lines
    assert ["violations", "%", "3.000", "0.100", "5.000"] in lines
    assert ["reconfigurations", "%", "2.000", "-", "10.000"] in lines
    assert ["op2", "2.000", "0.250"] in lines
    assert "Replayed 40,000 slots under threshold-c with seeds 3, 4; 1,000 slots saved." in shown
    assert "It failed: no core left" in succeed("trial", "shop", 4)
    known = json.loads(succeed("trial", "shop", 3, "--json"))
    assert known["detail"]["note"] == {"expected": 9.0}
    assert (known["application"], known["search"]["engine"], known["purpose"]) == ("shop", "gp", "verify")


def test_numbers_of_runs_and_trials_are_each_applications_own(db: Path) -> None:
    """The second application's first trial was number 13, after the twelve of the first one."""
    with closing(open_store(db)) as store, store.begin() as session:
        version = load_application(session, "clicks")
        run = start_run(session, TuningRun(version.id or 0, "gp", 7, 60, START, {"qos": QOS}), "me", START)
        made = add_trial(session, run, make_trial(run, 0), START)
        of = {"trial_id": made.id, "evidence": {"run": run.id}}
        add_objective(session, ObjectiveRecord("clicks", Weights(0.5, 0.25, 0.25), {}, START, **of))
    assert (run.id, made.id) != (run.ordinal, made.ordinal) == (1, 1)
    (listed,) = json.loads(succeed("trials", "clicks", "--run", 1, "--json"))
    assert (listed["trial"], listed["run"], "id" in listed) == (1, 1, False)
    assert succeed("trial", "clicks", 1).startswith("Trial 1, of run 1 (gp, seed 7) of clicks, version 1")
    assert [json.loads(succeed("runs", "clicks", "--json"))[0][name] for name in ("run", "trials")] == [1, 1]
    assert succeed("runs", "clicks").splitlines()[2].split()[0] == "1"
    assert succeed("objectives", "clicks").splitlines()[2].split()[5] == "1"
    (shown,) = json.loads(succeed("objectives", "clicks", "--json"))
    assert (shown["trial"], shown["run"], shown["evidence"]["run"]) == (1, 1, 1)
    told = json.loads(succeed("report", "clicks", "--run", 1, "--json"))
    assert (told["run"], told["trial"], told["evidence"]["run"]) == (1, 1, 1)
    assert refuse("trial", "clicks", 2).startswith("application 'clicks' has no trial 2;")


def test_a_trial_is_written_as_the_scenario_that_replays_it(db: Path, tmp_path: Path) -> None:
    succeed("trial", "shop", 3, "--toml", tmp_path / "trial.toml")
    scenario = read_scenario(tmp_path / "trial.toml")
    (setting,) = scenario.settings
    assert scenario.policies == ("threshold-c",)
    assert scenario.seeds == (3, 4)
    assert setting.options == {"threshold": 0.6}
    assert setting.weights == Weights(0.5, 0.125, 0.375)
    assert setting.bounds == {name: 0.06 * share for name, share in SHARES.items()}
    assert (setting.r_max, dict(setting.path_bounds)) == (0.06, QOS["paths"])
    assert setting.trace.rates.size == 400
    replayed = json.loads(succeed("simulate", tmp_path / "trial.toml", "--json"))
    assert [row["policy"] for row in replayed["policies"]] == ["threshold-c"]


def test_a_trial_of_an_older_program_says_that_it_cannot_be_replayed(db: Path, tmp_path: Path) -> None:
    with closing(open_store(db)) as store, store.begin() as session:
        version = add_application(session, "old", DOCUMENT, START)
        run = start_run(session, TuningRun(version.id or 0, "gp", 7, 60, START), "me", START)
        add_trial(session, run, Trial(run.id or 0, 0, {"x": [0.25]}, "complete", 7, 5.0, 6.0, price=0.5), START)
    assert "Parameters: {'x': [0.25]}" in succeed("trial", "old", 1)
    assert "has no shares and weights to replay" in refuse("trial", "old", 1, "--toml", tmp_path / "trial.toml")
    assert not (tmp_path / "trial.toml").exists()
    assert len(succeed("trials", "old", "--csv").splitlines()) == 2


def test_an_application_knows_what_was_searched_for_it(db: Path) -> None:
    rows = {row["name"]: row for row in json.loads(succeed("app", "list", "--json"))}
    assert (rows["shop"]["runs"], rows["shop"]["trials"], rows["shop"]["best"]) == (2, 12, 14.0)
    assert rows["shop"]["tuned"] == START + 60.0 * 9 + 30.0
    assert (rows["clicks"]["runs"], rows["clicks"]["best"]) == (0, None)
    shown = succeed("app", "show", "shop")
    assert "Searched: 2 runs with 12 trials; the best feasible one costs 14 an hour." in shown
    assert "No objective is in full use." in shown
    assert (
        "Objective 1, proposed since 2026-05-01 12:00:00 UTC, costs 9.500 an hour as verified (standard error 0.250):"
        in shown
    )
    assert "bounds   op1 12 ms, op2 30 ms, op3 18 ms" in shown
    assert json.loads(succeed("app", "show", "shop", "--json"))["proposed"]["weights"]["perf"] == 0.5


def test_a_table_that_is_too_wide_comes_in_parts_that_each_begin_with_the_names() -> None:
    assert deal_out([4, 6, 6, 6], 1, 80) == [[0, 1, 2, 3]]
    assert deal_out([4, 6, 6, 6], 1, 22) == [[0, 1, 2], [0, 3]]
    assert deal_out([4, 60, 6], 1, 22) == [[0, 1], [0, 2]]


def test_a_trial_and_its_verification_name_each_other(db: Path) -> None:
    """One price was shown by `trial`, the other by `objectives`, and nothing led from one to the other."""
    first, third = (json.loads(succeed("trial", "shop", number, "--json")) for number in (1, 3))
    assert (first["verified"]["trial"], first["verified"]["price"]) == (3, 18.0)
    assert (third["detail"]["of"], third["verified"]) == (1, None)
    assert not {"id", "run_id", "number", "place", "surrogate_id"} & (first.keys() | third.keys())
    assert "costs 18.00 per hour (its verified price, which objectives show): trial 3." in succeed("trial", "shop", 1)
    assert "This verifies trial 1 on fresh seeds" in succeed("trial", "shop", 3)
    listed = {row["trial"]: row for row in csv.DictReader(io.StringIO(succeed("trials", "shop", "--run", 1, "--csv")))}
    assert (listed["1"]["verified"], listed["3"]["of"]) == ("3", "1")
    assert "by 3: 18" in succeed("trials", "shop", "--run", 1)


def test_a_run_that_nobody_holds_is_interrupted(db: Path) -> None:
    """Its process was killed or ended by SIGTERM, and it was shown as running."""
    found = json.loads(succeed("runs", "shop", "--json"))
    assert {run["state"] for run in found} == {"interrupted"}  # their leases ran out
    assert not {"id", "ordinal", "owner", "fence"} & found[0].keys()
    assert "The run was interrupted, and goes on with: tuner tune shop --resume" in succeed("report", "shop")
    with closing(open_store(db)) as store:
        now = time.time()
        with store.begin() as session:
            version = load_application(session, "shop")
            held = start_run(session, TuningRun(version.id or 0, "gp", 7, 60, now, {}), name_owner(), now)
        assert find_state(held, now) == "running"
        assert json.loads(succeed("runs", "shop", "--json"))[0]["state"] == "running"
        assert "is under way" in refuse("remove-run", "shop", held.ordinal, "--why", "x")
        dead = replace(held, owner=f"{name_machine()}:4194999:x")
        assert find_state(dead, now) == "interrupted"


def test_ctrl_c_leaves_the_run_to_resume(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the search's own thread is left behind and can release nothing."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_command, "carry_out", interrupt)
    ended = run("tune", "clicks", "--policy", "threshold-c")
    assert ended.exit_code == 130
    assert "Tuning run 1 is interrupted; no trial had ended. Resume it with: tuner tune clicks --resume" in ended.stderr
    with closing(open_store(db)) as store, store.read() as session:
        (one,) = list_runs(session, "clicks")
    assert one.owner is None
    assert find_state(one, time.time()) == "interrupted"
