"""Explain what each operator's agent did, or did not do, at a moment: alternatives, blocks, objective, or the gap.

Every slot has an answer, and decisions of agents of other versions are read as far as possible: nothing raises.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from scaler.model.decision import BLOCKED, DRY_RUN, GUARD, HELD, NO_ACTION, NO_CHANGE, SCALED, Decision, Objection
from scaler.model.errors import BadInput
from scaler.model.units import clean, format_number, join_words, quote
from scaler.model.wire import read_number, read_table
from tuner.history.gap import Gap, find_gap
from tuner.history.held_changes import HeldChange, weigh_holds
from tuner.history.objective_origin import Pursued, find_pursued
from tuner.scenario.document import shape_of
from tuner.scenario.layout import SLOT_S
from tuner.store.applications import find_application, list_applications
from tuner.store.connection import Session
from tuner.store.corrections import list_earlier
from tuner.store.decisions import MAX_AHEAD_S, list_decided_operators, list_decisions
from tuner.store.objectives import list_objectives
from tuner.store.orders import list_controls, list_scalers, load_orders
from tuner.store.records import Control, SupersededDecision

MAX_OPERATORS = 1000


@dataclass(frozen=True, slots=True)
class Block:
    """An objection, and the controls behind it: none where it is of the agent's own configuration or limits."""

    objection: Objection
    set_by: tuple[Control, ...] = ()


def find_blocks(decision: Decision, standing: Sequence[Control]) -> tuple[Block, ...]:
    """Every objection that kept a proposal, or a part of it, from being done; none are known of older agents'."""
    if decision.kind not in (BLOCKED, DRY_RUN, SCALED):
        return ()
    return tuple(
        Block(one, tuple(control for control in standing if one.source == GUARD and control.kind == one.code))
        for one in decision.objections
    )


@dataclass(frozen=True, slots=True)
class Alternative:
    """Something that could have been done, and its worth, an expected cost: less is better."""

    action: str
    worth: float | None
    more: float | None  # than the best
    done: bool
    wanted: bool  # by the policy


@dataclass(frozen=True, slots=True)
class Account:
    """One operator's slot; without a decision at that time `gap` says why, and the rest is of the last one before."""

    operator: str
    gap: Gap | None = None
    age: float | None = None  # seconds from the slot's start to the moment asked about
    decision: Decision | None = None
    alternatives: tuple[Alternative, ...] = ()
    compared: str = ""
    blocked: tuple[Block, ...] = ()
    controls: tuple[Control, ...] = ()
    objective: Pursued | None = None
    holds: tuple[HeldChange, ...] = ()  # of changes by one replica, where they were measured
    corrected: tuple[SupersededDecision, ...] = ()  # what was reported before of the same slot, the last first


@dataclass(frozen=True, slots=True)
class Explanation:
    application: str
    at: float | None  # None: the newest
    known: bool  # whether anything at all is known of the application
    message: str = ""  # where there is no operator to speak of
    advice: str = ""
    operators: tuple[Account, ...] = ()


def explain(
    session: Session, app: str, at: float | None = None, operator: str | None = None, now: float | None = None
) -> Explanation:
    """Every operator, or the one, in the slot at that time; in the newest where no time is given."""
    today = time.time() if now is None else now
    moment = None if at is None or math.isnan(at) else at
    names = list_operators(session, app) if can_be_stored(app) else None
    if names is None:
        return Explanation(app, moment, False, *describe_unknown(session, app))
    if operator is not None and operator not in names:
        have = f"it has {join_words([quote(one) for one in names[:20]])}" if names else "none is known of it"
        advice = "Name one of these." if names else "Describe the application: tuner app add."
        return Explanation(app, moment, True, f"{quote(app)} has no operator {quote(operator)}; {have}.", advice)
    if not names:
        message = f"No operator of {quote(app)} is known, and no agent of it ever reported."
        return Explanation(app, moment, True, message, f"Describe it: tuner app add {quote(app)} FILE.toml.")
    asked = names if operator is None else [operator]
    slot_s = find_slot(session, app)
    accounts = tuple(account_for(session, app, one, moment, today, slot_s) for one in asked)
    return Explanation(app, moment, True, operators=accounts)


def account_for(session: Session, app: str, operator: str, at: float | None, now: float, slot_s: float) -> Account:
    until = now + MAX_AHEAD_S if at is None else None if at == math.inf else math.nextafter(at, math.inf)
    last = next(iter(list_decisions(session, app, [operator], until=until, limit=1)), None)
    moment = now if at is None else at
    gap = find_gap(session, app, operator, last, moment, now, slot_s)
    if last is None:
        return Account(operator, gap)
    decision, age = last.decision, moment - last.time
    standing = tuple(one for one in list_controls(session, app, at=last.time) if one.operator in ("", operator))
    ranked, version = rank_alternatives(decision), decision.objective_version
    pursued = None if version is None else find_pursued(session, app, operator, version)
    return Account(
        operator=operator,
        gap=gap,
        age=age if math.isfinite(age) else None,
        decision=decision,
        corrected=tuple(list_earlier(session, last)),
        alternatives=ranked,
        compared=compare(decision, ranked),
        blocked=find_blocks(decision, standing),
        controls=standing,
        objective=pursued,
        holds=() if pursued is None else weigh_holds(pursued.hold, decision),
    )


def list_operators(session: Session, app: str) -> list[str] | None:
    """Those described, then those that only scalers reported; None where nothing is known of the application."""
    described = read_described(session, app)
    found = dict.fromkeys(described or ())
    found |= dict.fromkeys(scaler.operator for scaler in list_scalers(session, app))
    found |= dict.fromkeys(list_decided_operators(session, app, MAX_OPERATORS - len(found)))
    if not found and described is None and not list_objectives(session, app, limit=1):
        return None
    return list(found)


def read_described(session: Session, app: str) -> list[str] | None:
    described = find_application(session, app)
    if not described:
        return None
    try:
        return [operator.name for operator in shape_of(described.document).operators]
    except (BadInput, LookupError, TypeError, ValueError, AttributeError):  # of an older program
        return []


def find_slot(session: Session, app: str) -> float:
    """Seconds between two decisions, by the newest orders."""
    orders = load_orders(session, app)
    stated = None if orders is None else read_number(read_table(orders.document).get("slot_s"))
    return stated if stated is not None and 0.0 < stated < math.inf else SLOT_S


def describe_unknown(session: Session, app: str) -> tuple[str, str]:
    names = [quote(version.application) for version in list_applications(session)][:20]
    advice = f"Register it: tuner app add {quote(app)} FILE.toml"
    return f"Application {quote(app)} was never registered, and no agent of it ever reported.", (
        f"{advice}, or name one of {join_words(names)}." if names else f"{advice}."
    )


def can_be_stored(text: str) -> bool:
    """Whether a database could have this name at all: no NUL, no half of a surrogate pair."""
    return not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text)


def rank_alternatives(decision: Decision) -> tuple[Alternative, ...]:
    """The best first; those without a number last."""
    worths = decision.alternatives
    known = [worth for worth in worths.values() if worth is not None]
    best = min(known, default=None)
    done = decision.action or NO_ACTION if decision.kind == SCALED else NO_ACTION
    wanted = decision.wanted or NO_ACTION if decision.kind != HELD else None
    ordered = sorted(worths, key=lambda action: (worths[action] is None, worths[action] or 0.0, action != NO_ACTION))
    return tuple(Alternative(a, worths[a], subtract(worths[a], best), a == done, a == wanted) for a in ordered)


def subtract(worth: float | None, best: float | None) -> float | None:
    return None if worth is None or best is None else 0.0 if worth == best else worth - best


def compare(decision: Decision, ranked: tuple[Alternative, ...]) -> str:
    """Why the best was the best; for no change, why nothing was better."""
    known = [one for one in ranked if one.worth is not None]
    if not known:
        return explain_unvalued(decision)
    best, wanted = known[0], decision.wanted or NO_ACTION
    named = "No change" if best.action == NO_ACTION else clean(best.action)
    worth = f"at a cost of {format_number(best.worth)}"
    ahead = describe_second(known[1]) if len(known) > 1 else ""
    if decision.kind == NO_CHANGE:
        if best.action == NO_ACTION:
            return f"Nothing was better than no change, {worth}{ahead}."
        return explain_no_change(named, known)
    if best.action == wanted:
        return f"{named} was best, {worth}{ahead}."
    if decision.kind == HELD:
        return f"{named} would have been best, but nothing is decided while the agent holds."
    return f"{named} had the least cost; {clean(wanted)} was what the policy wanted."


def describe_second(second: Alternative) -> str:
    if not second.more:
        return f"; {clean(second.action)} had the same cost"
    return f"; {clean(second.action)} came next, at {format_number(second.more)} more"


def explain_no_change(named: str, known: list[Alternative]) -> str:
    """A policy may want more than a slight gain before it changes anything."""
    stay = next((one for one in known if one.action == NO_ACTION), None)
    if stay is None:
        return f"{named} had the least cost, and the policy wanted no change all the same."
    less = format_number(stay.more)
    return f"{named} had a cost {less} below that of no change, too little for the policy to change."


def explain_unvalued(decision: Decision) -> str:
    if decision.kind == HELD:
        return "Nothing was weighed, for the agent held."
    if decision.kind == NO_CHANGE:
        return "The policy found nothing better than no change; it does not put a figure on alternatives."
    return "The policy does not put a figure on alternatives."
