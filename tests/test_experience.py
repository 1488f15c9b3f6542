"""What a planner learned, from the codec to a planner that begins with it."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from scaler.model.errors import BadInput
from scaler.model.experience import (
    MAX_BYTES,
    Experience,
    adopt_experience,
    check_slot,
    pack,
    parse_experience,
    share_experience,
    unpack,
)
from scaler.model.kernel import Floats
from scaler.model.nodes import Deployment
from scaler.model.policy import Observation, Policy, Transition, build_policy
from scaler.model.queueing import mg1_response
from scaler.model.task import Task, Weights
from scaler.model.units import describe_span
from scaler.policies import find_policy
from sim.application import Application, Operator
from sim.infrastructure import find_infrastructure
from sim.setting import Setting
from sim.simulate import simulate
from sim.trace import Trace
from tests.examples import make_rates, make_task, replay

TASK = make_task(k_max=6, one_at_a_time=False)
SLOT_S = 60.0


def respond(task: Task, deployment: Deployment, rate: float) -> tuple[float, float]:
    """Utilisation and mean response time of the slowest replica."""
    speed = min(node.speedup for node, n in zip(task.types, deployment.replicas, strict=True) if n)
    each, moments = rate / deployment.parallelism, task.moments
    return each * moments.mean / speed, mg1_response(each, moments.mean, moments.variance, speed)


def live(policy: Policy, rates: Floats, since: float = 0.0) -> list[Deployment]:
    """Let a policy decide slot by slot, as a driver does; the deployment of every slot."""
    deployment, before, course = Deployment((2, 0, 0)), None, []
    for t, rate in enumerate(rates.tolist()):
        utilisation, response = respond(policy.task, deployment, rate)
        now = Observation(since + SLOT_S * t, rate, utilisation, response, deployment)
        if before is not None:
            policy.learn(Transition(before, now))
        course.append(deployment)
        deployment, before = deployment.after(policy.decide(now)), now
    return course


def make_planner(task: Task = TASK) -> Policy:
    return build_policy(find_policy("planner"), task)


@pytest.fixture(scope="module")
def learned() -> Policy:
    policy = make_planner()
    live(policy, make_rates(600))
    return policy


@pytest.fixture(scope="module")
def document(learned: Policy) -> dict[str, Any]:
    """As it comes out of the orders at an agent."""
    shared = share_experience(learned, "planner", SLOT_S, since=1000.0)
    assert shared is not None
    sent: dict[str, Any] = json.loads(json.dumps(shared))
    return sent


ARRAYS = st.dictionaries(
    st.text(max_size=8),
    st.sampled_from([np.float64, np.int64, np.int32, np.int8]).flatmap(
        lambda kind: npst.arrays(kind, npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    ),
    max_size=4,
)


@given(arrays=ARRAYS)
def test_packed_arrays_come_back_as_they_were(arrays: dict[str, Any]) -> None:
    back = unpack(pack(arrays))
    assert list(back) == list(arrays)
    for name, value in arrays.items():
        assert back[name].dtype == value.dtype
        np.testing.assert_array_equal(back[name], value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(place=st.integers(0, 2**16), change=st.integers(1, 255), cut=st.booleans())
def test_damage_is_noticed_wherever_it_is(document: dict[str, Any], place: int, change: int, cut: bool) -> None:
    text = bytearray(document["arrays"].encode())
    place %= len(text)
    if cut:
        del text[place:]
    else:
        text[place] ^= change
    with pytest.raises(BadInput, match=r"^it is damaged \("):
        parse_experience({**document, "arrays": text.decode("latin-1")})


def test_what_was_learned_comes_back_with_its_history(learned: Policy, document: dict[str, Any]) -> None:
    found = parse_experience(document)
    assert (found.policy, found.slots, found.seconds, found.until) == ("planner", 599, 35_940.0, 36_940.0)
    assert [node.name for node in found.nodes] == [node.name for node in TASK.types]
    new = make_planner()
    adopt_experience(new, found)
    assert new.count_slots() == 599
    for name in ("chain.rates", "chain.levels", "chain.shifts", "capacity.service", "course.extra"):
        np.testing.assert_array_equal(new.save()[name], learned.save()[name], err_msg=name)


def test_who_begins_with_it_decides_as_who_lived_through_it(learned: Policy, document: dict[str, Any]) -> None:
    """From the second slot on, which shows where the load stands; a stranger takes long to get there."""
    rates = make_rates(200, seed=5)
    begun, veteran = make_planner(), make_planner()
    adopt_experience(begun, parse_experience(document))
    veteran.load({name: np.array(value) for name, value in learned.save().items()})
    course = live(veteran, rates)
    agreed, strange = (
        sum(a == b for a, b in zip(live(policy, rates), course, strict=True)) for policy in (begun, make_planner())
    )
    assert agreed > 190
    assert agreed > strange + 10


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": Weights(0.2, 0.2, 0.6)},
        {"k_max": 4},
        {"bound": 0.08},
        {"types": (TASK.types[2], TASK.types[0])},
        {"highest_rate": 900.0},
    ],
)
def test_another_task_inherits_it(document: dict[str, Any], changes: dict[str, Any]) -> None:
    task = replace(TASK, **changes)
    policy = make_planner(task)
    adopt_experience(policy, parse_experience(document))
    assert policy.count_slots() == 599
    assert policy.state.chain.visits.sum() == pytest.approx(599)
    deployment = Deployment((1,) * len(task.types))
    seen = Observation(0.0, 100.0, 0.5, 0.02, deployment)
    assert 1 <= deployment.after(policy.decide(seen)).parallelism <= task.k_max


def test_service_times_that_an_operator_saw_itself_stay(document: dict[str, Any]) -> None:
    own = make_planner(replace(TASK, types=TASK.types[::-1]))
    own.state.capacity.service[2], own.state.capacity.sights[2] = 0.011, 7  # of the first type of TASK
    new = make_planner()
    before = parse_experience(document).arrays["capacity.service"]
    adopt_experience(new, parse_experience(document), own)
    assert new.state.capacity.service[0] == 0.011
    np.testing.assert_array_equal(new.state.capacity.service[1:], before[1:])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"format": 2}, "it is of format 2, and this agent reads format 1"),
        ({"arrays": "A" * (MAX_BYTES + 1)}, "it takes 262,145 bytes, and may take 262,144"),
        ({"arrays": 7}, r"it is damaged \(it holds no arrays\)"),
        (
            {"slots": "many"},
            r"it is damaged \(its slots are 'many', and must be a whole number from 1 to 2,147,483,648",
        ),
        ({"slots": -1}, r"it is damaged \(its slots are -1,"),
        ({"slots": 0}, r"it is damaged \(its slots are 0,"),
        ({"slots": True}, r"it is damaged \(its slots are True,"),
        ({"slots": 1e308}, r"it is damaged \(its slots are 1e\+308,"),
        ({"slots": 10**400}, r"it is damaged \(its slots are 10{39},"),
        ({"slots": 2**31 + 1}, r"it is damaged \(its slots are 2147483649,"),
        ({"slot_s": 0.0}, r"it is damaged \(its slots have no length, or no end\)"),
        ({"slot_s": 1e308}, r"it is damaged \(its slots have no length, or no end\)"),
        ({"since": 1.7e308, "slot_s": 1e305}, r"it is damaged \(its slots have no length, or no end\)"),
        ({"since": float("nan")}, r"it is damaged \(its slots have no length, or no end\)"),
        ({"nodes": []}, r"it is damaged \(its nodes must be a list of 1 to 64 node types\)"),
        ({"nodes": "abc"}, r"it is damaged \(its nodes must be a list of 1 to 64 node types\)"),
        ({"nodes": [7] * 65}, r"it is damaged \(its nodes must be a list of 1 to 64 node types\)"),
        ({"nodes": [{"name": "small"}]}, "it is damaged"),
    ],
)
def test_what_cannot_be_read_has_one_reason(document: dict[str, Any], changes: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=f"^{why}"):
        parse_experience({**document, **changes})


def test_a_packed_bomb_is_refused(document: dict[str, Any]) -> None:
    bomb = pack({"chain.rates": np.zeros(20_000_000)})
    assert len(bomb) < MAX_BYTES
    with pytest.raises(BadInput, match=r"^it is damaged \(the arrays take more than 16,777,216 bytes\)$"):
        parse_experience({**document, "arrays": bomb})


def pack_raw(head: bytes, body: bytes = b"") -> str:
    """A text with a correct CRC-32, whatever the head says."""
    whole = head + b"\n" + body
    return base64.b64encode(zlib.crc32(whole).to_bytes(4, "big") + zlib.compress(whole)).decode()


def pack_shape(shape: str) -> str:
    return pack_raw(b'{"a":["<f8",%s]}' % shape.encode())


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        (pack_shape("[1,1,1,1,0]"), "array 'a' has no shape of at most 4 dimensions"),
        (pack_shape('"0"'), "array 'a' has no shape of at most 4 dimensions"),
        (pack_shape(f"[{'9' * 4000},0]"), "array 'a' has a dimension below 0, or more values than may be unpacked"),
        (pack_shape("[4097,4097,0]"), "array 'a' has a dimension below 0, or more values than may be unpacked"),
        (pack_shape("[-1]"), "array 'a' has a dimension below 0, or more values than may be unpacked"),
        (pack_shape("[true]"), "array 'a' has a dimension below 0, or more values than may be unpacked"),
        (pack_raw(b'{"a":[' + b"[]," * 5_000_000 + b"[]]}"), "the list of the arrays does not end within 65,536 bytes"),
        (pack_raw(b"[" * 1_000_000), "the list of the arrays does not end within 65,536 bytes"),
    ],
    ids=["dimensions", "no-shape", "digits", "product", "negative", "flag", "lists", "depth"],
)
def test_sizes_are_refused_before_anything_is_made(document: dict[str, Any], arrays: str, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_experience({**document, "arrays": arrays})
    assert str(caught.value) == f"it is damaged ({why})"


def test_a_head_of_deep_lists_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"^it is damaged \(RecursionError"):
        parse_experience({**document, "arrays": pack_raw(b"[" * 60_000)})


def test_slots_that_nobody_learned_are_refused(document: dict[str, Any]) -> None:
    policy = make_planner()
    for task in (document["task"], "another"):
        with pytest.raises(BadInput, match="its slots are 600, and its arrays were learned from 599"):
            adopt_experience(policy, parse_experience({**document, "slots": 600, "task": task}))
    assert policy.count_slots() == 0


def test_what_learned_nothing_or_unpacks_to_too_much_is_not_shared() -> None:
    assert share_experience(make_planner(), "planner", SLOT_S) is None
    large = make_planner(make_task(k_max=60))
    large.state.clock[0] = 1
    assert share_experience(large, "planner", SLOT_S) is None


def spoil(found: Experience, name: str, value: Any) -> Experience:
    return replace(found, arrays={**found.arrays, name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chain.rates", np.zeros((3, 3))),
        ("chain.visits", np.full(64, np.nan)),
        ("chain.place", np.array([64, 5])),
        ("chain.visits", np.full(64, -1.0)),
        ("chain.shifted", np.zeros(1)),
        ("course.turn", np.array([70, 0])),
        ("capacity.service", np.zeros(3)),
        ("shadow", np.array([9, 1, 1])),
        ("surplus", np.zeros(1)),
    ],
)
def test_arrays_that_do_not_fit_leave_the_policy_as_it_was(document: dict[str, Any], name: str, value: Any) -> None:
    policy = make_planner()
    before = {key: np.array(array) for key, array in policy.save().items()}
    with pytest.raises(BadInput, match="it is damaged"):
        adopt_experience(policy, spoil(parse_experience(document), name, value))
    for key, array in policy.save().items():
        np.testing.assert_array_equal(array, before[key])


@pytest.mark.parametrize("changes", [{"k_max": 10**9}, {"nodes": TASK.types * 10**4}, {"highest_rate": -1.0}])
def test_a_task_that_none_should_be_made_for_is_refused(document: dict[str, Any], changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        adopt_experience(make_planner(), replace(parse_experience(document), task="another", **changes))


def test_other_policies_slots_and_worlds_are_refused(document: dict[str, Any]) -> None:
    found = parse_experience(document)
    with pytest.raises(BadInput, match=r"slots of 60 s, and this agent decides every 10 s"):
        check_slot(found, "planner", 10.0)
    with pytest.raises(BadInput, match="of policy 'planner', and 'ds2' decides"):
        check_slot(found, "ds2", 60.0)
    with pytest.raises(BadInput, match="changes are of another size"):
        adopt_experience(make_planner(make_task(k_max=6)), found)
    with pytest.raises(BadInput, match="no use for it"):
        adopt_experience(build_policy(find_policy("threshold-c"), TASK), found)


def test_what_is_too_large_loses_what_was_seen_seldom(learned: Policy, document: dict[str, Any]) -> None:
    whole = len(document["arrays"])
    small = share_experience(learned, "planner", SLOT_S, limit=whole - 500)
    assert small is not None
    assert len(small["arrays"]) <= whole - 500
    found = parse_experience(small)
    assert 0.0 < found.arrays["chain.visits"].sum() < 599.0
    assert found.arrays["chain.visits"][found.arrays["chain.visits"] > 0.0].min() >= 2.0
    np.testing.assert_array_equal(found.arrays["chain.shifts"], learned.save()["chain.shifts"])
    adopt_experience(make_planner(), found)
    assert share_experience(learned, "planner", SLOT_S, limit=100) is None


@pytest.mark.parametrize("name", ["threshold-c", "ds2-p", "static"])
def test_policies_that_learn_no_load_share_nothing(name: str) -> None:
    assert share_experience(build_policy(find_policy(name), TASK), name, SLOT_S) is None


@pytest.mark.parametrize(
    ("seconds", "said"), [(14 * 86_400.0, "14 days"), (86_400.0, "1 day"), (7_300.0, "2 hours"), (90.0, "90 s")]
)
def test_spans_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert describe_span(seconds) == said


@pytest.mark.slow
@pytest.mark.parametrize("one_at_a_time", [False, True])
def test_fourteen_days_fit_at_three_types_and_twenty_replicas(one_at_a_time: bool) -> None:
    """As learned from a load that goes everywhere; and a planner holds no more than it may."""
    rates = make_rates(14 * 1440, seed=3) + np.repeat(np.random.default_rng(3).uniform(0.0, 300.0, 14 * 24), 60)
    task = make_task(k_max=20, highest_rate=float(rates.max()), one_at_a_time=one_at_a_time)
    policy = make_planner(task)
    policy.state = replay(task, rates, policy.kernel).state
    document = share_experience(policy, "planner", SLOT_S)
    assert document is not None
    assert len(json.dumps(document)) <= MAX_BYTES + 1000
    assert policy.held_bytes() <= 64 << 20
    found = parse_experience(document)
    name = "workload.visits" if one_at_a_time else "chain.visits"
    assert found.arrays[name].sum() >= 0.99 * policy.save()[name].sum()
    new = make_planner(task)
    adopt_experience(new, found)
    assert new.count_slots() == len(rates) - 1


@pytest.mark.slow
def test_a_replay_begins_with_its_history() -> None:
    """What a day's load does is known on the first day, which is then cheaper than for a stranger."""
    times = np.arange(3 * 480)
    rates = 300.0 - 200.0 * np.cos(2.0 * np.pi * times / 480.0) + np.random.default_rng(1).normal(0.0, 20.0, times.size)
    setting = Setting(
        Application((Operator("count", TASK.moments, 6),)), find_infrastructure("A", 3), Trace(rates[960:]), "planner",
        0.05, highest_rate=float(rates.max()), one_at_a_time=True,
    )  # fmt: skip
    known = replace(setting, options={"history": rates[:960]})
    stranger, veteran = simulate(setting), simulate(known)
    assert veteran.cost < 0.97 * stranger.cost
    assert simulate(known).cost == veteran.cost
