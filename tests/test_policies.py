"""What every policy in the registry keeps to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from scaler.model.errors import BadInput
from scaler.model.kernel import lay_out, two_slowest
from scaler.model.nodes import NOTHING, Deployment, Reconfiguration
from scaler.model.policy import Observation, Policy, Transition, build_policy
from scaler.model.task import Weights
from scaler.policies import POLICIES, find_policy
from sim.compiler import start_compiling
from sim.plant import memoryless
from sim.replicas import Inertia, fresh_plant
from tests.examples import interpreted, make_rates, make_task

ROOT = Path(__file__).parents[1]
TASK = make_task(types=3, k_max=4)
P = lay_out(TASK)
start_compiling()


def observe(deployment: Deployment, rate: float, time: float = 0.0) -> Observation:
    k = np.array(deployment.replicas)
    plant = fresh_plant(P, k, Inertia())
    utilisation, response, _ = memoryless(P, plant, k, int(k.sum()), two_slowest(P, k)[0], rate)
    return Observation(time, rate, utilisation, response, deployment)


def drive(policy: Policy, slots: int, seed: int = 0) -> Iterator[tuple[Observation, Reconfiguration]]:
    """Let a policy run; yields what it saw and what it chose."""
    deployment, before, done = Deployment((1, 0, 0)), None, NOTHING
    for t, rate in enumerate(make_rates(slots, seed).tolist()):
        now = observe(deployment, rate, 60.0 * t)
        if before is not None:
            policy.learn(Transition(before, now))
        done = policy.decide(now)
        yield now, done
        deployment, before = deployment.after(done), now


@pytest.fixture(params=POLICIES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_it_keeps_between_one_replica_and_the_most(name: str) -> None:
    for now, _ in drive(build_policy(find_policy(name), TASK, 3), 400):
        assert 1 <= now.deployment.parallelism <= TASK.k_max
        assert min(now.deployment.replicas) >= 0


def test_to_decide_changes_nothing(name: str) -> None:
    policy = build_policy(find_policy(name), TASK, 1)
    for now, chosen in drive(policy, 60):
        before = {key: value.copy() for key, value in policy.save().items()}
        assert policy.decide(now) == chosen
        assert policy.decide(now) == chosen
        for key, value in policy.save().items():
            np.testing.assert_array_equal(value, before[key], err_msg=key)


def test_the_same_seed_gives_the_same_run(name: str) -> None:
    runs = [[chosen for _, chosen in drive(build_policy(find_policy(name), TASK, 5), 200)] for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_checkpoint_goes_on_where_it_was(name: str) -> None:
    whole = [chosen for _, chosen in drive(build_policy(find_policy(name), TASK, 2), 300)]
    first, second = build_policy(find_policy(name), TASK, 2), build_policy(find_policy(name), TASK, 2)
    rates = make_rates(300)
    deployment, before, chosen = Deployment((1, 0, 0)), None, []
    policy, done = first, NOTHING
    for t, rate in enumerate(rates.tolist()):
        if t == 150:
            second.load({key: np.array(value) for key, value in first.save().items()})
            policy = second
        now = observe(deployment, rate, 60.0 * t)
        if before is not None:
            policy.learn(Transition(before, now))
        done = policy.decide(now)
        chosen.append(done)
        deployment, before = deployment.after(done), now
    assert chosen == whole


def test_a_foreign_checkpoint_is_refused(name: str) -> None:
    policy = build_policy(find_policy(name), TASK, 0)
    if not policy.save():
        pytest.skip("keeps no state")
    with pytest.raises(BadInput, match="checkpoint"):
        policy.load({"something": np.zeros(1)})


def test_it_learns_from_what_was_really_done(name: str) -> None:
    """Actuation failed: nothing was done though something was chosen; the policy takes it and goes on."""
    policy = build_policy(find_policy(name), TASK, 4)
    before = None
    for t, rate in enumerate(make_rates(100).tolist()):
        now = observe(Deployment((1, 1, 0)), rate, 60.0 * t)
        if before is not None:
            policy.learn(Transition(before, now))
        policy.decide(now)
        before = now
    assert policy.held_bytes() >= 0


def test_inherited_experience_survives_replay_whole(name: str) -> None:
    """Under other weights, bounds, limits and an other order of types; whatever the policy, it goes on deciding."""
    old = build_policy(find_policy(name), TASK, 2)
    slots = list(drive(old, 300))
    before = old.save()
    other = replace(
        TASK, types=(TASK.types[2], TASK.types[0]), bound=1.2 * TASK.bound, weights=Weights(0.2, 0.2, 0.6), k_max=5
    )
    new = build_policy(find_policy(name), other, 2)
    inherited = new.inherit(old)
    assert inherited == (name == "planner")
    given = {key: np.array(value) for key, value in new.save().items()}
    moves = [
        Transition(one, after)
        for (one, _), (after, _) in pairwise(
            (replace(seen, deployment=Deployment((1, 1))), code) for seen, code in slots
        )
    ]
    new.replay(moves)
    for key, value in old.save().items():
        np.testing.assert_array_equal(value, before[key], err_msg=key)  # nothing is shared
    if inherited:
        experience = [key for key in given if key.split(".")[0] in ("workload", "capacity", "peak", "clock")]
        assert len(experience) > 10
        for key in experience:
            np.testing.assert_array_equal(new.save()[key], given[key], err_msg=key)
        assert given["clock"][0] == 299
        assert given["capacity.sights"].tolist() == before["capacity.sights"][[2, 0, 3]].tolist()
        np.testing.assert_array_equal(given["workload.pool"], before["workload.pool"])
    change = new.decide(replace(slots[-1][0], deployment=Deployment((1, 1))))
    assert 1 <= Deployment((1, 1)).after(change).parallelism <= other.k_max


def test_only_policies_of_one_kind_inherit(name: str) -> None:
    other = "threshold-c" if name == "planner" else "planner"
    assert not build_policy(find_policy(name), TASK, 0).inherit(build_policy(find_policy(other), TASK, 0))


def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="no option 'nonsense'"):
        build_policy(find_policy(name), TASK, 0, {"nonsense": 1})


def test_a_policy_that_values_its_alternatives_chooses_the_best(name: str) -> None:
    kind = find_policy(name)
    if kind.worth is None:
        pytest.skip("it does not value them")
    policy = build_policy(kind, TASK, 0)
    agreed = considered = 0
    for now, chosen in drive(policy, 300):
        worth = policy.worth(now)
        assert NOTHING in worth
        best = min(worth.values())
        considered += 1
        agreed += any(value == best and change == chosen for change, value in worth.items())
    assert agreed >= 0.6 * considered  # exploration is the rest


def test_unknown_policies_are_refused_by_name() -> None:
    with pytest.raises(BadInput, match="no policy 'magic'; choose one of static"):
        find_policy("magic")


def test_without_torch_a_deep_policy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [m for m in sys.modules if m.startswith("scaler.policies.learning.deep")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput, match="'dql' needs torch, which the extra 'deep' installs"):
        find_policy("dql")


@pytest.mark.slow
def test_interpreted_and_compiled_choose_alike() -> None:
    for name in POLICIES:
        kernel = find_policy(name)
        if kernel.compiles:
            with interpreted():
                plain = build_policy(kernel, TASK, 6)
            ours, theirs = (
                [chosen for _, chosen in drive(policy, 250)] for policy in (plain, build_policy(kernel, TASK, 6))
            )
            assert ours == theirs, name
