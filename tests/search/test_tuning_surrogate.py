"""What was measured is what is searched: a surrogate's moments, what was seen to arrive, R_max less constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scaler.model.errors import BadInput
from scaler.model.orders import Objective, parse_objective, to_task
from scaler.model.sample import Sample
from tests.search.runs import (
    Stop,
    all_figures,
    of,
    put,
    read_brief_of,
    read_runs,
    run,
    stop_after,
)
from tests.surrogate.worlds import WINDOW, batch_stream, queue_stream
from tuner.search.recommendation import make_model
from tuner.search.search_plan import TuneOptions, load_plan
from tuner.search.tuning_run import resume_tuning, start_tuning, tune
from tuner.store.applications import save_surrogate
from tuner.store.connection import Store, open_store
from tuner.store.samples import save_samples
from tuner.surrogate.fit import fit
from tuner.surrogate.surrogate import Surrogate, to_record


class TestSurrogate:
    """A stream of two operators that was monitored for 100 windows, each of whose answers takes 50 ms more."""

    R_MAX = 0.35
    DOCUMENT: Mapping[str, Any] = {
        "application": {
            "name": "shop",
            "operator": [
                {"name": "count", "service_time": 0.001, "scv": 1.0, "k_max": 6},
                {"name": "store", "service_time": 0.001, "scv": 1.0, "k_max": 6},
            ],
            "edge": [{"from": "count", "to": "store", "selectivity": 0.9}],
        },
        "infrastructure": {
            "node": [
                {"name": "plain", "speedup": 1.0, "price": 1.0},
                {"name": "big", "speedup": 2.0, "price": 1.8},
            ]
        },
        "qos": {"r_max": R_MAX, "eta_v": 0.3, "eta_r": 0.9},
    }

    @staticmethod
    def monitored() -> list[Sample]:
        samples = queue_stream("gamma", 100)
        stored = queue_stream("gamma", 100, seed=2, mean=0.01, selectivity=0.0)
        rest = [
            replace(late, operator="store", arrived=0.7 * (early.tuples_out or 0.0))
            for late, early in zip(stored, samples, strict=True)
        ]
        return [*samples, *rest]

    def keep(self, store: Store, health: str | None = None) -> tuple[Surrogate, int]:
        put(store, "shop", self.DOCUMENT)
        fitted = fit(self.monitored(), "shop")
        record = to_record(fitted, 1.0)
        with store.begin() as session:
            save_samples(session, self.monitored())
            kept = save_surrogate(session, record if health is None else replace(record, health=health))
        return fitted, kept.id or 0

    def test_what_was_measured_is_searched(self, file: Store) -> None:
        fitted, number = self.keep(file)
        held = start_tuning(file, "shop", {}, TuneOptions(engine="random", budget=4))
        with file.read() as session:
            plan = load_plan(session, "shop", held)
        count, store = plan.spec.setting.application.operators
        constants = [o.replayed.parameters["constant"] for o in fitted.operators if o.replayed]
        assert (count.moments.mean, store.moments.mean) == pytest.approx((0.02, 0.01), rel=0.03)
        assert constants == pytest.approx([0.05, 0.05], rel=0.1)
        assert plan.spec.qos.r_max == pytest.approx(self.R_MAX - sum(constants))
        assert plan.spec.setting.application.edges[0].selectivity == pytest.approx(0.7)
        arrived = [(s.arrived or 0.0) / WINDOW for s in self.monitored() if s.operator == "count"]
        assert plan.verification.setting.trace.rates == pytest.approx(np.array(arrived))
        assert plan.spec.setting.trace.rates == pytest.approx(np.array(arrived[:80]))
        ended = tune(file, "shop", held)
        assert {trial.surrogate_id for trial in ended.trials} == {number}
        # nothing is left to chance, and no seed but the first replayed
        assert all(proof.slots == 100 for proof in of(ended, "verify"))
        assert ended.objective is not None
        assert ended.objective.surrogate_id == number
        assert sum(ended.objective.bounds.values()) <= 1.05 * (self.R_MAX - sum(constants))

    def test_what_was_monitored_in_batches_is_replayed_in_them(self, file: Store) -> None:
        document = {**self.DOCUMENT, "application": {"name": "shop", "operator": [{"name": "count", "service_time": 1.0,
                    "scv": 1.0, "k_max": 6}]}, "qos": {**self.DOCUMENT["qos"], "r_max": 3.0}}  # fmt: skip
        put(file, "shop", document)
        samples = batch_stream(100)
        with file.begin() as session:
            save_samples(session, samples)
            save_surrogate(session, to_record(fit(samples, "shop"), 1.0))
        with file.read() as session:
            flags = {"qos": {"quantile": 0.95}}
            plan = load_plan(session, "shop", start_tuning(file, "shop", flags, TuneOptions(engine="random", budget=2)))
        batches = plan.spec.setting.application.operators[0].batches
        assert (plan.spec.setting.plant, plan.spec.qos.r_max, dict(plan.constants)) == ("batches", 3.0, {"count": 0.0})
        assert batches is not None
        assert batches.trigger_s == pytest.approx(1.0, rel=0.05)
        model = make_model(plan.spec.setting, plan.constants)
        sent = Objective(1, plan.spec.setting.weights, {"count": 3.0}, model)
        task = to_task(parse_objective(sent.to_json()), "count")
        assert (task.batches, task.quantile, plan.verification.setting.quantile) == (batches, 0.95, 0.95)

    def test_more_samples_and_another_surrogate_do_not_change_a_run_that_was_begun(
        self, file: Store, tmp_path: Path
    ) -> None:
        self.keep(file)
        whole = run(file, "shop", engine="random", budget=4)
        other = open_store(tmp_path / "other.db")
        self.keep(other)
        held = start_tuning(other, "shop", {}, TuneOptions(engine="random", budget=4))
        with pytest.raises(Stop):
            tune(other, "shop", held, stop_after(3))
        later = [replace(s, start=s.start + 100 * WINDOW, end=s.end + 100 * WINDOW) for s in self.monitored()]
        with other.begin() as session:
            save_samples(session, later)
            save_surrogate(session, replace(to_record(fit(later, "shop"), 2.0), health="fail"))
        ended = tune(other, "shop", resume_tuning(other, "shop"))
        other.close()
        assert all_figures(ended.trials) == all_figures(whole.trials)

    def test_one_whose_health_failed_is_refused_but_the_description_is_not(self, file: Store) -> None:
        self.keep(file, "fail")
        with pytest.raises(BadInput, match=r"surrogate 1 of 'shop' failed a check.*--as-described"):
            run(file, "shop", engine="random", budget=2)
        assert read_runs(file) == []
        plan = read_brief_of(file, "shop", engine="random", as_described=True)
        assert [o.moments.mean for o in plan.spec.setting.application.operators] == [0.001, 0.001]
        assert (plan.surrogate_id, plan.spec.qos.r_max) == (None, self.R_MAX)

    def test_constants_beyond_r_max_are_refused(self, file: Store) -> None:
        self.keep(file)
        with pytest.raises(BadInput, match="for triggers and scheduling alone"):
            run(file, "shop", {"qos": {"r_max": 0.08}}, engine="random", budget=2)
        assert read_runs(file) == []
