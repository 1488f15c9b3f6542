"""An application and a moment in; for each operator why its scaler did what it did, or did nothing, then, out.

Every slot has an answer, and what scalers of another age sent is read as far as it can be: nothing here raises for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scaler.model.errors import BadInput
from tuner.history.alternatives import Alternative, compare, rank_alternatives
from tuner.history.blocking_guards import Block, Standing, find_blocks, list_standing
from tuner.history.gap import Gap, find_gap
from tuner.history.objective_origin import Pursued, find_pursued
from tuner.history.plain_values import can_be_stored, join_words, quote, read_mapping, read_number, read_text

if TYPE_CHECKING:
    from tuner.store.connection import Session
    from tuner.store.records import Control, DecisionRecord

SLOT_S = 60.0
MOST_OPERATORS = 1000


@dataclass(frozen=True, slots=True)
class Seen:
    """What the scaler knew; None is what it did not know."""

    rate: float | None
    utilisation: float | None
    response: float | None  # seconds; infinite where more came than could be served
    bound: float | None  # what the response time was held against
    deployment: Mapping[str, float]
    price: float | None  # per hour
    completeness: float | None
    backlog: float | None
    asked: Mapping[str, float]  # what is on its way


@dataclass(frozen=True, slots=True)
class Candidate:
    """What an objective on its way in would have done in its own course."""

    version: int | None
    action: str | None
    deployment: Mapping[str, float]
    response: float | None
    bound: float | None
    price: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Account:
    """Of one operator; without a decision at that time `gap` says why, and the rest is of the last one before."""

    operator: str
    gap: Gap | None = None
    time: float | None = None  # start of the slot
    age: float | None = None  # seconds from there to the moment asked about
    kind: str | None = None
    action: str | None = None
    reason: str = ""
    seen: Seen | None = None
    alternatives: tuple[Alternative, ...] = ()
    compared: str = ""
    blocked: tuple[Block, ...] = ()
    controls: tuple[Standing, ...] = ()
    objective: Pursued | None = None
    candidate: Candidate | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    application: str
    at: float | None  # None: the newest
    known: bool  # whether anything at all is known of the application
    says: str = ""  # where there is no operator to speak of
    do: str = ""
    operators: tuple[Account, ...] = field(default_factory=tuple)


def explain(
    session: Session, app: str, at: float | None = None, operator: str | None = None, now: float | None = None
) -> Explanation:
    """Every operator, or the one, in the slot at that time; in the newest where no time is given."""
    today = time.time() if now is None else now
    moment = None if at is None or math.isnan(at) else at
    names = list_operators(session, app) if can_be_stored(app) else None
    if names is None:
        return Explanation(app, moment, False, *say_unknown(session, app))
    if operator is not None and operator not in names:
        have = f"it has {join_words([quote(one) for one in names[:20]])}" if names else "none is known of it"
        do = "Name one of these." if names else "Describe the application: tuner app add."
        return Explanation(app, moment, True, f"{quote(app)} has no operator {quote(operator)}; {have}.", do)
    if not names:
        says = f"No operator of {quote(app)} is known, and no scaler of it ever reported."
        return Explanation(app, moment, True, says, f"Describe it: tuner app add {quote(app)} FILE.toml.")
    asked = names if operator is None else [operator]
    slot_s, cache = find_slot(session, app), dict[tuple[str, int], Pursued]()
    accounts = [account_for(session, app, one, moment, today, slot_s, cache) for one in asked]
    return Explanation(app, moment, True, operators=tuple(accounts))


def account_for(
    session: Session, app: str, operator: str, at: float | None, now: float, slot_s: float,
    cache: dict[tuple[str, int], Pursued],
) -> Account:  # fmt: skip
    from tuner.store.controls import list_controls
    from tuner.store.decisions import list_decisions

    until = None if at is None or at == math.inf else math.nextafter(at, math.inf)
    last = next(iter(list_decisions(session, app, [operator], until=until, limit=1)), None)
    moment = now if at is None else at
    gap = find_gap(session, app, operator, last, moment, now, slot_s)
    if last is None:
        return Account(operator, gap)
    controls = list_controls(session, app, at=last.time)
    return describe_slot(session, app, last, gap, moment, controls, cache)


def describe_slot(
    session: Session, app: str, decision: DecisionRecord, gap: Gap | None, moment: float, controls: list[Control],
    cache: dict[tuple[str, int], Pursued],
) -> Account:  # fmt: skip
    ranked = rank_alternatives(decision)
    blocked = find_blocks(decision, controls)
    version, key = decision.objective_version, (decision.operator, decision.objective_version or 0)
    if version is not None and key not in cache:
        cache[key] = find_pursued(session, app, decision.operator, version)
    age = moment - decision.time
    return Account(
        operator=decision.operator,
        gap=gap,
        time=decision.time,
        age=age if math.isfinite(age) else None,
        kind=decision.kind,
        action=decision.action,
        reason=decision.reason,
        seen=read_seen(decision),
        alternatives=ranked,
        compared=compare(decision, ranked),
        blocked=blocked,
        controls=tuple(list_standing(decision.operator, controls)),
        objective=None if version is None else cache[key],
        candidate=read_candidate(decision.shadow),
    )


def read_seen(decision: DecisionRecord) -> Seen:
    told = read_mapping(decision.seen)
    return Seen(
        rate=decision.rate,
        utilisation=read_number(told.get("utilisation")),
        response=decision.response,
        bound=decision.bound,
        deployment=read_counts(told.get("deployment")),
        price=decision.price,
        completeness=read_number(told.get("completeness")),
        backlog=read_number(told.get("backlog")),
        asked=read_counts(told.get("asked")),
    )


def read_counts(value: Any) -> dict[str, float]:
    """How many of each node type, as far as these are numbers."""
    numbers = {kind: read_number(count) for kind, count in read_mapping(value).items()}
    return {kind: count for kind, count in numbers.items() if count is not None}


def read_candidate(shadow: Any) -> Candidate | None:
    told = read_mapping(shadow)
    if not told:
        return None
    version = read_number(told.get("version"))
    return Candidate(
        version=None if version is None or not math.isfinite(version) else int(version),
        action=read_text(told.get("action")),
        deployment=read_counts(told.get("deployment")),
        response=read_number(told.get("response")),
        bound=read_number(told.get("bound")),
        price=read_number(told.get("price")),
        reason=read_text(told.get("reason")),
    )


def list_operators(session: Session, app: str) -> list[str] | None:
    """Those described, then those that only scalers told of; None where nothing is known of the application."""
    from sqlalchemy import func, select

    from tuner.store.models import DecisionRow as Row
    from tuner.store.objectives import list_objectives
    from tuner.store.scalers import list_scalers

    described = read_described(session, app)
    found = dict.fromkeys(described or ())
    found |= dict.fromkeys(scaler.operator for scaler in list_scalers(session, app))
    last: str | None = None
    while len(found) < MOST_OPERATORS:  # one look each, where DISTINCT would read every decision
        query = select(func.min(Row.operator)).where(Row.application == app)
        last = session.scalar(query if last is None else query.where(Row.operator > last))
        if last is None:
            break
        found.setdefault(last)
    if not found and described is None and not list_objectives(session, app, limit=1):
        return None
    return list(found)


def read_described(session: Session, app: str) -> list[str] | None:
    from tuner.store.applications import load_application

    try:
        document = load_application(session, app).document
    except BadInput:
        return None
    from tuner.scenario.description import shape_of

    try:
        return [operator.name for operator in shape_of(document).operators]
    except (BadInput, LookupError, TypeError, ValueError, AttributeError):  # of an older program
        return []


def find_slot(session: Session, app: str) -> float:
    """Seconds between two decisions, by the newest orders."""
    from tuner.store.orders import load_orders

    orders = load_orders(session, app)
    stated = None if orders is None else read_number(read_mapping(orders.document).get("slot_s"))
    return stated if stated is not None and 0.0 < stated < math.inf else SLOT_S


def say_unknown(session: Session, app: str) -> tuple[str, str]:
    from tuner.store.applications import list_applications

    names = [quote(version.application) for version in list_applications(session)][:20]
    do = f"Register it: tuner app add {quote(app)} FILE.toml"
    return f"Application {quote(app)} was never registered, and no scaler of it ever reported.", (
        f"{do}, or name one of {join_words(names)}." if names else f"{do}."
    )
