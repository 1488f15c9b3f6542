"""What scalers reported since an objective entered a stage in; whether the stage has passed, and why, out.

shadow   the candidate's decisions on deployments of its own, with the response times that its model predicts
canary   what happened in the slots in which the canary pursued it
full     what happened in the slots in which all did

A stage is broken as soon as a test that may be looked at any time says so; it has passed once enough slots are known
and kept the limits on average; what is neither after `most` times its slots could not be shown. The limits are those of
the QoS, or what was seen before the objective entered its first stage, where that was worse. Missing is not good: slots
that nobody knows of count for nothing but the patience.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from scaler.model.decision import ShadowDecision, parse_shadow
from scaler.model.kernel import Floats
from sim.application import Application
from tuner.history.qos_history import BROKEN as LATE
from tuner.history.qos_history import UNKNOWN, Slots, find_changes, judge_slots, load_slots, observe, sum_prices
from tuner.rollout.betting import exceeds, measure_doubt, share_of
from tuner.rollout.issue_orders import find_slot
from tuner.rollout.retuning_settings import RetuningSettings
from tuner.scenario.description import shape_of, tables_of
from tuner.scenario.qos import QoS
from tuner.search.search_plan import read_qos
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.models import DecisionRow as Row
from tuner.store.records import ObjectiveRecord

Flags = NDArray[np.bool_]
WAITS, GOES_ON, PASSED, BROKEN, UNDECIDED = "waits", "goes on", "passed", "broken", "undecided"
COVERED = 0.9  # of the slots that could be known
SILENT_SLOTS = 5
FEWEST_BEFORE = 20  # slots known before, below which the QoS alone is the limit
DEARER = 1.02  # times the real price, that a candidate which was to save money may be predicted to cost


@dataclass(frozen=True, slots=True)
class Limits:
    """Shares of the slots."""

    violations: float
    reconfigurations: float


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The slots of a stage."""

    reported: int  # since it began, whoever led
    led: int  # of them, in which the candidate led or was computed
    broken: Flags  # of those of which it is known
    moved: Flags  # of those led
    price: float | None = None  # mean, of the slots led
    real: float | None = None  # in shadow: what was paid meanwhile
    share: float = 1.0  # of the slots, for which it leads at all
    last: float | None = None  # start of the newest slot reported


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: str
    why: str
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """What a stage is judged by, besides slots."""

    stage: str
    application: Application
    qos: QoS
    slot_s: float


def judge_stage(session: Session, objective: ObjectiveRecord, settings: RetuningSettings, now: float) -> Verdict:
    """How the stage stands that the objective is in."""
    place = find_place(session, objective)
    since = float(objective.evidence.get(place.stage, {}).get("since", objective.changed or 0.0))
    slots = load(session, objective, place, since)
    seen = look_at_shadow(session, objective, place, slots, since) if place.stage == "shadow" else look(
        objective, place, slots
    )  # fmt: skip
    wanted = {"shadow": settings.shadow_slots, "canary": settings.canary_slots, "full": settings.watch_slots}
    limits = find_limits(session, objective, place, settings.canary_slots)
    verdict = weigh(seen, limits, place, wanted[place.stage], settings.most, settings.alpha)
    if verdict.outcome == PASSED and place.stage == "shadow":
        verdict = weigh_price(verdict, objective, seen, wanted["shadow"] * settings.most)
    if verdict.outcome == GOES_ON and (seen.last is None or now - seen.last > SILENT_SLOTS * place.slot_s):
        when = "since it began" if seen.last is None else f"for {(now - seen.last) / place.slot_s:.0f} slots"
        return Verdict(WAITS, f"{place.stage} waits: no scaler has reported a decision {when}", verdict.figures)
    return verdict


def find_place(session: Session, objective: ObjectiveRecord) -> Place:
    document = load_application(session, objective.application).document
    qos = read_qos(tables_of(document))
    return Place(objective.state, shape_of(document), qos, find_slot(document))


def load(session: Session, objective: ObjectiveRecord, place: Place, since: float, until: float = math.inf) -> Slots:
    names = tuple(operator.name for operator in place.application.operators)
    return load_slots(session, objective.application, names, since, until, place.slot_s)


def find_limits(session: Session, objective: ObjectiveRecord, place: Place, count: int) -> Limits:
    """What may be broken: as demanded, or as it was in so many slots before its first stage, where that was worse."""
    begun = [objective.evidence[s]["since"] for s in ("shadow", "canary", "full") if s in objective.evidence]
    first = float(min(begun, default=objective.changed or 0.0))
    slots = load(session, objective, place, first - max(count, 2 * FEWEST_BEFORE) * place.slot_s, first)
    before, qos = observe(slots, place.application, place.qos), place.qos
    if before.known < FEWEST_BEFORE or before.violations is None or before.reconfigurations is None:
        return Limits(qos.eta_v, qos.eta_r)
    return Limits(max(qos.eta_v, before.violations), max(qos.eta_r, before.reconfigurations))


def look(objective: ObjectiveRecord, place: Place, slots: Slots) -> Seen:
    """The slots in which those that pursue it first, or all, did."""
    stated = objective.evidence.get(place.stage, {})
    canaries = stated.get("operators") if place.stage == "canary" else None
    columns = [i for i, name in enumerate(slots.operators) if canaries is None or name in canaries]
    acted = slots.version[:, columns]
    told = acted != UNKNOWN
    led = ((acted == objective.version) | ~told).all(axis=1) & told.any(axis=1)
    verdict, price = judge_slots(slots, place.application, place.qos)[led], sum_prices(slots)[led]
    known = verdict != UNKNOWN
    return Seen(
        reported=int(slots.time.size),
        led=int(led.sum()),
        broken=verdict[known] == LATE,
        moved=find_changes(slots)[led],
        price=mean(price),
        share=float(stated.get("share", 1.0)),
        last=float(slots.time[-1]) if slots.time.size else None,
    )


def look_at_shadow(session: Session, objective: ObjectiveRecord, place: Place, slots: Slots, since: float) -> Seen:
    """The candidate's own course, in the slots in which it was computed for every operator."""
    shape = slots.response.shape
    response, price = np.full(shape, math.nan), np.full(shape, math.nan)
    computed: Flags = np.zeros(shape, dtype=np.bool_)
    moved: Flags = np.zeros(shape, dtype=np.bool_)
    row = {round(t / place.slot_s): i for i, t in enumerate(slots.time.tolist())}
    column = {name: j for j, name in enumerate(slots.operators)}
    for time, operator, shadow in load_shadows(session, objective.application, since):
        i, j = row.get(math.floor(time / place.slot_s + 1e-9)), column.get(operator)
        if i is None or j is None or shadow.version != objective.version:
            continue
        computed[i, j], moved[i, j] = True, shadow.action is not None
        response[i, j] = or_nan(shadow.response)
        price[i, j] = or_nan(shadow.price)
    whole = computed.all(axis=1)
    able = (slots.kind != "").all(axis=1) & (slots.kind != "HELD").all(axis=1)
    virtual = Slots(slots.operators, slots.slot_s, slots.time, slots.rate, response, slots.bound, price, slots.kind,
                    slots.version)  # fmt: skip
    verdict = judge_slots(virtual, place.application, place.qos)[whole]
    return Seen(
        reported=int((able | whole).sum()),
        led=int(whole.sum()),
        broken=verdict[verdict != UNKNOWN] == LATE,
        moved=np.logical_or.reduce(moved, axis=1)[whole],
        price=mean(sum_prices(virtual)[whole]),
        real=mean(sum_prices(slots)[whole]),
        last=float(slots.time[-1]) if slots.time.size else None,
    )


def load_shadows(session: Session, app: str, since: float) -> list[tuple[float, str, ShadowDecision]]:
    query = select(Row.time, Row.operator, Row.shadow).where(
        Row.application == app, Row.time >= since, Row.shadow.is_not(None)
    )
    return [(time, name, found) for time, name, shadow in session.execute(query) if (found := parse_shadow(shadow))]


def weigh(seen: Seen, limits: Limits, place: Place, wanted: int, most: float, alpha: float) -> Verdict:
    """Two questions share the alpha: is the answer late too often, is the deployment changed too often."""
    late, moves = share_of(seen.broken), share_of(seen.moved)
    doubts = measure_doubt(seen.broken, limits.violations), measure_doubt(seen.moved, limits.reconfigurations)
    known = int(seen.broken.size)
    figures = {
        "slots": known,
        "reported": seen.reported,
        "violations": late,
        "violations_limit": limits.violations,
        "violations_doubt": doubts[0],
        "reconfigurations": moves,
        "reconfigurations_limit": limits.reconfigurations,
        "reconfigurations_doubt": doubts[1],
        "price": seen.price,
        **({"real_price": seen.real} if place.stage == "shadow" else {}),
    }
    figures = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in figures.items()}
    predicted = "it was predicted that " if place.stage == "shadow" else ""
    if exceeds(seen.broken, limits.violations, alpha / 2.0):
        says = f"in {place.stage} {predicted}{late:.1%} of {known} slots broke R_max, and {limits.violations:.1%} may"
        return Verdict(BROKEN, f"{says}; the chance that this is luck is {doubts[0]:.1%} at most", figures)
    if exceeds(seen.moved, limits.reconfigurations, alpha / 2.0):
        says = f"in {place.stage} {predicted}replicas came or went in {moves:.1%} of {seen.led} slots"
        says += f", and may in {limits.reconfigurations:.1%}"
        return Verdict(BROKEN, f"{says}; the chance that this is luck is {doubts[1]:.1%} at most", figures)
    covered = known >= COVERED * (seen.reported if place.stage == "shadow" else seen.led)
    kept = known > 0 and late <= limits.violations and moves <= limits.reconfigurations
    told = f"{predicted}{late:.1%} broke R_max ({limits.violations:.1%} may), {moves:.1%} were changed"
    told += f" ({limits.reconfigurations:.1%} may)"
    if known >= wanted and covered and kept:
        return Verdict(PASSED, f"of {known} slots in {place.stage} {told}", figures)
    if seen.reported >= most * wanted / max(seen.share, 1e-6):
        reason = told if known else "the objective was never taken up"
        if known and not covered:
            reason = f"{told}, and only {known} of {max(seen.led, seen.reported)} are known"
        says = f"that objective could not be shown to be good: of {seen.reported} slots in {place.stage}, {known} known"
        return Verdict(UNDECIDED, f"{says}, {reason}", figures)
    return Verdict(GOES_ON, f"{place.stage}: {known} of {wanted} slots" + (f", {told}" if known else ""), figures)


def weigh_price(passed: Verdict, objective: ObjectiveRecord, seen: Seen, most: float) -> Verdict:
    """What was to save money must be predicted to do so at the rates of now, too."""
    saves = objective.evidence.get("better", {}).get("by") == "cost"
    if not saves or seen.price is None or seen.real is None or seen.price <= DEARER * seen.real:
        return passed
    says = f"it was to cost less, and would have cost {seen.price:.4g} per hour where {seen.real:.4g} was paid"
    if seen.reported < most:
        return Verdict(GOES_ON, f"shadow goes on: {says}", passed.figures)
    return Verdict(UNDECIDED, f"that objective could not be shown to be good: {says}", passed.figures)


def mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None


def or_nan(value: float | None) -> float:
    return math.nan if value is None else value
