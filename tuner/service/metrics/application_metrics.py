"""Metrics of applications, operators, objectives, tuning runs and the daemons' retuning, from the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from scaler.model.errors import BadInput
from sim.application import check_paths
from tuner.rollout.issued_orders import find_slot
from tuner.scenario.description import tables_of
from tuner.scenario.document import shape_of
from tuner.scenario.layout import SLOT_S
from tuner.scenario.scenario import make_qos
from tuner.service.metrics.families import Families
from tuner.service.metrics.running_totals import OTHER, DecisionCounts, Shares, Sums, Watched
from tuner.store.applications import list_applications
from tuner.store.connection import Session
from tuner.store.decisions import MAX_AHEAD_S
from tuner.store.monitoring import (
    MAX_OPERATORS,
    OperatorState,
    count_by_application,
    count_controls,
    count_operators,
    count_scalers_behind,
    list_objective_states,
    list_operator_states,
    list_pursued_applications,
    list_run_states,
    list_surrogate_states,
)
from tuner.store.records import HEALTH, RUN_STATES, ApplicationVersion
from tuner.store.runs import list_retunings

EVENTS = (
    "registered", "asked", "proposed", "pushed", "rolled back", "control set", "control lifted", "tuning started",
    "tuning ended", "not tuned", "drift", "paused", "resumed", "scaler silent", "decision refused",
)  # fmt: skip
FIGURES = {  # gauges of an operator, by fields of its state
    "tuner_operator_price_per_hour": "price", "tuner_operator_replicas": "replicas",
    "tuner_operator_rate_per_second": "rate", "tuner_operator_utilisation_ratio": "utilisation",
    "tuner_operator_response_seconds": "response", "tuner_operator_bound_seconds": "bound",
}  # fmt: skip
MAX_APPLICATIONS = 1_000
SILENT_SLOTS = 5  # without a report, after which a scaler counts as silent
SILENT_S = 300.0  # at least
GONE_S = 7 * 86_400.0  # without a report, after which nobody waits for it


class MetricsGatherer:
    """Totals and descriptions that one process retains between scrapes."""

    def __init__(self) -> None:
        self.decisions, self.shares = DecisionCounts(), Shares()
        self.events, self.grown = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()  # as read, and all increases
        self.described: dict[str, tuple[int | None, Watched | None]] = {}

    def gather(self, session: Session, families: Families, now: float) -> None:
        described = list_applications(session)[:MAX_APPLICATIONS]
        newest, operators = list_operator_states(session, until=now + MAX_AHEAD_S), count_operators(session)
        families.add("tuner_applications", len(described))
        families.add("tuner_operators", operators)
        families.add("tuner_operators_left_out", max(0, operators - MAX_OPERATORS))
        read = {version.application: self.describe(version) for version in described}
        slots = {name: SLOT_S if watched is None else watched.slot_s for name, watched in read.items()}
        for labels, count in self.decisions.count(session, newest).items():
            families.add("tuner_decisions_total", count, *labels)
        none = {(name, what): 0 for name in slots for what in EVENTS}  # for the first one to be an increase
        events = Counter[tuple[str, ...]](none)
        for application, what, count in count_by_application(session, "events"):
            events[application, what if what in EVENTS else OTHER] += count
        self.grown.update({event: max(0, count - self.events[event]) for event, count in events.items()})
        self.events = events
        for event, count in self.grown.items():
            families.add("tuner_events_total", count, *event)
        awaited = [one for one in newest if now - one.last_seen <= GONE_S]
        add_operators(families, awaited, slots, now)
        add_scalers(session, families, awaited, slots, now)
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
    """Of the whole application, where every operator has reported its own lately."""
    known = [newest.get((watched.name, operator.name)) for operator in watched.application.operators]
    prices = [one.price for one in known if one is not None and is_fresh(one, watched.slot_s, now)]
    whole = [price for price in prices if price is not None]
    if whole and len(whole) == len(known):
        families.add("tuner_price_per_hour", sum(whole), watched.name)


def read_description(version: ApplicationVersion) -> Watched | None:
    name, document = version.application, version.document
    try:
        shape = shape_of(document)
        check_paths(shape)  # an older program took any number of them
        return Watched(name, shape, make_qos(tables_of(document)["qos"]), find_slot(document))
    except (BadInput, LookupError, TypeError, ValueError, AttributeError):  # of an older program
        return None


def is_fresh(one: OperatorState, slot_s: float, now: float) -> bool:
    """Whether its newest decision still describes the present."""
    return one.time is not None and now - one.time <= max(SILENT_S, (1 + SILENT_SLOTS) * slot_s)


def add_operators(families: Families, awaited: Iterable[OperatorState], slots: dict[str, float], now: float) -> None:
    for one in awaited:
        labels = (one.application, one.operator)
        families.add("tuner_report_age_seconds", max(0.0, now - one.last_seen), *labels)
        if one.time is None:
            continue
        families.add("tuner_decision_age_seconds", max(0.0, now - one.time), *labels)
        families.add("tuner_operator_objective_version", one.version, *labels)
        if is_fresh(one, slots.get(one.application, SLOT_S), now):
            for name, figure in FIGURES.items():
                families.add(name, getattr(one, figure), *labels)


def add_scalers(
    session: Session, families: Families, awaited: Sequence[OperatorState], slots: dict[str, float], now: float
) -> None:
    names = (*slots, *(one.application for one in awaited))
    counts = Counter({(name, state): 0 for name in names for state in ("seen", "silent")})
    for one in awaited:
        patience = max(SILENT_S, SILENT_SLOTS * slots.get(one.application, SLOT_S))
        counts[one.application, "silent" if now - one.last_seen > patience else "seen"] += 1
    for (application, state), count in counts.items():
        families.add("tuner_scalers", count, application, state)
    for application, revision, count in count_scalers_behind(session, now - SILENT_S, MAX_APPLICATIONS):
        families.add("tuner_orders_revision", revision, application)
        families.add("tuner_scalers_behind", count, application)


def add_counts(session: Session, families: Families, now: float) -> None:
    """Rows of each application by state or kind."""
    counted = {
        "tuner_objectives": count_by_application(session, "objectives", 10 * MAX_APPLICATIONS),
        "tuner_controls": count_controls(session, now, 10 * MAX_APPLICATIONS),
        "tuner_tuning_runs": count_by_application(session, "runs", 4 * MAX_APPLICATIONS),
        "tuner_trials": count_by_application(session, "trials", 3 * MAX_APPLICATIONS),
    }
    for name, rows in counted.items():
        for application, state, count in rows:
            families.add(name, count, application, state)


def add_objectives(session: Session, families: Families, now: float) -> None:
    stages = dict.fromkeys(list_pursued_applications(session, MAX_APPLICATIONS), "none")
    current = list_objective_states(session, ("full", "shadow", "canary"))
    for one in {one.application: one for one in current if one.state == "full"}.values():
        families.add("tuner_objective_version", one.version, one.application)
        families.add("tuner_objective_age_seconds", max(0.0, now - one.changed), one.application)
    for one in {one.application: one for one in current if one.state != "full"}.values():
        stages[one.application] = one.state
        families.add("tuner_candidate_version", one.version, one.application, one.state)
        families.add("tuner_candidate_age_seconds", max(0.0, now - one.changed), one.application, one.state)
    for application, stage in stages.items():
        families.add_state("tuner_rollout_stage", ("none", "shadow", "canary"), stage, application)


def add_newest(session: Session, families: Families, now: float) -> None:
    """Each application's newest surrogate and tuning run."""
    for one in list_surrogate_states(session, MAX_APPLICATIONS):
        families.add("tuner_surrogate_error_ratio", one.error, one.application)
        families.add("tuner_surrogate_age_seconds", max(0.0, now - one.created), one.application)
        families.add_state("tuner_surrogate_health", HEALTH, one.health, one.application)
    for run in list_run_states(session, MAX_APPLICATIONS):
        seconds = max(0.0, (now if run.ended is None else run.ended) - run.created)
        families.add("tuner_tuning_last_run_seconds", seconds, run.application)
        families.add_state("tuner_tuning_last_run_state", RUN_STATES, run.state, run.application)


def add_retuning(session: Session, families: Families, now: float, wall: float) -> None:
    """Leases run by the machine's clock, all else by the service's."""
    phases: dict[str, int] = {"idle": 0}
    due, requests, longest = 0, 0, 0.0
    for retuning in list_retunings(session):
        phases[retuning.phase] = phases.get(retuning.phase, 0) + 1
        requests += len(retuning.asked)
        held = retuning.owner is not None and retuning.lease_until is not None and retuning.lease_until >= wall
        if retuning.due <= now and not held:
            due, longest = due + 1, max(longest, now - retuning.due)
    for phase, count in phases.items():
        families.add("tuner_watches", count, phase)
    families.add("tuner_watches_due", due)
    families.add("tuner_watch_overdue_seconds", longest)
    families.add("tuner_wishes_waiting", requests)
