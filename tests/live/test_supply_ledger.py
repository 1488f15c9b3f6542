"""The ledger of replicas: ordered, come, given up, lost; from a cluster whose every event is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from scaler.acting.actuator import Room
from scaler.agent.decider import Decider
from scaler.agent.pending import ArrivalTimeouts
from scaler.agent.slot_loop import Agent
from scaler.model.decision import SlotFigures, parse_decision, parse_figures
from scaler.model.orders import parse_orders
from scaler.model.supply_record import SupplyRecord, parse_supply
from tests.live.plant import NODES, SLOT_S, Desk, Plant, make_orders

START_S = (20.0, 45.0, 75.0)  # of replicas, in turn; none overtakes one that was ordered a slot before


@dataclass
class Machines(Plant):
    """A cluster that starts each replica after seconds of its own, takes some away, and replaces them."""

    shows_starts: bool = True
    choices: Sequence[float] = START_S
    coming: list[float] = field(default_factory=list)  # moments at which small replicas will start
    started: list[float] = field(default_factory=list)
    true_seconds: list[float] = field(default_factory=list)
    true_losses: int = 0
    begun: int = 0

    def __post_init__(self) -> None:
        super().__init__(lambda _: 3500.0)
        self.started = [-1.0]

    def begin(self, moment: float) -> None:
        seconds = self.choices[self.begun % len(self.choices)]
        self.begun += 1
        self.coming.append(moment + seconds)
        self.true_seconds.append(seconds)

    def apply(self, operator: str, target: Mapping[str, int]) -> None:
        self.asked.append(dict(target))
        self.target = dict(target)
        while len(self.started) + len(self.coming) < target["small"]:
            self.begin(self.now)
        while len(self.started) + len(self.coming) > target["small"]:
            (self.coming or self.started).pop()

    def at(self, now: float) -> None:
        self.now = now
        self.started += [moment for moment in self.coming if moment <= now]
        self.coming = [moment for moment in self.coming if moment > now]
        self.serving = {"small": len(self.started), "fast": 0}

    def lose(self) -> None:
        self.started.pop(0)
        self.true_losses += 1
        self.begin(self.now)

    def find_starts(self, operator: str) -> Mapping[str, Sequence[float]] | None:
        return {"small": list(self.started), "fast": []} if self.shows_starts else None


def make(plant: Plant, desk: Desk | None = None) -> Agent:
    document = make_orders("threshold-c", {})
    desk = desk or Desk()
    desk.orders_now = parse_orders(document)
    return Agent(Decider("parse", NODES), plant, plant, desk, ArrivalTimeouts(default=150.0, back_off=5 * SLOT_S))


def go(plant: Machines, agent: Agent, slots: int, first: int = 0) -> list[SupplyRecord]:
    """The records of small replicas, as the slots' decisions carry them."""
    found: list[SupplyRecord] = []
    for slot in range(first, first + slots):
        t = slot * SLOT_S
        plant.at(t + SLOT_S)
        made = agent.slot(t, t + SLOT_S, t + SLOT_S)
        sent = parse_decision(json.loads(json.dumps(made.to_json())))
        assert sent.seen.supply == made.seen.supply
        found += [one for one in sent.seen.supply if one.node_type == "small"]
    return found


@pytest.mark.parametrize("shows_starts", [True, False])
def test_each_replica_is_told_with_its_start_up(shows_starts: bool) -> None:
    plant = Machines(shows_starts=shows_starts)
    records = go(plant, make(plant), 14)
    came = [span for one in records for span in one.came]
    assert plant.begun > 2
    assert len(came) == sum(one.ordered for one in records) == plant.begun
    for span, seconds in zip(sorted(came), sorted(plant.true_seconds), strict=True):
        assert span[0] <= seconds <= span[1]
        assert span[1] - span[0] == pytest.approx(0.0 if shows_starts else SLOT_S)
    assert sum(one.lost for one in records) == 0
    assert records[-1].count == plant.target["small"]


@pytest.mark.parametrize("shows_starts", [True, False])
def test_lost_replicas_are_told_and_removed_ones_are_not(shows_starts: bool) -> None:
    plant = Machines(shows_starts=shows_starts)
    agent = make(plant)
    records = go(plant, agent, 10)
    for slot in (10, 20, 30):
        plant.begun = 2  # one that starts between two looks would replace it unseen
        plant.lose()
        records += go(plant, agent, 10, slot)
    plant.rate = lambda _: 100.0
    records += go(plant, agent, 10, 40)
    assert plant.target["small"] < max(one.count for one in records)  # some were removed
    assert sum(one.lost for one in records) == plant.true_losses == 3
    watched = sum(one.watched_s for one in records)
    held = sum(one.count for one in records) * SLOT_S
    assert watched == pytest.approx(held, rel=0.2)


def test_a_loss_shows_though_its_replacement_is_there() -> None:
    plant = Machines()
    agent = make(plant)
    go(plant, agent, 10)
    plant.begun = 0  # the next starts within the slot
    plant.lose()
    (record,) = go(plant, agent, 1, 10)
    assert (record.lost, record.ordered) == (1, 1)
    assert record.came == ((pytest.approx(0.0), pytest.approx(20.0)),)


def test_replicas_given_up_and_refused_are_told() -> None:
    plant = Machines()
    agent = make(plant)
    plant.begun = 0
    plant.apply = lambda _, target: plant.asked.append(dict(target))  # type: ignore[method-assign]
    records = go(plant, agent, 5)
    wanted = max(one["small"] for one in plant.asked)
    assert sum(one.given_up for one in records) == wanted - 1
    assert not any(one.came or one.lost for one in records)
    plant.room = lambda more: Room(dict.fromkeys(more, 0), "full")
    records = go(plant, agent, 12, 5)
    assert sum(one.refused for one in records) > 0


def test_nothing_is_told_where_nothing_is_counted_or_ordered() -> None:
    plant = Machines()
    plant.rate = lambda _: 500.0  # one replica is enough, and nothing is ordered
    agent = make(plant)
    records = go(plant, agent, 3)
    assert [one.watched_s for one in records] == [0.0] * len(records)
    plant.deployed = lambda _: None  # type: ignore[assignment,method-assign,return-value]
    plant.shows_starts = False
    assert go(plant, agent, 3, 3) == []


def test_documents_of_other_agents_are_read_as_far_as_they_go() -> None:
    assert parse_figures({"utilisation": 0.5}).supply == ()
    assert "supply" not in SlotFigures().to_json()
    record = SupplyRecord("small", 2, 120.0, 1, ((3.0, 4.5),), 0, 1, 0)
    document = record.to_json()
    assert document == {
        "node_type": "small", "count": 2, "watched_s": 120.0, "ordered": 1, "came": [[3.0, 4.5]], "lost": 1
    }  # fmt: skip
    assert parse_supply([document]) == (record,)
    odd = [{"node_type": "a", "lost": -1, "came": [[2.0, 1.0], [1.0], "x", [1.0, np.inf]]}, {"count": 3}, 7, None]
    assert parse_supply(odd) == (SupplyRecord("a"),)
