"""Multi-level elasticity: printed tables as read, the operators' learner, and a verdict on everything."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim.estate_replay
import tuner.lab.multilevel.estate_rows as rows_module
import tuner.lab.multilevel.outcome as outcome_module
import tuner.lab.multilevel.wordcount as setting_module
from scaler.model.kernel import lay_out, view_deployment
from scaler.model.policy import Start
from scaler.policies.learning.full_backup import FULL_BACKUP, average_in_order
from tests.commands import succeed
from tests.examples import make_task
from tuner.lab.multilevel.estate_rows import list_rows
from tuner.lab.multilevel.printed_tables import read_tables
from tuner.lab.paper import pair_figure


def test_both_tables_are_there() -> None:
    rows = read_tables()
    assert [sum(one.table == f"Table {n}" for one in rows) for n in (1, 2)] == [6, 10]
    assert len({(one.table, one.row) for one in rows}) == 16
    assert len(set(list_rows())) == len(list_rows())


def test_a_factor_is_allowed_up_and_down() -> None:
    place = ("Table 2", "row", "violations %")
    assert [pair_figure(place, 1.0, [ours], factor=3.0).agrees for ours in (0.3, 0.34, 2.9, 3.1)] == [
        False, True, True, False,
    ]  # fmt: skip


SEEN = st.tuples(st.integers(0, 4), st.integers(0, 3), st.floats(0.0, 600.0), st.floats(0.0, 1.0))


@given(st.lists(SEEN, max_size=40))
@settings(deadline=None)
def test_violations_are_never_dearer_with_more_or_faster_replicas_or_less_load(
    seen: list[tuple[int, int, float, float]],
) -> None:
    task = make_task(types=2)
    p, state = lay_out(task), FULL_BACKUP.prepare(Start(task, task, 0))
    for slow, fast, rate, response in seen:
        replicas = np.array([slow, min(fast, 4 - slow)])
        if replicas.sum() > 0:
            view = view_deployment(p, replicas, rate, 0.5, response)
            average_in_order(state, view, p.w_perf if view.violated else 0.0)
    assert (np.diff(state.violation[1:], axis=0) <= 0.0).all()
    assert (np.diff(state.violation[1:], axis=1) <= 0.0).all()
    assert (np.diff(state.violation[1:], axis=2) >= 0.0).all()
    assert 0.0 <= state.violation.min() <= state.violation.max() <= p.w_perf


@pytest.mark.slow
def test_the_command_prints_every_row_with_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short run, interpreted and in this process."""
    monkeypatch.setattr(sim.estate_replay, "compile_kernel", lambda loop: loop)
    monkeypatch.setattr(rows_module, "run_jobs", lambda work, jobs, on_share: [work(job) for job in jobs])
    monkeypatch.setattr(rows_module, "DAY_SLOTS", 6)
    monkeypatch.setattr(outcome_module, "SLOTS", 60)
    monkeypatch.setattr(setting_module, "MOST_NODES", 12)
    succeed("lab", "traces", tmp_path / "made")
    text = succeed("lab", "reproduce", "multilevel", "--traces", tmp_path / "made", "--seeds", 1, "--json")
    printed = json.loads(text)
    judged = [pair for pair in printed["figures"] if pair["published"] is not None]
    assert printed["printed"] == len(judged) == 16 * 4
    assert {pair["part"] for pair in printed["figures"]} == {"Table 1", "Table 2", "beside", "Figure 6", "Figure 7"}
    assert {claim["part"] for claim in printed["claims"]} >= {"Table 1", "Table 2", "beside", "Figure 6", "Figure 7"}
