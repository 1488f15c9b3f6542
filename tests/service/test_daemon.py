"""What the daemon decides: when an application is due, on what it tunes, what it pushes, and what people tell it."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scaler.agent.decider import Decider
from scaler.model.errors import BadInput
from scaler.model.nodes import Deployment
from scaler.model.policy import Observation, Policy
from scaler.model.task import Moments, Weights
from tests.service.world import NODES, SLOT_S, START, World, describe, into, live, orders_of, register
from tuner.retuning.causes import compare_blocks, find_cause, find_drift, find_error, find_missed_qos, predict
from tuner.retuning.loop import run_once
from tuner.retuning.refit import fit_stretches, refit
from tuner.retuning.state import DaemonContext, RetuningState, is_requested
from tuner.rollout.improvement import compare, find_similar
from tuner.rollout.issued_orders import issue_orders
from tuner.rollout.push import propose_objective, push
from tuner.rollout.retuning_settings import DEFAULTS, RetuningSettings, read_retuning, read_settings
from tuner.search.recommendation import make_model
from tuner.search.search_plan import SearchPlan, TuneOptions, describe_run, make_plan
from tuner.store.applications import add_application, list_surrogates, load_application, save_surrogate
from tuner.store.audit_log import list_events
from tuner.store.connection import Store
from tuner.store.json_fields import read_fields
from tuner.store.objectives import list_objectives, load_objective
from tuner.store.orders import set_control
from tuner.store.records import Control, EventRecord, ObjectiveRecord, RetuningRecord
from tuner.store.runs import add_request, find_retuning, list_runs, save_retuning
from tuner.store.samples import load_samples
from tuner.surrogate.surrogate import find_operator, from_record, to_record, worst

pytestmark = pytest.mark.parametrize("address", ["sqlite"], indirect=True)
APP = "shop"
TAKES = Moments(0.02, 0.0002)
SETTINGS = {
    "budget": 3,
    "engine": "random",
    "check_s": 600.0,
    "shadow_slots": 20,
    "canary_slots": 40,
    "watch_slots": 40,
}
WEIGHTS = Weights(0.6, 0.2, 0.2)


@pytest.fixture
def world(store: Store) -> World:
    """Registered, and nothing else."""
    made = World(APP, {"parse": TAKES, "count": TAKES}, start=(6,))
    register(store, APP, describe(APP, made.truth, 0.12), SETTINGS)
    return made


def look(store: Store, world: World) -> RetuningRecord:
    run_once(store, lambda: world.now)
    with store.read() as session:
        watch = find_retuning(session, world.app)
    assert watch is not None
    return watch


def events(store: Store, *what: str) -> list[EventRecord]:
    with store.read() as session:
        return list_events(session, APP, what or None, limit=None)


def ask(store: Store, word: str, **wish: Any) -> None:
    with store.begin() as session:
        add_request(session, APP, {word: {"who": "ann", "when": START, **wish}})


def fit_now(store: Store, world: World) -> None:
    with store.begin() as session:
        fitted = refit(session, APP, RetuningSettings(), world.now)
        assert fitted is not None
        save_surrogate(session, to_record(fitted, world.now))


def full(store: Store, parse: float, count: float, now: float) -> int:
    with store.begin() as session:
        made = propose_objective(session, APP, WEIGHTS, {"parse": parse, "count": count}, "ann", now)
        push(session, APP, made.version or 0, "full", "ann", "a test", now)
    return made.version or 0


def test_settings_are_whole_and_checked(address: str) -> None:
    assert read_settings({}) == DEFAULTS == read_settings(DEFAULTS)
    assert read_retuning({"budget": 7.0, "sources": ["/logs"]}) == replace(
        RetuningSettings(), budget=7, sources=("/logs",)
    )
    cases: list[tuple[dict[str, Any], str]] = [
        ({"budgets": 1}, "retuning has no setting 'budgets'; it has enabled, period_s"),
        ({"budget": 0}, "budget is '0', and must be a whole number from 1"),
        ({"budget": True}, "budget is 'True', and must be a whole number from 1"),
        ({"period_s": float("nan")}, "period_s is 'nan', and must be a number"),
        ({"alpha": 0.9}, "alpha is '0.9', and must be a number from 0.000001 to 0.5"),
        ({"engine": "magic"}, "engine is 'magic', and must be one of gp, skopt"),
        ({"sources": "/logs"}, "sources is '/logs', and must be a list of paths"),
        ({"enabled": 1}, "enabled is '1', and must be true or false"),
        ({"most": 0.5}, "most is '0.5', and must be a number from 1 to 100"),
    ]
    for document, says in cases:
        with pytest.raises(BadInput, match=says.replace(".", r"\.")):
            read_retuning(document)


def test_it_is_due_by_its_period_and_not_while_it_pauses(store: Store, world: World) -> None:
    settings = RetuningSettings(period_s=3600.0)

    def why(now: float, **detail: Any) -> str | None:
        with store.read() as session:
            reason = find_cause(session, APP, settings, read_fields(RetuningState, detail), now)
        return None if reason is None else reason.why

    assert why(START) == "it was never tuned"
    assert why(START + 3599.0, tuned=START) is None
    assert why(START + 7200.0, tuned=START) == "it was tuned 2.0 h ago, and is to be every 1 h"
    assert why(START + 7200.0, tuned=START, not_before=START + 7201.0) is None
    assert why(START + 7200.0, tuned=START, paused="ann") is None
    settings = replace(settings, enabled=False)
    assert why(START) is None


def test_service_times_that_drift_make_it_due_and_chance_does_not(store: Store, world: World) -> None:
    live(world, store, 90)
    fit_now(store, world)
    live(world, store, 60)
    with store.read() as session:
        assert find_drift(session, APP) is None
    world.truth = {**world.truth, "count": Moments(0.024, 0.0003)}
    live(world, store, 30)
    with store.read() as session:
        reason = find_drift(session, APP)
    assert reason is not None
    assert reason.why.startswith("operator 'count': in 90 windows since the fit the mean service time became 1.0")


def test_it_is_fitted_on_what_came_after_a_drift(store: Store, world: World) -> None:
    live(world, store, 90)
    world.truth = dict.fromkeys(world.truth, Moments(0.024, 0.0003))
    live(world, store, 8)
    with store.read() as session, pytest.raises(BadInput, match="service times have changed within every stretch"):
        fit_stretches(session, APP, load_samples(session, APP), [])
    live(world, store, 82)
    with store.read() as session:
        fitted = fit_stretches(session, APP, load_samples(session, APP), [])
    assert worst(fitted.checks) != "fail"
    assert fitted.start >= START + 90 * SLOT_S
    assert all(operator.mean.value == pytest.approx(0.024, rel=0.02) for operator in fitted.operators)


def test_responses_other_than_predicted_make_it_due(store: Store, world: World) -> None:
    live(world, store, 90)
    fit_now(store, world)
    with store.read() as session:
        assert find_error(session, APP, START) is None
    until = world.now
    world.contention, world.busy = 1.6, 0.0  # which samples of this world would tell, and decisions tell anyway
    live(world, store, 60)
    with store.read() as session:
        reason = find_error(session, APP, until)
    assert reason is not None
    assert "response times were predicted to be 0." in reason.why


def test_slots_are_predicted_in_the_quantile_that_bounds_are_about(store: Store, world: World) -> None:
    live(world, store, 90)
    with store.read() as session:
        fitted = refit(session, APP, RetuningSettings(), world.now)
    assert fitted is not None
    operator = find_operator(fitted, "parse")
    mean, p95 = (predict(operator, {"small": 1.0}, 20.0, {"small": 1}, quantile) for quantile in (None, 0.95))
    assert mean is not None
    assert p95 is not None
    assert p95 > 1.5 * mean
    assert predict(operator, {"small": 1.0}, 1e6, {"small": 1}, 0.95) is None


def test_a_few_odd_slots_do_not_make_a_surrogate_wrong(address: str) -> None:
    assert compare_blocks([(0.1, 1.0)] * 59) is None
    assert compare_blocks([(0.1, 0.2)] * 60) == pytest.approx(0.5)
    assert compare_blocks([(0.1, 0.1)] * 90 + [(0.1, 0.2)] * 30) is None


def test_broken_qos_makes_it_due(store: Store, world: World) -> None:
    live(world, store, 40)
    with store.read() as session:
        assert find_missed_qos(session, APP, START, 0.05) is None
    world.truth = dict.fromkeys(world.truth, Moments(0.06, 0.002))
    live(world, store, 40)
    with store.read() as session:
        reason = find_missed_qos(session, APP, START + 40 * SLOT_S, 0.05)
    assert reason is not None
    assert reason.why.startswith("R_max was broken in 100 % of 40 slots since it was tuned")


def test_without_samples_nothing_is_tuned_and_it_tries_again_ever_later(store: Store, world: World) -> None:
    waits = []
    for _ in range(3):
        watch = look(store, world)
        waits.append(watch.due - world.now)
        assert watch.phase == "idle"
        world.slot += round((watch.due - world.now) / SLOT_S)
    assert waits == [600.0, 1200.0, 2400.0]
    says = [event.message for event in events(store, "not tuned")]
    assert len(says) == 3
    assert "no agent of 'shop' reported a sample" in says[0]


def test_nothing_is_tuned_on_a_surrogate_that_fails_a_check(store: Store, world: World) -> None:
    world.low = world.high = 60.0  # replicas are hardly ever busy, so that nobody knows what they do when they are
    live(world, store, 40)
    look(store, world)
    assert [event.what for event in events(store)] == ["not tuned"]
    assert "surrogate 1 failed a check (count, load: utilisation was seen from" in events(store)[0].message
    with store.read() as session:
        assert list_runs(session, APP) == []


def test_one_applications_failure_is_not_the_others(store: Store, world: World, caplog: Any) -> None:
    with store.begin() as session:
        save_retuning(session, "broken", {"nonsense": 1}, START - 1.0)
        save_retuning(session, "gone", read_settings({}), START - 1.0)  # watched, and described nowhere
    with caplog.at_level(logging.WARNING):
        watch = look(store, world)
    assert watch.detail["fails"] == 1  # it was attended to, after both
    with store.read() as session:
        others = [find_retuning(session, app) for app in ("broken", "gone")]
    assert all(other is not None and other.owner is None and other.due > world.now for other in others)


def test_people_pause_resume_stop_and_ask(store: Store, world: World) -> None:
    live(world, store, 90)
    ask(store, "pause")
    assert look(store, world).detail["paused"] == "ann"
    world.slot += 60 * 24 * 2  # long due by its period
    assert events(store, "tuning started") == []
    ask(store, "resume")
    ask(store, "tune", budget=2, seed=7)
    watch = look(store, world)
    assert not is_requested(watch)
    with store.read() as session:
        runs = list_runs(session, APP)
    assert [(run.budget, run.seed, run.state) for run in runs] == [(2, 7, "done")]
    assert [e.what for e in reversed(events(store))][:4] == ["paused", "resumed", "tuning started", "tuning ended"]
    assert events(store, "tuning started")[0].message == "tuning shop (run 1): ann asked for it"


def test_requested_tuning_starts_at_once(store: Store, world: World) -> None:
    """It stopped in phase fit until the next regular check, minutes or a day later."""
    live(world, store, 90)
    with store.begin() as session:
        save_retuning(session, APP, read_settings(SETTINGS), world.now + 785.0)
    ask(store, "tune", budget=1)
    assert look(store, world).phase != "fit"
    assert [e.what for e in reversed(events(store))][:2] == ["tuning started", "tuning ended"]


def test_a_search_is_stopped_between_two_trials(store: Store, world: World) -> None:
    """By whoever has it in hand when the wish is seen: here by the pass after the one that was interrupted."""
    live(world, store, 90)
    with store.begin() as session:
        add_request(session, APP, {"tune": {"who": "ann", "budget": 50}})
    asked = iter([False] * 12)

    def ended() -> bool:  # as a SIGTERM in the middle of the search
        return next(asked, True)

    run_once(store, lambda: world.now, ending=ended)
    with store.read() as session:
        (run,) = list_runs(session, APP)
    assert (run.state, run.owner) == ("running", None)
    ask(store, "stop")
    watch = look(store, world)
    assert (watch.phase, "run" in watch.detail) == ("idle", False)
    with store.read() as session:
        assert [(r.state, r.failure) for r in list_runs(session, APP)] == [("stopped", "stopped by ann")]
    assert events(store, "tuning ended")[0].message == "ann stopped the tuning of shop"


def test_silent_scalers_hold_a_stage_up_and_are_told_of_once(store: Store, world: World) -> None:
    live(world, store, 30)
    version = full(store, 0.05, 0.05, world.now)
    world.slot += 5
    assert "no agent has reported a decision since it began" in look(store, world).detail["message"]
    world.slot += 60 * 24
    assert look(store, world).phase == "full"
    assert len(events(store, "scaler silent")) == 1
    live(world, store, 45)
    assert look(store, world).phase == "idle"
    with store.read() as session:
        assert load_objective(session, APP, version).evidence["settled"] == world.now


def test_controls_that_run_out_are_told_of(store: Store, world: World) -> None:
    pin = Control(APP, "", "pin", {}, "ann", START, until=START + 600.0)
    with store.begin() as session:
        set_control(session, pin)
        issue_orders(session, APP, START)
    look(store, world)
    assert orders_of(store, APP).guards == {"": {"pin": {}}}  # type: ignore[union-attr]
    world.slot += 11
    look(store, world)
    assert orders_of(store, APP).guards == {}  # type: ignore[union-attr]


@pytest.fixture
def brief(store: Store, world: World) -> SearchPlan:
    live(world, store, 90)
    fit_now(store, world)
    with store.read() as session:
        wanted = TuneOptions(engine="random", budget=3)
        run = describe_run(session, APP, load_application(session, APP), {}, wanted, START)
        return make_plan(session, APP, run.settings, "random", 0, 3)


def made(parse: float, count: float, version: int = 1, **more: Any) -> ObjectiveRecord:
    return ObjectiveRecord(APP, WEIGHTS, {"parse": parse, "count": count}, START, version=version, **more)


def test_better_is_cheaper_beyond_the_noise_or_what_keeps_the_qos(brief: SearchPlan) -> None:
    tight, loose, late = made(0.035, 0.035), made(0.055, 0.055, 2), made(0.3, 0.3, 3)
    cheaper = compare(brief, loose, tight, 0.02)
    assert cheaper.is_better
    assert cheaper.by == "cost"
    assert "less than objective 1" in cheaper.why
    assert not compare(brief, loose, loose, 0.02).is_better
    dearer = compare(brief, tight, loose, 0.02)
    assert not dearer.is_better
    assert "2 % beyond the noise is wanted" in dearer.why
    needed = compare(brief, tight, late, 0.02)
    assert needed.is_better
    assert needed.why.startswith("objective 3 by now breaks R_max in")
    unsure = compare(brief, late, tight, 0.02)
    assert not unsure.is_better
    assert "it keeps the constraints with a confidence of" in unsure.why


def test_the_first_objective_has_to_keep_the_qos(brief: SearchPlan) -> None:
    assert compare(brief, made(0.055, 0.055), None, 0.02).by in ("first", "violations", "reconfigurations")
    assert not compare(brief, made(0.3, 0.3), None, 0.02).is_better


def test_what_stands_is_replayed_as_its_scalers_believe(brief: SearchPlan) -> None:
    """The same bounds, held by scalers who take tuples for much lighter than they are, break R_max."""
    model = make_model(brief.verification.setting, {})
    believed = {name: replace(one, moments=Moments(0.012, 0.00008)) for name, one in model.operators.items()}
    standing = made(0.05, 0.05, evidence={"model": replace(model, operators=believed).to_json()})
    comparison = compare(brief, made(0.05, 0.05, 2), standing, 0.02)
    assert comparison.is_better
    assert (comparison.other_violations or 0.0) > 0.1


def test_what_was_rolled_back_does_not_go_out_again(address: str) -> None:
    bad = made(0.05, 0.05, surrogate_id=4)
    assert find_similar(made(0.051, 0.049, 2, surrogate_id=5), [bad]) is bad  # nearly the same
    assert find_similar(made(0.08, 0.02, 2, surrogate_id=4), [bad]) is bad  # of the same surrogate
    assert find_similar(made(0.08, 0.02, 2, surrogate_id=5), [bad]) is None
    assert find_similar(made(0.08, 0.02, 2), [made(0.05, 0.05)]) is None  # neither has one


def test_reverts_double_the_pause(store: Store, world: World) -> None:
    pauses = []
    for _ in range(3):
        live(world, store, 30)
        full(store, 0.05, 0.05, world.now)
        world.truth = dict.fromkeys(world.truth, Moments(0.2, 0.02))  # nothing could keep R_max
        report = into(store)
        for _ in range(60):
            world.step(orders_of(store, APP), report)
            watch = look(store, world)
            if watch.detail.get("reverts", 0) > len(pauses):
                break
        pauses.append(watch.detail["not_before"] - world.now)
        world.truth = dict.fromkeys(world.truth, TAKES)
        live(world, store, 200)
    assert pauses == [3600.0, 7200.0, 14400.0]
    with store.read() as session:
        assert {one.state for one in list_objectives(session, APP)} == {"reverted"}


def test_a_daemon_that_was_followed_writes_nothing(store: Store, world: World) -> None:
    from tuner.retuning.phases import advance
    from tuner.store.runs import LeaseLost, claim_retuning, release_retuning

    with store.begin() as session:
        stale = claim_retuning(session, APP, "one", time.time())
    assert stale is not None
    with store.begin() as session:
        release_retuning(session, stale)
    with store.begin() as session:
        assert claim_retuning(session, APP, "two", time.time()) is not None
    with pytest.raises(LeaseLost):
        advance(DaemonContext(store, "one", lambda: world.now), stale)
    assert events(store) == []


def test_a_pass_from_the_command_line(store: Store, world: World, address: str) -> None:
    from click.testing import CliRunner

    from tuner.cli.serve_commands import daemon

    done = CliRunner().invoke(daemon, ["--once", "--json", "--store", address], catch_exceptions=False)
    (row,) = json.loads(done.stdout)
    assert (row["application"], row["phase"]) == (APP, "idle")
    assert "no agent of 'shop' reported a sample" in row["message"]
    again = CliRunner().invoke(daemon, ["--once", "--store", address], catch_exceptions=False)
    assert again.stdout == "Nothing was due.\n"
    assert CliRunner().invoke(daemon, ["--json", "--store", address]).exit_code == 2


def test_a_description_that_changes_is_told_to_nobody_by_the_daemon(store: Store, world: World) -> None:
    """The objective says what it said: new service times come with a new one."""
    full(store, 0.05, 0.05, world.now)
    before = orders_of(store, APP)
    with store.begin() as session:
        add_application(session, APP, describe(APP, dict.fromkeys(world.truth, Moments(0.03, 0.0)), 0.12), START)
    look(store, world)
    assert orders_of(store, APP) == before


def test_planner_starts_from_the_surrogates_figures(store: Store, world: World) -> None:
    """From a fitted surrogate through the objective, its orders and the agent to the policy's first capacities."""
    live(world, store, 90)
    fit_now(store, world)
    with store.read() as session:
        fitted = from_record(list_surrogates(session, APP)[0])
    full(store, 0.05, 0.05, world.now)
    orders = orders_of(store, APP)
    pilot = Decider("parse", NODES)
    pilot.step(Observation(world.now, 100.0, 0.5, 0.02, Deployment((4,))), orders, world.now)
    (instance,) = pilot.instances.values()
    assert isinstance(instance.policy, Policy)
    capacity, parse = instance.policy.state.capacity, find_operator(fitted, "parse")
    assert parse.variance is not None
    np.testing.assert_array_equal(instance.policy.problem.speedup, [1.0])
    np.testing.assert_array_equal(capacity.service, [parse.mean.value])  # at speed 1.0
    np.testing.assert_array_equal(capacity.scv, [parse.variance.value / parse.mean.value**2])
