"""Restarts, catching up and stalls are named, and nothing is where a stream only has more to do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.sensing.evidence import Evidence
from scaler.sensing.reading import NoteCode
from scaler.sensing.slot_notes import find_states
from tests.live.streams import BEGAN, Event, play, progress, recorded, sign, spread, tell

CATCHING_UP, RESTARTED = NoteCode.CATCHING_UP, NoteCode.RESTARTED
STALLED, STOPPED = NoteCode.STALLED, NoteCode.STOPPED


def states(events: list[Event], start: float, end: float) -> list[NoteCode]:
    return find_states(Evidence("words", start, end, tell(events, end)))


def serve(rows: int) -> float:
    return 0.1 + 0.01 * rows


@settings(max_examples=30)
@given(st.floats(10.0, 60.0), st.booleans(), st.integers(2, 17))
def test_a_steady_stream_has_nothing_to_note(rate: float, counted: bool, slot: int) -> None:
    played = play(spread([(200.0, rate)]), 1.0, serve, BEGAN + 200, counted=counted)
    assert states(played.events, BEGAN + 10 * slot, BEGAN + 10 * slot + 10) == []


@pytest.mark.parametrize("counted", [True, False])
def test_more_load_than_can_be_served_is_no_stall_and_no_catching_up(counted: bool) -> None:
    """The rate doubles beyond what is served: each batch is larger than the one before, and the scaler must act."""
    played = play(spread([(100.0, 60.0), (100.0, 120.0)]), 1.0, serve, BEGAN + 140, counted=counted)
    for end in range(60, 140, 5):
        assert states(played.events, BEGAN + end - 10, BEGAN + end) == []


@pytest.mark.parametrize("limit", [None, 100])
def test_what_piled_up_and_is_worked_off_is_a_catching_up(limit: int | None) -> None:
    played = play(spread([(100.0, 30.0)]), 1.0, serve, BEGAN + 60, limit)
    # Twenty seconds in which one batch hangs, then what gathered.
    hung = play(spread([(200.0, 30.0)]), 1.0, serve, BEGAN + 40, limit).events
    last = tell(hung).triggers[-1]
    number, batch, ended, now = last.latest or 0, last.batch + 1, last.ended or 0, last.time + 1.0
    events = list(hung)
    assert states(played.events, BEGAN + 40, BEGAN + 50) == []
    for i in range(40):
        number = round(30.0 * (now - BEGAN))
        rows = number - ended if limit is None else min(limit, number - ended)
        spent = serve(rows) if i else 20.0
        events.append(progress("run-1", batch, now, spent, ended, ended + rows, number))
        now, batch, ended = now + max(1.0, spent), batch + 1, ended + rows
    found = [states(events, BEGAN + 65 + 2 * i, BEGAN + 70 + 2 * i) for i in range(15)]
    assert [CATCHING_UP] in found[:6]
    assert found[-1] == []


def test_a_run_that_begins_is_a_restart_until_its_first_batch_is_done() -> None:
    first = play(spread([(50.0, 30.0)]), 1.0, serve, BEGAN + 50).events
    again = [{"event": "started", "document": sign("run-2", BEGAN + 58)}]
    again += [progress("run-2", 50 + i, BEGAN + 59 + 4 * i, 3.5, 1500, 1600, 1600) for i in range(6)]
    told = [*first, *again]
    assert states(told, BEGAN + 40, BEGAN + 50) == []
    assert states(told, BEGAN + 50, BEGAN + 60) == [RESTARTED]
    assert states(told, BEGAN + 60, BEGAN + 70) == [RESTARTED]
    assert states(told, BEGAN + 70, BEGAN + 80) == []
    unheard = [*first, *again[1:]]  # the start itself was missed
    assert RESTARTED in states(unheard, BEGAN + 60, BEGAN + 70)


def test_who_listens_later_sees_no_restart() -> None:
    events = play(spread([(50.0, 30.0)]), 1.0, serve, BEGAN + 50).events
    assert RESTARTED in states(events, BEGAN, BEGAN + 10)
    assert states(events[20:], BEGAN + 20, BEGAN + 30) == []


def test_a_query_that_ended_has_stopped_and_is_not_stalled() -> None:
    events = play(spread([(50.0, 30.0)]), 1.0, serve, BEGAN + 50).events
    ended = {"event": "ended", "document": {"id": sign("run-1", 0.0)["id"], "runId": "run-1"}, "heard": BEGAN + 51}
    assert states([*events, ended], BEGAN + 110, BEGAN + 170) == [STOPPED]
    again = {"event": "started", "document": sign("run-2", BEGAN + 115)}
    assert states([*events, ended, again], BEGAN + 110, BEGAN + 120) == [RESTARTED]


def test_silence_far_longer_than_ever_is_a_stall() -> None:
    events = play(spread([(50.0, 30.0)]), 1.0, serve, BEGAN + 50).events
    assert states(events, BEGAN + 60, BEGAN + 70) == []  # half a minute may pass
    assert states(events, BEGAN + 80, BEGAN + 90) == [STALLED]
    slow = play(spread([(200.0, 30.0)]), 20.0, lambda rows: 19.0, BEGAN + 200).events
    assert states(slow, BEGAN + 260, BEGAN + 290) == []  # batches take their time here
    assert states(slow, BEGAN + 260, BEGAN + 330) == [STALLED]


def test_a_batch_far_longer_than_ever_is_a_stall_and_an_idle_query_is_none() -> None:
    events = play(spread([(50.0, 30.0)]), 1.0, serve, BEGAN + 120).events
    assert states(events, BEGAN + 100, BEGAN + 115) == []
    last = tell(events).triggers[-1]
    long = progress("run-1", last.batch + 1, BEGAN + 121, 60.0, 1500, 1510, 1510)
    assert STALLED in states([*events, long], BEGAN + 170, BEGAN + 190)


def test_what_really_happened_is_recognised() -> None:
    events = recorded("files")
    began, again = (sign.time for sign in tell(events).started)
    found = [states(events, began + 2 * i, began + 2 * i + 2) for i in range(1, int((again - began) / 2) - 1)]
    assert [] in found
    assert not any(STALLED in each or RESTARTED in each for each in found[1:])
    assert RESTARTED in states(events, again - 0.5, again + 1.5)
    assert STOPPED in states([e for e in events if e.get("heard", 0.0) < again - 0.01], again - 2, again - 0.001)


def test_a_run_that_has_nothing_to_do_has_restarted_all_the_same() -> None:
    events = [{"event": "started", "document": sign("run-2", BEGAN)}]
    assert states(events, BEGAN + 10, BEGAN + 20) == [RESTARTED]
    events += [{"event": "idle", "document": sign("run-2", BEGAN + 10 * i)} for i in range(1, 6)]
    assert states(events, BEGAN + 20, BEGAN + 30) == []
