"""Searches killed again and again: nothing that ended is lost or done twice, and all ends the same."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.search.processes import Tuners, open_tuners
from tests.search.runs import APP, add, all_figures, read_objectives, read_run, read_runs, recommended
from tuner.search.recommendation import PROVED
from tuner.store.connection import Store, open_store
from tuner.store.maintenance import check_store
from tuner.store.records import ObjectiveRecord, Trial

pytestmark = pytest.mark.slow
ENDED = (0, 1)  # exit codes: with a recommendation, and without one
SLOTS, BUDGET = 20_000, 14
SOON = 0.15  # seconds within which a kill follows the trial that it waited for


@dataclass(frozen=True)
class Whole:
    """A run that nobody disturbed."""

    trials: list[Trial]
    objective: ObjectiveRecord | None


@pytest.fixture(scope="module")
def tuners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tuners]:
    with open_tuners(tmp_path_factory.mktemp("log") / "said") as opened:
        yield opened


def begin(address: object, batch: int) -> list[object]:
    return ["tune", APP, "--store", address, "--budget", BUDGET, "--batch", batch, "--cold"]


def resume(address: object) -> list[object]:
    return ["tune", APP, "--store", address, "--resume"]


@pytest.mark.parametrize("wanted", [2, pytest.param(20, marks=pytest.mark.long)])
def test_kills_at_random_moments(store: Store, address: str, tuners: Tuners, tmp_path: Path, wanted: int) -> None:
    """On the server in batches. A run that ends before so many processes were killed is followed by another."""
    batch, seed = (1, 1) if store.address.path is not None else (3, 2)
    whole = run_undisturbed(tmp_path / "whole.db", tuners, batch)
    chance = random.Random(seed)
    add(store, slots=SLOTS)
    kills = 0
    while kills < wanted:
        kills += end_by_kills(store, address, tuners, batch, chance, wanted - kills)
        run = read_runs(store)[0]
        trials = read_run(store, run.id or 0)
        assert [trial.number for trial in trials] == list(range(len(whole.trials)))
        assert all_figures(trials) == all_figures(whole.trials)
        proposed = [one for one in read_objectives(store) if one.evidence["run"] == run.id]
        assert [recommended(one) for one in proposed] == ([recommended(whole.objective)] if whole.objective else [])
        assert run.state == "done"
    assert check_store(store) == []


def run_undisturbed(path: Path, tuners: Tuners, batch: int) -> Whole:
    with closing(open_store(path)) as store:
        add(store, slots=SLOTS)
        assert tuners.run(*begin(path, batch)) in ENDED, tuners.said()
        return Whole(read_run(store, 1), next(iter(read_objectives(store)), None))


def end_by_kills(store: Store, address: str, tuners: Tuners, batch: int, chance: random.Random, most: int) -> int:
    """A run from its beginning to its end, its processes killed when random numbers of trials are there, or a little
    later; how many were."""
    moments = sorted(chance.randrange(BUDGET + PROVED) for _ in range(most))
    known, kills = len(read_runs(store)), 0
    child = tuners.start(*begin(address, batch))
    wait_until(lambda: len(read_runs(store)) > known, tuners, child)
    run_id = read_runs(store)[0].id or 0
    kept: list[Trial] = []
    for moment in moments:
        wait_until(lambda count=moment: len(read_run(store, run_id)) >= count, tuners, child)  # type: ignore[misc]
        time.sleep(chance.uniform(0.0, SOON))
        kept = read_on(store, run_id, kept)
        code = tuners.kill(child)
        kept = read_on(store, run_id, kept)
        if code != -signal.SIGKILL:  # it had ended
            assert code in ENDED, tuners.said()
            return kills
        kills += 1
        if read_runs(store)[0].state == "done":  # killed while it told what it had found
            return kills
        child = tuners.start(*resume(address))
    assert tuners.wait(child) in ENDED, tuners.said()
    read_on(store, run_id, kept)
    return kills


def wait_until(there: Callable[[], bool], tuners: Tuners, child: int) -> None:
    while not there() and tuners.runs(child):
        time.sleep(0.002)


def read_on(store: Store, run_id: int, before: Sequence[Trial]) -> list[Trial]:
    """The trials of the run, those before as they were."""
    trials = read_run(store, run_id)
    assert [repr(trial) for trial in trials[: len(before)]] == [repr(trial) for trial in before]
    assert [trial.number for trial in trials] == list(range(len(trials)))
    return trials
