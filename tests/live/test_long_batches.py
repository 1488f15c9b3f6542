"""Observations of slots that batches outlast, and of slots in which more came than was served."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scaler.agent.decide import describe_slot
from scaler.model.queueing import CATCH_UP_SLOTS
from scaler.sensing.observation import (
    MAX_AGE_SLOTS,
    estimate_utilisation,
    fill_from_previous,
    find_scale_in_objection,
    is_whole,
    list_figures,
    observe,
)
from scaler.sensing.reading import NoteCode, Reading, SlotNote
from tests.live.plant import NODES

WHOLE = Reading(
    "count", 0.0, 5.0, arrival_rate=20.0, tuples_in=90.0, response=6.0, utilisation=0.6,
    service_n=90.0, service_sum=6.3, service_squares=0.5, replicas={"small": 1.0},
)  # fmt: skip
STALLED, RESTARTED = (SlotNote(NoteCode.STALLED),), (SlotNote(NoteCode.RESTARTED),)
CATCHING_UP, FULL = (SlotNote(NoteCode.CATCHING_UP),), (SlotNote(NoteCode.BATCHES_FULL),)
OUTLASTS = (SlotNote(NoteCode.BATCH_OUTLASTS_SLOT),)
LOST = (SlotNote(NoteCode.REPLICA_LOST, {"node_type": "small", "cause": "worker lost"}),)
BLIND = Reading("count", 5.0, 10.0, utilisation=1.0, replicas={"small": 1.0}, completeness=0.0, running_time=7.0)


def object_to_scale_in(reading: Reading) -> str:
    objection = find_scale_in_objection(reading)
    return "" if objection is None else objection.message


def test_a_batch_that_outlasts_the_slot_leaves_what_was_known_in_force() -> None:
    shown = fill_from_previous(BLIND, WHOLE, 0.8)
    assert (shown.arrival_rate, shown.response, shown.utilisation) == (20.0, 6.0, 1.0)
    assert shown.completeness == 0.0
    assert shown.has(NoteCode.BATCH_OUTLASTS_SLOT)


def test_the_newest_rate_goes_before_that_of_the_slot_before() -> None:
    assert fill_from_previous(replace(BLIND, latest_arrival_rate=26.0), WHOLE, 0.8).arrival_rate == 26.0
    assert (
        fill_from_previous(replace(BLIND, latest_arrival_rate=26.0, arrival_rate=31.0), WHOLE, 0.8).arrival_rate == 31.0
    )


def test_what_the_slot_itself_tells_goes_before() -> None:
    shown = fill_from_previous(replace(BLIND, arrival_rate=31.0, response=9.0, completeness=0.4), WHOLE, 0.8)
    assert (shown.arrival_rate, shown.response) == (31.0, 9.0)


@pytest.mark.parametrize(
    ("reading", "before"),
    [
        (BLIND, None),
        (replace(BLIND, start=10.0, end=15.0, utilisation=0.4), WHOLE),  # nobody is seen to work
        (replace(BLIND, start=10.0, end=15.0, utilisation=None), WHOLE),
        (replace(BLIND, start=10.0, end=15.0, running_time=4.0), WHOLE),  # the batch began in the slot
        (replace(BLIND, start=10.0, end=15.0, running_time=None), WHOLE),
        (replace(BLIND, notes=STALLED), WHOLE),
        (replace(BLIND, notes=RESTARTED), WHOLE),
        (replace(BLIND, start=5.0 * (MAX_AGE_SLOTS + 1.0), end=5.0 * (MAX_AGE_SLOTS + 2.0)), WHOLE),  # long ago
        (BLIND, replace(WHOLE, arrival_rate=None)),
        (replace(BLIND, completeness=0.9), WHOLE),
    ],
)
def test_else_what_is_missing_is_missing(reading: Reading, before: Reading | None) -> None:
    assert fill_from_previous(reading, before, 0.8) is reading


def test_a_slot_of_which_all_is_known_but_the_answers_has_those_of_before() -> None:
    """A batch runs all through it, and no longer than is usual."""
    seen = replace(BLIND, arrival_rate=31.0, completeness=1.0)
    shown = fill_from_previous(seen, WHOLE, 0.8)
    assert (shown.arrival_rate, shown.response, shown.completeness) == (31.0, 6.0, 1.0)
    assert object_to_scale_in(shown) == "a batch outlasts the slot: what was known before is held"
    assert fill_from_previous(replace(seen, utilisation=0.4), WHOLE, 0.8, decided=WHOLE.end).response is None
    assert not is_whole(seen, 0.8)
    assert is_whole(WHOLE, 0.8)
    assert not is_whole(replace(WHOLE, completeness=0.7), 0.8)


def test_a_slot_of_which_reports_come_later_is_decided_about_once_they_have() -> None:
    """A trigger as long as a slot: of each batch, and of the slot that it covers, is told in the next one."""
    dark = replace(BLIND, utilisation=0.7, running_time=0.4, final_replicas=2.0)
    shown = fill_from_previous(dark, replace(WHOLE, arrival_rate=10.0), 0.8)
    assert (shown.start, shown.end, shown.arrival_rate, shown.response, shown.utilisation) == (
        5.0,
        10.0,
        10.0,
        6.0,
        0.6,
    )
    assert shown.has(NoteCode.REPORTED_LATE)
    assert object_to_scale_in(shown) == ""
    seen = observe(shown, {"small": 2, "fast": 0}, NODES)
    assert (seen.completeness, seen.time) == (1.0, 5.0)
    assert seen.utilisation == pytest.approx(0.35)  # the same work on the two that are there by now
    assert fill_from_previous(dark, WHOLE, 0.8, decided=WHOLE.end) is dark
    full = fill_from_previous(replace(dark, notes=LOST), replace(WHOLE, notes=FULL), 0.8)
    assert full.notes == (*FULL, *LOST, SlotNote(NoteCode.REPORTED_LATE))
    assert object_to_scale_in(full) != ""


def test_nothing_is_given_back_where_batches_leave_no_rest_and_nobody_counts_what_waits() -> None:
    full = replace(WHOLE, backlog=None, batch_time=4.9)
    assert object_to_scale_in(full) == "how much waits is not known, and batches follow each other"
    assert object_to_scale_in(replace(full, batch_time=None, running_time=5.0)) != ""
    for rested in ({"batch_time": 3.0}, {"backlog": 0.0}, {"utilisation": 0.3}):
        assert object_to_scale_in(replace(full, **rested)) == ""


def test_who_works_is_not_idle_though_nothing_comes() -> None:
    idle = Reading("count", 0.0, 5.0, arrival_rate=0.0, tuples_in=0.0, backlog=0.0, utilisation=0.0)
    assert is_whole(idle, 0.8)
    assert fill_from_previous(idle, WHOLE, 0.8) is idle
    busy = replace(idle, utilisation=1.0)
    assert math.isnan(observe(busy, {"small": 1, "fast": 0}, NODES).response)
    assert fill_from_previous(replace(busy, running_time=6.0), WHOLE, 0.8).response == 6.0


def test_answers_are_not_late_where_nothing_came() -> None:
    idle = Reading("count", 0.0, 5.0, arrival_rate=0.0, tuples_in=0.0, backlog=0.0, utilisation=0.0)
    deployed = {"small": 1, "fast": 0}
    assert observe(idle, deployed, NODES).response == 0.0
    for more in (
        {"backlog": 3.0},
        {"backlog": None},
        {"arrival_rate": 1.0},
        {"arrival_rate": None},
        {"tuples_in": 2.0},
    ):
        assert math.isnan(observe(replace(idle, **more), deployed, NODES).response)


def test_replicas_are_as_busy_as_what_came_asks_for() -> None:
    assert estimate_utilisation(WHOLE) == pytest.approx(1.4)  # 20/s of 70 ms each, whatever was worked on
    assert estimate_utilisation(replace(WHOLE, arrival_rate=10.0)) == pytest.approx(0.7)
    assert estimate_utilisation(replace(WHOLE, arrival_rate=5.0)) == 0.6  # they did more than that: what they did
    assert estimate_utilisation(replace(WHOLE, arrival_rate=5.0, notes=CATCHING_UP)) == 1.0
    assert estimate_utilisation(replace(WHOLE, arrival_rate=5.0, backlog=26.0)) == 1.0  # more than comes in a slot
    assert estimate_utilisation(replace(WHOLE, arrival_rate=5.0, backlog=24.0)) == 0.6
    assert estimate_utilisation(replace(WHOLE, utilisation=None)) is None
    assert estimate_utilisation(replace(WHOLE, service_n=None)) == 0.6
    assert observe(WHOLE, {"small": 1, "fast": 0}, NODES).utilisation == pytest.approx(1.4)


def test_who_is_behind_shows_what_replicas_that_never_rest_get_through() -> None:
    """20 a second come, 6 are to be caught up with; batches get through 16."""
    behind = replace(
        WHOLE, backlog=6.0 * CATCH_UP_SLOTS * 5.0, service_n=None, batch_throughput=16.0, replicas={"small": 2.0}
    )
    assert estimate_utilisation(behind) == pytest.approx(26.0 / 16.0)
    assert estimate_utilisation(replace(behind, final_replicas=3.0)) == pytest.approx(
        26.0 / 16.0 * 2.0 / 3.0
    )  # one came at the end
    assert (
        estimate_utilisation(replace(behind, batch_throughput=40.0)) == 1.0
    )  # it catches up: they never rest, and no more is known
    assert estimate_utilisation(replace(behind, batch_throughput=None)) == 1.0
    assert estimate_utilisation(replace(behind, backlog=50.0)) == 0.6  # so many come in a slot anyway
    assert estimate_utilisation(replace(behind, backlog=0.0, notes=OUTLASTS)) == pytest.approx(20.0 / 16.0)
    full = replace(behind, backlog=50.0, notes=FULL)
    assert estimate_utilisation(full) == pytest.approx(22.0 / 16.0)  # but not where each batch leaves some
    assert object_to_scale_in(full) == "what has waited is still to be worked off"


def test_nothing_is_given_back_while_what_has_waited_is_worked_off() -> None:
    assert object_to_scale_in(WHOLE) == ""
    for behind in ({"notes": CATCHING_UP}, {"backlog": 120.0}, {"response": math.inf}):
        assert "still to be worked off" in object_to_scale_in(replace(WHOLE, **behind))
    assert observe(replace(WHOLE, completeness=0.3), {"small": 1, "fast": 0}, NODES).completeness == 0.3


def test_how_much_of_a_slot_was_seen_is_told_though_it_is_carried_on() -> None:
    shown = fill_from_previous(BLIND, WHOLE, 0.8)
    assert observe(shown, {"small": 1, "fast": 0}, NODES).completeness == 1.0
    assert list_figures(shown).completeness == 0.0


def test_what_waits_is_asked_for_beside_what_comes() -> None:
    deployed = {"small": 1, "fast": 0}
    seen = observe(replace(WHOLE, backlog=100.0), deployed, NODES)
    assert (seen.rate, seen.catch_up_rate, seen.demand) == (20.0, 100.0 / (CATCH_UP_SLOTS * 5.0), 24.0)
    assert "and 4 to catch up with" in describe_slot(seen, None)
    assert observe(replace(WHOLE, backlog=None), deployed, NODES).demand == 20.0
