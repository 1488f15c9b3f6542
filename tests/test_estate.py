"""Estate of nodes: placement keeps its laws, pools and grants do what they say, and all combinations run."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim.estate_replay
from scaler.model.errors import BadInput
from scaler.model.joint_changes import AVERTS, NO_WISH, PAYS_ALONE
from scaler.model.nodes import NodeType
from scaler.model.pool import CONFLICT, GRANTED, OVER_BUDGET, PoolStart, PoolView, Region, Requests
from scaler.model.task import Moments
from scaler.policies.grants import GRANTS, find_grant, start_grant
from scaler.policies.pools import POOLS, find_pool, start_pool
from scaler.policies.pools.learned_nodes import average_refusal, back_up, empty_chance
from scaler.policies.pools.learned_nodes import prepare as prepare_learner
from sim.application import Application, Edge, Operator
from sim.estate import (
    ABSENT,
    ACTIVE,
    Site,
    count_replicas,
    lay_out_estate,
    pass_slot,
    path_delays,
    pick_node,
    remove_replica,
    resize_region,
    view_region,
)
from sim.estate_replay import EstateRun, EstateSetting, replay_estate
from sim.infrastructure import Infrastructure
from sim.setting import Setting
from sim.simulate import simulate
from sim.trace import Trace
from tests.examples import make_rates
from tuner.lab.multilevel.printed_tables import STATIC
from tuner.lab.multilevel.wordcount import SLOTS, load_rates, make_estate_setting, make_site, make_wordcount

TRACES = Path(__file__).parents[2] / "shared" / "traces"
needs_traces = pytest.mark.skipif(not TRACES.exists(), reason=f"the traces folder {TRACES} is not there")
PAIR = Application(
    (Operator("a", Moments(0.01, 0.0), 5), Operator("b", Moments(0.02, 0.0), 6)), (Edge("a", "b"),), name="pair"
)
REGION = Region("west", slots=2, most_nodes=7)
OPTIONS = {"static": {"nodes": 6}, "idle-nodes": {"idle": 1}, "headroom": {"free_slots": 2}, "model-based": {}}


def make_pair(*regions: Region) -> Site:
    homes = {"a": regions[0].name, "b": regions[-1].name}
    return Site(regions, homes, {("west", "east"): 0.004})


def make_setting(
    pool: str, slots: int = 150, regions: tuple[Region, ...] = (REGION,), **changes: object
) -> EstateSetting:
    setting = Setting(
        PAIR,
        Infrastructure("uniform", (NodeType("node", 1.0, 1.0),), 1.0),
        Trace(make_rates(slots, 3, high=220.0)),
        "threshold-c",
        r_max=0.1,
    )
    stated = EstateSetting(setting, make_pair(*regions), pool, OPTIONS.get(pool, {}))
    return replace(stated, **changes)  # type: ignore[arg-type]


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops as plain Python: a short run takes less than compiling."""
    monkeypatch.setattr(sim.estate_replay, "compile_kernel", lambda loop: loop)


@given(
    acts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(-3, 3)), max_size=60),
    slots=st.integers(1, 3),
    start_slots=st.integers(0, 2),
    empties=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_no_act_breaks_a_law_of_placement(
    acts: list[tuple[int, int, int]], slots: int, start_slots: int, empties: bool
) -> None:
    regions = (Region("west", slots, 5, 2, start_slots), Region("east", slots, 4, 1, start_slots))
    estate = lay_out_estate(make_pair(*regions), PAIR)
    many = [1, 1]
    for step, (act, o, nodes) in enumerate(acts):
        before, r = estate.hosted.copy(), int(estate.home[o])
        if act == 0:
            node = pick_node(estate, r)
            full = view_region(estate, r, 0.0, 0).free == 0
            assert (node < 0) == full
            if node >= 0:
                estate.hosted[r, node, o] += 1
                many[o] += 1
        elif act == 1 and many[o] > 0:
            remove_replica(estate, o, empties, 7, step)
            many[o] -= 1
        elif act == 2:
            done = resize_region(estate, r, nodes)
            assert abs(done) <= abs(nodes)
            assert (estate.hosted == before).all()
        else:
            pass_slot(estate)
            assert (estate.hosted == before).all()
        assert np.abs(estate.hosted - before).sum() <= 1  # replicas never move without a change
        assert count_replicas(estate) == many
        hosted = estate.hosted.sum(axis=2)
        assert (estate.hosted >= 0).all()
        assert (hosted <= slots).all()
        assert (hosted[estate.until_active != ACTIVE] == 0).all()
        for region in range(2):
            view = view_region(estate, region, 0.0, 0)
            assert view.active * slots == view.free + hosted[region].sum()
            assert view.active + view.starting == (estate.until_active[region] != ABSENT).sum() <= view.most


def test_a_replica_goes_to_the_fullest_node_with_room() -> None:
    estate = lay_out_estate(make_pair(Region("west", 3, 4, 3)), PAIR)
    assert estate.hosted.sum(axis=2).tolist() == [[2, 0, 0, 0]]
    estate.hosted[0, 1, 0] = 1
    assert pick_node(estate, 0) == 0
    estate.hosted[0, 0, 1] += 1
    assert pick_node(estate, 0) == 1


def test_emptying_removal_takes_the_replica_that_is_nearly_alone() -> None:
    estate = lay_out_estate(make_pair(Region("west", 3, 4, 3)), PAIR)
    estate.hosted[0, 2, 0] = 1
    for step in range(5):
        remove_replica(estate, 0, True, 1, step)
        assert estate.hosted[0, :, 0].tolist() == [1, 0, 0, 0]
        estate.hosted[0, 2, 0] = 1


def test_random_removal_is_even_over_replicas() -> None:
    estate = lay_out_estate(make_pair(Region("west", 4, 3, 2)), PAIR)
    estate.hosted[0, :, 0] = [1, 3, 0]
    first = 0
    for step in range(2_000):
        remove_replica(estate, 0, False, 5, step)
        first += estate.hosted[0, 0, 0] == 0
        estate.hosted[0, :, 0] = [1, 3, 0]
    assert abs(first / 2_000 - 0.25) < 4.0 * (0.25 * 0.75 / 2_000) ** 0.5


def test_a_node_serves_after_its_start_up() -> None:
    estate = lay_out_estate(make_pair(Region("west", 2, 4, 1, start_slots=2)), PAIR)
    resize_region(estate, 0, 1)
    seen = []
    for _ in range(3):
        view = view_region(estate, 0, 0.0, 0)
        seen.append((view.active, view.starting))
        pass_slot(estate)
    assert seen == [(1, 1), (1, 1), (2, 0)]


def test_delays_between_regions_add_up_along_a_path() -> None:
    assert path_delays(make_pair(REGION, replace(REGION, name="east")), PAIR).tolist() == [0.004]
    assert path_delays(make_pair(REGION), PAIR).tolist() == [0.0]
    assert path_delays(make_site(), make_wordcount()) == pytest.approx([0.003])


REGIONS = {
    "one": (REGION,),
    "two": (REGION, Region("east", slots=3, most_nodes=5, first_nodes=2, start_slots=0, price=2.0)),
    "slow": (replace(REGION, start_slots=3),),
}


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(("pool", "where"), list(product(POOLS, REGIONS)))
def test_every_pool_policy_runs_in_every_setting(pool: str, where: str) -> None:
    for grant, empties in product(GRANTS, (False, True)):
        stated = make_setting(pool, 80, REGIONS[where], grant=grant, empties=empties)
        run = replay_estate(stated, 1, block=1)
        slots = max(region.slots for region in REGIONS[where])
        assert (run.blocks["nodes"] * slots >= run.blocks["replicas"]).all()
        assert min(run.refused.values()) >= 0
        assert (np.abs(np.diff(run.blocks["replicas"])) <= 2 * run.blocks["reconfigurations"][:-1]).all()
        again = replay_estate(stated, 1, block=1)
        assert again.blocks["nodes"].tolist() == run.blocks["nodes"].tolist()


def count_refusals(run: EstateRun) -> int:
    return sum(run.refused.values())


@pytest.mark.usefixtures("interpreted")
def test_slots_that_are_free_are_cheaper_than_nodes_that_are_empty() -> None:
    idle, headroom = (
        replay_estate(make_setting(pool, 400, (replace(REGION, first_nodes=3),), pool_options=options))
        for pool, options in (("idle-nodes", {"idle": 2}), ("headroom", {"free_slots": 2}))  # two operators
    )
    assert count_refusals(idle) == count_refusals(headroom) == 0
    assert headroom.nodes < idle.nodes
    assert headroom.violations == idle.violations


@pytest.mark.usefixtures("interpreted")
def test_too_few_nodes_refuse_with_the_reason() -> None:
    run = replay_estate(make_setting("static", pool_options={"nodes": 1}), 0)
    assert run.refused["no node of the region has a free slot"] > 0
    assert run.short > 0.0
    assert run.replicas <= 2.0


@pytest.mark.usefixtures("interpreted")
def test_a_plentiful_estate_is_the_simulator_without_one() -> None:
    stated = make_setting("static", 200, (replace(REGION, first_nodes=7),), pool_options={"nodes": 7})
    run, alone = replay_estate(stated), simulate(replace(stated.setting, one_at_a_time=True))
    assert run.violations == alone.violations
    assert run.reconfigurations == alone.reconfigurations
    assert run.replicas == pytest.approx(float(alone.replicas.sum()))


def view(active: int, empty: int, free: int, starting: int = 0, refused: int = 0) -> PoolView:
    return PoolView(active, starting, empty, free, 2, 7, 0.5, refused)


@pytest.mark.parametrize(
    ("pool", "options", "seen", "wanted"),
    [
        ("static", {"nodes": 4}, view(2, 0, 0, starting=1), 1),
        ("static", {"nodes": 2}, view(5, 1, 3), -1),
        ("idle-nodes", {"idle": 2}, view(3, 1, 2), 1),
        ("idle-nodes", {"idle": 2}, view(3, 1, 2, starting=1), 0),
        ("idle-nodes", {"idle": 1}, view(5, 4, 8), -3),
        ("idle-nodes", {"idle": 2}, view(7, 0, 0), 0),
        ("headroom", {"free_slots": 1}, view(3, 0, 0), 1),
        ("headroom", {"free_slots": 1}, view(3, 0, 0, starting=1), 0),
        ("headroom", {"free_slots": 1}, view(3, 1, 3), -1),
        ("headroom", {"free_slots": 2}, view(3, 1, 3), 0),
        ("headroom", {"free_slots": 5}, view(3, 0, 0), 3),
        ("headroom", {"free_slots": 5}, view(6, 0, 0), 1),
    ],
)
def test_rules_order_and_release(pool: str, options: dict[str, int], seen: PoolView, wanted: int) -> None:
    kernel = find_pool(pool)
    assert kernel.decide(start_pool(kernel, PoolStart(REGION, options)), seen) == wanted


@given(
    st.sampled_from(sorted(POOLS)), st.integers(0, 7), st.integers(0, 7), st.integers(0, 14), st.integers(0, 3),
    st.floats(0.0, 1.0),
)  # fmt: skip
def test_no_pool_wants_more_than_there_is(
    pool: str, active: int, empty: int, free: int, starting: int, utilisation: float
) -> None:
    active, empty = min(active, 7 - starting), min(empty, active)
    kernel = find_pool(pool)
    seen = PoolView(active, starting, empty, free, 2, 7, utilisation, 0)
    wanted = kernel.decide(start_pool(kernel, PoolStart(REGION, OPTIONS[pool])), seen)
    assert -empty <= wanted <= max(0, 7 - active - starting)


def test_the_learners_backups_end_at_the_dense_solvers_optimum() -> None:
    """Values of all states by linear equations, for the policy that is greedy in what the backups ended at."""
    state = prepare_learner(PoolStart(replace(REGION, most_nodes=3), {"gamma": 0.9}))
    rng = np.random.default_rng(4)
    state.shares[:] = rng.dirichlet(np.ones(11), 11)
    state.empties[:] = rng.integers(1, 9, state.empties.shape)
    state.refusal[:] = rng.random(state.refusal.shape)
    for _ in range(300):
        back_up(state)
    states = list(product(range(2), range(11), range(4)))
    number = {one: at for at, one in enumerate(states)}
    transition, cost = np.zeros((len(states),) * 2), np.zeros(len(states))

    def weigh(f: int, u: int, k: int, action: int) -> tuple[float, dict[tuple[int, int, int], float]]:
        chance = empty_chance(state, f, action)
        onward = {
            (after, load, k + action): (chance if after else 1.0 - chance) * state.shares[u, load]
            for after, load in product(range(2), range(11))
        }
        return 0.3 * (k + action) / 3 + sum(p * state.refusal[to] for to, p in onward.items()), onward

    for f, u, k in states:
        allowed = [a for a in (0, 1, -1) if 0 <= k + a <= 3 and (a >= 0 or f == 1)]
        weighed = [weigh(f, u, k, action) for action in allowed]
        totals = [here + 0.9 * sum(p * state.values[to] for to, p in onward.items()) for here, onward in weighed]
        cost[number[f, u, k]], onward = weighed[int(np.argmin(totals))]
        for to, p in onward.items():
            transition[number[f, u, k], number[to]] += p
    values = np.linalg.solve(np.eye(len(states)) - 0.9 * transition, cost)
    assert state.values.ravel() == pytest.approx(values, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10), st.integers(0, 1), st.booleans()), max_size=40))
def test_refusals_are_never_dearer_with_more_nodes_or_less_load(seen: list[tuple[int, int, int, bool]]) -> None:
    state = prepare_learner(PoolStart(replace(REGION, most_nodes=3)))
    for k, u, f, refused in seen:
        average_refusal(state, k, u, f, 0.7 * refused)
        assert (np.diff(state.refusal, axis=2) <= 0.0).all()
        assert (np.diff(state.refusal, axis=1) >= 0.0).all()
        assert (state.refusal >= 0.0).all()
        assert (state.refusal <= 0.7).all()


def request(*entries: tuple[int, int, int]) -> Requests:
    """Requests of (delta, node, free slots of it)."""
    delta, node, room = (np.array(column) for column in zip(*entries, strict=True))
    wish = np.where(delta > 0, AVERTS, np.where(delta < 0, PAYS_ALONE, NO_WISH))
    return Requests(delta, node, room, wish, np.ones(len(delta)))


def settle(grant: str, requests: Requests, **options: float) -> list[int]:
    kernel = find_grant(grant)
    reasons = np.zeros(len(requests.delta), np.int64)
    kernel.grant(start_grant(kernel, len(reasons), options), requests, reasons)
    return reasons.tolist()


def test_grants_refuse_conflicts_and_what_has_no_token() -> None:
    both = request((1, 4, 1), (1, 4, 1), (-1, -1, 0))
    assert settle("all", both) == [GRANTED] * 3
    assert settle("no-conflict", both) == [GRANTED, CONFLICT, GRANTED]
    assert settle("no-conflict", request((1, 4, 2), (1, 4, 2))) == [GRANTED, GRANTED]
    assert settle("tokens", request((-1, -1, 0), (0, -1, 0)), eta_r=0.0) == [OVER_BUDGET, GRANTED]
    assert settle("tokens", request((1, 4, 1), (-1, -1, 0)), eta_r=0.0) == [GRANTED, OVER_BUDGET]


@pytest.mark.usefixtures("interpreted")
def test_tokens_bound_the_slots_that_change() -> None:
    free, bound = (
        replay_estate(
            make_setting("static", 600, grant="tokens", grant_options={"eta_r": eta}, pool_options={"nodes": 7})
        )
        for eta in (1.0, 0.005)
    )
    assert bound.refused["the budget of changes has no token"] > 0
    assert bound.reconfigurations < free.reconfigurations


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: find_pool("elastic"), "there is no pool policy 'elastic'; choose one of static"),
        (lambda: find_grant("some"), "there is no grant 'some'; choose one of all"),
        (lambda: start_pool(find_pool("headroom"), PoolStart(REGION, {"idle": 1})), "headroom has no option 'idle'"),
        (lambda: Region("west", 0, 4), "a node has 0 slots"),
        (lambda: Region("west", 2, 4, 5), "starts with 5 nodes"),
        (lambda: Site((REGION,), {"a": "east"}, {}), "operator 'a' is in region 'east'; the regions are west"),
        (lambda: lay_out_estate(Site((REGION,), {"a": "west"}, {}), PAIR), "operator 'b' has no region"),
        (lambda: lay_out_estate(make_pair(Region("west", 1, 4, 1)), PAIR), "has no slot for the first replicas of 'b'"),
        (lambda: replace(make_setting("static"), setting=replace(make_setting("static").setting, plant="backlog")),
         "replayed in slots without memory"),
    ],
)  # fmt: skip
def test_mistakes_are_named(make: object, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        make()  # type: ignore[operator]


@needs_traces
@pytest.mark.slow
def test_the_published_static_row_comes_out_to_the_digit() -> None:
    run = replay_estate(make_estate_setting(load_rates(TRACES, SLOTS), "threshold", STATIC))
    assert run.violations == pytest.approx(0.00011, abs=1e-5)
    assert run.reconfigurations == pytest.approx(0.03212, abs=1e-5)
    assert run.replicas == pytest.approx(17.839, abs=1e-3)
    assert count_refusals(run) == 0
