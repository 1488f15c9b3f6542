"""Guards as an agent applies them: what they promise holds whatever a policy proposes and whatever is observed."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.agent.decide import DecisionContext, DecisionDraft, Proposal, apply_guards
from scaler.guards import GUARDS, is_dry_run, parse_guards
from scaler.guards.guard import ChangeHistory, record_slot
from scaler.model.decision import BACKLOG, BLOCKED, DRY_RUN, GUARD, LIMIT, SCALED, Objection
from scaler.model.errors import BadInput
from scaler.model.kernel import Floats
from scaler.model.nodes import NOTHING, Deployment, Reconfiguration, scale
from scaler.model.policy import Observation, Transition, build_policy
from scaler.policies import POLICIES, find_policy
from tests.examples import make_rates
from tests.test_policies import TASK, observe

TYPES = tuple(t.name for t in TASK.types)
SLOT = 60.0
MONDAY = datetime(2024, 3, 25, tzinfo=UTC).timestamp()

FIRST = Deployment((1, 0, 0))
Steps = list[tuple[Observation, DecisionDraft]]

restless = st.lists(st.integers(0, 6), min_size=1, max_size=60)
jumps = st.lists(st.sampled_from([0.0, 10.0, 150.0, 400.0, 900.0]), min_size=2, max_size=20)
deployments = st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 1)).filter(any).map(Deployment)


class Puppet:
    """A policy that wants what it is told, as far as it is possible at all; it has no state but its place."""

    def __init__(self, script: list[int]) -> None:
        self.script, self.place = script, 0

    def decide(self, observation: Observation) -> Reconfiguration:
        code = self.script[self.place % len(self.script)]
        change = NOTHING if code == 0 else scale((code - 1) % 3, 1 if code > 3 else -1)
        after = observation.deployment.after(change)
        return change if min(after.replicas) >= 0 and 1 <= after.parallelism <= TASK.k_max else NOTHING

    def learn(self, _: Transition) -> None:
        self.place += 1


class Guarded:
    """A policy behind guards, with the history that an agent keeps of its changes."""

    def __init__(self, inner: Any, **configuration: Any) -> None:
        self.inner, self.configuration, self.history = inner, configuration, ChangeHistory()

    def draft(self, seen: Observation) -> DecisionDraft:
        context = DecisionContext("parse", TYPES, None, self.history, self.configuration)
        return apply_guards(context, seen, Proposal(self.inner.decide(seen), "the policy", "policy", None, TASK.k_max))

    def finish(self, seen: Observation, draft: DecisionDraft, done: Reconfiguration) -> None:
        self.history = record_slot(self.history, seen.time, draft.proposed, done)


def drive(
    policy: Guarded, rates: Floats, start: Deployment = FIRST, begin: float = MONDAY, slot: float = SLOT
) -> Steps:
    """Let a guarded policy run; what it saw and what was drafted about it."""
    steps: Steps = []
    deployment = start
    for t, rate in enumerate(rates.tolist()):
        now = observe(deployment, rate, begin + slot * t)
        if steps:
            policy.inner.learn(Transition(steps[-1][0], now))
        draft = policy.draft(now)
        policy.finish(now, draft, draft.change)
        steps.append((now, draft))
        deployment = deployment.after(draft.change)
    return steps


def change_times(steps: Steps) -> list[tuple[float, int]]:
    return [(now.time, draft.change.net) for now, draft in steps if draft.change != NOTHING]


def check_bounds(steps: Steps, least: int, most: int, most_first: int) -> None:
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
@settings(max_examples=5)
def test_every_policy_stays_within_every_guard(name: str, rates: list[float], start: Deployment, seed: int) -> None:
    """All at once: bounds, a cooldown, a flap budget of 5 in 2 hours, and a reason whenever something was blocked."""
    configuration = {
        "bounds": {"min": 2, "max": 3, "types": {TYPES[0]: {"max": 1}}},
        "cooldown": {"out_s": 120, "in_s": 300},
        "flap_budget": {"changes": 5, "hours": 2},
    }
    policy = Guarded(build_policy(find_policy(name), TASK, seed), **configuration)
    steps = drive(policy, np.array(rates).repeat(4), start)
    check_bounds(steps, 2, 3, 1)
    times = change_times(steps)
    for (earlier, _), (later, delta) in pairwise(times):
        assert later - earlier >= (120 if delta > 0 else 300)
    for first, sixth in zip(times, times[5:], strict=False):
        assert sixth[0] - first[0] >= 7200
    for _, draft in steps:
        assert draft.reason
        assert (draft.kind == BLOCKED) == (draft.proposed != NOTHING and draft.change == NOTHING)
        assert {(one.source, one.code) for one in draft.objections} <= {(GUARD, name) for name in configuration}
        assert bool(draft.objections) == (draft.change != draft.proposed)


@given(restless, deployments, st.integers(1, 4), st.integers(0, 4), st.integers(0, 3))
@settings(max_examples=150)
def test_bounds_are_never_broken_further(
    script: list[int], start: Deployment, most: int, least: int, first: int
) -> None:
    least = min(least, most)
    policy = Guarded(Puppet(script), bounds={"min": least, "max": most, "types": {TYPES[0]: {"max": first}}})
    check_bounds(drive(policy, np.full(60, 100.0), start), least, most, first)


def test_bounds_let_a_deployment_outside_them_come_back() -> None:
    spans = {"min": 3, "max": 3, "types": {TYPES[0]: {"min": 2, "max": 2}}}
    assert drive(Guarded(Puppet([4]), bounds=spans), np.full(4, 100.0))[-1][0].deployment == Deployment((2, 0, 0))
    policy = Guarded(Puppet([6]), bounds=spans)
    assert drive(policy, np.full(4, 100.0))[-1][0].deployment == Deployment((1, 0, 2))
    policy = Guarded(Puppet([1]), bounds=spans)
    assert drive(policy, np.full(4, 100.0), Deployment((4, 0, 0)))[-1][0].deployment == Deployment((3, 0, 0))


@given(restless, st.integers(0, 6), st.integers(1, 40))
@settings(max_examples=150)
def test_the_flap_budget_holds_in_every_stretch(script: list[int], changes: int, slots: int) -> None:
    hours = slots * SLOT / 3600
    policy = Guarded(Puppet(script), flap_budget={"changes": changes, "hours": hours})
    times = [time for time, _ in change_times(drive(policy, np.full(90, 100.0)))]
    for time in times:
        assert sum(time - hours * 3600 < other <= time for other in times) <= max(changes, 0)
    assert changes > 0 or not times


@given(restless, st.integers(0, 10), st.integers(0, 20))
@settings(max_examples=150)
def test_cooldown_and_stabilisation_hold(script: list[int], out: int, into: int) -> None:
    setting = {"out_s": out * SLOT, "in_s": into * SLOT}
    times = change_times(drive(Guarded(Puppet(script), cooldown=setting), np.full(90, 100.0)))
    for (earlier, _), (later, delta) in pairwise(times):
        assert later - earlier >= setting["out_s" if delta > 0 else "in_s"]
    steps = drive(Guarded(Puppet(script), stabilisation=setting), np.full(90, 100.0))
    puppet = Puppet(script)
    for t, (_, draft) in enumerate(steps):
        done = draft.change
        if done != NOTHING:
            wished = int(setting["out_s" if done.net > 0 else "in_s"] / SLOT)
            for back in range(wished + 1):
                puppet.place = t - back
                assert puppet.decide(steps[t - back][0]).net == done.net
                assert back == 0 or steps[t - back][1].change == NOTHING


def test_damping_is_asymmetric_by_default() -> None:
    policy = Guarded(Puppet([6]), stabilisation=True, cooldown=True)
    assert [now.deployment.parallelism for now, _ in drive(policy, np.full(5, 100.0))] == [1, 2, 3, 4, 4]
    policy = Guarded(Puppet([3]), stabilisation=True, cooldown=True)
    times = [t for t, _ in change_times(drive(policy, np.full(40, 100.0), Deployment((1, 0, 3))))]
    assert [(t - MONDAY) / SLOT for t in times] == [5, 15, 25]


VIENNA = ZoneInfo("Europe/Vienna")
NIGHT = {"from": "01:30", "to": "03:30", "zone": "Europe/Vienna"}


def blocked_minutes(day: datetime, **hours: Any) -> int:
    """Minutes of 24 hours from this moment in which a change is blocked, asked of the guard itself."""
    policy = Guarded(Puppet([6]), blocked_hours=hours)
    begin = day.timestamp()
    seen = [observe(Deployment((1, 0, 0)), 100.0, begin + 60.0 * m) for m in range(24 * 60)]
    return sum(policy.draft(now).kind == BLOCKED for now in seen)


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
@settings(max_examples=60)
def test_no_change_is_made_in_blocked_hours(script: list[int], day: int, zone: str) -> None:
    hours = {"from": "07:15", "to": "19:00", "days": ["mon", "wed", "sun"], "zone": zone}
    steps = drive(
        Guarded(Puppet(script), blocked_hours=hours), np.full(120, 9.0), begin=MONDAY + 86400 * day, slot=1800
    )
    for time, _ in change_times(steps):
        local = datetime.fromtimestamp(time, ZoneInfo(zone))
        assert local.weekday() not in (0, 2, 6) or not (7, 15) <= (local.hour, local.minute) < (19, 0)


@given(restless, deployments)
@settings(max_examples=100)
def test_a_pin_lets_only_come_nearer(script: list[int], start: Deployment) -> None:
    steps = drive(Guarded(Puppet(script), pin={"at": {TYPES[0]: 1, TYPES[2]: 1}}), np.full(60, 100.0), start)
    away = [np.abs(np.subtract(now.deployment.replicas, (1, 0, 1))).sum() for now, _ in steps]
    assert all(b <= a for a, b in pairwise(away))
    assert not change_times(drive(Guarded(Puppet(script), pin=True), np.full(60, 100.0), start))


@given(restless, deployments)
@settings(max_examples=60)
def test_a_direction_lock_and_a_dry_run_hold(script: list[int], start: Deployment) -> None:
    for way, delta in (("out", 1), ("in", -1)):
        steps = drive(Guarded(Puppet(script), direction_lock={"only": way}), np.full(60, 100.0), start)
        assert {d for _, d in change_times(steps)} <= {delta}
    steps = drive(Guarded(Puppet(script), dry_run=True), np.full(60, 100.0), start)
    assert not change_times(steps)
    assert all((draft.kind == DRY_RUN) == (draft.proposed != NOTHING) for _, draft in steps)


def test_every_objection_is_listed_and_no_change_is_never_blocked() -> None:
    configuration = {name: value for name, value in EVERY.items() if name != "cooldown"}
    policy = Guarded(Puppet([6]), **configuration)
    draft = policy.draft(observe(Deployment((1, 1, 2)), 100.0, MONDAY))
    assert (draft.kind, draft.proposed) == ("NO_CHANGE", NOTHING)  # the puppet knows that there is no room
    draft = policy.draft(observe(Deployment((1, 0, 1)), 100.0, MONDAY))
    assert (draft.kind, draft.change, draft.proposed) == (BLOCKED, NOTHING, scale(2, 1))
    assert [one.code for one in draft.objections] == list(configuration)
    assert draft.code == "bounds"
    assert all(f"{one.code}: {one.message}" in draft.reason for one in draft.objections)


def judge(
    deployment: tuple[int, ...], change: dict[int, int], k_max: int = TASK.k_max, **configuration: Any
) -> DecisionDraft:
    """A change by type, proposed by nobody in particular."""
    context = DecisionContext("parse", TYPES, None, ChangeHistory(), configuration)
    proposed = Reconfiguration(tuple(sorted(change.items())))
    seen = observe(Deployment(deployment), 100.0, MONDAY)
    return apply_guards(context, seen, Proposal(proposed, "the policy", "policy", None, k_max))


@pytest.mark.parametrize(
    ("configuration", "done", "blocked"),
    [
        ({"direction_lock": {"only": "out"}}, {0: 3}, {"A2": -1}),
        ({"direction_lock": {"only": "in"}}, {}, {}),  # nothing goes for a replacement that may not come
        ({"bounds": {"types": {"A1": {"max": 3}}}}, {0: 2}, {"A1": 1, "A2": -1}),
        ({"bounds": {"types": {"A2": {"min": 2}}}}, {0: 3}, {"A2": -1}),
        ({"bounds": {"max": 4}}, {0: 1}, {"A1": 2, "A2": -1}),
        ({"bounds": {"max": 5}}, {0: 3, 1: -1}, {}),
        ({"pin": {"at": {"A1": 4, "A2": 2}}}, {0: 3}, {"A2": -1}),
        ({"pin": {"at": {"A1": 2, "A2": 1}}}, {0: 1}, {"A1": 2, "A2": -1}),
        ({"flap_budget": {"changes": 0}}, {}, {}),
    ],
)
def test_guard_blocks_the_part_it_objects_to_and_says_which(
    configuration: dict[str, Any], done: dict[int, int], blocked: dict[str, int]
) -> None:
    draft = judge((1, 2, 0), {0: 3, 1: -1}, 8, **configuration)
    assert draft.proposed == Reconfiguration(((0, 3), (1, -1)))
    assert dict(draft.change.changes) == done
    assert draft.kind == (SCALED if done else BLOCKED)
    assert [one.data["blocked"] for one in draft.objections if "blocked" in one.data] == [blocked] * bool(blocked)
    if blocked:
        assert draft.code == "policy"
        assert f"{draft.objections[0].code}: {draft.objections[0].message}" in draft.reason


def test_part_of_a_change_in_a_dry_run_is_said_and_not_done() -> None:
    draft = judge((1, 2, 0), {0: 3, 1: -1}, 8, dry_run=True, bounds={"max": 4})
    assert (draft.kind, draft.code, draft.change) == (DRY_RUN, "dry_run", NOTHING)
    assert draft.objections[0].message == "a replica on A1 would have been added"
    assert draft.objections[1].data["blocked"] == {"A1": 2, "A2": -1}


changes = st.dictionaries(st.integers(0, 2), st.integers(-3, 3).filter(bool), min_size=1)


@given(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)).filter(any),
    changes,
    st.fixed_dictionaries({}, optional={"min": st.integers(0, 3), "max": st.integers(3, 7)}),
    st.sampled_from([None, "out", "in"]),
)
def test_what_guards_allow_is_a_part_within_them(
    start: tuple[int, ...], change: dict[int, int], bounds: dict[str, int], only: str | None
) -> None:
    lock = {} if only is None else {"direction_lock": {"only": only}}
    draft = judge(start, change, 9, bounds=bounds, **lock)
    done, proposed = dict(draft.change.changes), dict(draft.proposed.changes)
    assert all(0 < delta / proposed[i] <= 1 for i, delta in done.items())
    assert not any(done.get(i, 0) < 0 for i in done) or draft.change.added == draft.proposed.added
    if draft.change == NOTHING:
        return
    after = Deployment(start).after(draft.change)
    assert min(after.replicas) >= 0
    assert draft.change.net <= 0 or after.parallelism <= bounds.get("max", 9)
    assert draft.change.net >= 0 or after.parallelism >= max(1, bounds.get("min", 0))
    assert not (only == "out" and draft.change.removed)
    assert not (only == "in" and draft.change.added)
    assert judge(start, done, 9, bounds=bounds, **lock).change == draft.change  # it is allowed as a whole


def test_waits_of_a_migration_name_a_setting_that_there_is() -> None:
    context = DecisionContext("parse", TYPES, None, ChangeHistory((MONDAY - 60.0,)), {"cooldown": {"out_s": 30}})
    seen = observe(Deployment((1, 2, 0)), 100.0, MONDAY)
    draft = apply_guards(context, seen, Proposal(Reconfiguration(((0, 1), (1, -1))), "it", "policy", None, 8))
    assert draft.change == scale(0, 1)
    assert "the last change was 60 s ago, and in_s is 600; this blocks removing a replica on A2" in draft.reason


def test_scale_out_is_not_kept_waiting_by_what_it_would_remove() -> None:
    """A backlog bars removals: without them the replicas that work it off come all the same."""
    backlog = Objection(LIMIT, BACKLOG, "what has waited is still to be worked off")
    context = DecisionContext("parse", TYPES, None, ChangeHistory(), no_scale_in=backlog)
    seen = observe(Deployment((1, 2, 0)), 100.0, MONDAY)
    draft = apply_guards(context, seen, Proposal(Reconfiguration(((0, 3), (1, -1))), "it", "policy", None, 8))
    assert (draft.kind, draft.change) == (SCALED, scale(0, 3))


@pytest.mark.parametrize(("failed", "allowed"), [((0, True), {2: 1}), ((1, False), {0: 2, 2: 1}), ((0, False), None)])
def test_patience_is_by_type_and_direction(failed: tuple[int, bool], allowed: dict[int, int] | None) -> None:
    change = {0: 2, 1: -1, 2: 1}
    context = DecisionContext("parse", TYPES, None, ChangeHistory(), failed={failed: MONDAY - 60.0}, retry_s=300.0)
    proposed = Reconfiguration(tuple(change.items()))
    seen = observe(Deployment((1, 2, 0)), 100.0, MONDAY)
    draft = apply_guards(context, seen, Proposal(proposed, "it", "policy", None, 9))
    assert dict(draft.change.changes) == (change if allowed is None else allowed)


def test_a_dry_run_beside_another_guard_is_a_block() -> None:
    now = observe(FIRST, 100.0, MONDAY)
    draft = Guarded(Puppet([6]), dry_run=True, pin=True).draft(now)
    assert (draft.kind, draft.code, [one.code for one in draft.objections]) == (BLOCKED, "pin", ["pin", "dry_run"])
    alone = Guarded(Puppet([6]), dry_run=True).draft(now)
    assert (alone.kind, alone.code, alone.change) == (DRY_RUN, "dry_run", NOTHING)


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({}, False),
        ({"dry_run": True}, True),
        ({"dry_run": {}}, True),
        ({"dry_run": False}, False),
        ({"pin": {}}, False),
    ],
)
def test_is_dry_run_reads_the_configuration(configuration: dict[str, Any], expected: bool) -> None:
    assert is_dry_run(configuration) == expected


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


def test_a_failed_actuation_spends_no_budget() -> None:
    policy = Guarded(Puppet([6]), flap_budget={"changes": 1})
    for t in range(3):
        now = observe(FIRST, 100.0, MONDAY + SLOT * t)
        draft = policy.draft(now)
        assert draft.change == scale(2, 1)
        policy.finish(now, draft, NOTHING)
    later = observe(FIRST, 100.0, MONDAY + SLOT * 3)
    policy.finish(later, policy.draft(later), scale(2, 1))
    assert policy.draft(observe(FIRST, 100.0, MONDAY + SLOT * 4)).code == "flap_budget"


@pytest.mark.parametrize("name", list(POLICIES))
def test_to_decide_changes_nothing(name: str) -> None:
    contract = {"bounds": {"max": 3}, "cooldown": {"in_s": 300}, "stabilisation": {"in_s": 240},
                "flap_budget": {"changes": 12}}  # fmt: skip
    policy = Guarded(build_policy(find_policy(name), TASK, 1), **contract)
    rates = np.random.default_rng(3).choice([10.0, 150.0, 400.0, 900.0], 40).repeat(3)[:40]
    steps = drive(policy, rates)
    before = {key: value.copy() for key, value in policy.inner.save().items()}
    for now, _ in steps[-5:]:
        assert policy.draft(now) == policy.draft(now)
    after = policy.inner.save()
    assert before.keys() == after.keys()
    for key, value in before.items():
        np.testing.assert_array_equal(value, after[key], err_msg=key)


def test_without_guards_it_is_the_inner_policy() -> None:
    rates = make_rates(200)
    plain, wrapped = (build_policy(find_policy("ql"), TASK, 1) for _ in range(2))
    deployment, done = FIRST, []
    for t, (now, draft) in enumerate(drive(Guarded(wrapped), rates)):
        if t:
            plain.learn(Transition(done[-1][0], now))
        done.append((now, plain.decide(now)))
        assert (draft.change, now.deployment) == (done[-1][1], deployment)
        deployment = deployment.after(draft.change)


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
