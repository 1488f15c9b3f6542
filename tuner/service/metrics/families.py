"""Every metric by name, with its meaning and labels, and the families for Prometheus to be filled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

COUNTERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "tuner_decisions_total": (
        "Decisions of scalers by kind and reason code, counted from the first scrape of this process; pruning the "
        "database does not turn it back.",
        ("application", "operator", "kind", "reason"),
    ),
    "tuner_events_total": ("What people and daemons did; all of it that is on record.", ("application", "what")),
}
APP, OPERATOR = ("application",), ("application", "operator")
GAUGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "tuner_build_info": ("This program; the value is always 1.", ("version", "schema")),
    "tuner_applications": ("Applications that are described.", ()),
    "tuner_operators": ("Operators of which a scaler reported.", ()),
    "tuner_operators_left_out": ("Operators beyond those that are listed one by one.", ()),
    "tuner_violated_slots_ratio": (
        "Share of known slots in which a path's response time exceeded its bound.",
        (*APP, "span"),
    ),
    "tuner_reconfigured_slots_ratio": ("Share of slots with a reconfiguration.", (*APP, "span")),
    "tuner_known_slots": ("Slots of which it is known whether a bound was broken.", (*APP, "span")),
    "tuner_violated_slots_allowed_ratio": ("eta_v: the allowed share of violations.", APP),
    "tuner_reconfigured_slots_allowed_ratio": ("eta_r: the allowed share of slots with a reconfiguration.", APP),
    "tuner_response_allowed_seconds": ("R_max: bound on the response time of paths without one of their own.", APP),
    "tuner_price_per_hour": ("Of all replicas; absent without a recent report of every operator.", APP),
    "tuner_operator_price_per_hour": (
        "Of the operator's replicas; absent without a recent report.",
        OPERATOR,
    ),
    "tuner_operator_replicas": ("Replicas that met the newest slot.", OPERATOR),
    "tuner_operator_rate_per_second": ("Tuples that arrived in the newest slot.", OPERATOR),
    "tuner_operator_utilisation_ratio": ("Of the busiest replica in the newest slot.", OPERATOR),
    "tuner_operator_response_seconds": ("Response time in the newest slot; +Inf where overloaded.", OPERATOR),
    "tuner_operator_bound_seconds": ("Bound on the response time.", OPERATOR),
    "tuner_operator_objective_version": ("The objective that the newest decision was made under.", OPERATOR),
    "tuner_decision_age_seconds": ("Since the start of the newest slot that a decision was reported of.", OPERATOR),
    "tuner_report_age_seconds": ("Since any scaler of the operator was last heard.", OPERATOR),
    "tuner_scalers": ("Operators whose scaler was heard lately (seen), or not (silent).", (*APP, "state")),
    "tuner_scalers_behind": ("Scalers in touch that do not act under the newest orders yet.", APP),
    "tuner_orders_revision": ("The newest orders.", APP),
    "tuner_objective_version": ("The objective in full use.", APP),
    "tuner_objective_age_seconds": ("Since the objective in full use entered that stage.", APP),
    "tuner_candidate_version": ("The candidate objective.", (*APP, "stage")),
    "tuner_candidate_age_seconds": ("Since the candidate entered its stage.", (*APP, "stage")),
    "tuner_rollout_stage": ("1 for the stage of roll-out: none, shadow or canary.", (*APP, "stage")),
    "tuner_objectives": ("Objectives by state.", (*APP, "state")),
    "tuner_controls": ("Controls in force.", (*APP, "kind")),
    "tuner_surrogate_error_ratio": ("Of response times on held-out windows, newest surrogate; relative.", APP),
    "tuner_surrogate_health": ("1 for the newest surrogate's health: pass, warn or fail.", (*APP, "health")),
    "tuner_surrogate_age_seconds": ("Since the newest surrogate was fitted.", APP),
    "tuner_tuning_runs": ("Tuning runs in the database; falls when it is pruned.", (*APP, "state")),
    "tuner_tuning_last_run_seconds": ("Duration of the newest tuning run, so far if it is running.", APP),
    "tuner_tuning_last_run_state": (
        "1 for the newest tuning run's state: running, done, stopped or failed.",
        (*APP, "state"),
    ),
    "tuner_trials": ("Evaluations in the database; falls when it is pruned.", (*APP, "state")),
    "tuner_watches": ("Applications that daemons retune, by phase.", ("phase",)),
    "tuner_watches_due": ("Applications due now without a lease.", ()),
    "tuner_watch_overdue_seconds": ("How long the longest overdue application has waited.", ()),
    "tuner_wishes_waiting": ("Requests of people to daemons, not yet begun.", ()),
    "tuner_token_left_seconds": ("Until a token in use expires.", ("token",)),
    "tuner_intake_waiting": ("Reports received by this process and not yet written.", ()),
    "tuner_intake_room": ("Maximum of waiting reports; beyond it scalers must send again later.", ()),
    "tuner_scrape_seconds": ("Duration of this scrape.", ()),
}


class Families:
    """Metrics in the order in which they stand above."""

    def __init__(self) -> None:
        self.made: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, (meaning, labels) in COUNTERS.items():
            self.made[name] = CounterMetricFamily(name, meaning, labels=labels)
        for name, (meaning, labels) in GAUGES.items():
            self.made[name] = GaugeMetricFamily(name, meaning, labels=labels)

    def add_state(self, name: str, states: Iterable[str], current: str, label: str) -> None:
        """1 for the state that it is, 0 for the others, so that none is left behind."""
        for state in states:
            self.add(name, int(state == current), label, state)

    def add(self, name: str, value: float | None, *labels: Any) -> None:
        """None is not known, and missing is not zero."""
        if value is not None and value == value:
            self.made[name].add_metric([str(label) for label in labels], float(value))
