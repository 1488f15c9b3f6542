"""Restate a trial as the scenario that replays it to the digit, whatever it was made of.

Service times of a surrogate, learned supply, monitored arrivals and the part of a trace that was searched are written
out: operators and node types into the scenario, rates into a file beside it. R_max and the bounds are those of the
search, less what triggers and scheduling take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.infrastructure import describe_nodes
from sim.setting import Setting
from sim.trace import Trace, window
from tuner.scenario.document import Document, describe_application, thaw
from tuner.search.evaluation import apply_parameters
from tuner.search.search_plan import SearchPlan
from tuner.search.space.space import from_document
from tuner.search.trial_records import choose_policy, restate
from tuner.store.records import VERIFY, Trial, TuningRun


@dataclass(frozen=True, slots=True)
class ReplayedTrial:
    """The scenario's document, and the trace that lies in a file beside it where no other words say it."""

    document: Document
    trace: Trace | None = None


def restate_trial(plan: SearchPlan, run: TuningRun, trial: Trial, trace_file: Path) -> ReplayedTrial:
    """The scenario of a trial; its trace is `trace_file` where neither a generator nor another file states it."""
    verified = trial.about.purpose == VERIFY
    spec = plan.verification if verified else plan.spec
    setting = apply_parameters(spec, from_document(plan.problem.space.operators, trial.parameters))
    trace = setting.trace
    if trial.state == "pruned" and spec.short:
        trace = window(trace, 0, spec.short)
    stated = thaw(run.settings["document"])
    table = state_trace(setting, trace, stated["trace"], run, plan)
    kept = None if table is not None else trace
    tables = {
        **restate(trial, run, {}),
        "application": describe_application(setting.application),
        "trace": {"file": str(trace_file.resolve()), "highest_rate": setting.highest_rate} if table is None else table,
        "infrastructure": state_infrastructure(setting, stated["infrastructure"]),
        "qos": state_qos(setting, plan),
        "policy": choose_policy(trial, run, stated["policy"]),
    }
    shared = {"together": setting.together, "budget": setting.change_budget is not None}
    tables["run"] = {**tables["run"], "plant": setting.plant, **{name: True for name, on in shared.items() if on}}
    return ReplayedTrial(tables, kept)


def state_trace(
    setting: Setting, trace: Trace, stated: Mapping[str, Any], run: TuningRun, plan: SearchPlan
) -> dict[str, Any] | None:
    """The [trace] that says which rates these are; None where only a file of its own can."""
    whole = plan.verification.setting.trace.rates.size
    if run.settings["samples"] is not None or ("file" not in stated and trace.rates.size < whole):
        return None
    slots = {} if trace.rates.size == whole else {"slots": int(trace.rates.size)}
    return {**stated, **slots, "highest_rate": setting.highest_rate}


def state_infrastructure(setting: Setting, stated: Mapping[str, Any]) -> dict[str, Any]:
    nodes = {
        "node": describe_nodes(setting.infrastructure),
        "normaliser_price": setting.infrastructure.normaliser_price,
    }
    return {**nodes, **({"first": stated["first"]} if "first" in stated else {})}


def state_qos(setting: Setting, plan: SearchPlan) -> dict[str, Any]:
    qos = plan.spec.qos
    given = {"r_max": qos.r_max, "eta_v": qos.eta_v, "eta_r": qos.eta_r, "bounds": dict(setting.bounds)}
    paths = {"paths": dict(qos.paths)} if qos.paths else {}
    return {**given, **paths, **({} if qos.quantile is None else {"quantile": qos.quantile})}
