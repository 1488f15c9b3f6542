"""What cannot be searched is refused before anything is written, and time that is up ends a search in order."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from scaler.model.errors import BadInput
from tests.search.runs import (
    APP,
    add,
    describe,
    of,
    put,
    read_runs,
    run,
)
from tuner.search.recommendation import PROVED
from tuner.search.search_plan import TuneOptions
from tuner.search.tuning_run import resume_tuning, start_tuning, tune
from tuner.store.connection import Store


class TestRefusals:
    @pytest.mark.parametrize(
        ("flags", "wanted", "sentence"),
        [
            ({"qos": {"r_max": 0.001}}, {}, "no deployment answers within"),
            ({"qos": {"quantile": 1.0}}, {}, "the quantile is 1, and must be 0.5 to 0.999"),
            ({"policy": {"name": "nosuch"}}, {}, "nosuch"),
            ({"qos": {"eta_v": 1.5}}, {}, "eta_v"),
            ({"trace": {"slots": -3}}, {}, "slots"),
            ({}, {"engine": "nosuch"}, "there is no engine 'nosuch'; choose one of gp, skopt"),
            ({}, {"held_out": 0.95}, "--held-out is 0.95, and must lie between 0 and 0.9"),
        ],
    )
    def test_what_cannot_be_searched_is_refused_before_anything_is_written(
        self, file: Store, flags: dict[str, Any], wanted: dict[str, Any], sentence: str
    ) -> None:
        add(file)
        with pytest.raises(BadInput, match=sentence):
            run(file, flags=flags, budget=3, **wanted)
        assert read_runs(file) == []

    def test_an_application_that_is_not_there(self, file: Store) -> None:
        add(file)
        with pytest.raises(BadInput, match="there is no application 'nosuch'; there are clicks"):
            run(file, "nosuch")
        with pytest.raises(BadInput, match="there is no application 'nosuch'"):
            resume_tuning(file, "nosuch")

    def test_nothing_waits_to_be_resumed(self, file: Store) -> None:
        add(file)
        run(file, engine="random", budget=1)
        with pytest.raises(BadInput, match="'clicks' has no interrupted tuning run; the newest one has ended, show it"):
            resume_tuning(file, APP)

    def test_neither_a_trace_nor_samples(self, file: Store) -> None:
        document = {name: table for name, table in describe().items() if name != "trace"}
        put(file, APP, document)
        with pytest.raises(BadInput, match="nothing says at which rates tuples come to 'clicks'; name a file with"):
            run(file)


class TestTime:
    def test_asking_stops_after_so_many_seconds_and_proofs_follow(self, file: Store) -> None:
        add(file)
        ticks = count(1_000)
        held = start_tuning(file, APP, {}, TuneOptions(engine="random", budget=500))
        ended = tune(file, APP, held, seconds=40.0, clock=lambda: float(next(ticks)))
        searched = of(ended, "search")
        assert 3 < len(searched) < 20
        assert all(trial.ended < 1_041.0 for trial in searched)
        assert len(of(ended, "verify")) == PROVED
        assert ended.run.state == "done"

    def test_no_time_at_all_leaves_the_baseline(self, file: Store) -> None:
        add(file)
        ticks = count(1_000)
        held = start_tuning(file, APP, {}, TuneOptions(engine="random", budget=5))
        ended = tune(file, APP, held, seconds=0.5, clock=lambda: float(next(ticks)))
        assert [trial.detail["purpose"] for trial in ended.trials] == ["baseline", "verify"]
        assert ended.objective is not None  # which is feasible here, and proved like any other
        assert ended.objective.trial_id == ended.trials[0].id


def test_a_run_whose_trace_has_changed_is_not_gone_on_with(file: Store, tmp_path: Path) -> None:
    """Its trials would have been made on two different traces."""
    trace = tmp_path / "rates.csv"
    rates = [100.0 + slot % 300 for slot in range(3000)]
    trace.write_text("rate\n" + "\n".join(map(str, rates)))
    add(file)
    begun = start_tuning(file, APP, {"trace": {"file": str(trace)}}, TuneOptions(budget=2))
    trace.write_text("rate\n" + "\n".join(map(str, [*rates[:-1], 5000.0])))
    with pytest.raises(BadInput, match="no longer those that run"):
        tune(file, APP, begun)
