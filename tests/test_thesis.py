"""The thesis on Spark Streaming: its learner by parts against plain twins, OPO, the batch clock, the command."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tuner.lab.thesis.outcome as outcome_module
from scaler.model.errors import BadInput
from scaler.model.kernel import lay_out, view_deployment
from scaler.model.micro_batches import MicroBatches
from scaler.model.policy import Start
from scaler.model.task import Task
from scaler.policies.learning import azimi
from scaler.policies.learning.batch_clock import fresh_clock, hear, pass_slot
from scaler.policies.learning.latency_levels import IN, NOTHING, OUT, Sight, first_values, reward
from scaler.policies.learning.sampled_values import iterate_values, no_samples, sample
from scaler.policies.rules import opo
from sim.batch_course import fresh_batch_plant
from sim.batch_plant import serve_batches
from sim.replicas import Inertia
from tests.commands import refuse, succeed
from tests.examples import make_task
from tuner.lab.thesis.claims import HOLDS, NOISE, REVERSED, Claim, decide_claim
from tuner.lab.thesis.experiments import list_recipes, read_runs, replay_run
from tuner.lab.thesis.plant import SLOTS, identified_batches, make_setting

TRACES = Path(__file__).parents[2] / "shared" / "traces"
needs_traces = pytest.mark.skipif(not TRACES.exists(), reason=f"the traces folder {TRACES} is not there")
UNMERGED = MicroBatches(10.0, 8.0, merge=False)
TASK = make_task(types=1, k_max=24, k_min=4, bound=35.0, slot_s=10.0, batches=UNMERGED, one_at_a_time=False)


def learner(task: Task = TASK, **options: object) -> azimi.State:
    return azimi.prepare(Start(task, task, 0, options), 0)


def draw_samples(rng: np.random.Generator, states: int, many: int) -> tuple[object, np.ndarray, np.ndarray]:
    """Samples of every state and action, with their mean rewards and their shares of followers."""
    samples = no_samples(states, 3)
    for state, action in product(range(states), range(3)):
        for _ in range(many):
            sample(samples, state, action, float(rng.normal()), int(rng.integers(states)))
    return samples, samples.rewards / many, samples.followers / many


def test_sampled_values_are_those_of_a_dense_solver() -> None:
    samples, rewards, shares = draw_samples(np.random.default_rng(1), 6, 4)
    policy = np.zeros(6, np.int64)
    for _ in range(100):  # policy iteration, each policy solved as linear equations
        row = np.arange(6)
        values = np.linalg.solve(np.eye(6) - 0.9 * shares[row, policy], rewards[row, policy])
        policy = (rewards + 0.9 * shares @ values).argmax(axis=1)
    q = np.zeros((6, 3))
    iterate_values(samples, q, 0.9, 400, False)
    np.testing.assert_allclose(q, rewards + 0.9 * shares @ values, rtol=1e-9)


def test_published_slip_ignores_where_an_action_leads() -> None:
    samples, rewards, _ = draw_samples(np.random.default_rng(2), 5, 3)
    q = np.zeros((5, 3))
    iterate_values(samples, q, 0.9, 400, True)
    values = rewards.max(axis=1) / (1.0 - 0.9)  # V = max R + gamma V
    np.testing.assert_allclose(q, rewards + 0.9 * values[:, None], rtol=1e-9)


def test_what_was_not_sampled_stays_zero() -> None:
    samples, q = no_samples(3, 3), np.ones((3, 3))
    sample(samples, 1, OUT, 2.0, 1)
    iterate_values(samples, q, 0.5, 2, False)
    assert q.tolist() == [[0, 0, 0], [0, 3.0, 0], [0, 0, 0]]


def test_first_values_are_the_four_regions() -> None:
    q = first_values("optimized", 8, 3, 0)  # by nothing, out, in; two rows a level, the rising one second
    np.testing.assert_allclose(q[2 * 1], [1 / 3, 0.0, 2 / 3])  # safe, not rising
    np.testing.assert_allclose(q[2 * 1 + 1], [2 / 3, 1 / 3, 0.0])
    assert q[2 * 3].tolist() == [1.0, 0.0, -1.0]  # danger, not rising
    assert q[2 * 3 + 1].tolist() == [0.0, 1.0, -1.0]
    np.testing.assert_allclose(first_values("as-written", 8, 3, 0)[2 * 6 + 1], [1.0, 2.0, -1.0])
    drawn = first_values("random", 8, 3, 5)
    assert -1.0 < drawn.min() < -0.5
    assert 0.5 < drawn.max() < 1.0
    assert not first_values("zero", 8, 3, 0).any()


def expected_reward(before: Sight, action: int, now: Sight, count: int) -> float:
    """The rules of the thesis's code, one after another, with target 30 s in steps of 10 s, 4 to 24 executors."""
    depth, room, scarcity = now.level - 3 + 1, 3 - now.level, 24 / count
    if now.level >= 3:
        rules = [
            (now.level < before.level or now.queue < before.queue, depth),
            (action == OUT and (now.level == before.level or now.rising), depth),
            (action == NOTHING and count == 24, 1),
            (action == NOTHING and now.level == before.level and not now.rising, depth),
            (True, -depth),
        ]
    else:
        low = now.level < before.level or now.level == before.level == 0
        idle = before.level < 3 and action == NOTHING and not now.rising and count != 4 and low
        rules = [
            (idle, -max(scarcity, room)),
            (action == OUT and now.level >= before.level and not now.rising, -max(scarcity, room)),
            (action == NOTHING and count == 4, 0),
            (True, 1),
        ]
    return next(worth for applies, worth in rules if applies)


sights = st.builds(Sight, st.integers(0, 8), st.booleans(), st.integers(0, 4).map(float))


@given(sights, st.sampled_from([NOTHING, OUT, IN]), sights, st.sampled_from([4, 9, 24]))
def test_rewards_are_those_of_the_rules_in_order(before: Sight, action: int, now: Sight, count: int) -> None:
    assert reward(before, action, now, 3, count, 4, 24, 0) == pytest.approx(expected_reward(before, action, now, count))


def test_the_other_reward_prefers_to_do_nothing() -> None:
    calm = Sight(1, False, 0.0)
    assert reward(calm, OUT, calm, 3, 8, 4, 24, 1) == -3.0
    assert reward(calm, NOTHING, calm, 3, 8, 4, 24, 1) == 2.0


@given(
    st.lists(st.floats(-5.0, 5.0), min_size=3, max_size=3),
    st.sampled_from([NOTHING, OUT, IN]),
    st.integers(0, 6),
    st.integers(0, 6),
    st.sampled_from([4, 5, 12, 24]),
)
def test_choice_is_the_best_that_monotonicity_leaves(
    values: list[float], last: int, before: int, level: int, count: int
) -> None:
    s = learner()
    s.course[azimi.ACTION], s.course[azimi.LEVEL] = last, before
    s.q[2 * level] = values
    chosen = azimi.choose(lay_out(TASK), s, count, Sight(level, False, 0.0))
    left = [NOTHING]
    left += [OUT] if count < 24 and not (last == IN and level < before) else []
    left += [IN] if count > 4 and not (last == OUT and level > before) else []
    assert chosen in left
    assert values[chosen] == max(values[action] for action in left)


def test_exploration_falls_step_by_step_and_is_never_idle() -> None:
    s = learner(choice="decreasing", epsilon=1.0, epsilon_step=0.4, start="zero")
    chosen = [azimi.choose(lay_out(TASK), s, 4, Sight(2, False, 0.0)) for _ in range(3)]
    assert chosen[0] == OUT  # on the fewest executors
    assert s.reals[azimi.EPSILON] == pytest.approx(-0.2)
    assert azimi.choose(lay_out(TASK), s, 24, Sight(2, False, 0.0)) == NOTHING  # zeros stay


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("static", [2, 2, 2, -2, -2]), ("linear", [2, 4, 6, -2, -4]), ("queue", [1, 4, 4, -2, -2])],
)
def test_strategies_say_how_many(strategy: str, expected: list[int]) -> None:
    s, p = learner(strategy=strategy, step=2), lay_out(TASK)
    choices, queues = [OUT, OUT, OUT, IN, IN], [2.0, 7.0, 7.9, 0.0, 0.0]
    assert [azimi.size(p, s, choice, 12, queue) for choice, queue in zip(choices, queues, strict=True)] == expected
    assert azimi.size(p, s, OUT, 23, 50.0) == 1  # no more than there may be
    assert azimi.size(p, s, IN, 5, 0.0) == -1


def test_training_samples_first_and_learns_from_then_on() -> None:
    """In danger all the while and doing nothing: Q stays 0 until training ends, then says that nothing is bad."""
    task = make_task(types=1, k_max=24, k_min=4, bound=30.0, slot_s=10.0, one_at_a_time=False)
    p, s, k = lay_out(task), learner(task, train=20, start="zero", epsilon=0.0, window=1), np.array([6])
    seen = [view_deployment(p, k, 50.0, 0.9, 31.0 + 10.0 * slot, 50.0) for slot in range(30)]
    for slot in range(1, 22):
        azimi.learn(p, s, k, seen[slot - 1], 0, seen[slot])
    assert s.samples.counts[:, NOTHING].sum() == 19
    assert not s.q.any()
    azimi.learn(p, s, k, seen[21], 0, seen[22])
    assert s.q[:, NOTHING].min() < 0.0
    assert s.samples.counts.sum() == 19


@given(
    st.lists(st.tuples(st.floats(0.05, 4.0), st.sampled_from([0.0, 5.0, 9.0])), min_size=1, max_size=40),
)
def test_batches_are_heard_of_when_they_end(slots: list[tuple[float, float]]) -> None:
    """Against a server that takes batches one by one; all that begin in a slot take what that slot says."""
    clock, heard = fresh_clock(), []
    free, queue, ended = 0.0, [], []
    for now, (lasts, rate) in enumerate(slots, 1):
        pass_slot(clock, rate)
        batch = hear(clock, lasts)
        while batch.cut >= 0:
            heard.append((now, batch.cut, round(batch.latency, 9), batch.rate))
            batch = hear(clock, lasts)
        queue.append(now - 1)
        while queue and max(free, queue[0]) < now:
            cut = queue.pop(0)
            came = slots[cut - 1][1] if cut > 0 else 0.0
            free = max(free, cut) + (lasts if came > 0.0 else 0.0)
            if came > 0.0:
                ended.append((max(now, math.ceil(free)), cut, round(free - cut, 9), came))
    assert heard == [batch for batch in ended if batch[0] <= len(slots)]


def test_a_batch_clock_needs_a_batch_a_slot() -> None:
    with pytest.raises(BadInput, match="clock = 'batch' needs batches that are not merged"):
        learner(make_task(), clock="batch")
    with pytest.raises(BadInput, match="'strategy' is 'fast', and must be one of static, linear, queue"):
        learner(strategy="fast")


def test_overhead_by_replicas_is_what_a_batch_takes() -> None:
    curve = (9.0, 7.0, 3.0)
    task = make_task(
        types=1, bound=35.0, slot_s=10.0, batches=MicroBatches(10.0, 3.0, merge=False, overhead_curve_s=curve)
    )
    p = lay_out(task)
    for replicas, lasts in ((1, 9.0), (2, 7.0), (3, 3.0), (4, 3.0)):
        k = np.array([replicas])
        plant = fresh_batch_plant(p, k, Inertia(10.0, 0.0, 0.0), task.batches, 0)
        responses = [serve_batches(p, plant, k, replicas, 0, 1e-6)[1] for _ in range(5)]
        assert responses[-1] == pytest.approx(5.0 + lasts, abs=1e-3)


def test_what_waits_unmerged_waits_for_batches_one_by_one() -> None:
    """A slot in which none begins says what the mean one that waits will take, not what one merged batch would."""
    batches = MicroBatches(10.0, 8.0, merge=False, overhead_curve_s=(17.0 / 1.5,))
    task = make_task(types=1, bound=35.0, slot_s=10.0, batches=batches)
    p, k = lay_out(task), np.array([1])
    plant = fresh_batch_plant(p, k, Inertia(10.0, 0.0, 0.0), batches, 0)
    responses = np.array([serve_batches(p, plant, k, 1, 0, 1e-6)[1] for _ in range(200)])
    assert np.abs(np.diff(responses[2:])).max() < 20.0
    assert responses[-1] == pytest.approx(5.0 + 200 * (17.0 / 1.5 - 10.0) * 10.0 / (17.0 / 1.5), rel=0.1)


def test_opo_asks_for_the_fewest_that_seldom_delay() -> None:
    curve = tuple(12.0 if k < 9 else 8.0 for k in range(1, 25))
    task = make_task(
        types=1, k_max=24, k_min=4, bound=35.0, slot_s=10.0, one_at_a_time=False,
        batches=MicroBatches(10.0, 8.0, merge=False, overhead_curve_s=curve),
    )  # fmt: skip
    s, p = opo.prepare(Start(task, task, 0, {}), 0), lay_out(task)
    for _ in range(40):
        opo.keep(s, 12.0, 100.0, 4)
    assert opo.count_delayed(s, 4) == 40
    assert opo.count_delayed(s, 9) == 0
    assert opo.least_executors(p, s) == 9
    assert [opo.half_way(difference, 1) for difference in (20, 1, 5, -1, -5)] == [10, 1, 3, -1, -3]


def test_opo_forgets_batches_of_another_load() -> None:
    s = opo.prepare(Start(TASK, TASK, 0, {}), 0)
    for tuples in [100.0] * 99 + [1000.0] * 99:
        opo.keep(s, 8.0, tuples, 4)
    assert 80 <= s.course[opo.LENGTH] <= 110


def test_verdicts_tell_chance_from_difference() -> None:
    claim, rng = Claim("e1", "worse", "latency", "a", "b"), np.random.default_rng(0)
    low, high = rng.normal(10.0, 1.0, 20), rng.normal(13.0, 1.0, 20)
    assert decide_claim(claim, "w1", high, low).says == HOLDS
    assert decide_claim(claim, "w1", low, high).says == REVERSED
    assert decide_claim(claim, "w1", low, rng.permutation(low)).says == NOISE


def test_every_published_run_has_a_recipe() -> None:
    recipes, runs = list_recipes(), read_runs()
    assert {run.key for run in runs} == set(recipes)
    assert len(set(recipes.values())) == 48


def test_the_plant_is_as_it_was_identified() -> None:
    batches = identified_batches("w1")
    assert batches.overhead_curve_s[3] == 11.0
    assert batches.overhead_curve_s[7] > 10.0 > batches.overhead_curve_s[8]  # the step that decides


@needs_traces
@pytest.mark.slow
def test_static_runs_are_within_a_second_and_few_executors_fall_behind() -> None:
    recipes = list_recipes()
    twelve, four = (replay_run(recipes["final", "w1", run], TRACES, 0) for run in ("S12", "S4"))
    assert twelve.latency_s == pytest.approx(7.81, abs=1.0)
    assert twelve.late == 0.0
    assert four.latency_s > 100.0
    assert make_setting("w1", TRACES, 4).trace.rates.size == SLOTS


@needs_traces
@pytest.mark.slow
def test_the_command_prints_runs_and_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {key: recipe for key, recipe in list_recipes().items() if key[0] == "final" and key[2] in ("S8", "S12")}
    monkeypatch.setattr(outcome_module, "list_recipes", lambda: shown)
    monkeypatch.setattr(outcome_module, "list_rivals", dict)
    monkeypatch.setattr(outcome_module, "read_runs", lambda: [run for run in read_runs() if run.key in shown])
    found = json.loads(succeed("lab", "reproduce", "thesis", "--traces", TRACES, "--seeds", "8", "--json"))
    assert found["printed"] == 8
    assert found["agreeing"] >= 6
    assert [claim["holds"] for claim in found["claims"]] == [True, True]
    assert [table["figure"] for table in found["tables"]] == ["thesis-runs", "thesis-rate"]
    assert len(found["tables"][1]["rows"]) == 4


def test_missing_rates_are_named(tmp_path: Path) -> None:
    assert "thesis_w1_rates.txt is not there" in refuse("lab", "reproduce", "thesis", "--traces", tmp_path)
