"""Ordered replicas against those that serve, by a clock of the test's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.agent.pending import (
    FAILED,
    NOTHING_ORDERED,
    REACHED,
    STAYED,
    UNKNOWN,
    WAITING,
    ArrivalTimeouts,
    PendingReplicas,
    compare,
    find_refusal,
    order,
)

TIMEOUTS = ArrivalTimeouts(arrival={"large": 30.0}, default=10.0, back_off=100.0, longest=250.0)


def test_what_arrives_in_time_is_reached_and_costs_nothing() -> None:
    pending = order(PendingReplicas(), {"small": 2}, 0.0)
    waiting = compare(pending, {"small": 1}, 9.0, TIMEOUTS)
    assert (waiting.state, waiting.message) == (WAITING, "1 small to come")
    reached = compare(waiting.pending, {"small": 2}, 11.0, TIMEOUTS)
    assert reached.state == REACHED
    assert find_refusal(reached.pending, "small", 11.0) is None


def test_what_never_arrives_is_given_back_at_the_deadline_of_its_type() -> None:
    pending = compare(
        order(PendingReplicas(), {"small": 1, "large": 2}, 0.0), {"small": 1, "large": 1}, 1.0, TIMEOUTS
    ).pending
    assert compare(pending, {"small": 1, "large": 1}, 29.0, TIMEOUTS).state == WAITING
    failed = compare(pending, {"small": 1, "large": 1}, 31.0, TIMEOUTS)
    assert failed.state == FAILED
    assert failed.new_target == {"small": 1, "large": 1}
    assert failed.message == "1 large did not come in 31 s; given back, and no more large for 100 s"
    assert compare(failed.pending, {"small": 1, "large": 1}, 32.0, TIMEOUTS).state == REACHED
    said = "a replica of large was ordered and did not come, once; not again for 99 s"
    assert find_refusal(failed.pending, "large", 32.0) == said
    assert find_refusal(failed.pending, "small", 32.0) is None
    assert find_refusal(failed.pending, "large", 131.0) is None


def test_the_pause_doubles_up_to_its_longest_and_is_forgotten_once_one_arrives() -> None:
    pending, now, pauses = PendingReplicas(), 0.0, []
    for _ in range(4):
        failed = compare(order(pending, {"small": 2}, now), {"small": 1}, now + 10.0, TIMEOUTS)
        pauses.append(failed.pending.missed["small"].until - now - 10.0)
        pending, now = failed.pending, now + 1000.0
    assert pauses == [100.0, 200.0, 250.0, 250.0]
    pending = compare(order(pending, {"small": 2}, now), {"small": 2}, now + 1.0, TIMEOUTS).pending
    assert pending.missed == {}


def test_staying_small_does_not_forgive() -> None:
    failed = compare(order(PendingReplicas(), {"small": 2}, 0.0), {"small": 1}, 10.0, TIMEOUTS)
    down = compare(order(failed.pending, {"small": 0}, 11.0), {"small": 0}, 12.0, TIMEOUTS)
    assert down.state == REACHED
    assert find_refusal(down.pending, "small", 12.0) is not None


def test_each_one_that_comes_gives_the_others_a_deadline_of_their_own() -> None:
    pending = order(PendingReplicas(), {"small": 3}, 0.0)
    for now, came in ((0.0, 0), (9.0, 1), (18.0, 2)):
        outcome = compare(pending, {"small": came}, now, TIMEOUTS)
        assert outcome.state == WAITING
        pending = outcome.pending
    failed = compare(pending, {"small": 2}, 28.0, TIMEOUTS)
    assert failed.new_target == {"small": 2}


def test_one_that_is_lost_has_the_deadline_from_when_it_was_missed() -> None:
    pending = compare(order(PendingReplicas(), {"small": 2}, 0.0), {"small": 2}, 1.0, TIMEOUTS).pending
    lost = compare(pending, {"small": 1}, 500.0, TIMEOUTS)
    assert (lost.state, lost.message) == (WAITING, "1 small that was lost to come")
    assert compare(lost.pending, {"small": 2}, 505.0, TIMEOUTS).state == REACHED
    assert compare(lost.pending, {"small": 1}, 510.0, TIMEOUTS).new_target == {"small": 1}


def test_ordering_the_same_again_moves_no_deadline() -> None:
    pending = order(PendingReplicas(), {"small": 2}, 0.0)
    for now in (4.0, 8.0):
        pending = order(pending, {"small": 2}, now)
    assert compare(pending, {"small": 1}, 10.0, TIMEOUTS).state == FAILED


def test_ordering_more_leaves_earlier_deadlines() -> None:
    pending = compare(order(PendingReplicas(), {"small": 2}, 0.0), {"small": 1}, 1.0, TIMEOUTS).pending
    pending = compare(order(pending, {"small": 3}, 6.0), {"small": 1}, 6.0, TIMEOUTS).pending
    failed = compare(pending, {"small": 1}, 10.0, TIMEOUTS)
    assert (failed.new_target, failed.failed) == ({"small": 1}, {"small": 2})


def test_steady_orders_and_arrivals_never_fail() -> None:
    """Each takes nine seconds, and may take ten; one is ordered every five."""
    pending = PendingReplicas()
    for slot in range(12):
        now = 5.0 * slot
        came = 1 + sum(5.0 * other + 9.0 <= now for other in range(slot))
        outcome = compare(pending, {"small": came}, now, TIMEOUTS)
        assert outcome.state != FAILED, (slot, outcome.message)
        pending = order(outcome.pending, {"small": 2 + slot}, now)


def test_an_operator_is_never_left_with_a_target_of_none() -> None:
    """Of each type in turn; where there is but one, of that one."""
    lost = compare(order(PendingReplicas(), {"small": 3, "large": 0}, 0.0), {"small": 0}, 20.0, TIMEOUTS)
    assert lost.new_target == {"small": 0, "large": 1}
    again = compare(lost.pending, {}, 60.0, TIMEOUTS)
    assert (again.state, again.new_target) == (FAILED, {"small": 1, "large": 0})
    only = compare(order(PendingReplicas(), {"small": 4}, 0.0), {}, 20.0, TIMEOUTS)
    assert only.new_target == {"small": 1}
    later = compare(only.pending, {}, 1000.0, TIMEOUTS)
    assert (later.state, later.new_target) == (WAITING, None)
    assert compare(later.pending, {}, 1010.0, TIMEOUTS).new_target == {"small": 1}
    assert compare(later.pending, {"small": 1}, 2000.0, TIMEOUTS).state == REACHED


def lose_the_last(pending: PendingReplicas) -> PendingReplicas:
    """Ordered, served for long, and missed from 500 s on."""
    served = compare(order(pending, {"small": 1}, 400.0), {"small": 1}, 401.0, TIMEOUTS).pending
    return compare(served, {"small": 0}, 500.0, TIMEOUTS).pending


def test_last_replica_is_ordered_again_ever_less_often() -> None:
    pending, asked = lose_the_last(PendingReplicas()), []
    for now in range(501, 1300):
        outcome = compare(pending, {"small": 0}, float(now), TIMEOUTS)
        if outcome.new_target is not None:
            assert (outcome.state, outcome.new_target, outcome.failed) == (FAILED, {"small": 1}, {"small": 1})
            asked.append(now)
        pending = outcome.pending
    assert asked == [510, 610, 810, 1060]
    waiting = compare(pending, {"small": 0}, 1300.0, TIMEOUTS)
    assert waiting.message == "1 small that was lost to come, and ordered again in 10 s"
    back = compare(pending, {"small": 1}, 1301.0, TIMEOUTS)
    assert (back.state, back.pending.missed) == (REACHED, {})


def test_deadline_restarts_when_ordered_again() -> None:
    """Also where that is longer than the pause."""
    slow = ArrivalTimeouts(default=10.0, back_off=2.0)
    first = compare(lose_the_last(PendingReplicas()), {}, 510.0, slow)
    assert first.message == "1 small that was lost did not come in 10 s; ordered again, and not once more for 2 s"
    assert compare(first.pending, {}, 519.0, slow).state == WAITING
    assert compare(first.pending, {}, 520.0, slow).new_target == {"small": 1}


def test_what_was_missed_beside_others_does_not_delay_the_last() -> None:
    patient = ArrivalTimeouts(default=10.0, back_off=1000.0)
    beside = compare(order(PendingReplicas(), {"small": 2}, 380.0), {"small": 1}, 395.0, patient).pending
    assert find_refusal(beside, "small", 510.0) is not None
    outcome = compare(lose_the_last(beside), {"small": 0}, 510.0, TIMEOUTS)
    assert (outcome.new_target, outcome.pending.missed["small"].until) == ({"small": 1}, 610.0)


def test_what_cannot_be_told_is_held_against_nobody() -> None:
    pending = order(PendingReplicas(), {"small": 1}, 0.0)
    assert compare(pending, None, 1000.0, TIMEOUTS).state == UNKNOWN
    assert compare(PendingReplicas(), None, 0.0, TIMEOUTS).state == NOTHING_ORDERED


def test_replicas_that_do_not_go_are_awaited_and_then_wanted() -> None:
    pending = order(PendingReplicas(), {"small": 1}, 0.0)
    outcome = compare(pending, {"small": 2, "large": 1}, 29.0, TIMEOUTS)
    assert (outcome.state, outcome.message, outcome.new_target) == (WAITING, "1 small, 1 large still to go", None)
    stayed = compare(pending, {"small": 2, "large": 1}, 30.0, TIMEOUTS)
    assert (stayed.state, stayed.new_target, stayed.failed) == (STAYED, None, {"small": -1, "large": -1})
    assert compare(stayed.pending, {"small": 2, "large": 1}, 31.0, TIMEOUTS).state == REACHED


counts = st.dictionaries(st.sampled_from(["small", "large"]), st.integers(0, 4))


@given(st.lists(st.tuples(counts, st.none() | counts, st.floats(0.0, 50.0)), max_size=12))
def test_new_target_never_exceeds_the_old(
    story: list[tuple[dict[str, int], dict[str, int] | None, float]],
) -> None:
    pending, now = PendingReplicas(), 0.0
    for target, came, pause in story:
        pending = order(pending, target, now)
        now += pause
        outcome = compare(pending, came, now, TIMEOUTS)
        if outcome.new_target is not None:
            assert came is not None
            assert outcome.new_target != target or list(target.values()) == [1]
            assert sum(outcome.new_target.values()) >= 1
            if sum(outcome.new_target.values()) > 1:
                assert all(outcome.new_target[name] in (count, came.get(name, 0)) for name, count in target.items())
                assert all(outcome.new_target[name] <= count for name, count in target.items())
            assert compare(outcome.pending, came, now, TIMEOUTS).state != FAILED
        pending = outcome.pending


@pytest.mark.parametrize("misses", [1, 31, 5000])
def test_pauses_stay_finite(misses: int) -> None:
    assert TIMEOUTS.pause(misses) <= 250.0
