"""Gaps in monitoring: which arrivals are searched, what is said of it, and what may be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from tests.commands import refuse, run, succeed
from tests.search.runs import APP, add, put, read_runs
from tests.search.runs import run as tune_app
from tests.search.test_tuning_surrogate import TestSurrogate
from tests.surrogate.worlds import WINDOW, queue_stream
from tuner.pipeline.flows import Arrivals, choose_stretch
from tuner.search.monitored_arrivals import describe_arrivals
from tuner.search.search_plan import load_plan
from tuner.store.connection import Store, open_store
from tuner.store.samples import save_samples

SHAPE = {**TestSurrogate.DOCUMENT, "qos": {"r_max": 1.0, "eta_v": 0.5, "eta_r": 0.9}}


def monitored(missing: Sequence[range]) -> list[Sample]:
    """A hundred windows of both operators but for those that nobody monitored."""
    gone = {window for stretch in missing for window in stretch}
    kept = [sample for i, sample in enumerate(queue_stream("gamma", 100)) if i not in gone]
    return [*kept, *(replace(sample, operator="store") for sample in kept)]


def keep(store: Store, missing: Sequence[range]) -> None:
    put(store, "shop", SHAPE)
    with store.begin() as session:
        save_samples(session, monitored(missing))


class TestStretch:
    @pytest.mark.parametrize(
        ("rates", "enough", "first", "size"),
        [
            ("1111", 99, 0, 4),
            ("111__11", 99, 0, 3),  # none is long enough: the longest
            ("111__11", 2, 5, 2),  # the newest that is
            ("1111__11__1", 2, 6, 2),
            ("11_11__11", 4, 0, 5),  # a short gap is bridged
            ("11__11", 99, 4, 2),  # of two alike the newer
        ],
    )
    def test_newest_long_enough_stretch_is_chosen(self, rates: str, enough: int, first: int, size: int) -> None:
        known = np.array([np.nan if one == "_" else float(one) for one in rates])
        chosen = choose_stretch(Arrivals("shop", 600.0, 60.0, known), 1, 60.0 * enough)
        assert (chosen.start, chosen.rates.size) == (600.0 + 60.0 * first, size)


class TestSearch:
    def test_a_gap_leaves_the_longest_stretch_and_the_run_says_so(self, file: Store) -> None:
        keep(file, [range(60, 70)])
        ended = tune_app(file, "shop", engine="random", budget=2)
        with file.read() as session:
            plan = load_plan(session, "shop", ended.run)
        assert plan.verification.setting.trace.rates.size == 60
        said = describe_arrivals(ended.run.settings["samples"])
        assert said.startswith("monitored arrivals, 60 slots from ")
        assert said.endswith("lie beyond a gap of more than 5 slots without monitoring")

    def test_a_wider_gap_may_be_bridged_and_a_stretch_named(self, file: Store) -> None:
        keep(file, [range(60, 70)])
        whole = tune_app(file, "shop", engine="random", budget=1, gap=10)
        assert whole.run.settings["samples"]["slots"] == 100
        start = monitored([])[0].start
        part = tune_app(file, "shop", engine="random", budget=1, since=start + 70 * WINDOW)
        assert part.run.settings["samples"]["slots"] == 30
        with pytest.raises(BadInput, match="there are no samples of 'shop' in this stretch of time; widen"):
            tune_app(file, "shop", engine="random", budget=1, since=start + 200 * WINDOW)

    def test_a_described_trace_has_no_stretch_to_choose(self, file: Store) -> None:
        add(file)
        with pytest.raises(BadInput, match="--since, --until and --gap choose of monitored arrivals"):
            tune_app(file, APP, engine="random", budget=1, gap=9)
        assert read_runs(file) == []


class TestCommand:
    @pytest.fixture
    def db(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        path = tmp_path / "tuner.db"
        monkeypatch.setenv("TUNER_STORE", str(path))
        store = open_store(path)
        keep(store, [range(40, 60)])
        store.close()
        return path

    def test_tune_goes_on_after_a_gap_and_prints_what_it_recommends(self, db: Path) -> None:
        out = succeed("tune", "shop", "--engine", "random", "--budget", 3, "--policy", "threshold-c")
        assert "monitored arrivals, 40 slots from" in out
        assert "Objective 1, proposed since" in out
        assert "too few to say it of other days (7 are enough)" in " ".join(out.split())
        assert "  bounds   count " in out
        assert "  weights  perf " in out
        assert 'Push it: tuner push shop 1 --why "..."' in out
        number = int(out.partition("Trial ")[2].split()[0])
        assert f"Trial {number}, of run 1 " in succeed("trial", "shop", number)

    def test_a_bound_in_a_wrong_unit_is_doubted_and_no_push_without_force(self, db: Path) -> None:
        asked = ("tune", "shop", "--engine", "random", "--budget", 3, "--policy", "threshold-c")
        result = run(*asked, "--r-max", "60")
        assert result.exit_code == 0
        assert "Warning: R_max is 60 s, and the responses of count -> store took " in result.stderr
        assert "Warning" not in run(*asked, "--r-max", "400ms").stderr
        said = refuse("push", "shop", 1, "--why", "as found")
        assert "was found for another QoS than its description demands (r_max 60 s instead of 1 s)" in said
        assert "is in shadow now" in succeed("push", "shop", 1, "--force", "--why", "as found")


class TestUnits:
    @pytest.mark.parametrize(
        ("text", "seconds"), [("60ms", 0.06), ("0.06", 0.06), ("2m", 120.0), (".5 s", 0.5), ("1e-2", 0.01)]
    )
    def test_bounds_take_units(self, db: Path, text: str, seconds: float) -> None:
        succeed("app", "add", "other", db.parent / "shop.toml", "--r-max", text, "--eta-v", "7.5%")
        assert f'"r_max": {seconds},' in succeed("app", "show", "other", "--json")
        assert '"eta_v": 0.075,' in succeed("app", "show", "other", "--json")

    @pytest.fixture
    def db(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("TUNER_STORE", str(tmp_path / "tuner.db"))
        succeed("demo", "--save", tmp_path / "shop.toml")
        return tmp_path / "tuner.db"

    @pytest.mark.parametrize("text", ["60 kg", "5%", "soon", ""])
    def test_other_units_are_refused(self, text: str) -> None:
        result = run("simulate", "--r-max", text)
        assert result.exit_code == 2
        assert "write it as in 0.06, 60ms or 2m" in result.stderr
