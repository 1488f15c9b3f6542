"""The published tables: what holds nothing random comes out to the printed digit, the rest within its error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scaler.model.errors import BadInput
from sim.simulate import Run, simulate
from tuner.lab.policy_benchmark import HALF_DIGIT
from tuner.lab.published.memory_figures import count_deployments, encoding_lengths, measure_representations
from tuner.lab.published.tables import (
    EXACT,
    PublishedCell,
    compare_cell,
    load_workload,
    make_cell_setting,
    read_cells,
    run_cell,
)

TRACES = Path(__file__).parents[2] / "shared" / "traces"
needs_traces = pytest.mark.skipif(not TRACES.exists(), reason=f"the traces folder {TRACES} is not there")
CELLS = [cell for table in (2, 3, 4, 5) for cell in read_cells(table)]
UNSTABLE = "QL+PDS+"  # one draw of the model's errors was published


def name(cell: PublishedCell) -> str:
    return f"{cell.policy} {cell.where}"


def test_every_published_cell_is_there() -> None:
    assert len(CELLS) == 4 * 54
    assert len({(c.table, c.where, c.policy) for c in CELLS}) == len(CELLS)


@needs_traces
@pytest.mark.parametrize("cell", [c for c in CELLS if c.policy in EXACT and c.n_res == 3], ids=name)
def test_cells_without_chance_come_out_to_the_printed_digit(cell: PublishedCell) -> None:
    (run,) = run_cell((cell, TRACES, 1))
    assert abs(run.cost - cell.cost) <= HALF_DIGIT * 1.01
    assert abs(run.resources - cell.resources) <= 0.00501


@needs_traces
@pytest.mark.slow
@pytest.mark.parametrize("cell", [c for c in CELLS if c.policy in EXACT and c.n_res > 3], ids=name)
def test_larger_cells_without_chance_too(cell: PublishedCell) -> None:
    test_cells_without_chance_come_out_to_the_printed_digit(cell)


@needs_traces
@pytest.mark.slow
@pytest.mark.parametrize("cell", [c for c in CELLS if c.policy == "QL"], ids=name)
def test_q_learning_agrees(cell: PublishedCell) -> None:
    comparison = compare_cell(cell, run_cell((cell, TRACES, 10)))
    assert comparison.agrees, comparison


@needs_traces
@pytest.mark.slow
def test_pds_plus_agrees_where_its_figure_is_one_draw_among_ours() -> None:
    """Each published figure is one draw: over 24 cells few may lie beyond two standard deviations of ours."""
    beyond = 0
    for cell in (c for c in CELLS if c.policy == UNSTABLE):
        costs = [run.cost for run in run_cell((cell, TRACES, 10))]
        spread = np.std(costs, ddof=1) * np.sqrt(1.1) + HALF_DIGIT
        beyond += abs(np.mean(costs) - cell.cost) > 2.26 * spread  # Student's t, 9 degrees of freedom, 95 %
    assert beyond <= 5  # binomial(24, .05): more than 5 has probability .0011


@needs_traces
def test_the_last_digit_of_the_trace_matters() -> None:
    """The comparison can fail: one slot of the rate thrown away in a hundred moves the cost beyond the digit."""
    cell = next(c for c in CELLS if c.policy == "QL+PDS" and c.where == "taxi K10 A N3")
    setting = make_cell_setting(cell, load_workload("taxi", TRACES))
    changed = type(setting.trace)(np.delete(setting.trace.rates, slice(None, None, 100)))
    run = simulate(replace(setting, trace=changed))
    assert abs(run.cost - cell.cost) > HALF_DIGIT


def make_runs(*costs: float) -> list[Run]:
    return [Run("x", i, 1, c, 0.0, 0.0, 0.0, {}, np.zeros((1, 1)), 0, 0.0) for i, c in enumerate(costs)]


def test_agreement_is_two_per_cent_or_two_standard_errors() -> None:
    cell = CELLS[0]
    assert compare_cell(cell, make_runs(cell.cost * 1.019)).agrees
    assert not compare_cell(cell, make_runs(cell.cost * 1.021)).agrees
    wide = make_runs(*(cell.cost * f for f in (0.8, 1.2, 0.9, 1.3)))
    assert compare_cell(cell, wide).agrees
    assert "not stable" in compare_cell(cell, wide).remark


def test_missing_traces_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"taxi\.txt\.gz is not there; --traces names the folder"):
        load_workload("taxi", tmp_path)


def test_memory_counts_are_those_of_the_definitions() -> None:
    by_hand = sum(1 for a in range(11) for b in range(11) for c in range(11) if 0 < a + b + c <= 10)
    assert count_deployments(3, 10) == by_hand
    assert count_deployments(10, 20) == 30_045_014
    assert measure_representations(3, 10)["Q table"] == 285 * 30 * 7 * 8
    assert encoding_lengths(3, 10) == {"minimal": 4, "reduced1": 31, "reduced2": 60, "large": 315}
