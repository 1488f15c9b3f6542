"""An attached scaler on a real standalone cluster: a rate that triples and falls back, and all that may break.

What it is held against: the simulator's plant with a backlog, under the same policy, trace and bounds, replicas
coming as late as they came here. What happened is read off the files of the run.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from scaler.link.credential import read_token_file
from tests.live.proof_bed import (
    Seen,
    await_it,
    await_state,
    draw,
    expect_totals,
    finish,
    make_objective,
    read_lines,
    running,
)  # fmt: skip
from tests.live.proof_faults import Lock, killable_manager, killable_worker, move_away, move_back
from tests.live.proof_forecast import Forecast, find_end, forecast, make_moments
from tests.live.proof_scene import (
    BELIEVED,
    BOUND,
    CALM,
    CONSTANT,
    COST,
    END,
    FALL,
    HIGH,
    RISE,
    SMALL,
    WEIGHTS,
    make_setup,
    make_worker,
)
from tests.live.proof_stream import APP, OPERATOR, Setup
from tuner.demo.cluster import Worker, find_page, start_cluster
from tuner.demo.demo_run import PEOPLE, SCALERS, name_token_file, pursue, read_state
from tuner.history.live_status import Manager

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.xdist_group("spark")]
SPARE = 1.3  # of what the simulator predicts


THRIFTY = {"perf": 0.4, "rcf": 0.02, "res": 0.58}  # so that what is idle goes within the minutes that a test may take


@pytest.fixture(scope="module")
def setup() -> Setup:
    """In slots that are longer than the longest batches."""
    return replace(make_setup(), slot_s=10.0, linger_s=25.0, measured=True)


@pytest.fixture(scope="module")
def objective(setup: Setup) -> dict[str, Any]:
    return make_objective(setup, BOUND, CONSTANT, THRIFTY, "planner", BELIEVED)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, setup: Setup, objective: dict[str, Any]) -> Seen:
    folder = tmp_path_factory.mktemp("rising")
    with start_cluster(folder / "cluster", [make_worker()]) as master:
        here = setup.placed(master, find_page(folder / "cluster"))
        run = folder / "run"
        run.mkdir()
        (run / "objective.json").write_text(json.dumps(objective))
        with running(here, run) as driver:
            told = finish(driver, run, here)
    print(draw(told))
    return told


@pytest.fixture(scope="module")
def predicted(seen: Seen, setup: Setup, objective: dict[str, Any]) -> Forecast:
    """With what a replica took to serve, and records to be served, on this machine at this time."""
    calm, haste = seen.cost_at_rest(RISE), seen.cost_in_haste(setup.most)
    assert seen.start_s is not None
    assert calm is not None
    assert haste is not None
    print(f"a replica served after {seen.start_s:.1f} s (those asked for came in {seen.starts()}); a record took "
          f"{1e3 * calm:.1f} ms of a replica, {1e3 * COST:g} ms of it slept, and {1e3 * haste:.1f} ms where batches "
          f"followed each other")  # fmt: skip
    return forecast(setup, objective, seen.start_s, [(0.0, make_moments(calm)), (RISE, make_moments(haste))])


class TestARateThatTriples:
    def test_a_count_with_state_is_exact(self, seen: Seen) -> None:
        assert seen.totals == expect_totals(seen.levels)
        assert sum(seen.totals.values()) == int(CALM * (END - FALL + RISE) + HIGH * (FALL - RISE))

    def test_replicas_come_and_are_given_back(self, seen: Seen) -> None:
        counts = [(one["time"] - seen.began, one["replicas"].get("small", 0)) for one in seen.replicas]
        most = max(n for when, n in counts if RISE < when < FALL)
        assert most > 1
        assert counts[-1][1] == 1

    def test_it_recovers_in_the_time_that_the_simulator_predicts(self, seen: Seen, predicted: Forecast) -> None:
        late = np.array(seen.means(predicted.slot_s)) > BOUND
        answers, waiting = find_end(late, predicted.slot_s, RISE), seen.drained(RISE)
        print(f"response back after {answers:.1f} s, predicted {predicted.recovered(RISE):.1f} s; backlog gone after "
              f"{waiting:.1f} s, predicted {predicted.drained(RISE):.1f} s")  # fmt: skip
        assert min(waiting, predicted.drained(RISE)) > 0.0  # there was a backlog, here and there
        assert answers <= SPARE * predicted.recovered(RISE)
        assert waiting <= SPARE * predicted.drained(RISE)

    def test_every_slot_has_a_decision_with_a_reason(self, seen: Seen, setup: Setup) -> None:
        times = [line["decision"]["time"] for line in seen.decisions]
        assert times[-1] - times[0] >= seen.levels.seconds - setup.slot_s
        assert [b - a for a, b in pairwise(times)] == [setup.slot_s] * (len(times) - 1)
        assert all(line["decision"]["reason"] for line in seen.decisions)


STEADY = ((85.0, 8.0),)  # for two replicas


def describe() -> dict[str, Any]:
    """As the manager is told it."""
    operator = {"name": OPERATOR, "service_time": BELIEVED.mean, "scv": 0.5, "k_max": 3, "stateful": True}
    return {
        "application": {"name": APP, "operator": [operator]},
        "trace": {"generator": "step", "before": 8.0, "after": 8.0, "slots": 20, "at": 10, "step_s": 5.0},
        "infrastructure": {"node": [{"name": "small", "speedup": 1.0, "price": 1.0}]},
        "qos": {"r_max": BOUND, "eta_v": 0.1, "eta_r": 0.5},
        "weights": WEIGHTS,
        "policy": {"name": "planner"},
        "run": {"slot_s": 5.0},
    }


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A stream on which one after the other fails; when each did, and what was left at the end."""
    folder = tmp_path_factory.mktemp("broken")
    run, at = folder / "run", {}
    with ExitStack() as stack:
        master = stack.enter_context(start_cluster(folder / "cluster", [Worker("127.0.0.2", "small", 1.0, 2, "1400m")]))
        other = Worker("127.0.0.3", "small", 1.0, 2, "1400m")
        victim = stack.enter_context(killable_worker(folder / "cluster", other, master))
        serving, url = stack.enter_context(killable_manager(folder))
        lock = Lock(folder)
        stack.callback(lock.release)
        token = read_token_file(name_token_file(folder, SCALERS))
        manager = Manager(url, read_token_file(name_token_file(folder, PEOPLE)), APP)
        stack.callback(manager.close)
        manager.ask("PUT", "", {"document": describe()})
        pursue(manager, WEIGHTS, {OPERATOR: BOUND}, "to be broken")
        page = find_page(folder / "cluster")
        setup = Setup(
            master,
            page,
            STEADY,
            COST,
            (SMALL,),
            {"small": 2},
            k_max=3,
            piece=8,
            linger_s=15.0,
            manager=url,
            token=token,
        )
        with running(setup, run) as driver:
            began = await_state(driver, run, "streaming", 90.0)["began"]

            def wait(second: float) -> None:
                await_it(driver, run, lambda: time.time() >= began + second, second + 60.0, f"second {second}")

            for second, name, break_it in (
                (8.0, "worker", victim.kill),
                (14.0, "database", lambda: move_away(folder)),
                (27.0, "database back", lambda: move_back(folder)),
                (30.0, "manager", serving.kill),
                (36.0, "manager back", serving.start),
                (39.0, "database locked", lock.acquire),
                (52.0, "database open", lock.release),
                (55.0, "driver", lambda: None),
            ):
                wait(second)
                break_it()
                at[name] = time.time() - began
            await_it(driver, run, lambda: len(read_lines(run / "batches.jsonl")) > 2, 60.0, "a third batch")
            at["driver"] = time.time() - began
            at["batches before"] = len(read_lines(run / "batches.jsonl"))
            kill(read_state(run)["pid"])
        with running(setup, run) as driver:
            seen = finish(driver, run, setup)
        print(draw(seen))
        print(at)
        kept = await_decisions(manager, len(seen.decisions))
    return {"seen": seen, "at": at, "kept": kept, "logs": [p.read_text() for p in sorted(run.glob("driver*.log"))]}


def kill(process: int) -> None:
    import os
    import signal

    os.kill(process, signal.SIGKILL)


def await_decisions(manager: Manager, count: int) -> list[dict[str, Any]]:
    """The manager's record, once all is told or 20 s have passed."""
    limit = time.monotonic() + 20.0
    while len(rows := manager.list_all("decisions")) < count and time.monotonic() < limit:
        time.sleep(0.5)
    return rows


AWAY = (("database", "database back"), ("manager", "manager back"), ("database locked", "database open"))


class TestWhatBreaks:
    def test_totals_are_exact_whatever_was_killed(self, broken: dict[str, Any]) -> None:
        seen = broken["seen"]
        assert broken["at"]["batches before"] > 2
        assert len(broken["logs"]) == 2
        assert seen.totals == expect_totals(seen.levels)

    def test_a_killed_worker_is_made_up_for(self, broken: dict[str, Any]) -> None:
        seen, at = broken["seen"], broken["at"]["worker"]
        counts = [(one["time"] - seen.began, one["replicas"].get("small", 0)) for one in seen.replicas]
        assert [n for when, n in counts if when < at][-1] == 2
        told = [line["decision"]["seen"].get("notes", []) for line in seen.decisions if line["told"] - seen.began > at]
        assert any(
            (note["code"], note["data"]["node_type"]) == ("replica_lost", "small")
            for notes in told
            for note in notes
            if note["data"]
        )
        assert "operator 'count' lost a replica on small" in broken["logs"][0]
        assert min(n for when, n in counts if at < when < at + 25.0) == 1
        assert [n for when, n in counts if at < when < broken["at"]["driver"]][-1] == 2

    def test_nothing_that_was_decided_while_the_manager_or_its_database_was_away_is_lost(
        self, broken: dict[str, Any]
    ) -> None:
        told = {(line["decision"]["time"], line["decision"]["kind"]) for line in broken["seen"].decisions}
        kept = {(row["time"], row["kind"]) for row in broken["kept"]}
        spans = [(broken["at"][gone] - 5.0, broken["at"][back]) for gone, back in AWAY]
        began = broken["seen"].began
        away = [[t for t, _ in told if first <= t - began <= last] for first, last in spans]
        assert all(away)
        assert told <= kept

    def test_the_scaler_held_and_said_why_and_went_on(self, broken: dict[str, Any]) -> None:
        seen, at = broken["seen"], broken["at"]
        after = [line["decision"] for line in seen.decisions if line["decision"]["time"] - seen.began > at["driver"]]
        held = [one for one in after if one["kind"] == "HELD"]
        assert held
        assert all(one["reason"].startswith("Held: ") for one in held)
        assert any(one["kind"] != "HELD" for one in after)
        assert after[-1]["objective_version"] == 1

    def test_the_log_says_what_was_away_and_what_was_restored(self, broken: dict[str, Any]) -> None:
        first, second = broken["logs"]
        assert "cannot be reached" in first
        assert "it is over that the manager" in first
        assert "goes on from checkpoint" in second
