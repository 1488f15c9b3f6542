"""Every decision of an agent is stored, explained, shown on the page, served by the API and counted by its code."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaler.agent.decider import Decider
from scaler.agent.record import conclude
from scaler.guards import GUARDS
from scaler.model.decision import (
    BACKLOG,
    CODES,
    KINDS,
    LIMIT,
    METRICS,
    METRICS_HELD,
    SOURCES,
    UNAVAILABLE,
    Decision,
    Objection,
    RecordedNote,
    SlotFigures,
    parse_decision,
)
from scaler.model.nodes import NOTHING, Deployment, NodeType
from scaler.model.orders import Orders
from scaler.model.policy import Observation
from scaler.model.wire import read_json, write_line
from tests.pilot.drive import K_MAX, NODES, SLOT, make_objective, make_orders
from tests.pilot.drive import observe as observe_queue
from tests.service.browsed import Site, browsing
from tests.service.made_decisions import NOW
from tuner.history.explanation import explain
from tuner.service.metrics.running_totals import DecisionCounts
from tuner.service.page.address import link_application, link_explanation
from tuner.store.applications import add_application
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions
from tuner.store.monitoring import list_operator_states
from tuner.views.explanation_lines import to_lines
from tuner.views.words import format_kind

START = NOW - 20 * SLOT
SHOP = {
    "application": {"operator": [{"name": "parse", "service_rate": 180.0, "scv": 0.5, "k_max": K_MAX}]},
    "infrastructure": {"node": [{"name": "A1", "speedup": 1.0, "price": 1.0}]},
    "qos": {"r_max": 0.06},
}
APPS = itertools.count()
NAMES = (("A1", "A2", "A3"), ("+1 small", "<b>;cooldown: x", "no change"))
PENDING_LIMIT = Objection(LIMIT, BACKLOG, "what has waited is still to be worked off", {"backlog": math.inf})
HELD_METRICS = Objection(METRICS, METRICS_HELD, "a batch outlasts the slot")
FIGURES = SlotFigures(0.5, 0.9, backlog=12.0, notes=(RecordedNote("stalled", "it <stalled>", {"for_s": math.inf}),))


@pytest.fixture
def site(store: Store) -> Iterator[Site]:
    with browsing(store, ("read", "report")) as found:
        yield found


def send(site: Site, app: str, decisions: list[Decision]) -> None:
    """As an agent's link does."""
    body = write_line({"instance": "driver-1", "operator": "parse", "decisions": [one.to_json() for one in decisions]})
    answer = site.client.post(
        f"/v1/applications/{app}/reports", content=body,
        headers={"Authorization": f"Bearer {site.token}", "Content-Type": "application/json"},
    )  # fmt: skip
    assert answer.status_code == 200, answer.text


def get(site: Site, path: str, **query: Any) -> Any:
    answer = site.client.get(path, params=query, headers={"Authorization": f"Bearer {site.token}"})
    assert answer.status_code == 200, answer.text
    return read_json(answer.text)


def check_everywhere(site: Site, app: str, made: list[Decision]) -> None:
    """Send decisions of ascending times, and find each of them wherever decisions are read."""
    counts = DecisionCounts()
    with site.store.begin() as session:
        add_application(session, app, SHOP, START)
        counts.count(session, list_operator_states(session))
    send(site, app, made)
    expected = [parse_decision(read_json(write_line(one.to_json()))) for one in made]
    with site.store.read() as session:
        stored = [record.decision for record in reversed(list_decisions(session, app))]
        counted = counts.count(session, list_operator_states(session))
    assert stored == expected
    assert {key: n for key, n in counted.items() if n and key[0] == app} == {
        (app, "parse", kind, code): n for (kind, code), n in Counter((d.kind, d.code) for d in made).items()
    }
    served = get(site, f"/v1/applications/{app}/decisions")["items"]
    assert [parse_decision(row) for row in reversed(served)] == expected
    page = site.see(link_application(app, {"last": "6h", "kind": "all"}, "decisions"))
    assert all(one.kind.replace("_", " ").lower() in page.said for one in made)
    for one in expected:
        check_explained(site, app, one)


def check_explained(site: Site, app: str, one: Decision) -> None:
    with site.store.read() as session:
        (account,) = explain(session, app, one.time, "parse", NOW).operators
        lines = to_lines(explain(session, app, one.time, "parse", NOW))
    assert account.decision == one
    assert all(line.isprintable() for line in lines)
    blocked = one.objections if one.kind in ("BLOCKED", "DRY_RUN") else ()
    assert tuple(block.objection for block in account.blocked) == blocked
    (document,) = get(site, f"/v1/applications/{app}/explanation", at=one.time, operator="parse")["operators"]
    assert parse_decision(document["decision"]) == one
    said = site.see(link_explanation(app, "parse", one.time)).said
    assert format_kind(one.kind) in said
    assert all(block.code in said for block in blocked)


def observe(deployment: Deployment, rate: float, slot: int) -> Observation:
    return replace(observe_queue(deployment, rate, 0.0), time=START + SLOT * slot)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"target": Deployment((4, 0, 0))}, "pending"),
        ({"no_scale_in": PENDING_LIMIT}, "backlog"),
        ({"barred": {name: Objection(LIMIT, UNAVAILABLE, "none came") for name in NAMES[0]}}, UNAVAILABLE),
        ({"guards": {"cooldown": {"in_s": 1e6}}}, "cooldown"),
    ],
)
def test_everyday_blocks_are_explained(site: Site, given: dict[str, Any], code: str) -> None:
    """A replica on its way, a backlog, a barred node type, a guard: each alone, and beside a second guard."""
    low = code in ("pending", "backlog", "cooldown")
    seen = observe(Deployment((3, 0, 0) if low else (1, 0, 0)), 20.0 if low else 600.0, 0)
    made = []
    for slot, more in enumerate(({}, {"pin": True})):
        decider = Decider("parse", NODES, k_max=2 if low else None)  # a proposal to remove, or to add
        decider.memory.history = replace(decider.memory.history, changes=(START - 1.0,))
        orders = make_orders(make_objective(policy="threshold-p"), **given.get("guards", {}), **more)
        others = {key: value for key, value in given.items() if key != "guards"}
        made.append(decider.step(replace(seen, time=START + SLOT * slot), orders, START, **others).decision)
    check_everywhere(site, f"everyday{next(APPS)}", made)
    assert [one.kind for one in made] == ["BLOCKED", "BLOCKED"]
    assert [[objection.code for objection in one.objections] for one in made] == [[code], [code, "pin"]]


def test_a_dry_run_is_counted_apart_from_blocks(site: Site) -> None:
    seen = observe(Deployment((1, 0, 0)), 600.0, 0)
    made = [Decider("parse", NODES).step(seen, make_orders(make_objective(), dry_run=True), START).decision]
    check_everywhere(site, f"dry{next(APPS)}", made)
    assert (made[0].kind, made[0].code, made[0].action) == ("DRY_RUN", "dry_run", None)
    assert made[0].proposed


numbers = st.one_of(st.floats(), st.floats(0.0, 1000.0))
deployments = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)).map(Deployment)
observations = st.builds(
    Observation,
    time=st.just(0.0),
    rate=numbers,
    utilisation=numbers,
    response=numbers,
    deployment=deployments | st.just(Deployment((1, 0))),
    completeness=st.sampled_from([1.0, 1.0, 0.9, 0.1, math.nan]),
) | st.builds(
    observe, st.sampled_from([Deployment((1, 0, 0)), Deployment((2, 1, 0)), Deployment((3, 3, 3))]),
    st.floats(1.0, 900.0), st.just(0),
)  # fmt: skip
guards = st.fixed_dictionaries(
    {},
    optional={
        "bounds": st.sampled_from([{"max": 1}, {"min": 3}, {"types": {"nowhere": {}}}]),
        "cooldown": st.just({"out_s": 1e6, "in_s": 1e6}),
        "stabilisation": st.just({"out_s": 120.0}),
        "blocked_hours": st.just({"from": "00:00", "to": "23:00"}),
        "flap_budget": st.just({"changes": 0}),
        "pin": st.booleans(),
        "direction_lock": st.sampled_from([{"only": "out"}, {"only": "in"}]),
        "dry_run": st.booleans(),
        "levitate": st.just({}),
    },
)
slots = st.fixed_dictionaries(
    {
        "seen": observations,
        "asked": st.none() | deployments | st.just(Deployment((1, 0))),
        "no_scale_in": st.sampled_from([None, None, PENDING_LIMIT, HELD_METRICS]),
        "barred": st.booleans(),
        "figures": st.sampled_from([None, FIGURES]),
        "orders": st.sampled_from(["objective", "objective", "shadow", "canary", "no objective", "none", "broken"]),
        "guards": guards,
        "done": st.sampled_from(["done", "done", "refused", "came to nothing"]),
    }
)


def give_orders(stage: str, names: tuple[str, ...], policy: str, table: dict[str, Any]) -> Orders | None:
    nodes = [{"name": name, "speedup": n.speedup, "price": n.price} for name, n in zip(names, NODES, strict=True)]
    if stage == "none":
        return None
    if stage == "no objective":
        return make_orders(None, **table)
    candidate = None
    if stage in ("shadow", "canary"):
        candidate = {"objective": make_objective(2, policy, nodes=nodes), "stage": stage, "share": 1.0}
    objective = make_objective(1, "magic" if stage == "broken" else policy, nodes=nodes)
    return make_orders(objective, candidate, **table)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    story=st.lists(slots, min_size=1, max_size=6),
    policy=st.sampled_from(["planner", "threshold-p", "ql-pds"]),
    names=st.sampled_from(NAMES),
    fallback_s=st.sampled_from([60.0, 36_000.0]),
)
def test_every_decision_of_an_agent_is_found_everywhere(
    site: Site, story: list[dict[str, Any]], policy: str, names: tuple[str, ...], fallback_s: float
) -> None:
    nodes = [NodeType(name, n.speedup, n.price) for name, n in zip(names, NODES, strict=True)]
    decider = Decider("parse", nodes, k_max=K_MAX, fallback_s=fallback_s)
    made = []
    for slot, told in enumerate(story):
        time = START + SLOT * slot
        barred = {name: Objection(LIMIT, UNAVAILABLE, "none came", {"node_type": name}) for name in names}
        step = decider.step(
            replace(told["seen"], time=time), give_orders(told["orders"], names, policy, told["guards"]), time,
            told["asked"], told["figures"], told["no_scale_in"], barred if told["barred"] else None,
        )  # fmt: skip
        refused = step.change.changes and told["done"] != "done"
        done, why = (NOTHING, "why not; pin: " * 40) if refused else (step.change, "")
        decider.actuated(step, done)
        made.append(conclude(step, done, why, names))
    assert {one.kind for one in made} <= set(KINDS)
    assert all(one.code in {*CODES, *GUARDS} for one in made)
    assert all(objection.source in SOURCES for one in made for objection in one.objections)
    assert [one for one in made if one.kind == "NO_CHANGE" and one.objections] == []
    assert [one for one in made if one.kind == "SCALED" and one.objections and one.wanted == one.action] == []
    assert all(one.objections[0].code == one.code for one in made if one.kind not in ("SCALED", "NO_CHANGE"))
    assert all(json.dumps(json.loads(write_line(one.to_json())), allow_nan=False) for one in made)
    check_everywhere(site, f"story{next(APPS)}", made)
