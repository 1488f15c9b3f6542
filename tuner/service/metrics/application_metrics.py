"""A database and a moment in; every figure that Prometheus is told of applications out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from scaler.model.errors import BadInput
from tuner.history.qos_history import SLOT_S
from tuner.service.metrics.counting import OTHER, DecisionCounts, Growth
from tuner.service.metrics.newest import MOST, Newest, count_operators, load_newest
from tuner.service.metrics.qos_shares import Shares, Sums, Watched

if TYPE_CHECKING:
    from tuner.service.metrics.families import Families
    from tuner.store.connection import Session
    from tuner.store.records import ApplicationVersion

EVENTS = (
    "registered", "asked", "proposed", "pushed", "rolled back", "control set", "control lifted", "tuning started",
    "tuning ended", "not tuned", "drift", "paused", "resumed", "scaler silent",
)  # fmt: skip
MOST_APPLICATIONS = 1_000
SILENT_SLOTS = 5  # without a word, after which a scaler counts as silent
SILENT_S = 300.0  # at least
GONE_S = 7 * 86_400.0  # without a word, after which nobody waits for it


class Gatherer:
    """What one process remembers from one look to the next."""

    def __init__(self) -> None:
        self.decisions, self.events, self.shares = DecisionCounts(), Growth(), Shares()
        self.described: dict[str, tuple[int | None, Watched | None]] = {}

    def gather(self, session: Session, told: Families, now: float) -> None:
        from tuner.store.applications import list_applications

        described = list_applications(session)[:MOST_APPLICATIONS]
        newest, operators = load_newest(session), count_operators(session)
        told.tell("tuner_applications", len(described))
        told.tell("tuner_operators", operators)
        told.tell("tuner_operators_left_out", max(0, operators - MOST))
        read = {version.application: self.describe(version) for version in described}
        slots = {name: SLOT_S if watched is None else watched.slot_s for name, watched in read.items()}
        self.tell_counts(session, told, newest, list(slots))
        tell_operators(told, newest, slots, now)
        tell_scalers(session, told, newest, slots, now)
        watched_ones = [watched for watched in read.values() if watched is not None]
        sums = self.shares.look(session, watched_ones, now)
        prices = {(o.application, o.operator): o for o in newest}
        for watched in watched_ones:
            tell_quality(told, watched, sums[watched.name])
            tell_price(told, watched, prices, now)

    def describe(self, version: ApplicationVersion) -> Watched | None:
        """What is demanded, where the description can be read; worked out once for each version."""
        known = self.described.get(version.application)
        if known is None or known[0] != version.id:
            known = self.described[version.application] = (version.id, read_description(version))
        return known[1]

    def tell_counts(self, session: Session, told: Families, newest: list[Newest], described: list[str]) -> None:
        for labels, count in self.decisions.count(session, newest).items():
            told.tell("tuner_decisions_total", count, *labels)
        events = [(name, what) for name in described for what in EVENTS]
        none: dict[tuple[str, ...], int] = dict.fromkeys(events, 0)  # for the first one to be an increase
        for event, count in self.events.follow(none | count_events(session)).items():
            told.tell("tuner_events_total", count, *event)


def tell_quality(told: Families, watched: Watched, spans: Mapping[str, Sums]) -> None:
    name, qos = watched.name, watched.qos
    told.tell("tuner_violated_slots_allowed_ratio", qos.eta_v, name)
    told.tell("tuner_reconfigured_slots_allowed_ratio", qos.eta_r, name)
    told.tell("tuner_response_allowed_seconds", qos.r_max, name)
    for span, sums in spans.items():
        told.tell("tuner_known_slots", sums.known, name, span)
        if sums.known:
            told.tell("tuner_violated_slots_ratio", sums.broken / sums.known, name, span)
        if sums.slots:
            told.tell("tuner_reconfigured_slots_ratio", sums.changed / sums.slots, name, span)


def tell_price(told: Families, watched: Watched, newest: Mapping[tuple[str, str], Newest], now: float) -> None:
    """Of the whole application, where every operator has told its own lately."""
    known = [newest.get((watched.name, operator.name)) for operator in watched.application.operators]
    prices = [one.price for one in known if one is not None and is_fresh(one, watched.slot_s, now)]
    whole = [price for price in prices if price is not None]
    if whole and len(whole) == len(known):
        told.tell("tuner_price_per_hour", sum(whole), watched.name)


def read_description(version: ApplicationVersion) -> Watched | None:
    from tuner.rollout.issue_orders import find_slot
    from tuner.scenario.description import shape_of, tables_of
    from tuner.scenario.scenario import make_qos

    name, document = version.application, version.document
    try:
        return Watched(name, shape_of(document), make_qos(tables_of(document)["qos"]), find_slot(document))
    except (BadInput, LookupError, TypeError, ValueError, AttributeError):  # of an older program
        return None


def count_events(session: Session) -> dict[tuple[str, ...], int]:
    from sqlalchemy import func, select

    from tuner.store.models import EventRow as Row

    counts: dict[tuple[str, ...], int] = {}
    query = select(Row.application, Row.what, func.count()).group_by(Row.application, Row.what)
    for application, what, count in session.execute(query):
        key = (application, what if what in EVENTS else OTHER)
        counts[key] = counts.get(key, 0) + count
    return counts


def is_fresh(one: Newest, slot_s: float, now: float) -> bool:
    """Whether its newest decision still tells what is now."""
    return one.time is not None and now - one.time <= max(SILENT_S, (1 + SILENT_SLOTS) * slot_s)


def is_silent(one: Newest, slot_s: float, now: float) -> bool:
    return now - one.last_seen > max(SILENT_S, SILENT_SLOTS * slot_s)


def tell_operators(told: Families, newest: Iterable[Newest], slots: dict[str, float], now: float) -> None:
    for one in newest:
        labels = (one.application, one.operator)
        if now - one.last_seen > GONE_S:
            continue
        told.tell("tuner_report_age_seconds", max(0.0, now - one.last_seen), *labels)
        if one.time is None:
            continue
        told.tell("tuner_decision_age_seconds", max(0.0, now - one.time), *labels)
        told.tell("tuner_operator_objective_version", one.version, *labels)
        if is_fresh(one, slots.get(one.application, SLOT_S), now):
            told.tell("tuner_operator_price_per_hour", one.price, *labels)
            told.tell("tuner_operator_replicas", one.replicas, *labels)
            told.tell("tuner_operator_rate_per_second", one.rate, *labels)
            told.tell("tuner_operator_utilisation_ratio", one.utilisation, *labels)
            told.tell("tuner_operator_response_seconds", one.response, *labels)
            told.tell("tuner_operator_bound_seconds", one.bound, *labels)


def tell_scalers(
    session: Session, told: Families, newest: Iterable[Newest], slots: dict[str, float], now: float
) -> None:
    from sqlalchemy import func, or_, select

    from tuner.store.models import OrdersRow, ScalerRow

    counts: dict[str, dict[str, int]] = {name: {"seen": 0, "silent": 0} for name in slots}
    for one in newest:
        if now - one.last_seen <= GONE_S:
            mine = counts.setdefault(one.application, {"seen": 0, "silent": 0})
            mine["silent" if is_silent(one, slots.get(one.application, SLOT_S), now) else "seen"] += 1
    for application, states in counts.items():
        for state, count in states.items():
            told.tell("tuner_scalers", count, application, state)
    behind = or_(
        ScalerRow.acknowledged.is_(None), ScalerRow.revision.is_(None), ScalerRow.revision < OrdersRow.revision
    )
    late = select(func.count()).where(
        ScalerRow.application == OrdersRow.application, ScalerRow.last_seen > now - SILENT_S, behind
    )
    query = select(OrdersRow.application, OrdersRow.revision, late.correlate(OrdersRow).scalar_subquery())
    for application, revision, count in session.execute(query.order_by(OrdersRow.application).limit(MOST_APPLICATIONS)):
        told.tell("tuner_orders_revision", revision, application)
        told.tell("tuner_scalers_behind", count, application)


def tell_time(told: Families, begun: float) -> None:
    told.tell("tuner_scrape_seconds", time.perf_counter() - begun)


def one_of(states: Iterable[str], current: str) -> Iterator[tuple[str, int]]:
    """1 for the one that it is, 0 for the others, so that none is left behind."""
    return ((state, int(state == current)) for state in states)
