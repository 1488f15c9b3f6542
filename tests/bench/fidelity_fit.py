"""From a calibration run to the setting of its replays and the objective of its agents, by the product's own pipeline.

Event log and timers' lines are ingested into a database, the windows of the first third fitted, and the application
built of the fit. Start-up times are those of the replicas that were ordered in that third.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from scaler.agent.attachment import REPORT_DELAY_S
from scaler.model.nodes import Supply
from scaler.model.orders import Objective
from scaler.model.task import Moments
from sim.application import Application, Operator
from sim.infrastructure import Infrastructure
from sim.replicas import Inertia
from sim.setting import Setting
from sim.trace import Trace
from tests.bench.fidelity_loads import BOUND, HIGH, K_MAX, SLOT_S, SMALL, WEIGHTS, WINDOW_S
from tests.live.proof_bed import read_lines
from tests.live.proof_stream import APP, OPERATOR
from tuner.pipeline.ingest import IngestTarget, ingest
from tuner.pipeline.local.engine import LocalEngine
from tuner.pipeline.local.reading import examine
from tuner.pipeline.sources.found import detect
from tuner.search.recommendation import make_model
from tuner.store.connection import open_store
from tuner.store.samples import load_samples
from tuner.surrogate.fit import fit
from tuner.surrogate.fitted_application import build_application, list_constants, subtract_constants
from tuner.surrogate.surrogate import Surrogate

STORE, HISTORY = "fidelity.db", "history"
POLICY = "planner"
DELAY_S = min(REPORT_DELAY_S, 0.1 * SLOT_S)  # from the end of a slot until agents decide


def ingest_calibration(folder: Path, run: Path) -> None:
    found = detect(folder / "log", run / "timings")
    with closing(open_store(folder / STORE)) as store:
        place = IngestTarget(store, APP, folder / HISTORY, WINDOW_S)
        ingest(lambda fresh, rows: LocalEngine(lambda files: examine(files, APP, False)), place, found)


def fit_first_part(folder: Path, run: Path, part: float) -> Surrogate:
    """The surrogate of what the first part of the calibration told."""
    began, length = json.loads((run / "at.json").read_text())["began"], part * find_length(run)
    with closing(open_store(folder / STORE)) as store, store.read() as session:
        samples = load_samples(session, APP, since=began, until=began + length - 0.5 * WINDOW_S)
    return fit([one for one in samples if one.operator == OPERATOR], APP)


def find_length(run: Path) -> float:
    levels = json.loads((run / "setup.json").read_text())["levels"]
    return float(sum(length for length, _ in levels))


def measure_starts(run: Path, part: float) -> tuple[float, ...]:
    """Seconds from the order of a replica until it was there, of those ordered in its first part."""
    took: list[float] = []
    until = json.loads((run / "at.json").read_text())["began"] + part * find_length(run)
    lines = read_lines(run / "replicas.jsonl")
    for order in read_lines(run / "orders.jsonl"):
        wanted = sum(order["replicas"].values())
        there = [line for line in lines if line["time"] >= order["time"]]
        if order["time"] < until and there and sum(there[0]["replicas"].values()) < wanted:
            took += [line["time"] - order["time"] for line in there if sum(line["replicas"].values()) >= wanted][:1]
    return tuple(took)


def make_setting(surrogate: Surrogate, starts: Sequence[float]) -> tuple[Setting, Mapping[str, float]]:
    """What replays of this surrogate have in common, and the constants of response times."""
    shape = Application((Operator(OPERATOR, Moments(1.0, 1.0), K_MAX, stateful=True),), name=APP)
    application, constants = build_application(surrogate, shape), list_constants(surrogate)
    in_batches = application.operators[0].batches is not None
    node = replace(SMALL, supply=Supply(start_s=tuple(DELAY_S + start for start in starts)))
    setting = Setting(
        application, Infrastructure("fidelity", (node,), SMALL.price), Trace([1.0], SLOT_S), POLICY,
        r_max=subtract_constants(application, constants, BOUND), weights=WEIGHTS, highest_rate=HIGH,
        plant="batches" if in_batches else "backlog", inertia=Inertia(slot_s=SLOT_S),
    )  # fmt: skip
    return setting, constants


def make_objective(setting: Setting, constants: Mapping[str, float]) -> dict[str, Any]:
    bounds = {OPERATOR: setting.r_max}
    return Objective(1, setting.weights, bounds, make_model(setting, constants), "fidelity").to_json()
