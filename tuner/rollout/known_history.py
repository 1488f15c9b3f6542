"""Replay an application's history under an objective, and keep what its policy learned for the agents' orders.

The history is what was monitored, the newest stretch that is long enough; else the recorded trace of the description.
It is sent where it pays on the history itself: where its second half, replayed, costs no more with the first one known.
It is read and replayed outside of the transaction that stores it. An application without a history, or with one that
does not pay, has its reason stored, so that nobody tries again for this objective.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.experience import MAX_BYTES, share_experience
from scaler.model.orders import Objective, to_task
from scaler.model.policy import Policy, build_policy
from scaler.model.units import format_count, format_duration
from scaler.policies import find_policy
from sim.learned_history import learn_from_history, weigh_history
from sim.setting import Setting
from sim.trace import EPOCH, Trace, time_of
from tuner.rollout.issued_orders import CANDIDATES, find_slot, issue_orders, make_objective
from tuner.rollout.objective_model import find_setting
from tuner.scenario.description import scenario_of
from tuner.search.monitored_arrivals import ArrivalsAsked, choose_arrivals, read_arrivals
from tuner.store.applications import load_application
from tuner.store.connection import Session, Store
from tuner.store.known_histories import list_histories, save_history
from tuner.store.objectives import list_objectives, load_objective
from tuner.store.records import KnownHistory, ObjectiveRecord
from tuner.store.samples import count_samples, list_node_types

log = logging.getLogger(__name__)
MIN_SLOTS = 100  # of a history
MAX_TOTAL_BYTES = 1 << 20  # of all operators: orders have room for four times that
WHOLE = 1e-6  # relative difference to a whole number that is none


@dataclass(frozen=True, slots=True)
class HistoryReplay:
    """What is to be replayed: a setting over the history, and under which objective."""

    objective: Objective
    setting: Setting
    seen: Collection[str]  # node types that replicas were monitored on


def keep_history(store: Store, app: str, version: int, now: float) -> KnownHistory:
    """Replay the history under this objective, store what was learned, and issue orders that hold it.

    Whatever is the matter with the history, it stops no push.
    """
    nothing = KnownHistory(app, version, now, 0, 1.0, None)
    with store.read() as session:
        record = load_objective(session, app, version)
        try:
            prepared = prepare_replay(session, record)
        except BadInput as error:  # nothing was monitored, or it cannot be replayed
            prepared = str(error)
    try:
        history = replace(nothing, why=prepared) if isinstance(prepared, str) else replay_history(prepared, nothing)
    except Exception as error:
        log.exception("%s: the history under objective %s cannot be replayed", app, version)
        history = replace(nothing, why=f"the history cannot be replayed ({error})")
    with store.begin() as session:
        there = load_objective(session, app, version)  # refused where the application was removed meanwhile
        save_history(session, history)
        if history.document and there.state in (*CANDIDATES, "full"):
            issue_orders(session, app, now)
    return history


def find_unlearned(session: Session, app: str) -> int | None:
    """The version of the candidate, or of the objective in full use, whose history was not replayed yet."""
    moving = list_objectives(session, app, (*CANDIDATES, "full"))
    known = list_histories(session, app) if moving else {}
    return next((one.version for one in moving if one.version is not None and one.version not in known), None)


def prepare_replay(session: Session, record: ObjectiveRecord) -> HistoryReplay | str:
    """What is to be replayed, or why nothing is."""
    app = record.application
    objective = make_objective(session, record)
    if find_policy(objective.policy).shared is None:
        return f"policy {objective.policy!r} hands on nothing that it learned"
    setting, _ = find_setting(session, record)
    slot_s = find_slot(load_application(session, app).document)
    trace = find_trace(session, app, setting)
    trace = None if trace is None else cut_slots(trace, slot_s)
    if trace is None:
        return f"nothing was monitored of {app!r} in windows of its slots, {format_duration(slot_s)}, or shorter ones"
    if trace.rates.size < MIN_SLOTS:
        return f"{format_count(trace.rates.size, 'slot', 'slots')} were monitored, and {MIN_SLOTS} are needed"
    setting = replace(
        setting, trace=trace, bounds=dict(objective.bounds), weights=objective.weights, one_at_a_time=False,
        together=False, change_budget=None, options={**setting.options, "history": None},
        highest_rate=setting.highest_rate or float(trace.rates.max()),
        inertia=replace(setting.inertia, slot_s=slot_s),
    )  # fmt: skip
    seen = set(list_node_types(session, app))
    if not seen and len(objective.nodes) == 1 and count_samples(session, app):
        seen = {objective.nodes[0].name}
    return HistoryReplay(objective, setting, seen)


def find_trace(session: Session, app: str, setting: Setting) -> Trace | None:
    """What was monitored, else what was recorded in a file before; None of a load that is only imagined."""
    if count_samples(session, app):
        chosen = choose_arrivals(session, app, setting.application, ArrivalsAsked())
        return read_arrivals(session, app, setting.application, chosen)
    document = load_application(session, app).document
    if "file" not in document.get("trace", {}):
        return None
    return scenario_of(document, name=app).settings[0].trace


def cut_slots(trace: Trace, slot_s: float) -> Trace | None:
    """The trace in slots of that length; None where its own are longer, or do not divide them."""
    many = round(slot_s / trace.step_s)
    if many < 1 or abs(many * trace.step_s - slot_s) > WHOLE * slot_s or trace.rates.size < many:
        return None
    first = trace.rates.size % many
    start = trace.start if trace.start == EPOCH else time_of(trace, first)
    return replace(trace, rates=trace.rates[first:].reshape(-1, many).mean(axis=1), step_s=slot_s, start=start)


def replay_history(prepared: HistoryReplay, history: KnownHistory) -> KnownHistory:
    """What each operator's policy learned, under the task that an agent will give it."""
    objective, trace = prepared.objective, prepared.setting.trace
    since = None if trace.start == EPOCH else trace.start.timestamp()
    multiple = weigh_history(prepared.setting)
    if multiple > 1.0:
        why = (
            f"to know its first half would have made its second half {multiple - 1.0:.1%} dearer: its load has changed"
        )
        return replace(history, why=why)
    learned = learn_from_history(prepared.setting)
    limit = min(MAX_BYTES, MAX_TOTAL_BYTES // max(1, len(objective.bounds)))
    document: dict[str, Any] = {}
    for operator in objective.bounds:
        policy = begin_as_agent(objective, operator, learned[operator], prepared.seen)
        shared = share_experience(policy, objective.policy, trace.step_s, since, limit)
        document |= {} if shared is None else {operator: shared}
    why = "" if document else "what was learned does not fit into the orders"
    slots = trace.rates.size if document else 0
    return replace(history, slots=slots, slot_s=trace.step_s, since=since, document=document, why=why)


def begin_as_agent(objective: Objective, operator: str, learned: Policy, seen: Collection[str]) -> Policy:
    """A policy of the operator's own task with what was learned; of node types that nobody saw, as described."""
    kernel, task = learned.kernel, to_task(objective, operator)
    policy = build_policy(kernel, task, 0, objective.model.options)
    if kernel.shared is not None:
        learned.state = kernel.shared.forget(learned.task, learned.state, seen)
    policy.inherit(learned)
    return policy
