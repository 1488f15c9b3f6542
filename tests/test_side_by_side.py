"""Operators replayed side by side come to the same as one after the other, and a failure ends them all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scaler.model.task import Moments
from sim import simulate as simulation
from sim.application import Application, Edge, Operator
from sim.infrastructure import find_infrastructure
from sim.setting import Setting
from sim.side_by_side import LEAST_SLOTS, cut_pieces, replay_side_by_side
from sim.simulate import Run, simulate
from sim.trace import Trace
from tests.examples import make_rates

NAMES = ("parse", "split", "enrich", "count")
EDGES = (("parse", "split"), ("parse", "enrich"), ("split", "count"), ("enrich", "count"))


def make_diamond(policy: str, slots: int) -> Setting:
    moments = Moments(1 / 180, 0.5 / 180**2)
    operators = tuple(Operator(name, moments, k_max=4) for name in NAMES)
    application = Application(operators, tuple(Edge(*edge, selectivity=0.5) for edge in EDGES))
    return Setting(application, find_infrastructure("A", 2), Trace(make_rates(slots)), policy, 0.15)


def figures(run: Run) -> tuple[object, ...]:
    means = run.cost, run.violations, run.reconfigurations, run.resources
    return (*means, *run.replicas.ravel().tolist(), *(tuple(values.tolist()) for values in run.blocks.values()))


@pytest.mark.parametrize("policy", ["threshold-c", "ql"])
def test_figures_are_those_of_one_core(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def count(advance: object, sequence: list[int], feeds: object, pieces: list[slice]) -> None:
        calls.append(len(pieces))
        replay_side_by_side(advance, sequence, feeds, pieces)  # type: ignore[arg-type]

    monkeypatch.setattr(simulation, "replay_side_by_side", count)
    setting = make_diamond(policy, LEAST_SLOTS + 77)
    alone, beside = simulate(setting, 3), simulate(setting, 3, cores=2)
    assert figures(beside) == figures(alone)
    assert len(calls) == 1
    assert calls[0] > 10


def test_shared_supply_is_replayed_in_lockstep_on_any_number_of_cores() -> None:
    setting = make_diamond("threshold-c", 300)
    few = replace(setting, together=True)
    assert figures(simulate(few, cores=4)) == figures(simulate(few))


def test_each_piece_comes_after_those_that_feed_it() -> None:
    feeds, done = [[], [0], [0], [1, 2]], list[tuple[int, int]]()
    pieces = cut_pieces(50, 3, pieces=5)
    replay_side_by_side(lambda i, piece: done.append((i, piece.start)), [0, 1, 2, 3], feeds, pieces)
    assert len(done) == 4 * len(pieces)
    for i, start in done:
        assert all(done.index((j, start)) < done.index((i, start)) for j in feeds[i])


def test_a_failure_is_raised_and_nobody_waits_for_it() -> None:
    def advance(i: int, piece: slice) -> None:
        if i == 1 and piece.start > 10:
            raise ArithmeticError("lost")

    with pytest.raises(ArithmeticError, match="lost"):
        replay_side_by_side(advance, [0, 1, 2], [[], [0], [1]], cut_pieces(50, 3, pieces=5))


@pytest.mark.parametrize(("slots", "block"), [(100, 3), (1, 1), (64, 64), (1000, 7)])
def test_pieces_hold_every_slot_once_in_whole_blocks(slots: int, block: int) -> None:
    pieces = cut_pieces(slots, block)
    assert np.concatenate([np.arange(slots)[piece] for piece in pieces]).tolist() == [*range(slots)]
    assert all(piece.start % block == 0 for piece in pieces)
