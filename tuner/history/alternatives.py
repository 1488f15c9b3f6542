"""Rank what each alternative was worth to the policy, and compare them in a sentence."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.model.decision import HELD, NO_CHANGE, SCALED, Decision
from scaler.model.units import clean, format_number

NOTHING = "no change"


@dataclass(frozen=True, slots=True)
class Alternative:
    """Something that could have been done, and its worth: less is better."""

    action: str
    worth: float | None
    more: float | None  # than the best
    done: bool
    wanted: bool  # by the policy


def rank_alternatives(decision: Decision) -> tuple[Alternative, ...]:
    """The best first; those without a number last."""
    worths = decision.alternatives
    known = [worth for worth in worths.values() if worth is not None]
    best = min(known, default=None)
    done = find_done(decision)
    wanted = decision.wanted or NOTHING if decision.kind != HELD else None
    ordered = sorted(worths, key=lambda action: (worths[action] is None, worths[action] or 0.0, action != NOTHING))
    return tuple(Alternative(a, worths[a], subtract(worths[a], best), a == done, a == wanted) for a in ordered)


def find_done(decision: Decision) -> str:
    return decision.action or NOTHING if decision.kind == SCALED else NOTHING


def subtract(worth: float | None, best: float | None) -> float | None:
    return None if worth is None or best is None else 0.0 if worth == best else worth - best


def compare(decision: Decision, ranked: tuple[Alternative, ...]) -> str:
    """Why the best was the best; for no change, why nothing was better."""
    known = [one for one in ranked if one.worth is not None]
    if not known:
        return explain_unvalued(decision)
    best = known[0]
    second = next((one for one in known[1:]), None)
    ahead = "" if second is None else describe_second(second)
    if decision.kind == NO_CHANGE:
        if best.action == NOTHING:
            return f"Nothing was better than no change, worth {format_number(best.worth)}{ahead}."
        return explain_no_change(best, known)
    if best.action == (decision.wanted or NOTHING):
        return f"{describe(best.action)} was best, worth {format_number(best.worth)}{ahead}."
    if decision.kind == HELD:
        return f"{describe(best.action)} would have been best, but nothing is decided while the scaler holds."
    return (
        f"{describe(best.action)} had the least worth; {clean(decision.wanted or NOTHING)} was what the policy wanted."
    )


def describe_second(second: Alternative) -> str:
    if not second.more:
        return f"; {clean(second.action)} was worth the same"
    return f"; {clean(second.action)} came next, worth {format_number(second.more)} more"


def explain_no_change(best: Alternative, known: list[Alternative]) -> str:
    """A policy may want more than a slight gain before it changes anything."""
    stay = next((one for one in known if one.action == NOTHING), None)
    if stay is None:
        return f"{describe(best.action)} had the least worth, and the policy wanted no change all the same."
    much = format_number(stay.more)
    return (
        f"{describe(best.action)} was worth {much} less than no change, which the policy did not find enough to change."
    )


def explain_unvalued(decision: Decision) -> str:
    if decision.kind == HELD:
        return "Nothing was weighed, for the scaler held."
    if decision.kind == NO_CHANGE:
        return "The policy found nothing better than no change; it does not put a figure on alternatives."
    return "The policy does not put a figure on alternatives."


def describe(action: str) -> str:
    return "No change" if action == NOTHING else clean(action)
