"""Guards around any policy: what they promise holds whatever the policy proposes and whatever is seen."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.guards import GUARDS, parse_guards
from scaler.guards.decision import Outcome
from scaler.guards.guarded import Guarded, guard_kind
from scaler.model.errors import BadInput
from scaler.model.kernel import Floats, lay_out
from scaler.model.nodes import NOTHING, Deployment, Reconfiguration
from scaler.model.policy import Learner, Observation, Transition, build_policy
from scaler.policies import POLICIES, find_policy
from sim.interpreted import walk
from sim.plant import Inertia, fresh_plant
from sim.replay import Record, fresh_baton
from tests.examples import make_rates, make_task
from tests.test_policies import TASK, P, observe

TYPES = [t.name for t in TASK.types]
SLOT = 60.0
MONDAY = datetime(2024, 3, 25, tzinfo=UTC).timestamp()

FIRST = Deployment((1, 0, 0))

restless = st.lists(st.integers(0, 6), min_size=1, max_size=60)
jumps = st.lists(st.sampled_from([0.0, 10.0, 150.0, 400.0, 900.0]), min_size=2, max_size=20)
deployments = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 1)).filter(any).map(Deployment)


class Puppet:
    """A policy that wants what it is told, as far as it is possible at all; it has no state but its place."""

    def __init__(self, script: list[int]) -> None:
        self.script, self.place = script, 0

    def decide(self, observation: Observation) -> Reconfiguration:
        code = self.script[self.place % len(self.script)]
        change = NOTHING if code == 0 else Reconfiguration(1 if code > 3 else -1, (code - 1) % 3)
        after = observation.deployment.after(change)
        return change if min(after.replicas) >= 0 and 1 <= after.parallelism <= TASK.k_max else NOTHING

    def learn(self, _: Transition) -> None:
        self.place += 1

    def choose(self, k: Any, seen: Any) -> int:
        raise NotImplementedError

    def absorb(self, k: Any, before: Any, action: int, seen: Any) -> None:
        raise NotImplementedError

    def save(self) -> dict[str, Any]:
        return {"place": np.array(self.place)}

    def load(self, arrays: Mapping[str, Any]) -> None:
        self.place = int(arrays["place"])

    def held_bytes(self) -> int:
        return 0


def guarded(inner: Any, **configuration: Any) -> Guarded:
    return Guarded(inner, parse_guards(configuration, TYPES), TYPES)


def drive(
    policy: Any, rates: Floats, start: Deployment = FIRST, begin: float = MONDAY, slot: float = SLOT
) -> list[tuple[Observation, Reconfiguration]]:
    """Let a policy run; what it saw and what was done about it."""
    steps: list[tuple[Observation, Reconfiguration]] = []
    deployment = start
    for t, rate in enumerate(rates.tolist()):
        now = observe(deployment, rate, begin + slot * t)
        if steps:
            policy.learn(Transition(*steps[-1], now))
        done = policy.decide(now)
        steps.append((now, done))
        deployment = deployment.after(done)
    return steps


def change_times(steps: list[tuple[Observation, Reconfiguration]]) -> list[tuple[float, int]]:
    return [(now.time, done.delta) for now, done in steps if done.delta != 0]


def wild(seed: int, slots: int = 150) -> Floats:
    """A rate that jumps about, so that every policy wants to change often."""
    return np.random.default_rng(seed).choice([10.0, 150.0, 400.0, 900.0], slots).repeat(3)[:slots]


def check_bounds(steps: list[tuple[Observation, Reconfiguration]], least: int, most: int, most_first: int) -> None:
    before = steps[0][0].deployment
    for now, _ in steps[1:]:
        after = now.deployment
        assert after.parallelism <= max(most, before.parallelism)
        assert after.parallelism >= min(least, before.parallelism)
        assert after.replicas[0] <= max(most_first, before.replicas[0])
        before = after


@pytest.mark.slow
@pytest.mark.parametrize("name", list(POLICIES))
@given(rates=jumps, start=deployments, seed=st.integers(0, 100))
@settings(max_examples=5, deadline=None)
def test_every_policy_stays_within_every_guard(name: str, rates: list[float], start: Deployment, seed: int) -> None:
    """All at once: bounds, a cooldown, a flap budget of 5 in 2 hours, and a reason whenever something was blocked."""
    configuration = {
        "bounds": {"min": 2, "max": 3, "types": {TYPES[0]: {"max": 1}}},
        "cooldown": {"out_s": 120, "in_s": 300},
        "flap_budget": {"changes": 5, "hours": 2},
    }
    policy = guarded(build_policy(find_policy(name), TASK, seed), **configuration)
    steps = drive(policy, np.array(rates).repeat(4), start)
    check_bounds(steps, 2, 3, 1)
    times = change_times(steps)
    for (earlier, _), (later, delta) in pairwise(times):
        assert later - earlier >= (120 if delta > 0 else 300)
    for first, sixth in zip(times, times[5:], strict=False):
        assert sixth[0] - first[0] >= 7200
    for decision in policy.record:
        assert decision.reason
        assert (decision.outcome == Outcome.BLOCKED) == (decision.proposed != NOTHING and decision.done == NOTHING)
        if decision.outcome == Outcome.BLOCKED:
            assert decision.reason.startswith(("bounds:", "cooldown:", "flap_budget:"))


@given(restless, deployments, st.integers(1, 4), st.integers(0, 4), st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_bounds_are_never_broken_further(
    script: list[int], start: Deployment, most: int, least: int, first: int
) -> None:
    least = min(least, most)
    policy = guarded(Puppet(script), bounds={"min": least, "max": most, "types": {TYPES[0]: {"max": first}}})
    check_bounds(drive(policy, np.full(60, 100.0), start), least, most, first)


def test_bounds_let_a_deployment_outside_them_come_back() -> None:
    spans = {"min": 3, "max": 3, "types": {TYPES[0]: {"min": 2, "max": 2}}}
    assert drive(guarded(Puppet([4]), bounds=spans), np.full(4, 100.0))[-1][0].deployment == Deployment((2, 0, 0))
    policy = guarded(Puppet([6]), bounds=spans)
    assert drive(policy, np.full(4, 100.0))[-1][0].deployment == Deployment((1, 0, 2))
    policy = guarded(Puppet([1]), bounds=spans)
    assert drive(policy, np.full(4, 100.0), Deployment((4, 0, 0)))[-1][0].deployment == Deployment((3, 0, 0))


@given(restless, st.integers(0, 6), st.integers(1, 40))
@settings(max_examples=150, deadline=None)
def test_the_flap_budget_holds_in_every_stretch(script: list[int], changes: int, slots: int) -> None:
    hours = slots * SLOT / 3600
    policy = guarded(Puppet(script), flap_budget={"changes": changes, "hours": hours})
    times = [time for time, _ in change_times(drive(policy, np.full(90, 100.0)))]
    for time in times:
        assert sum(time - hours * 3600 < other <= time for other in times) <= max(changes, 0)
    assert changes > 0 or not times


@given(restless, st.integers(0, 10), st.integers(0, 20))
@settings(max_examples=150, deadline=None)
def test_cooldown_and_stabilisation_hold(script: list[int], out: int, into: int) -> None:
    setting = {"out_s": out * SLOT, "in_s": into * SLOT}
    times = change_times(drive(guarded(Puppet(script), cooldown=setting), np.full(90, 100.0)))
    for (earlier, _), (later, delta) in pairwise(times):
        assert later - earlier >= setting["out_s" if delta > 0 else "in_s"]
    steps = drive(guarded(Puppet(script), stabilisation=setting), np.full(90, 100.0))
    puppet = Puppet(script)
    for t, (_, done) in enumerate(steps):
        puppet.place = t
        if done.delta != 0:
            wished = int(setting["out_s" if done.delta > 0 else "in_s"] / SLOT)
            for back in range(wished + 1):
                puppet.place = t - back
                assert puppet.decide(steps[t - back][0]).delta == done.delta
                assert back == 0 or steps[t - back][1] == NOTHING


def test_damping_is_asymmetric_by_default() -> None:
    policy = guarded(Puppet([6]), stabilisation=True, cooldown=True)
    assert [now.deployment.parallelism for now, _ in drive(policy, np.full(5, 100.0))] == [1, 2, 3, 4, 4]
    policy = guarded(Puppet([3]), stabilisation=True, cooldown=True)
    times = [t for t, _ in change_times(drive(policy, np.full(40, 100.0), Deployment((1, 0, 3))))]
    assert [(t - MONDAY) / SLOT for t in times] == [5, 15, 25]


VIENNA = ZoneInfo("Europe/Vienna")
NIGHT = {"from": "01:30", "to": "03:30", "zone": "Europe/Vienna"}


def blocked_minutes(day: datetime, **hours: Any) -> int:
    """Minutes of 24 hours from this moment in which a change is blocked, asked of the guard itself."""
    policy = guarded(Puppet([6]), blocked_hours=hours)
    begin = day.timestamp()
    seen = [observe(Deployment((1, 0, 0)), 100.0, begin + 60.0 * m) for m in range(24 * 60)]
    return sum(bool(policy.verdict(now).reasons) for now in seen)


@pytest.mark.parametrize(
    ("date", "minutes"),
    [((2024, 3, 20), 120), ((2024, 3, 31), 60), ((2024, 10, 27), 180)],  # clocks: no change, put forward, put back
)
def test_blocked_hours_follow_the_clock_on_the_wall(date: tuple[int, int, int], minutes: int) -> None:
    assert blocked_minutes(datetime(*date, tzinfo=VIENNA), **NIGHT) == minutes


def test_a_span_over_midnight_belongs_to_the_day_it_begins() -> None:
    hours = {"from": "22:00", "to": "06:00", "days": ["fri"], "zone": "Europe/Vienna"}
    counts = [blocked_minutes(datetime(2024, 5, day, tzinfo=VIENNA), **hours) for day in (2, 3, 4, 5)]  # from Thursday
    assert counts == [0, 120, 360, 0]


def test_a_whole_day_can_be_blocked() -> None:
    hours = {"from": "00:00", "to": "24:00", "days": ["sat", "sun"]}
    assert blocked_minutes(datetime(2024, 5, 4, tzinfo=UTC), **hours) == 1440
    assert blocked_minutes(datetime(2024, 5, 6, tzinfo=UTC), **hours) == 0


@given(restless, st.integers(0, 400), st.sampled_from(["Europe/Vienna", "America/New_York", "Asia/Kolkata", "UTC"]))
@settings(max_examples=60, deadline=None)
def test_no_change_is_made_in_blocked_hours(script: list[int], day: int, zone: str) -> None:
    hours = {"from": "07:15", "to": "19:00", "days": ["mon", "wed", "sun"], "zone": zone}
    steps = drive(
        guarded(Puppet(script), blocked_hours=hours), np.full(120, 9.0), begin=MONDAY + 86400 * day, slot=1800
    )
    for time, _ in change_times(steps):
        local = datetime.fromtimestamp(time, ZoneInfo(zone))
        assert local.weekday() not in (0, 2, 6) or not (7, 15) <= (local.hour, local.minute) < (19, 0)


@given(restless, deployments)
@settings(max_examples=100, deadline=None)
def test_a_pin_lets_only_come_nearer(script: list[int], start: Deployment) -> None:
    steps = drive(guarded(Puppet(script), pin={"at": {TYPES[0]: 1, TYPES[2]: 1}}), np.full(60, 100.0), start)
    away = [np.abs(np.subtract(now.deployment.replicas, (1, 0, 1))).sum() for now, _ in steps]
    assert all(b <= a for a, b in pairwise(away))
    assert not change_times(drive(guarded(Puppet(script), pin=True), np.full(60, 100.0), start))


@given(restless, deployments)
@settings(max_examples=60, deadline=None)
def test_a_direction_lock_and_a_dry_run_hold(script: list[int], start: Deployment) -> None:
    for way, delta in (("out", 1), ("in", -1)):
        steps = drive(guarded(Puppet(script), direction_lock={"only": way}), np.full(60, 100.0), start)
        assert {d for _, d in change_times(steps)} <= {delta}
    policy = guarded(Puppet(script), dry_run=True)
    assert not change_times(drive(policy, np.full(60, 100.0), start))
    assert all("dry_run" in d.reason for d in policy.record if d.proposed != NOTHING)


def test_every_objection_is_heard_and_nothing_is_asked_about_doing_nothing() -> None:
    configuration = {name: value for name, value in EVERY.items() if name != "cooldown"}
    policy = guarded(Puppet([6]), **configuration)
    now = observe(Deployment((1, 1, 2)), 100.0, MONDAY)
    judgement = policy.verdict(now)
    assert judgement.decided == NOTHING
    assert judgement.proposed == NOTHING  # the puppet knows that there is no room
    judgement = policy.verdict(observe(Deployment((1, 0, 1)), 100.0, MONDAY))
    assert [reason.partition(":")[0] for reason in judgement.reasons] == list(configuration)


EVERY: dict[str, Any] = {
    "bounds": {"max": 2},
    "cooldown": {"out_s": 60},
    "stabilisation": {"out_s": 60},
    "blocked_hours": {"from": "00:00", "to": "12:00"},
    "flap_budget": {"changes": 0},
    "pin": {"at": {"A1": 1}},
    "direction_lock": {"only": "in"},
    "dry_run": True,
}


def test_every_guard_of_the_registry_is_tested_here() -> None:
    assert list(EVERY) == list(GUARDS)


def test_a_failed_actuation_is_recorded_and_spends_no_budget() -> None:
    policy = guarded(Puppet([6]), flap_budget={"changes": 1})
    now = observe(Deployment((1, 0, 0)), 100.0, MONDAY)
    for t in range(3):
        later = observe(Deployment((1, 0, 0)), 100.0, MONDAY + SLOT * (t + 1))
        policy.learn(Transition(now, NOTHING, later))
        now = later
    assert [d.outcome for d in policy.record] == [Outcome.ACTUATION_FAILED] * 3
    assert "adding a replica on A3 was decided, no change was done" in policy.record[0].reason
    assert policy.decide(now) == Reconfiguration(1, 2)


def test_the_record_is_bounded() -> None:
    policy = Guarded(Puppet([6, 3]), parse_guards({"pin": True}, TYPES), TYPES, kept=10)
    drive(policy, np.full(50, 100.0))
    assert len(policy.record) == 10
    assert policy.record[-1].time == MONDAY + 48 * SLOT


CONTRACT = {
    "bounds": {"max": 3},
    "cooldown": {"in_s": 300},
    "stabilisation": {"in_s": 240},
    "blocked_hours": [{"from": "01:00", "to": "01:20"}, {"from": "03:00", "to": "03:30", "zone": "Asia/Kolkata"}],
    "flap_budget": {"changes": 12},
}


@pytest.fixture(params=list(POLICIES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def build(name: str, seed: int) -> Guarded:
    policy = build_policy(guard_kind(find_policy(name), parse_guards(CONTRACT, TYPES)), TASK, seed)
    assert isinstance(policy, Guarded)
    return policy


def assert_same(a: Mapping[str, Any], b: Mapping[str, Any]) -> None:
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_array_equal(a[key], b[key], err_msg=key)


def test_to_decide_changes_nothing(name: str) -> None:
    policy = build(name, 1)
    steps = drive(policy, wild(3, 40))
    before = {key: value.copy() for key, value in policy.save().items()}
    for now, _ in steps[-5:]:
        assert policy.decide(now) == policy.decide(now) == policy.verdict(now).decided
    assert_same(before, policy.save())
    assert policy.held_bytes() >= 0


def test_a_checkpoint_goes_on_where_it_was_and_the_same_seed_gives_the_same_run(name: str) -> None:
    rates = wild(5, 160)
    whole, halves = build(name, 2), [build(name, 2), build(name, 2)]
    steps = drive(whole, rates)
    first = drive(halves[0], rates[:80])
    halves[1].load({key: np.array(value) for key, value in halves[0].save().items()})
    now, done = first[-1]
    for t in range(80, 160):
        later = observe(now.deployment.after(done), float(rates[t]), MONDAY + SLOT * t)
        halves[1].learn(Transition(now, done, later))
        now, done = later, halves[1].decide(later)
        assert (now, done) == steps[t]
    assert_same(halves[1].save(), whole.save())


def test_a_foreign_checkpoint_is_refused() -> None:
    policy = build("threshold-c", 0)
    with pytest.raises(BadInput, match=r"checkpoint lacks 'guards\.slots'"):
        policy.load(policy.inner.save())


@pytest.mark.parametrize("inner", ["threshold-s", "ql", "ql-pds-plus"])
def test_the_plain_loop_walks_it_like_a_driver(inner: str) -> None:
    """`choose` and `absorb` count slots where `decide` and `learn` are told the time: they decide alike."""
    rates = wild(9, 200)
    guards = parse_guards(CONTRACT, TYPES)
    driven = Guarded(build_policy(find_policy(inner), TASK, 3), guards, TYPES)
    walked = Guarded(build_policy(find_policy(inner), TASK, 3), guards, TYPES, slot_s=SLOT, start=MONDAY)
    steps = drive(driven, rates)
    k = np.array([1, 0, 0])
    record = Record(np.empty(200), np.empty(200), np.empty(200, np.int8))
    plant = fresh_plant(P, k, Inertia())
    walk(P, P, walked, "memoryless", plant, k, fresh_baton(), rates, 200, np.zeros((1, 4)), np.zeros_like(k), record)
    assert record.action.tolist() == [done.code(3) for _, done in steps]
    assert_same(driven.save(), walked.save())
    assert any(d.outcome == Outcome.BLOCKED for d in walked.record)


def test_without_guards_it_is_the_inner_policy() -> None:
    rates = make_rates(200)
    plain, wrapped = (build_policy(find_policy("ql"), TASK, 1) for _ in range(2))
    assert drive(Guarded(wrapped, (), TYPES), rates) == drive(plain, rates)


def test_a_kind_can_be_guarded_and_keeps_its_options() -> None:
    kind = guard_kind(find_policy("threshold-s"), parse_guards({"direction_lock": {"only": "out"}}, TYPES))
    assert isinstance(kind, Learner)
    assert kind.options == ("threshold",)
    policy = build_policy(kind, make_task(), 0, {"threshold": 0.5})
    assert lay_out(make_task()).k_max == TASK.k_max
    assert {d for _, d in change_times(drive(policy, wild(1)))} == {1}


@pytest.mark.parametrize(
    ("configuration", "says"),
    [
        ({"magic": True}, "there is no guard 'magic'; choose of bounds, cooldown"),
        ({"pin": 3}, "guard 'pin' is 3, and must be a table"),
        ({"bounds": {"mx": 3}}, "guard 'bounds' has no setting 'mx'; it takes"),
        ({"bounds": {"max": 0}}, "'max' is 0, and must be a number from 1 upwards"),
        ({"bounds": {"max": 2.5}}, "'max' is 2.5, and must be a whole number"),
        ({"bounds": {"min": 4, "max": 3}}, "min is 4, and must not exceed max, 3"),
        ({"bounds": {"types": {"B7": {}}}}, "'types' is 'B7', and must be a node type: one of A1, A2, A3"),
        ({"bounds": {"types": {"A1": 3}}}, "'types' is 3, and must be a table with min and max"),
        ({"bounds": {"types": {"A1": {"most": 3}}}}, "no setting 'most'"),
        ({"bounds": {"types": 7}}, "'types' is 7, and must be a table by node type"),
        ({"cooldown": {"in_s": -1}}, "'in_s' is -1, and must be a number from 0 upwards"),
        ({"cooldown": {"in_s": "5m"}}, "'in_s' is '5m', and must be a number"),
        ({"flap_budget": True}, "guard 'flap_budget' lacks its setting 'changes'"),
        ({"flap_budget": {"changes": 5000}}, "'changes' is 5000, and must be a number from 0 to 1000"),
        ({"flap_budget": {"changes": True}}, "'changes' is True"),
        ({"direction_lock": {"only": "up"}}, "'only' is 'up', and must be one of out, in"),
        ({"pin": {"at": {"A1": -1}}}, "'at' is -1, and must be a whole number of replicas"),
        ({"pin": {"at": {}}}, "a deployment of at least one replica"),
        ({"dry_run": {"loud": True}}, "guard 'dry_run' has no setting 'loud'; it takes none"),
        ({"blocked_hours": {"from": "9:00", "to": "10:00"}}, "'from' is '9:00', and must be a time of day"),
        ({"blocked_hours": {"from": "09:00", "to": "24:01"}}, "'to' is '24:01'"),
        ({"blocked_hours": {"from": "09:00", "to": "09:00"}}, "another time than 'to'"),
        ({"blocked_hours": {"from": "09:00", "to": "10:00", "days": ["monday"]}}, "must be a list of mon, tue"),
        ({"blocked_hours": {"from": "09:00", "to": "10:00", "zone": "Mars/Olympus"}}, "'zone' is 'Mars/Olympus'"),
        ({"blocked_hours": {"from": "09:00", "to": "10:00", "zone": 1}}, "'zone' is 1, and must be a time zone"),
    ],
)
def test_wrong_settings_are_refused_in_one_sentence(configuration: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput) as refusal:
        parse_guards(configuration, TYPES)
    assert says in str(refusal.value)


def test_false_leaves_a_guard_out() -> None:
    assert parse_guards({"dry_run": False, "pin": False}, TYPES) == ()
