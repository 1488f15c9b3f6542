"""From batches of a driver to a decision and a sample, by the quantile of response times that the orders state."""

from __future__ import annotations

import pytest

from scaler.agent.decider import Decider
from scaler.agent.pending import ArrivalTimeouts
from scaler.agent.slot_loop import Agent
from scaler.model.decision import Decision
from scaler.model.orders import parse_orders
from scaler.model.sketch import ERROR, find_quantile
from tests.live.fake_driver import WORDS, FakeDriver, executor, gather
from tests.live.plant import NODES, SLOT_S, Desk, Plant, make_orders
from tests.live.streams import BEGAN, play, spread

BOUND = 8.0
SLOTS = 6
TRIGGER_S, RATE = 10.0, 50.0


def run(quantile: float | None) -> tuple[list[Decision], Desk, Plant]:
    """Batches of 2 s every 10 s: a tuple waits half of that at the mean, and nearly all of it at p95."""
    document = make_orders("lohrmann-c", {})
    target = {**document["objective"]["operators"]["parse"], "bound": BOUND}
    document["objective"] |= {"operators": {"words": target}, "quantile": quantile}
    told, plant, desk = FakeDriver(), Plant(lambda _: RATE), Desk()
    desk.orders_now = parse_orders(document)
    sensor = gather(told, WORDS)
    agent = Agent(Decider("words", NODES), sensor, plant, desk, ArrivalTimeouts(default=3.0 * SLOT_S))
    until = BEGAN + SLOTS * SLOT_S
    told.say(*play(spread([(SLOTS * SLOT_S, RATE)]), TRIGGER_S, lambda _: 2.0, until).events)
    told.executors = [executor("1", BEGAN - 5.0)]
    made = []
    for i in range(1, SLOTS):
        start, end = BEGAN + i * SLOT_S, BEGAN + (i + 1) * SLOT_S
        sensor.now = lambda end=end: end
        plant.at(end)
        made.append(agent.slot(start, end, end))
    return made, desk, plant


def test_the_quantile_of_the_orders_decides() -> None:
    mean, p95 = run(None), run(0.95)
    for (_, desk, _), response in ((mean, TRIGGER_S / 2.0 + 2.0), (p95, 0.95 * TRIGGER_S + 2.0)):
        assert [one["response"] for one in desk.told.values()] == pytest.approx([response] * (SLOTS - 1), rel=0.03)
    assert {one.kind for one in mean[0]} == {"NO_CHANGE"}
    assert "answers took 7 s, with 8 s allowed" in mean[0][1].reason
    assert p95[0][1].kind == "SCALED"
    assert "answers took 11.7 s, with 8 s allowed" in p95[0][1].reason
    assert (mean[2].asked, p95[2].asked[0]) == ([], {"small": 2, "fast": 0})


def test_samples_tell_the_quantile_whatever_is_asked() -> None:
    for quantile in (None, 0.95):
        samples = run(quantile)[1].samples
        assert len(samples) == SLOTS - 1
        for sample in samples:
            known = find_quantile(sample["responses"], 0.95)
            assert known == pytest.approx(0.95 * TRIGGER_S + 2.0, rel=2.0 * ERROR)
            assert sample["response_sum"] / sample["response_n"] == pytest.approx(TRIGGER_S / 2.0 + 2.0, rel=0.03)
