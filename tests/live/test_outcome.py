"""Asked against came, by a clock of the test's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.agent.pending import (
    FAILED,
    NOTHING_ASKED,
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

PATIENCE = ArrivalTimeouts(arrival={"large": 30.0}, default=10.0, back_off=100.0, longest=250.0)


def test_what_arrives_in_time_is_reached_and_costs_nothing() -> None:
    ledger = order(PendingReplicas(), {"small": 2}, 0.0)
    waiting = compare(ledger, {"small": 1}, 9.0, PATIENCE)
    assert (waiting.state, waiting.says) == (WAITING, "1 small to come")
    reached = compare(waiting.ledger, {"small": 2}, 11.0, PATIENCE)
    assert reached.state == REACHED
    assert find_refusal(reached.ledger, "small", 11.0) is None


def test_what_never_arrives_is_given_back_at_the_deadline_of_its_type() -> None:
    ledger = compare(
        order(PendingReplicas(), {"small": 1, "large": 2}, 0.0), {"small": 1, "large": 1}, 1.0, PATIENCE
    ).ledger
    assert compare(ledger, {"small": 1, "large": 1}, 29.0, PATIENCE).state == WAITING
    failed = compare(ledger, {"small": 1, "large": 1}, 31.0, PATIENCE)
    assert failed.state == FAILED
    assert failed.give_back == {"small": 1, "large": 1}
    assert failed.says == "1 large did not come in 31 s; given back, and no more large for 100 s"
    assert compare(failed.ledger, {"small": 1, "large": 1}, 32.0, PATIENCE).state == REACHED
    said = "a replica of large was asked for and did not come, once; not again for 99 s"
    assert find_refusal(failed.ledger, "large", 32.0) == said
    assert find_refusal(failed.ledger, "small", 32.0) is None
    assert find_refusal(failed.ledger, "large", 131.0) is None


def test_the_pause_doubles_up_to_its_longest_and_is_forgotten_once_one_arrives() -> None:
    ledger, now, pauses = PendingReplicas(), 0.0, []
    for _ in range(4):
        failed = compare(order(ledger, {"small": 2}, now), {"small": 1}, now + 10.0, PATIENCE)
        pauses.append(failed.ledger.missed["small"].until - now - 10.0)
        ledger, now = failed.ledger, now + 1000.0
    assert pauses == [100.0, 200.0, 250.0, 250.0]
    ledger = compare(order(ledger, {"small": 2}, now), {"small": 2}, now + 1.0, PATIENCE).ledger
    assert ledger.missed == {}


def test_staying_small_does_not_forgive() -> None:
    failed = compare(order(PendingReplicas(), {"small": 2}, 0.0), {"small": 1}, 10.0, PATIENCE)
    down = compare(order(failed.ledger, {"small": 0}, 11.0), {"small": 0}, 12.0, PATIENCE)
    assert down.state == REACHED
    assert find_refusal(down.ledger, "small", 12.0) is not None


def test_each_one_that_comes_gives_the_others_a_deadline_of_their_own() -> None:
    ledger = order(PendingReplicas(), {"small": 3}, 0.0)
    for now, came in ((0.0, 0), (9.0, 1), (18.0, 2)):
        outcome = compare(ledger, {"small": came}, now, PATIENCE)
        assert outcome.state == WAITING
        ledger = outcome.ledger
    failed = compare(ledger, {"small": 2}, 28.0, PATIENCE)
    assert failed.give_back == {"small": 2}


def test_one_that_is_lost_has_the_deadline_from_when_it_was_missed() -> None:
    ledger = compare(order(PendingReplicas(), {"small": 2}, 0.0), {"small": 2}, 1.0, PATIENCE).ledger
    lost = compare(ledger, {"small": 1}, 500.0, PATIENCE)
    assert (lost.state, lost.says) == (WAITING, "1 small that was lost to come")
    assert compare(lost.ledger, {"small": 2}, 505.0, PATIENCE).state == REACHED
    assert compare(lost.ledger, {"small": 1}, 510.0, PATIENCE).give_back == {"small": 1}


def test_asking_the_same_again_moves_no_deadline() -> None:
    ledger = order(PendingReplicas(), {"small": 2}, 0.0)
    for now in (4.0, 8.0):
        ledger = order(ledger, {"small": 2}, now)
    assert compare(ledger, {"small": 1}, 10.0, PATIENCE).state == FAILED


def test_asking_for_more_leaves_the_deadline_of_those_before() -> None:
    ledger = compare(order(PendingReplicas(), {"small": 2}, 0.0), {"small": 1}, 1.0, PATIENCE).ledger
    ledger = compare(order(ledger, {"small": 3}, 6.0), {"small": 1}, 6.0, PATIENCE).ledger
    failed = compare(ledger, {"small": 1}, 10.0, PATIENCE)
    assert (failed.give_back, failed.failed) == ({"small": 1}, {"small": 2})


def test_one_asked_for_and_one_come_in_each_slot_fails_never() -> None:
    """Each takes nine seconds, and may take ten; asked for every five."""
    ledger = PendingReplicas()
    for slot in range(12):
        now = 5.0 * slot
        came = 1 + sum(5.0 * other + 9.0 <= now for other in range(slot))
        outcome = compare(ledger, {"small": came}, now, PATIENCE)
        assert outcome.state != FAILED, (slot, outcome.says)
        ledger = order(outcome.ledger, {"small": 2 + slot}, now)


def test_an_operator_is_never_left_with_a_target_of_none() -> None:
    """Of each type in turn; where there is but one, of that one."""
    lost = compare(order(PendingReplicas(), {"small": 3, "large": 0}, 0.0), {"small": 0}, 20.0, PATIENCE)
    assert lost.give_back == {"small": 0, "large": 1}
    again = compare(lost.ledger, {}, 60.0, PATIENCE)
    assert (again.state, again.give_back) == (FAILED, {"small": 1, "large": 0})
    only = compare(order(PendingReplicas(), {"small": 4}, 0.0), {}, 20.0, PATIENCE)
    assert only.give_back == {"small": 1}
    later = compare(only.ledger, {}, 1000.0, PATIENCE)
    assert (later.state, later.give_back) == (WAITING, None)
    assert compare(later.ledger, {}, 1010.0, PATIENCE).give_back == {"small": 1}
    assert compare(later.ledger, {"small": 1}, 2000.0, PATIENCE).state == REACHED


def lose_the_last(ledger: PendingReplicas) -> PendingReplicas:
    """Asked for, served for long, and missed from 500 s on."""
    served = compare(order(ledger, {"small": 1}, 400.0), {"small": 1}, 401.0, PATIENCE).ledger
    return compare(served, {"small": 0}, 500.0, PATIENCE).ledger


def test_the_last_replica_of_the_only_type_is_asked_for_again_ever_less_often() -> None:
    ledger, asked = lose_the_last(PendingReplicas()), []
    for now in range(501, 1300):
        outcome = compare(ledger, {"small": 0}, float(now), PATIENCE)
        if outcome.give_back is not None:
            assert (outcome.state, outcome.give_back, outcome.failed) == (FAILED, {"small": 1}, {"small": 1})
            asked.append(now)
        ledger = outcome.ledger
    assert asked == [510, 610, 810, 1060]
    waiting = compare(ledger, {"small": 0}, 1300.0, PATIENCE)
    assert waiting.says == "1 small that was lost to come, and asked for again in 10 s"
    back = compare(ledger, {"small": 1}, 1301.0, PATIENCE)
    assert (back.state, back.ledger.missed) == (REACHED, {})


def test_it_is_awaited_for_as_long_after_it_was_asked_for_again() -> None:
    """Also where that is longer than the pause."""
    slow = ArrivalTimeouts(default=10.0, back_off=2.0)
    first = compare(lose_the_last(PendingReplicas()), {}, 510.0, slow)
    assert first.says == "1 small that was lost did not come in 10 s; asked for again, and not once more for 2 s"
    assert compare(first.ledger, {}, 519.0, slow).state == WAITING
    assert compare(first.ledger, {}, 520.0, slow).give_back == {"small": 1}


def test_what_was_missed_beside_others_does_not_delay_the_last() -> None:
    patient = ArrivalTimeouts(default=10.0, back_off=1000.0)
    beside = compare(order(PendingReplicas(), {"small": 2}, 380.0), {"small": 1}, 395.0, patient).ledger
    assert find_refusal(beside, "small", 510.0) is not None
    outcome = compare(lose_the_last(beside), {"small": 0}, 510.0, PATIENCE)
    assert (outcome.give_back, outcome.ledger.missed["small"].until) == ({"small": 1}, 610.0)


def test_what_cannot_be_told_is_held_against_nobody() -> None:
    ledger = order(PendingReplicas(), {"small": 1}, 0.0)
    assert compare(ledger, None, 1000.0, PATIENCE).state == UNKNOWN
    assert compare(PendingReplicas(), None, 0.0, PATIENCE).state == NOTHING_ASKED


def test_replicas_that_do_not_go_are_awaited_and_then_wanted() -> None:
    ledger = order(PendingReplicas(), {"small": 1}, 0.0)
    outcome = compare(ledger, {"small": 2, "large": 1}, 29.0, PATIENCE)
    assert (outcome.state, outcome.says, outcome.give_back) == (WAITING, "1 small, 1 large still to go", None)
    stayed = compare(ledger, {"small": 2, "large": 1}, 30.0, PATIENCE)
    assert (stayed.state, stayed.give_back, stayed.failed) == (STAYED, None, {"small": -1, "large": -1})
    assert compare(stayed.ledger, {"small": 2, "large": 1}, 31.0, PATIENCE).state == REACHED


counts = st.dictionaries(st.sampled_from(["small", "large"]), st.integers(0, 4))


@given(st.lists(st.tuples(counts, st.none() | counts, st.floats(0.0, 50.0)), max_size=12))
def test_given_back_is_never_more_than_asked_and_is_what_is_there(
    story: list[tuple[dict[str, int], dict[str, int] | None, float]],
) -> None:
    ledger, now = PendingReplicas(), 0.0
    for target, came, pause in story:
        ledger = order(ledger, target, now)
        now += pause
        outcome = compare(ledger, came, now, PATIENCE)
        if outcome.give_back is not None:
            assert came is not None
            assert outcome.give_back != target or list(target.values()) == [1]
            assert sum(outcome.give_back.values()) >= 1
            if sum(outcome.give_back.values()) > 1:
                assert all(outcome.give_back[name] in (count, came.get(name, 0)) for name, count in target.items())
                assert all(outcome.give_back[name] <= count for name, count in target.items())
            assert compare(outcome.ledger, came, now, PATIENCE).state != FAILED
        ledger = outcome.ledger


@pytest.mark.parametrize("misses", [1, 31, 5000])
def test_pauses_stay_finite(misses: int) -> None:
    assert PATIENCE.pause(misses) <= 250.0
