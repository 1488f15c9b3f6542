"""Every metric by name, with its meaning and labels, and the families for Prometheus to be filled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

COUNTERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "tuner_decisions_total": (
        "Decisions of scalers by kind and reason code, counted from the first look of this process; pruning the "
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
    "tuner_operators_left_out": ("Operators beyond those that are told of one by one.", ()),
    "tuner_violated_slots_ratio": ("Slots in which a path was later than its bound, of those known.", (*APP, "span")),
    "tuner_reconfigured_slots_ratio": ("Slots in which any replica came or went.", (*APP, "span")),
    "tuner_known_slots": ("Slots of which it is known whether a bound was broken.", (*APP, "span")),
    "tuner_violated_slots_allowed_ratio": ("eta_v: the share of slots that may be late.", APP),
    "tuner_reconfigured_slots_allowed_ratio": ("eta_r: the share of slots in which replicas may come or go.", APP),
    "tuner_response_allowed_seconds": ("R_max: in which an answer is due, on paths without a bound of their own.", APP),
    "tuner_price_per_hour": ("Of all replicas now; absent where an operator has not told lately.", APP),
    "tuner_operator_price_per_hour": ("Of the operator's replicas now; absent where it has not told lately.", OPERATOR),
    "tuner_operator_replicas": ("Replicas that met the newest slot.", OPERATOR),
    "tuner_operator_rate_per_second": ("Tuples that arrived in the newest slot.", OPERATOR),
    "tuner_operator_utilisation_ratio": ("Of the busiest replica in the newest slot.", OPERATOR),
    "tuner_operator_response_seconds": ("Response time in the newest slot; +Inf where overloaded.", OPERATOR),
    "tuner_operator_bound_seconds": ("What the response time was held against.", OPERATOR),
    "tuner_operator_objective_version": ("The objective that the newest decision was made under.", OPERATOR),
    "tuner_decision_age_seconds": ("Since the start of the newest slot that a decision was told of.", OPERATOR),
    "tuner_report_age_seconds": ("Since any scaler of the operator was last heard.", OPERATOR),
    "tuner_scalers": ("Operators whose scaler was heard lately (seen), or not (silent).", (*APP, "state")),
    "tuner_scalers_behind": ("Scalers in touch that do not act under the newest orders yet.", APP),
    "tuner_orders_revision": ("The newest orders.", APP),
    "tuner_objective_version": ("The objective in full use.", APP),
    "tuner_objective_age_seconds": ("Since the objective in full use came into it.", APP),
    "tuner_candidate_version": ("The objective on its way in.", (*APP, "stage")),
    "tuner_candidate_age_seconds": ("Since the objective on its way in came into its stage.", (*APP, "stage")),
    "tuner_rollout_stage": ("1 for the stage of roll-out: none, shadow or canary.", (*APP, "stage")),
    "tuner_objectives": ("Objectives by state.", (*APP, "state")),
    "tuner_controls": ("Guards that people put before scalers, and that stand.", (*APP, "kind")),
    "tuner_surrogate_error_ratio": ("Of response times on held-out windows, newest surrogate; relative.", APP),
    "tuner_surrogate_health": ("1 for the newest surrogate's health: pass, warn or fail.", (*APP, "health")),
    "tuner_surrogate_age_seconds": ("Since the newest surrogate was fitted.", APP),
    "tuner_tuning_runs": ("Searches in the database; falls when it is pruned.", (*APP, "state")),
    "tuner_tuning_last_run_seconds": ("How long the newest search took, or is taking.", APP),
    "tuner_tuning_last_run_state": (
        "1 for the newest search's state: running, done, stopped or failed.",
        (*APP, "state"),
    ),
    "tuner_trials": ("Evaluations in the database; falls when it is pruned.", (*APP, "state")),
    "tuner_watches": ("Applications that daemons look after, by phase.", ("phase",)),
    "tuner_watches_due": ("Those due now that no daemon has in hand.", ()),
    "tuner_watch_overdue_seconds": ("How long the one has waited that is due the longest.", ()),
    "tuner_wishes_waiting": ("What people asked of daemons and nobody has taken up.", ()),
    "tuner_intake_waiting": ("Reports taken in by this process and not yet written.", ()),
    "tuner_intake_room": ("Reports that may wait at most; beyond, scalers are asked to come again.", ()),
    "tuner_scrape_seconds": ("What it took to gather this.", ()),
}


class Families:
    """Metrics in the order in which they stand above."""

    def __init__(self) -> None:
        self.made: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, (says, labels) in COUNTERS.items():
            self.made[name] = CounterMetricFamily(name, says, labels=labels)
        for name, (says, labels) in GAUGES.items():
            self.made[name] = GaugeMetricFamily(name, says, labels=labels)

    def add(self, name: str, value: float | None, *labels: Any) -> None:
        """None is not known, and missing is not zero."""
        if value is not None and value == value:
            self.made[name].add_metric([str(label) for label in labels], float(value))
