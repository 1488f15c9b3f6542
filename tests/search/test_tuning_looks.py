"""What is given up early is counted and never recommended."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sim.simulate import simulate
from sim.trace import window
from tests.search.runs import (
    OPERATORS,
    add,
    of,
    run,
    setting_of,
)
from tuner.search.evaluation import HOPELESS
from tuner.search.space.space import from_document
from tuner.search.tuning_run import TuningResult
from tuner.store.connection import open_store

SLOTS, SEARCHED = 104_000, 83_200  # of a trace that is looked at first


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> TuningResult:
    store = open_store(tmp_path_factory.mktemp("long") / "tuner.db")
    add(store, slots=SLOTS)
    ended = run(store, engine="random", budget=8)
    store.close()
    return ended


class TestShortLooks:
    """A trace so long that its first eighth tells whether the rest is worth it."""

    def test_what_is_given_up_is_never_proved(self, long_run: TuningResult) -> None:
        pruned = [trial for trial in long_run.trials if trial.state == "pruned"]
        assert 0 < len(pruned) < 8
        assert {trial.detail["purpose"] for trial in pruned} == {"search"}
        assert not any(trial.feasible for trial in pruned)
        assert not {trial.number for trial in pruned} & {proof.detail["of"] for proof in of(long_run, "verify")}

    def test_slots_replayed_and_saved_are_counted(self, long_run: TuningResult) -> None:
        look = SEARCHED // 8
        for trial in of(long_run, "search"):
            # one replay stands for all seeds: the policy leaves nothing to chance
            assert trial.slots == (look if trial.state == "pruned" else look + SEARCHED)
            assert trial.slots is not None
            assert trial.slots + trial.detail["slots_saved"] == 3 * SEARCHED
        assert long_run.trials[0].slots == SEARCHED
        assert all(proof.slots == SLOTS for proof in of(long_run, "verify"))

    def test_the_other_seeds_are_replayed_where_the_first_is_near_the_best(self, long_run: TuningResult) -> None:
        best = math.inf
        for trial in of(long_run, "search"):
            if trial.state == "complete":
                assert len(trial.detail["seeds"]) in (1, 2, 3)
                if len(trial.detail["seeds"]) == 1:  # too dear, or out of bounds
                    assert (trial.price or 0.0) > best or (trial.slack or 0.0) < 0.0
            if trial.feasible:
                best = min(best, trial.price or math.inf)

    def test_what_was_given_up_broke_a_constraint_many_times_over(self, long_run: TuningResult) -> None:
        """In the second half of the look, when a policy that learns has had some time to."""
        for trial in long_run.trials:
            if trial.state == "pruned":
                setting = setting_of(long_run, from_document(OPERATORS, trial.parameters), 0.06)
                blocks = simulate(replace(setting, trace=window(setting.trace, 0, SEARCHED // 8)), 0).blocks
                late = np.cumsum(blocks["slots"]) > SEARCHED // 16
                broken = np.average(blocks["violations"][late], weights=blocks["slots"][late])
                moved = np.average(blocks["reconfigurations"][late], weights=blocks["slots"][late])
                assert broken > HOPELESS * 0.05 * 0.9 or moved > HOPELESS * 0.1 * 0.9  # but for one block
