"""Supply learned from agents' ledgers: known start-ups and losses of a cluster are found within their intervals."""

from __future__ import annotations

import json
import tomllib
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scaler.model.nodes import NodeType, Supply
from scaler.model.supply_record import SupplyRecord
from sim.infrastructure import Infrastructure, find_infrastructure
from tests.commands import run_or_raise
from tests.live.plant import SLOT_S, Desk
from tests.live.test_supply_ledger import Machines, make
from tests.surrogate.worlds import batch_stream
from tuner.search.search_plan import TuneOptions, load_plan
from tuner.search.tuning_run import start_tuning
from tuner.store.applications import add_application, save_surrogate
from tuner.store.connection import Store, open_store
from tuner.store.decisions import list_supply, save_decisions
from tuner.store.records import DecisionRecord
from tuner.store.samples import save_samples
from tuner.surrogate.fit import fit
from tuner.surrogate.fitted_application import apply_supply
from tuner.surrogate.supply import estimate_quantile, find_quantile, fit_start_times, measure_supply
from tuner.surrogate.surrogate import LearnedSupply, Surrogate, from_document, to_document, to_record
from tuner.views.surrogate_report import describe_supply

SLOTS, LOST_PER_HOUR = 900, 1.5
SECONDS = (12.0, 25.0, 50.0)


@dataclass
class Spot(Machines):
    """Replicas are taken away at random; the seconds of start-up of each are drawn."""

    def at(self, now: float) -> None:
        chance = 1.0 - np.exp(-LOST_PER_HOUR * SLOT_S / 3600.0)
        super().at(now)
        taken = DICE.random(len(self.started)) < chance
        for _ in range(int(taken.sum())):
            self.lose()
        super().at(now)


DICE = np.random.default_rng(7)


def record_decisions() -> list[DecisionRecord]:
    """What an agent reported of a stream whose load rises and falls, as the manager writes it down."""
    plant = Spot(choices=tuple(DICE.choice(SECONDS, 4000).tolist()))
    plant.rate = lambda t: 3500.0 if t // 900.0 % 2 else 500.0
    desk = Desk()
    agent = make(plant, desk)
    for slot in range(SLOTS):
        t = slot * SLOT_S
        plant.at(t + SLOT_S)
        agent.slot(t, t + SLOT_S, t + SLOT_S)
    assert plant.true_losses > 20
    documents = json.loads(json.dumps(list(desk.told.values())))
    return [DecisionRecord("shop", "parse", **document) for document in documents]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("supply") / "tuner.db"
    with closing(open_store(path)) as store, store.begin() as session:
        save_decisions(session, record_decisions())
        save_samples(session, batch_stream(100))
    return path


def learn(path: Path) -> LearnedSupply:
    with closing(open_store(path)) as store, store.read() as session:
        (small,) = [one for one in measure_supply(list_supply(session, "shop")) if one.node_type == "small"]
    return small


def test_known_start_ups_and_losses_are_found(database: Path) -> None:
    small = learn(database)
    assert small.came > 100
    assert len(small.start_s) == 9
    assert sorted(set(small.start_s)) == list(SECONDS)
    for one, true in zip(small.start, SECONDS, strict=True):
        assert one.seconds.low <= true <= one.seconds.high
    assert small.lost_per_hour is not None
    assert small.lost_per_hour.low <= LOST_PER_HOUR <= small.lost_per_hour.high
    assert small.lost_per_hour.high < 3.0 * small.lost_per_hour.low
    assert 4 <= small.most <= 8


def test_slots_without_a_ledger_count_for_nothing() -> None:
    assert measure_supply([]) == ()
    lost = SupplyRecord("a", count=1, watched_s=3600.0, lost=1)
    few, more = (measure_supply([(float(t), "parse", (lost,)) for t in range(n)])[0] for n in (2, 3))
    assert few.lost_per_hour is None
    assert describe_supply(few).endswith(
        "loss rate not known after 2 in 2 replica-hours, at most 3.61 an hour; capacity at least 1 (none refused for "
        "want of room)."
    )
    assert more.lost_per_hour is not None
    assert (more.lost_per_hour.value, more.lost_per_hour.low, more.lost_per_hour.high) == pytest.approx(
        (1.0, 0.2062, 2.922), abs=1e-3
    )  # Garwood's exact interval of three events


def test_operators_share_a_capacity() -> None:
    both = [(60.0, name, (SupplyRecord("a", count=2, refused=1),)) for name in ("parse", "count")]
    (found,) = measure_supply([*both, (90.0, "parse", (SupplyRecord("a", count=3),))])
    assert (found.most, found.refused) == (5, 2)  # slots need not begin together
    (found,) = measure_supply([*both, (3600.0, "parse", (SupplyRecord("a", count=3),))])
    assert found.most == 4  # the other was not heard of for an hour


def test_start_ups_seen_slot_by_slot_are_unbiased() -> None:
    """Orders fall anywhere in a slot, looks at its ends."""
    dice = np.random.default_rng(3)
    true = dice.gamma(9.0, 10.0, 600)
    ordered = dice.random(600) * 60.0
    seen = 60.0 * np.ceil((ordered + true) / 60.0)
    spans = [(max(0.0, b - 60.0 - a), b - a) for a, b in zip(ordered.tolist(), seen.tolist(), strict=True)]
    exact, coarse = fit_start_times([(t, t) for t in true.tolist()]), fit_start_times(spans)
    for quantile in (0.1, 0.5, 0.9):
        truth = float(np.quantile(true, quantile))
        for times, near in ((exact, 0.03), (coarse, 0.15)):
            assert find_quantile(times, quantile) == pytest.approx(truth, rel=near)
            interval = estimate_quantile(times, quantile)
            assert interval.low <= truth <= interval.high
    assert coarse.share.sum() == pytest.approx(1.0)


def make_surrogate(supply: tuple[LearnedSupply, ...]) -> Surrogate:
    return replace(fit(batch_stream(100), "shop"), supply=supply)


def test_stated_supply_wins_over_learned(database: Path) -> None:
    small = learn(database)
    assert small.lost_per_hour is not None
    fitted = make_surrogate((small,))
    assert from_document(json.loads(json.dumps(to_document(fitted)))) == fitted
    old = {key: value for key, value in to_document(fitted).items() if key != "supply"}
    assert from_document(old).supply == ()

    def carry(supply: Supply, start_stated: bool = False) -> Supply:
        nodes = Infrastructure("own", (NodeType("small", 1.0, 1.0, supply), NodeType("big", 2.0, 2.0)), 2.0)
        found = apply_supply(nodes, fitted, start_stated).types
        assert found[1].supply == Supply()
        return found[0].supply

    assert carry(Supply()) == Supply(None, small.lost_per_hour.value, small.start_s)
    assert carry(Supply(5, 0.1, (9.0,))) == Supply(5, 0.1, (9.0,))
    assert carry(Supply(), start_stated=True).start_s == ()


DOCUMENT: dict[str, Any] = {
    "application": {"name": "shop", "operator": [{"name": "count", "service_time": 1.0, "scv": 1.0, "k_max": 6}]},
    "infrastructure": {"node": [{"name": "small", "speedup": 1.0, "price": 1.0, "capacity": 7}]},
    "qos": {"r_max": 5.0, "eta_v": 0.3, "eta_r": 0.9},
}


def test_learned_supply_is_shown_and_written(database: Path, tmp_path: Path) -> None:
    with closing(open_store(database)) as store, store.begin() as session:
        add_application(session, "shop", DOCUMENT, 0.0)
    page, nodes = tmp_path / "page.html", tmp_path / "nodes.toml"
    shown = run_or_raise("surrogate", "fit", "shop", "--store", str(database), "--html", str(page))
    said = describe_supply(learn(database))
    assert said.startswith("small: start-up p10 12 [12, 12] s, p50 25 [")
    assert said in " ".join(shown.output.split())
    assert said in page.read_text()
    run_or_raise("surrogate", "show", "shop", "--store", str(database), "--nodes", str(nodes))
    (small,) = find_infrastructure(nodes).types
    assert small.supply.capacity == 7
    assert small.supply.start_s == learn(database).start_s
    assert small.supply.lost_per_hour > 0.0
    assert tomllib.loads(nodes.read_text())["name"] == "shop"


@pytest.mark.slow
def test_tuning_replays_the_learned_supply(database: Path, tmp_path: Path) -> None:
    def find_types(store: Store, **flags: Any) -> tuple[NodeType, ...]:
        with store.read() as session:
            held = start_tuning(store, "shop", flags, TuneOptions(engine="random", budget=2))
            return load_plan(session, "shop", held).spec.setting.infrastructure.types

    learned = learn(database)
    with closing(open_store(tmp_path / "tuner.db")) as store:
        with store.begin() as session:
            add_application(session, "shop", DOCUMENT, 0.0)
            save_samples(session, batch_stream(100))
            save_surrogate(session, to_record(make_surrogate((learned,)), 1.0))
        (small,) = find_types(store)
        assert (small.supply.capacity, small.supply.start_s) == (7, learned.start_s)
        assert find_types(store, run={"start_s": 30.0})[0].supply.start_s == ()
