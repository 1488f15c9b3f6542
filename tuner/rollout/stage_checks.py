"""Check a stage of a roll-out by what agents reported since the objective entered it.

shadow   the candidate's decisions on imagined deployments, with the response times that its surrogate predicts
canary   the slots in which the canary operators pursued it
full     the slots in which all operators did

A stage is broken as soon as an anytime-valid test says so (`tuner.rollout.betting`). It has passed once enough slots
are known and kept the limits on average. What is neither after `most` times its slots is undecided. The limits are
those of the QoS, or the shares before the objective's first stage where those were worse. Missing is not good: slots
of which nothing is known count only towards giving up. Only slots of registered instances are evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scaler.model.decision import HELD
from scaler.model.kernel import Floats
from scaler.model.units import format_share
from sim.application import Application
from tuner.history.qos_history import (
    UNKNOWN,
    VIOLATED,
    Slots,
    find_changes,
    find_violations,
    load_slots,
    measure_qos,
    sum_prices,
)
from tuner.rollout.betting import exceeds, measure_doubt, share_of
from tuner.rollout.issued_orders import find_slot
from tuner.rollout.retuning_settings import RetuningSettings
from tuner.scenario.description import tables_of
from tuner.scenario.document import shape_of
from tuner.scenario.layout import QoS
from tuner.scenario.scenario import make_qos
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.decisions import list_shadow_decisions
from tuner.store.objectives import NO_FIGURES, ObjectiveEvidence, StageFigures
from tuner.store.records import ObjectiveRecord

Flags = NDArray[np.bool_]
WAITS, GOES_ON, PASSED, BROKEN, UNDECIDED = "waits", "goes on", "passed", "broken", "undecided"
MIN_COVERAGE = 0.9  # known slots as a share of those that could be known
SILENT_SLOTS = 5
MIN_SLOTS_BEFORE = 20  # known slots before the first stage, below which the QoS alone is the limit
MAX_PRICE_RATIO = 1.02  # of the predicted to the paid price, for a candidate that was to save money


@dataclass(frozen=True, slots=True)
class StageLimits:
    """Shares of slots that may break R_max, and in which the deployment may change."""

    violations: float
    reconfigurations: float


@dataclass(frozen=True, slots=True, eq=False)
class StageSlots:
    """What is known of a stage's slots."""

    reported: int  # since it began, whoever led
    led: int  # of them, in which the candidate led or was computed
    broken: Flags  # of those of which it is known
    moved: Flags  # of those led
    price: float | None = None  # mean, of the slots led
    real: float | None = None  # in shadow: what was paid meanwhile
    share: float = 1.0  # of the slots, for which it leads at all
    last: float | None = None  # start of the newest slot reported


@dataclass(frozen=True, slots=True)
class StageVerdict:
    outcome: str
    why: str
    figures: StageFigures = NO_FIGURES


@dataclass(frozen=True, slots=True)
class StageScope:
    """The objective whose stage is checked, and what it is checked against besides slots."""

    objective: ObjectiveRecord
    evidence: ObjectiveEvidence
    application: Application
    qos: QoS
    slot_s: float


def check_stage(session: Session, objective: ObjectiveRecord, settings: RetuningSettings, now: float) -> StageVerdict:
    """Check the stage that the objective is in."""
    stage, evidence = objective.state, ObjectiveEvidence.from_json(objective.evidence)
    document = load_application(session, objective.application).document
    qos, slot_s = make_qos(tables_of(document)["qos"]), find_slot(document)
    scope = StageScope(objective, evidence, shape_of(document), qos, slot_s)
    begun = evidence.stages[stage].since if stage in evidence.stages else None
    since = (objective.changed or 0.0) if begun is None else begun
    slots = load(session, scope, since)
    seen = measure_shadow(session, scope, slots, since) if stage == "shadow" else measure_stage(scope, slots)
    wanted = {"shadow": settings.shadow_slots, "canary": settings.canary_slots, "full": settings.watch_slots}
    limits = find_limits(session, scope, settings.canary_slots)
    verdict = decide_outcome(seen, limits, stage, wanted[stage], settings.most, settings.alpha)
    saves = evidence.better is not None and evidence.better.by == "cost"
    if verdict.outcome == PASSED and stage == "shadow" and saves:
        verdict = check_price(verdict, seen, wanted["shadow"] * settings.most)
    if verdict.outcome == GOES_ON and (seen.last is None or now - seen.last > SILENT_SLOTS * scope.slot_s):
        when = "since it began" if seen.last is None else f"for {(now - seen.last) / scope.slot_s:.0f} slots"
        return StageVerdict(WAITS, f"{stage} waits: no agent has reported a decision {when}", verdict.figures)
    return verdict


def load(session: Session, scope: StageScope, since: float, until: float = math.inf) -> Slots:
    names = tuple(operator.name for operator in scope.application.operators)
    return load_slots(session, scope.objective.application, names, since, until, scope.slot_s, registered=True)


def find_limits(session: Session, scope: StageScope, count: int) -> StageLimits:
    """The QoS's shares, or those of as many slots before the first stage, where they were worse."""
    stages = scope.evidence.stages
    begun = [one.since for name, one in stages.items() if name != "proposed" and one.since is not None]
    first = float(min(begun, default=scope.objective.changed or 0.0))
    slots = load(session, scope, first - max(count, 2 * MIN_SLOTS_BEFORE) * scope.slot_s, first)
    before, qos = measure_qos(slots, scope.application, scope.qos), scope.qos
    if before.known < MIN_SLOTS_BEFORE or before.violations is None or before.reconfigurations is None:
        return StageLimits(qos.eta_v, qos.eta_r)
    return StageLimits(max(qos.eta_v, before.violations), max(qos.eta_r, before.reconfigurations))


def measure_stage(scope: StageScope, slots: Slots) -> StageSlots:
    """The slots in which the canary operators, or all, pursued the objective."""
    canary = scope.evidence.stages.get("canary") if scope.objective.state == "canary" else None
    names = canary.operators if canary is not None and canary.operators else slots.operators
    columns = [i for i, name in enumerate(slots.operators) if name in names]
    acted = slots.version[:, columns]
    known = acted != UNKNOWN
    led = ((acted == scope.objective.version) | ~known).all(axis=1) & known.any(axis=1)
    verdict, price = find_violations(slots, scope.application, scope.qos)[led], sum_prices(slots)[led]
    return StageSlots(
        reported=int(slots.time.size),
        led=int(led.sum()),
        broken=verdict[verdict != UNKNOWN] == VIOLATED,
        moved=find_changes(slots)[led],
        price=mean(price),
        share=1.0 if canary is None else canary.share,
        last=float(slots.time[-1]) if slots.time.size else None,
    )


def measure_shadow(session: Session, scope: StageScope, slots: Slots, since: float) -> StageSlots:
    """The candidate's imagined course, in the slots in which it was computed for every operator."""
    objective, shape = scope.objective, slots.response.shape
    response, price = np.full((2, *shape), math.nan)
    computed, moved = np.zeros((2, *shape), dtype=np.bool_)
    row = {round(t / scope.slot_s): i for i, t in enumerate(slots.time.tolist())}
    column = {name: j for j, name in enumerate(slots.operators)}
    for time, operator, shadow in list_shadow_decisions(session, objective.application, since):
        i, j = row.get(math.floor(time / scope.slot_s + 1e-9)), column.get(operator)
        if i is None or j is None or shadow.version != objective.version:
            continue
        computed[i, j], moved[i, j] = True, shadow.action is not None
        response[i, j] = math.nan if shadow.response is None else shadow.response
        price[i, j] = math.nan if shadow.price is None else shadow.price
    whole = computed.all(axis=1)
    able = (slots.kind != "").all(axis=1) & (slots.kind != HELD).all(axis=1)
    virtual = replace(slots, response=response, price=price)
    verdict = find_violations(virtual, scope.application, scope.qos)[whole]
    return StageSlots(
        reported=int((able | whole).sum()),
        led=int(whole.sum()),
        broken=verdict[verdict != UNKNOWN] == VIOLATED,
        moved=np.logical_or.reduce(moved, axis=1)[whole],
        price=mean(sum_prices(virtual)[whole]),
        real=mean(sum_prices(slots)[whole]),
        last=float(slots.time[-1]) if slots.time.size else None,
    )


def decide_outcome(
    seen: StageSlots, limits: StageLimits, stage: str, wanted: int, most: float, alpha: float
) -> StageVerdict:
    """Test violations and reconfigurations against their limits; the two tests share the alpha."""
    figures = compute_figures(seen, limits)
    known, late, moves = int(seen.broken.size), share_of(seen.broken), share_of(seen.moved)
    predicted = "it was predicted that " if stage == "shadow" else ""
    if exceeds(seen.broken, limits.violations, alpha / 2.0):
        why = f"in {stage} {predicted}{format_share(late)} of {known} slots were violations"
        why += f", and {format_share(limits.violations)} are allowed"
        why += f"; the chance that this is luck is {format_share(figures.violations_doubt)} at most"
        return StageVerdict(BROKEN, why, figures)
    if exceeds(seen.moved, limits.reconfigurations, alpha / 2.0):
        why = f"in {stage} {predicted}{format_share(moves)} of {seen.led} slots were reconfigured"
        why += f", and {format_share(limits.reconfigurations)} are allowed"
        why += f"; the chance that this is luck is {format_share(figures.reconfigurations_doubt)} at most"
        return StageVerdict(BROKEN, why, figures)
    covered = known >= MIN_COVERAGE * (seen.reported if stage == "shadow" else seen.led)
    shares = f"{predicted}{format_share(late)} were violations ({format_share(limits.violations)} allowed)"
    shares += f", {format_share(moves)} were reconfigured ({format_share(limits.reconfigurations)} allowed)"
    if known >= max(wanted, 1) and covered and late <= limits.violations and moves <= limits.reconfigurations:
        return StageVerdict(PASSED, f"of {known} slots in {stage} {shares}", figures)
    if seen.reported >= most * wanted / max(seen.share, 1e-6):
        reason = shares if known else "the objective was never taken up"
        if known and not covered:
            reason = f"{shares}, and only {known} of {max(seen.led, seen.reported)} are known"
        why = f"that objective could not be shown to be good: of {seen.reported} slots in {stage}, {known} known"
        return StageVerdict(UNDECIDED, f"{why}, {reason}", figures)
    return StageVerdict(GOES_ON, f"{stage}: {known} of {wanted} slots" + (f", {shares}" if known else ""), figures)


def compute_figures(seen: StageSlots, limits: StageLimits) -> StageFigures:
    late, moves = share_of(seen.broken), share_of(seen.moved)
    return StageFigures(
        slots=int(seen.broken.size),
        reported=seen.reported,
        violations=None if math.isnan(late) else late,
        violations_limit=limits.violations,
        violations_doubt=measure_doubt(seen.broken, limits.violations),
        reconfigurations=None if math.isnan(moves) else moves,
        reconfigurations_limit=limits.reconfigurations,
        reconfigurations_doubt=measure_doubt(seen.moved, limits.reconfigurations),
        price=seen.price,
        real_price=seen.real,
    )


def check_price(passed: StageVerdict, seen: StageSlots, most: float) -> StageVerdict:
    """Pass a candidate that was to save money only if it is predicted to do so at present rates, too."""
    if seen.price is None or seen.real is None or seen.price <= MAX_PRICE_RATIO * seen.real:
        return passed
    why = f"it was to cost less, and would have cost {seen.price:.4g} per hour where {seen.real:.4g} was paid"
    if seen.reported < most:
        return StageVerdict(GOES_ON, f"shadow goes on: {why}", passed.figures)
    return StageVerdict(UNDECIDED, f"that objective could not be shown to be good: {why}", passed.figures)


def mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None
