"""The parts of `tuner demo`: from a recorded event log to an agent that replays a day under a tuned objective."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from scaler.model.decision import SCALED
from scaler.model.files import write_whole
from scaler.model.orders import parse_orders
from sim.infrastructure import describe_nodes
from sim.setting import Setting
from sim.toml_table import format_document
from sim.trace import window
from sim.trace_file import write_trace
from tuner.demo.day import replay_day
from tuner.pipeline.engine import IngestEngine
from tuner.pipeline.engines.choose_engine import start_engine
from tuner.pipeline.ingest import IngestSummary, IngestTarget, Report, Start, ingest
from tuner.pipeline.sources.found import InputFile, detect
from tuner.rollout.issued_orders import write_orders
from tuner.rollout.push import push
from tuner.scenario.description import read_description, scenario_of
from tuner.scenario.document import describe_application, freeze
from tuner.scenario.scenario import Scenario, make_qos
from tuner.search.search_plan import TuneOptions, apply_surrogate, load_plan
from tuner.search.tuning_run import start_tuning
from tuner.simulation.ahead import Loop, compile_loop
from tuner.store.applications import add_application, list_surrogates, load_application, save_surrogate
from tuner.store.connection import Store
from tuner.store.decisions import save_decisions
from tuner.store.faults import require
from tuner.store.orders import load_orders, save_scalers
from tuner.store.records import DecisionRecord, ObjectiveRecord, Scaler, TuningRun
from tuner.store.samples import load_samples
from tuner.surrogate.fit import fit
from tuner.surrogate.surrogate import Surrogate, to_record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APP = "clicks"
LOG = f"{APP}.zstd"
POLICIES = "policies.toml"
PARTITIONED = """\
The recording has one task in a batch, so that a second executor would have helped only with more partitions, as
`tuner try` says of it. These days bring up to twelve times its load: its source is taken to be split as replicas need.
"""
WINDOW_S = 8.0
MASTER = "local[2]"
DAY = 1440  # slots
BUDGET, BATCH = 20, 2
HELD_OUT = 0.5  # share of the days to tune on: a whole one, like the other
POLICY, PLANT = "planner", "batches"  # default policy; what the surrogate of the recording replays
TYPES, K_MAX, ETA_R = 2, 12, 0.1  # of chain.toml
WHO = "tuner demo"
WHY = "the demo: the search recommends it"


def lay_out_files(folder: Path) -> None:
    """Copy the recording and the description into the demo's folder."""
    for name, source in ((LOG, f"recorded/{LOG}"), (f"{APP}.toml", "chain.toml")):
        with as_file(files("tuner.demo").joinpath(source)) as shipped:
            (folder / name).write_bytes(shipped.read_bytes())


def choose_engine(spark: bool, start: Callable[[], SparkSession]) -> Start:
    """This process, or Spark where it is asked for."""

    def choose(fresh: Sequence[InputFile], rows: int) -> IngestEngine:
        return start_engine(fresh, rows, MASTER, APP, True, start, here=not spark)

    return choose


def read_recording(store: Store, folder: Path, start: Start, report: Report) -> IngestSummary:
    """Ingest the recording as `tuner ingest` does it."""
    place = IngestTarget(store, APP, store.address.history.absolute(), WINDOW_S)
    return ingest(start, place, detect(folder / LOG), report=report)


def fit_recording(store: Store, folder: Path) -> Surrogate:
    """Describe the application, fit its surrogate and store both."""
    with store.begin() as session:
        add_application(session, APP, read_description(folder / f"{APP}.toml", APP, {}), time.time())
        fitted = fit(load_samples(session, APP), APP)
        save_surrogate(session, to_record(fitted, time.time()))
    return fitted


def list_policies(store: Store, file: Path) -> Scenario:
    """The fitted application under the policies of its description, over the days to tune on; `file` states it, too."""
    with store.read() as session:
        scenario = scenario_of(load_application(session, APP).document, name=APP)
        (stored,) = list_surrogates(session, APP, limit=1)
        qos = make_qos(scenario.document["qos"])
        number = require(stored.id, "the surrogate was deleted")
        fitted = [apply_surrogate(session, APP, number, setting, qos) for setting in scenario.settings]
    settings = [
        replace(setting, r_max=left.r_max, trace=window(setting.trace, 0, setting.trace.rates.size - DAY))
        for setting, left, _ in fitted
    ]
    write_settings(scenario, settings[0], file)
    return replace(scenario, settings=tuple(settings))


def write_settings(scenario: Scenario, setting: Setting, file: Path) -> None:
    """Write the scenario that `tuner simulate` replays alike: operators and node types as fitted, rates beside it."""
    rates = file.with_suffix(".csv")
    write_trace(setting.trace, rates)
    tables = {
        **scenario.document,
        "application": describe_application(setting.application),
        "infrastructure": {"node": describe_nodes(setting.infrastructure)},
        "trace": {"file": rates.name},
        "qos": {**scenario.document["qos"], "r_max": setting.r_max},
        "run": {**scenario.document["run"], "plant": setting.plant},
    }
    write_whole(file, format_document({name: freeze(table) for name, table in tables.items()}))


def list_loops(record: bool) -> list[Loop]:
    """The loops of the default policy that the chain needs, for its own comparison and for tuning."""
    loop = Loop(POLICY, PLANT, TYPES, K_MAX, record)
    return [loop, replace(loop, record=False, eta_r=ETA_R)]


def compile_others(scenario: Scenario, record: bool) -> None:
    """Compile the loops of the other policies, while the default one's are compiled beside this process."""
    for policy in scenario.policies:
        if policy != POLICY:
            compile_loop(Loop(policy, PLANT, TYPES, K_MAX, record))


def begin_tuning(store: Store) -> TuningRun:
    """A run over all days but the last."""
    with store.read() as session:
        slots = scenario_of(load_application(session, APP).document, name=APP).settings[0].trace.rates.size
    options = TuneOptions(budget=BUDGET, batch=BATCH, held_out=HELD_OUT)
    return start_tuning(store, APP, {"trace": {"slots": slots - DAY}}, options, who=WHO)


def push_recommended(store: Store, objective: ObjectiveRecord) -> None:
    """Push the objective past shadow and canary, as `tuner push --stage full` does."""
    version = require(objective.version, "the objective was deleted")
    with store.begin() as session:
        push(session, APP, version, "full", WHO, WHY, time.time())


def replay_next_day(store: Store, run: TuningRun, objective: ObjectiveRecord) -> list[DecisionRecord]:
    """Let an agent act for the day after, which ends now; its decisions are stored as agents' are."""
    with store.read() as session:
        plan = load_plan(session, APP, run)
        orders = parse_orders(write_orders(require(load_orders(session, APP), "no orders were issued")))
        whole = scenario_of(load_application(session, APP).document, name=APP).settings[0].trace
    found = plan.verification.setting
    setting: Setting = replace(
        found, bounds=dict(objective.bounds), weights=objective.weights,
        trace=window(whole, whole.rates.size - DAY, whole.rates.size),
    )  # fmt: skip
    (operator,) = setting.application.operators
    slot_s = setting.inertia.slot_s
    began = (time.time() // slot_s - DAY) * slot_s
    decided = replay_day(setting, orders, plan.constants.get(operator.name, 0.0), began)
    records = [DecisionRecord(APP, operator.name, **decision.to_json()) for decision in decided]
    last = began + (DAY - 1) * slot_s
    with store.begin() as session:
        save_decisions(session, records)
        save_scalers(session, [Scaler(APP, operator.name, WHO, began, last, orders.revision, last)])
    return records


def choose_decision(decisions: Sequence[DecisionRecord]) -> DecisionRecord:
    """The scale-out at the highest arrival rate; the last decision where there was none."""
    changes = [one for one in decisions if one.kind == SCALED and (one.action or "").startswith("+")]
    return max(changes, key=lambda one: one.rate or 0.0, default=decisions[-1])
