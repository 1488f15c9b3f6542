"""A stage that waits for a resource profile that no executor serves is named by the decision of the slot."""

from __future__ import annotations

from scaler.acting.gateway import SparkStage
from scaler.acting.loans import MIN_WAIT_S, find_waiting
from scaler.agent.decider import Decider
from scaler.agent.slot_loop import Agent
from scaler.model.decision import STAGE_WAITS, parse_decision
from scaler.sensing.driver import QueryStatus
from scaler.sensing.reading import NoteCode
from tests.live.fake_driver import WORDS, FakeDriver, executor, gather
from tests.live.plant import NODES, Desk, Plant
from tests.live.streams import BEGAN

LISTING = SparkStage("Listing leaf files", 0, left=40, running=0, since=BEGAN, id=7)


def make_driver(run: str) -> FakeDriver:
    told = FakeDriver()
    told.executors = [executor("0", BEGAN)]
    told.status = QueryStatus(run, True, False)
    told.jobs = [{"jobGroup": "run-1", "stageIds": [6, 7], "submissionTime": "2026-01-01T00:00:00.000GMT"}]
    told.waiting = [LISTING]
    return told


def test_decision_names_the_profile_that_a_stage_waits_for() -> None:
    sensor, plant, desk = gather(make_driver("run-1"), WORDS), Plant(lambda t: 300.0), Desk()
    agent = Agent(Decider(WORDS.name, NODES), sensor, plant, desk)
    decision = agent.slot(BEGAN, BEGAN + 60.0, BEGAN + 60.0)
    assert (decision.kind, decision.code) == ("HELD", STAGE_WAITS)
    assert "'Listing leaf files' waits for resource profile 0, which no executor serves" in decision.reason
    told = parse_decision(desk.told[BEGAN])
    assert told.objections[0].code == STAGE_WAITS
    assert told.objections[0].data == {"stage": "Listing leaf files", "profile": "0"}
    assert STAGE_WAITS in [note.code for note in told.seen.notes]


def test_stage_of_another_query_is_not_noted() -> None:
    reading = gather(make_driver("run-2"), WORDS).read(WORDS.name, BEGAN, BEGAN + 60.0)
    assert not reading.has(NoteCode.STAGE_WAITS)
    past = gather(make_driver("run-1"), WORDS, now=BEGAN + 100.0)
    assert not past.read(WORDS.name, BEGAN, BEGAN + 60.0).has(NoteCode.STAGE_WAITS)


def test_served_short_and_running_waits_are_none() -> None:
    busy = SparkStage("work", 3, left=1, running=1, since=BEGAN)
    now = BEGAN + MIN_WAIT_S + 1.0
    assert find_waiting([LISTING, busy], [3], now) == [LISTING]
    assert find_waiting([LISTING, busy], [0], now) == []
    assert find_waiting([LISTING], [3], BEGAN + 1.0) == []
