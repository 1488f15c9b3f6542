"""Metrics of applications and operators: counts, QoS, prices, and the state of their scalers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from scaler.model.errors import BadInput
from tuner.history.qos_history import SLOT_S
from tuner.rollout.issue_orders import find_slot
from tuner.scenario.description import shape_of, tables_of
from tuner.scenario.scenario import make_qos
from tuner.service.metrics.counting import OTHER, DecisionCounts, Growth
from tuner.service.metrics.families import Families
from tuner.service.metrics.qos_shares import Shares, Sums, Watched
from tuner.store.applications import list_applications
from tuner.store.connection import Session
from tuner.store.monitoring import (
    MAX_OPERATORS,
    OperatorState,
    count_events,
    count_operators,
    count_scalers_behind,
    list_operator_states,
)
from tuner.store.records import ApplicationVersion

EVENTS = (
    "registered", "asked", "proposed", "pushed", "rolled back", "control set", "control lifted", "tuning started",
    "tuning ended", "not tuned", "drift", "paused", "resumed", "scaler silent",
)  # fmt: skip
MAX_APPLICATIONS = 1_000
SILENT_SLOTS = 5  # without a word, after which a scaler counts as silent
SILENT_S = 300.0  # at least
GONE_S = 7 * 86_400.0  # without a word, after which nobody waits for it


class MetricsGatherer:
    """What one process keeps from one scrape to the next."""

    def __init__(self) -> None:
        self.decisions, self.events, self.shares = DecisionCounts(), Growth(), Shares()
        self.described: dict[str, tuple[int | None, Watched | None]] = {}

    def gather(self, session: Session, families: Families, now: float) -> None:

        described = list_applications(session)[:MAX_APPLICATIONS]
        newest, operators = list_operator_states(session), count_operators(session)
        families.add("tuner_applications", len(described))
        families.add("tuner_operators", operators)
        families.add("tuner_operators_left_out", max(0, operators - MAX_OPERATORS))
        read = {version.application: self.describe(version) for version in described}
        slots = {name: SLOT_S if watched is None else watched.slot_s for name, watched in read.items()}
        self.add_counts(session, families, newest, list(slots))
        add_operators(families, newest, slots, now)
        add_scalers(session, families, newest, slots, now)
        watched_ones = [watched for watched in read.values() if watched is not None]
        sums = self.shares.update(session, watched_ones, now)
        prices = {(o.application, o.operator): o for o in newest}
        for watched in watched_ones:
            add_quality(families, watched, sums[watched.name])
            add_price(families, watched, prices, now)

    def describe(self, version: ApplicationVersion) -> Watched | None:
        """What is demanded, where the description can be read; worked out once for each version."""
        known = self.described.get(version.application)
        if known is None or known[0] != version.id:
            known = self.described[version.application] = (version.id, read_description(version))
        return known[1]

    def add_counts(
        self, session: Session, families: Families, newest: list[OperatorState], described: list[str]
    ) -> None:
        for labels, count in self.decisions.count(session, newest).items():
            families.add("tuner_decisions_total", count, *labels)
        events = [(name, what) for name in described for what in EVENTS]
        none: dict[tuple[str, ...], int] = dict.fromkeys(events, 0)  # for the first one to be an increase
        for event, count in self.events.follow(none | name_events(count_events(session))).items():
            families.add("tuner_events_total", count, *event)


def add_quality(families: Families, watched: Watched, spans: Mapping[str, Sums]) -> None:
    name, qos = watched.name, watched.qos
    families.add("tuner_violated_slots_allowed_ratio", qos.eta_v, name)
    families.add("tuner_reconfigured_slots_allowed_ratio", qos.eta_r, name)
    families.add("tuner_response_allowed_seconds", qos.r_max, name)
    for span, sums in spans.items():
        families.add("tuner_known_slots", sums.known, name, span)
        if sums.known:
            families.add("tuner_violated_slots_ratio", sums.broken / sums.known, name, span)
        if sums.slots:
            families.add("tuner_reconfigured_slots_ratio", sums.changed / sums.slots, name, span)


def add_price(
    families: Families, watched: Watched, newest: Mapping[tuple[str, str], OperatorState], now: float
) -> None:
    """Of the whole application, where every operator has told its own lately."""
    known = [newest.get((watched.name, operator.name)) for operator in watched.application.operators]
    prices = [one.price for one in known if one is not None and is_fresh(one, watched.slot_s, now)]
    whole = [price for price in prices if price is not None]
    if whole and len(whole) == len(known):
        families.add("tuner_price_per_hour", sum(whole), watched.name)


def read_description(version: ApplicationVersion) -> Watched | None:
    name, document = version.application, version.document
    try:
        return Watched(name, shape_of(document), make_qos(tables_of(document)["qos"]), find_slot(document))
    except (BadInput, LookupError, TypeError, ValueError, AttributeError):  # of an older program
        return None


def name_events(counted: Iterable[tuple[str, str, int]]) -> dict[tuple[str, ...], int]:
    """By application and known name; events of other names count together."""
    counts: dict[tuple[str, ...], int] = {}
    for application, what, count in counted:
        key = (application, what if what in EVENTS else OTHER)
        counts[key] = counts.get(key, 0) + count
    return counts


def is_fresh(one: OperatorState, slot_s: float, now: float) -> bool:
    """Whether its newest decision still tells what is now."""
    return one.time is not None and now - one.time <= max(SILENT_S, (1 + SILENT_SLOTS) * slot_s)


def is_silent(one: OperatorState, slot_s: float, now: float) -> bool:
    return now - one.last_seen > max(SILENT_S, SILENT_SLOTS * slot_s)


def add_operators(families: Families, newest: Iterable[OperatorState], slots: dict[str, float], now: float) -> None:
    for one in newest:
        labels = (one.application, one.operator)
        if now - one.last_seen > GONE_S:
            continue
        families.add("tuner_report_age_seconds", max(0.0, now - one.last_seen), *labels)
        if one.time is None:
            continue
        families.add("tuner_decision_age_seconds", max(0.0, now - one.time), *labels)
        families.add("tuner_operator_objective_version", one.version, *labels)
        if is_fresh(one, slots.get(one.application, SLOT_S), now):
            families.add("tuner_operator_price_per_hour", one.price, *labels)
            families.add("tuner_operator_replicas", one.replicas, *labels)
            families.add("tuner_operator_rate_per_second", one.rate, *labels)
            families.add("tuner_operator_utilisation_ratio", one.utilisation, *labels)
            families.add("tuner_operator_response_seconds", one.response, *labels)
            families.add("tuner_operator_bound_seconds", one.bound, *labels)


def add_scalers(
    session: Session, families: Families, newest: Iterable[OperatorState], slots: dict[str, float], now: float
) -> None:
    counts: dict[str, dict[str, int]] = {name: {"seen": 0, "silent": 0} for name in slots}
    for one in newest:
        if now - one.last_seen <= GONE_S:
            mine = counts.setdefault(one.application, {"seen": 0, "silent": 0})
            mine["silent" if is_silent(one, slots.get(one.application, SLOT_S), now) else "seen"] += 1
    for application, states in counts.items():
        for state, count in states.items():
            families.add("tuner_scalers", count, application, state)
    for application, revision, count in count_scalers_behind(session, now - SILENT_S, MAX_APPLICATIONS):
        families.add("tuner_orders_revision", revision, application)
        families.add("tuner_scalers_behind", count, application)


def add_scrape_time(families: Families, begun: float) -> None:
    families.add("tuner_scrape_seconds", time.perf_counter() - begun)


def one_of(states: Iterable[str], current: str) -> Iterator[tuple[str, int]]:
    """1 for the one that it is, 0 for the others, so that none is left behind."""
    return ((state, int(state == current)) for state in states)
