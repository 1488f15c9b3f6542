"""Make the search plan of a tuning run from its settings document alone.

A run that is resumed, by whichever process, therefore searches the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from scaler.model.change_budget import make_budget
from scaler.model.errors import BadInput
from scaler.policies import find_policy
from sim.application import Application
from sim.setting import Setting
from sim.trace import Trace, window
from tuner.pipeline.flows import LONGEST_GAP, estimate_edges
from tuner.scenario.description import scenario_of
from tuner.scenario.document import Document, freeze
from tuner.scenario.layout import QoS
from tuner.scenario.scenario import make_qos
from tuner.search.engines import SearchProblem, find_engine
from tuner.search.evaluation import EvaluationSpec
from tuner.search.feasibility import check_feasible
from tuner.search.monitored_arrivals import ArrivalsAsked, choose_arrivals, read_arrivals
from tuner.search.seen_nodes import add_seen_nodes
from tuner.search.space.space import EPS, EvaluationOutcome, make_space
from tuner.search.warm_start import describe_workload, list_earlier, load_earlier
from tuner.store.applications import find_surrogate, list_surrogates
from tuner.store.connection import Session
from tuner.store.faults import require
from tuner.store.records import ApplicationVersion, SurrogateRecord, TuningRun
from tuner.store.samples import load_samples
from tuner.surrogate.fitted_application import (
    apply_speeds,
    apply_supply,
    build_application,
    list_constants,
    subtract_constants,
)
from tuner.surrogate.surrogate import from_record

DEFAULT_POLICY = "planner"
HELD_OUT = 0.2  # share of the trace, at its end: recommendations are verified there, and never searched
SEEDS, VERIFICATION_SEEDS = 3, 8  # how many
FIRST_VERIFICATION_SEED = 1_000
SHORT_PART, SHORT_FROM_SLOTS = 8, 80_000  # the short replay takes an eighth of a trace of so many slots or more


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """Options of `tuner tune` besides the application and the flags over its description."""

    engine: str = "gp"
    budget: int = 60
    seed: int = 0
    batch: int = 1
    eps: float = EPS
    held_out: float = HELD_OUT
    cold: bool = False
    as_described: bool = False
    since: float | None = None  # of the monitored arrivals to search on, seconds since 1970
    until: float | None = None
    gap: int = LONGEST_GAP  # windows in a row without monitoring that are interpolated


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A search, ready to run."""

    application: str
    spec: EvaluationSpec
    verification: EvaluationSpec  # over the whole trace, the held-out end included, with fresh seeds
    held_out: int  # slots
    problem: SearchProblem
    engine: str
    seed: int
    batch: int
    earlier: tuple[EvaluationOutcome, ...]
    surrogate_id: int | None
    constants: Mapping[str, float]  # seconds of response time besides queueing, by operator


def describe_run(
    session: Session, app: str, version: ApplicationVersion, flags: Document, wanted: TuneOptions, now: float
) -> TuningRun:
    """A run that is yet to be started, with its settings document; refuse what could lead to no search."""
    find_engine(wanted.engine)
    if not 0.0 <= wanted.held_out < 0.9:
        raise BadInput(f"--held-out is {wanted.held_out}, and must lie between 0 and 0.9: it is a share of the trace")
    stated = {**add_seen_nodes(session, app, version.document), "policy": choose_policy(version.document, flags)}
    scenario = scenario_of(stated, {k: v for k, v in flags.items() if k != "policy"}, app)
    surrogate = None if wanted.as_described else choose_surrogate(session, app)
    from_samples = choose_samples(session, app, version, flags, wanted, scenario.settings[0].application)
    settings = {
        "document": {name: freeze(table) for name, table in scenario.document.items()},
        "qos": asdict(make_qos(scenario.document["qos"])),
        "policy": scenario.policies[0],
        "seeds": [wanted.seed + i for i in range(SEEDS)],
        "proof_seeds": [wanted.seed + FIRST_VERIFICATION_SEED + i for i in range(VERIFICATION_SEEDS)],
        "held_out": wanted.held_out,
        "eps": wanted.eps,
        "batch": wanted.batch,
        "shared": True,
        "surrogate_id": None if surrogate is None else surrogate.id,
        "surrogate_number": None if surrogate is None else surrogate.number,
        "samples": from_samples,
    }
    plan = make_plan(session, app, settings, wanted.engine, wanted.seed, wanted.budget)
    earlier = [] if wanted.cold else list_earlier(session, app, plan.spec.setting, plan.spec.qos)
    settings |= {
        "constants": dict(plan.constants),
        "shared_r_max": plan.problem.qos.r_max,
        "arrivals": digest(plan.verification.setting.trace),
        "workload": describe_workload(plan.spec.setting, plan.spec.qos),
        "earlier": earlier,
    }
    if version.id is None:
        raise ValueError(f"version {version.number} of {app!r} came without its id")
    return TuningRun(version.id, wanted.engine, wanted.seed, wanted.budget, now, settings)


def choose_samples(
    session: Session, app: str, version: ApplicationVersion, flags: Document, wanted: TuneOptions, shape: Application
) -> dict[str, Any] | None:
    """The monitored arrivals to search on; None where a trace is described or named: that is searched whole."""
    asked = ArrivalsAsked(wanted.since, wanted.until, wanted.gap)
    if not has_trace(version.document, flags):
        return choose_arrivals(session, app, shape, asked)
    if asked != ArrivalsAsked():
        where = "--trace" if flags.get("trace") else f"its description (`tuner app show {app}`)"
        raise BadInput(
            f"--since, --until and --gap choose of monitored arrivals, and those of {app!r} come from {where}; "
            "leave the flags out, or take the trace out of it"
        )
    return None


def digest(trace: Trace) -> str:
    """Return a hash that tells one trace from another."""
    return hashlib.sha256(np.ascontiguousarray(trace.rates, dtype="<f8").tobytes()).hexdigest()[:32]


def load_plan(session: Session, app: str, run: TuningRun) -> SearchPlan:
    """Make the plan of a run that was started, here or elsewhere; refuse it where the trace has changed since."""
    plan = make_plan(session, app, run.settings, run.engine, run.seed, run.budget)
    if run.settings.get("arrivals") != digest(plan.verification.setting.trace):
        raise BadInput(
            f"the arrivals of {app!r} are no longer those that run {run.ordinal} began with, so that its trials would "
            f"not compare; put the trace back as it was, or start a new run with: tuner tune {app}"
        )
    return plan


def make_plan(
    session: Session, app: str, settings: Mapping[str, Any], engine: str, seed: int, budget: int
) -> SearchPlan:
    """Make a plan from a settings document."""
    scenario = scenario_of(settings["document"], name=app)
    setting, qos = scenario.settings[0], QoS(**settings["qos"])
    if settings["samples"] is not None:
        setting = replace(setting, trace=read_arrivals(session, app, setting.application, settings["samples"]))
    constants: Mapping[str, float] = {}
    if settings["surrogate_id"] is not None:
        setting, qos, constants = apply_surrogate(session, app, settings["surrogate_id"], setting, qos)
        if setting.plant != "memoryless":  # which knows no time
            setting = replace_supply(session, app, settings, setting)
    if setting.highest_rate is None:  # the same rate levels with and without the held-out end
        setting = replace(setting, highest_rate=float(setting.trace.rates.max()))
    setting = replace(setting, r_max=qos.r_max, path_bounds=qos.paths, bounds={})
    if settings.get("shared", False) and setting.plant != "memoryless":  # as agents decide
        together = find_policy(setting.policy).worth is not None
        setting = replace(setting, together=together, change_budget=make_budget(qos.eta_r))
    slots = setting.trace.rates.size
    held_out = int(slots * settings["held_out"])
    searched = slots - held_out
    spec = EvaluationSpec(
        setting=replace(setting, trace=window(setting.trace, 0, searched)),
        qos=qos,
        seeds=tuple(settings["seeds"]),
        short=searched // SHORT_PART if searched >= SHORT_FROM_SLOTS else 0,
    )
    check_feasible(spec.setting, qos)
    space = make_space(setting.application, setting.infrastructure, qos, settings["eps"])
    return SearchPlan(
        application=app,
        spec=spec,
        verification=EvaluationSpec(setting, qos, tuple(settings["proof_seeds"])),
        held_out=held_out,
        problem=SearchProblem(space, qos, budget),
        engine=engine,
        seed=seed,
        batch=settings["batch"],
        earlier=load_earlier(session, space, settings.get("earlier", [])),
        surrogate_id=settings["surrogate_id"],
        constants=constants,
    )


def replace_supply(session: Session, app: str, settings: Mapping[str, Any], setting: Setting) -> Setting:
    """Return the setting with the supply that agents saw, where the description states none."""
    stored = require(find_surrogate(session, settings["surrogate_id"]), f"the surrogate of {app!r} was deleted")
    stated = "start_s" in settings["document"].get("run", {})
    return replace(setting, infrastructure=apply_supply(setting.infrastructure, from_record(stored), stated))


def choose_policy(document: Mapping[str, Any], flags: Document) -> dict[str, Any]:
    """Return the policy asked for, else the one described, else the default: an objective has one policy."""
    table = dict(document.get("policy", {}))
    stated = table.get("name") or (table["names"][0] if len(table.get("names", [])) == 1 else None)
    asked = flags.get("policy", {}).get("name")
    kept = {"options": table["options"]} if "options" in table and (asked or stated) == stated else {}
    return {"name": asked or stated or DEFAULT_POLICY, **kept}


def has_trace(document: Mapping[str, Any], flags: Document) -> bool:
    return bool(document.get("trace")) or bool(flags.get("trace"))


def choose_surrogate(session: Session, app: str) -> SurrogateRecord | None:
    """Return the newest surrogate, None without one; refuse one whose checks failed."""
    newest = next(iter(list_surrogates(session, app, limit=1)), None)
    if newest is not None and newest.health == "fail":
        raise BadInput(
            f"surrogate {newest.number} of {app!r} failed a check, and nothing should be tuned on it; see what failed "
            f"with: tuner surrogate show {app}, or tune on the description alone with --as-described"
        )
    return newest


def apply_surrogate(
    session: Session, app: str, surrogate_id: int, setting: Setting, qos: QoS
) -> tuple[Setting, QoS, Mapping[str, float]]:
    """Return the setting with the measured figures, the bounds less the operators' constants, and these constants.

    What was monitored in micro-batches is replayed in them.
    """
    stored = require(find_surrogate(session, surrogate_id), f"surrogate {surrogate_id} of {app!r} was deleted")
    fitted, shape = from_record(stored), setting.application
    samples = load_samples(session, app, since=fitted.start, until=fitted.end)
    flows = estimate_edges(samples, [(edge.upstream, edge.downstream) for edge in shape.edges])
    application = build_application(fitted, shape, flows)
    constants = list_constants(fitted)
    left = {
        title: bound - sum(constants.get(name, 0.0) for name in title.split(" -> "))
        for title, bound in qos.paths.items()
    }
    for title, bound in left.items():
        if bound <= 0.0:
            raise BadInput(f"path {title}: triggers and scheduling alone take longer than its bound; allow more")
    in_batches = any(operator.batches is not None for operator in application.operators)
    measured = replace(
        setting, application=application, infrastructure=apply_speeds(setting.infrastructure, fitted),
        plant="batches" if in_batches else setting.plant,
    )  # fmt: skip
    bounds = replace(qos, r_max=subtract_constants(application, constants, qos.r_max), paths=left)
    return measured, bounds, constants
