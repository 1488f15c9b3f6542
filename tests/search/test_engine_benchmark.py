"""Engines held against each other: the baseline's way is the paper's, the judge's seeds nobody's, figures add up."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from sim.arrivals import generate
from sim.trace import window
from tuner.cli import main
from tuner.lab.engine_benchmark import (
    FIRST_FINAL_SEED,
    PAPER_SLOTS,
    Allowance,
    EngineCell,
    EngineResult,
    EngineResults,
    Rules,
    find_allowance,
    list_cells,
    load_results,
    make_evaluation,
    make_paper_evaluation,
    make_setting,
    run_engine,
    run_engine_benchmark,
)
from tuner.lab.engine_summary import list_settings, summarise_engines
from tuner.scenario.layout import QoS
from tuner.search.recommendation import PROVED
from tuner.search.search_plan import FIRST_VERIFICATION_SEED, VERIFICATION_SEEDS

TRACE = generate("diurnal", low=50.0, high=500.0, slots=60_000, seed=2)
SHORT = replace(TRACE, rates=TRACE.rates[:4_000])
CELL = EngineCell("pipeline", 1, 0.05, 0.2, 0.5, 0)


def find(engine: str, price: float, met: bool = True) -> EngineResult:
    return EngineResult(engine, 10, 1000, 0.1, 1.0, price, 0.0, 0.0, met)


def test_the_papers_exam_is_one_seed_over_50_000_slots_and_ours_leaves_the_end_out() -> None:
    setting, qos = make_setting(Rules(("gp",), TRACE), CELL), QoS(0.05)
    paper, ours = make_paper_evaluation(setting, qos, 3), make_evaluation(setting, qos, 3)
    assert (paper.slots, paper.seeds, paper.short) == (PAPER_SLOTS, (3,), 0)
    assert ours.slots == 48_000
    assert np.array_equal(ours.setting.trace.rates, window(TRACE, 0, 48_000).rates)
    assert max(*paper.seeds, *ours.seeds) < FIRST_VERIFICATION_SEED < FIRST_FINAL_SEED


def test_every_setting_comes_once_a_seed_and_seed_by_seed() -> None:
    cells = list_cells(("pipeline", "diamond"), (1, 3), (0.04,), (0.01, 0.05), (0.1,), 2)
    assert len(cells) == len(set(cells)) == 16
    assert [cell.seed for cell in cells] == [0] * 8 + [1] * 8


def test_an_engine_recommends_what_the_judge_finds_feasible() -> None:
    found = run_engine(Rules(("random",), SHORT), CELL, "random", Allowance(6))
    assert found.evaluations == 6
    assert found.met
    assert found.violations <= CELL.eta_v
    # its verifications, and at least a short replay each
    assert found.verification_slots >= PROVED * VERIFICATION_SEEDS * 4_000
    assert found.slots >= found.verification_slots + 6 * 400


def test_equal_slots_include_looks_and_verifications() -> None:
    """The others stop so early that their verifications fit too; the baseline is verified as they are."""
    rules = Rules(("skopt", "random"), SHORT, terms="equal")
    small = PROVED * VERIFICATION_SEEDS * 4_000 + 50_000
    found = run_engine(rules, CELL, "random", Allowance(1_000, small))
    assert 3 <= found.evaluations < 100
    assert found.verification_slots == PROVED * VERIFICATION_SEEDS * 4_000
    assert small - 15_000 < found.slots <= small
    assert run_engine(rules, CELL, "skopt", Allowance(6)).verification_slots > 0
    published = run_engine(replace(rules, terms="published"), CELL, "skopt", Allowance(6))
    assert (published.verification_slots, published.slots) == (0, 6 * 4_000)


def test_terms_say_what_the_others_may_take() -> None:
    baseline = replace(find("skopt", 10.0), evaluations=31, slots=7_000)
    rules = Rules(("skopt", "gp"), SHORT)
    assert find_allowance(rules, baseline) == Allowance(16)
    equal = find_allowance(replace(rules, terms="equal"), baseline)
    assert equal.slots == 7_000
    assert equal.evaluations > 31
    assert find_allowance(replace(rules, terms="half"), baseline).slots == 3_500


def test_matches_are_kept_and_not_held_again(tmp_path: Path) -> None:
    rules, kept = Rules(("naive", "random"), SHORT, budget=3), tmp_path / "matches.jsonl"
    first = run_engine_benchmark(rules, [CELL], print, kept)
    line = kept.read_text()
    assert len(line.splitlines()) == 1
    changed = json.loads(line)
    changed["found"][0]["price"] = 123.0
    kept.write_text(json.dumps(changed) + "\n" + line[:40])  # and one that was cut off
    again = run_engine_benchmark(rules, [CELL], print, kept)
    assert again[0].found[0].price == 123.0
    assert again[0].found[1] == first[0].found[1]
    other = run_engine_benchmark(replace(rules, budget=2), [CELL], print, kept)
    assert other[0].found[1].evaluations == 2


def test_results_of_an_older_version_are_read(tmp_path: Path) -> None:
    rules, kept = Rules(("naive",), SHORT, budget=1), tmp_path / "matches.jsonl"
    first = run_engine_benchmark(rules, [CELL], print, kept)
    kept.write_text(kept.read_text().replace('"price"', '"cost"'))
    assert load_results(kept, rules) == {CELL: first[0]}


def test_a_ratio_is_of_geometric_means_over_what_kept_the_constraints() -> None:
    matches = [
        EngineResults(replace(CELL, seed=0), (find("skopt", 10.0), find("gp", 8.0))),
        EngineResults(replace(CELL, seed=1), (find("skopt", 40.0), find("gp", 2.0, met=False))),
        EngineResults(replace(CELL, n_res=3), (find("skopt", 10.0), find("gp", 10.0))),
        EngineResults(replace(CELL, n_res=4), (find("skopt", math.nan, met=False), find("gp", math.nan, met=False))),
    ]
    baseline, gp = summarise_engines(matches)
    assert (baseline.engine, gp.engine) == ("skopt", "gp")
    assert gp.searches == 3  # the setting in which nobody keeps the constraints does not count
    assert gp.kept == pytest.approx(2 / 3)
    assert gp.settings_kept == pytest.approx(1 / 2)
    assert gp.ratio == pytest.approx(math.sqrt(8.0 / 20.0 * 1.0))
    assert gp.worst == pytest.approx(1.0)
    assert gp.no_higher == 1.0
    assert baseline.ratio == pytest.approx(1.0)
    assert [row["gp"]["kept"] for row in list_settings(matches)] == [1, 1, 0]


def test_the_command_prints_a_table_and_the_same_as_json() -> None:
    flags = ["--engine", "random", "--engine", "naive", "--application", "pipeline", "--n-res", "1", "--r-max", "0.05"]
    flags += ["--eta-v", "0.2", "--eta-r", "0.5", "--budget", "2", "--slots", "4000"]
    shown = CliRunner().invoke(main, ["lab", "compare-engines", *flags])
    assert shown.exit_code == 0, shown.output
    assert [title in shown.output for title in ("As published", "Equal slots")] == [True, True]
    assert "random" in shown.output
    document = json.loads(CliRunner().invoke(main, ["lab", "compare-engines", *flags, "--json"]).stdout)
    assert list(document) == ["published", "equal"]
    for part in document.values():
        assert {line["engine"] for line in part["engines"]} == {"random", "naive"}
        assert part["matches"][0]["cell"]["eta_v"] == 0.2
    alone = CliRunner().invoke(main, ["lab", "compare-engines", *flags, "--terms", "half"])
    assert "Half the slots" in alone.stdout
    assert "As published" not in alone.stdout


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--engine", "foo"], "there is no engine"),
        (["--r-max", "0.001"], "services alone"),
        (["--application", "x"], "pipeline"),
    ],
)
def test_what_cannot_be_searched_is_refused_at_once(flags: list[str], told: str) -> None:
    result = CliRunner().invoke(main, ["lab", "compare-engines", *flags])
    assert result.exit_code == 2
    assert told in result.output
