"""`tuner lab reproduce` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.commands import refuse, succeed
from tuner.cli import main, reproduce_command
from tuner.cli.reproduce_command import sum_up
from tuner.lab.paper import PAPERS, SEEDS, PaperOutcome
from tuner.lab.published.figures import FIGURE_SEEDS, FIGURES, find_figure
from tuner.lab.published.tables import load_workload

TRACES = Path(__file__).parents[2] / "shared" / "traces"
QUICK = ("fig27a", "fig27b")
needs_traces = pytest.mark.skipif(not TRACES.exists(), reason=f"the traces folder {TRACES} is not there")


def run(*arguments: str):
    return CliRunner().invoke(main, ["lab", "reproduce", *arguments])


@needs_traces
def test_cells_as_json_and_as_a_table_say_the_same() -> None:
    only = ("table2", "--traces", str(TRACES), "--policy", "TB-C", "--policy", "TB-S")
    cells = json.loads(run(*only, "--json").stdout)
    assert len(cells) == 12
    assert all(cell["agrees"] for cell in cells)
    table = run(*only).stdout
    for cell in cells:
        assert f"{cell['published']:.4f}" in table
        assert f"{cell['ours']:.4f}" in table
    assert "12 of 12 cells within" in table


def test_what_is_not_run_is_named() -> None:
    assert "Not run: DQL, DQL+PDS, DQL+PDS+" in sum_up([], all_asked=False)
    assert "Not run" not in sum_up([], all_asked=True)


@needs_traces
@pytest.mark.parametrize("figure", [pytest.param(f, marks=() if f in QUICK else pytest.mark.long) for f in FIGURES])
def test_every_figure_has_a_verdict_on_each_claim(figure: str) -> None:
    outcome = json.loads(run(figure, "--traces", str(TRACES), "--seeds", "1", "--json").stdout)
    assert outcome["paper"] == figure
    if figure == "fig27a":
        assert outcome["remarks"] == ["Not run: every cell of this figure (minutes a cell; --deep runs them)."]
    else:
        assert len(outcome["claims"]) > 1
        assert {claim["holds"] for claim in outcome["claims"]} <= {True, False}
        assert len(outcome["tables"][0]["rows"]) > 2


def test_figures_have_functions_of_their_own() -> None:
    assert len({find_figure(name) for name in FIGURES}) == len(FIGURES)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("table9",), "'table9' is not one of"),
        ((), "name one table, figure or paper, or give --all"),
        (("table2", "--all"), "name one table, figure or paper, or give --all"),
        (("table2", "--policy", "XL"), "'XL' is not one of"),
        (("table2", "--seeds", "0"), "0 is not in the range"),
        (("table2", "--traces", "nowhere"), "taxi.txt.gz is not there; --traces names the folder"),
    ],
)
def test_mistakes_get_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_all_computes_every_table_figure_and_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(name: str, traces: Path, seeds: int, *rest: object) -> PaperOutcome:
        asked.append((name, seeds))
        return PaperOutcome(name, "noted", (), ())

    monkeypatch.setattr(reproduce_command, "compute", note)
    printed = json.loads(run("--all", "--json").stdout)
    assert list(printed) == [*reproduce_command.TABLES, *FIGURES, *PAPERS] == [name for name, _ in asked]
    assert dict(asked) == dict.fromkeys(printed, reproduce_command.DEFAULT_SEEDS) | SEEDS | FIGURE_SEEDS
    assert "noted" in run("--all").stdout


def test_stand_ins_are_made_where_the_papers_traces_are_missing(tmp_path: Path) -> None:
    assert "tuner lab traces FOLDER" in refuse("lab", "reproduce", "table2", "--traces", tmp_path)
    succeed("lab", "traces", tmp_path / "made")
    assert load_workload("taxi", tmp_path / "made").rates.size == 400_001
    assert 1_000.0 < load_workload("tweets", tmp_path / "made").rates.max() < 10_000.0
    assert "is there already" in refuse("lab", "traces", tmp_path / "made")
