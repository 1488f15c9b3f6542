"""When a stage has passed, is broken, or shows nothing: the test by betting, and what is made of it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tuner.rollout.betting import BLOCK, cut_blocks, exceeds, find_wealth, measure_doubt
from tuner.rollout.stage_checks import (
    BROKEN,
    GOES_ON,
    PASSED,
    UNDECIDED,
    StageLimits,
    StageSlots,
    decide_outcome,
)

LIMITS = StageLimits(0.05, 0.1)
ALPHA = 0.05


def draw(chance: np.random.Generator, slots: int, share: float, burst: float) -> NDArray[np.bool_]:
    """Slots broken in bursts of this mean length: a chain of two states."""
    leave = 1.0 / burst
    enter = leave * share / (1.0 - share)
    state, drawn = chance.random() < share, np.empty(slots, bool)
    for i, luck in enumerate(chance.random(slots)):
        drawn[i] = state
        state = luck >= leave if state else luck < enter
    return drawn


def seen(broken: int, of: int, moved: int = 0, reported: int | None = None, share: float = 1.0) -> StageSlots:
    """So many broken and moved ones, spread evenly."""
    flags = [np.arange(of) * count // of != (np.arange(of) + 1) * count // of for count in (broken, moved)]
    return StageSlots(of if reported is None else reported, of, flags[0], flags[1], share=share)


def outcome(what: StageSlots, wanted: int = 60, stage: str = "canary") -> str:
    return decide_outcome(what, LIMITS, stage, wanted, 3.0, ALPHA).outcome


@pytest.mark.parametrize("burst", [1.2, 3.0])
@pytest.mark.parametrize("limit", [0.05, 0.1])
def test_at_the_limit_it_hardly_ever_raises_an_alarm(limit: float, burst: float) -> None:
    """A day of slots, looked at after each: at most alpha, within three standard errors of so many tries."""
    chance, tries = np.random.default_rng(1), 300
    alarms = sum(exceeds(draw(chance, 1440, limit, burst), limit, ALPHA) for _ in range(tries))
    assert alarms / tries <= ALPHA + 3.0 * (ALPHA * (1.0 - ALPHA) / tries) ** 0.5


@pytest.mark.parametrize("burst", [1.2, 3.0])
def test_three_times_the_limit_is_seen_within_hours(burst: float) -> None:
    chance, delays = np.random.default_rng(2), []
    for _ in range(100):
        wealth = find_wealth(cut_blocks(draw(chance, 1440, 0.15, burst)), 0.05)
        there = np.flatnonzero(wealth >= 1.0 / ALPHA)
        delays.append((there[0] + 1) * BLOCK if there.size else 10_000)
    assert np.median(delays) <= 240
    assert np.quantile(delays, 0.9) <= 480


def test_what_fails_always_is_seen_after_two_blocks() -> None:
    assert exceeds([True] * 2 * BLOCK, 0.05, ALPHA / 2.0)
    assert not exceeds([True] * (BLOCK - 1), 0.05, ALPHA)  # less than a block tells nothing
    assert measure_doubt([], 0.05) == 1.0


def test_what_was_sure_once_stays_so() -> None:
    bad = [True] * 3 * BLOCK
    assert measure_doubt([*bad, *[False] * 50 * BLOCK], 0.05) <= measure_doubt(bad, 0.05)


def test_a_stage_passes_on_enough_slots_within_the_limits() -> None:
    assert outcome(seen(3, 60, 6)) == PASSED
    assert outcome(seen(2, 59, 5)) == GOES_ON
    assert outcome(seen(4, 60)) == GOES_ON  # above the limit, and not beyond chance
    assert outcome(seen(0, 60, 7)) == GOES_ON
    assert outcome(seen(4, 80)) == PASSED


def test_a_stage_breaks_on_either_count() -> None:
    late, moving = (
        decide_outcome(seen(30, 60), LIMITS, "canary", 60, 3.0, ALPHA),
        decide_outcome(seen(0, 60, 50), LIMITS, "canary", 60, 3.0, ALPHA),
    )
    assert late.outcome == moving.outcome == BROKEN
    assert late.why.startswith(
        "in canary 50 % of 60 slots were violations, and 5 % are allowed; the chance that this is luck"
    )
    assert moving.why.startswith("in canary 83.3 % of 60 slots were reconfigured, and 10 % are allowed")
    assert late.figures.violations == 0.5


def test_what_shows_nothing_in_three_times_its_slots_is_given_up() -> None:
    verdict = decide_outcome(seen(12, 180), LIMITS, "canary", 60, 3.0, ALPHA)
    assert verdict.outcome == UNDECIDED
    assert verdict.why.startswith("that objective could not be shown to be good: of 180 slots in canary")


def test_missing_counts_for_nothing_but_the_patience() -> None:
    assert outcome(seen(0, 0, reported=179)) == GOES_ON
    never = decide_outcome(seen(0, 0, reported=180), LIMITS, "canary", 60, 3.0, ALPHA)
    assert never.outcome == UNDECIDED
    assert "never taken up" in never.why
    assert outcome(seen(0, 0, reported=180, share=0.5)) == GOES_ON  # it leads half of the time only


def test_a_shadow_that_was_computed_in_too_few_slots_shows_nothing() -> None:
    assert outcome(seen(0, 60, reported=60), stage="shadow") == PASSED
    assert outcome(seen(0, 60, reported=70), stage="shadow") == GOES_ON
    assert outcome(seen(0, 150, reported=180), stage="shadow") == UNDECIDED
