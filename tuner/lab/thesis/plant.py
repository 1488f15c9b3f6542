"""Plants of the thesis's reproduction: the one its runs show, and one whose work depends on the rate.

Identified from the published runs, in windows where a backlog stood (12 and 24 executors: where none did): seconds of a
batch by number of executors, whatever its records. A batch is cut every 10 s and batches are never merged. A change
of n executors costs the next batch 6 + 3.5 n seconds, fitted to whole runs; an executor serves 20 s after it was asked
for; a batch's noise has a standard deviation of 1 s and a correlation of .6 with the next one's.

The second plant is ours: an overhead of 2 s, and work that 12 executors get through within the interval at the peak.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.hold import HoldTime, HoldTimes
from scaler.model.micro_batches import MicroBatches
from scaler.model.nodes import NodeType
from scaler.model.task import Moments
from sim.application import Application, Operator
from sim.infrastructure import Infrastructure
from sim.replicas import Inertia
from sim.setting import Setting
from sim.trace import Trace, window
from sim.trace_file import read_trace

WORKLOADS = ("w1", "w2")
INTERVAL_S = 10.0
SLOTS = 360  # an hour
LEAST, MOST = 4, 24
TARGET_S = 30.0
EXECUTOR = "executor"
BATCH_S = {  # seconds of a batch by executors; between these it is taken to be linear
    "w1": {4: 11.0, 5: 11.4, 6: 10.5, 7: 9.8, 8: 10.9, 9: 8.3, 12: 8.3, 24: 8.9},
    "w2": {4: 11.0, 5: 11.1, 6: 10.6, 7: 10.4, 8: 10.4, 9: 8.0, 12: 8.0, 24: 8.6},
}
NOISE_S, CORRELATION = 1.0, 0.6
CHANGE = HoldTime(6.0, 3.5)
START_S = 20.0
NO_WORK = 1e-9  # seconds a record, where work is all overhead
OVERHEAD_S, CARRIES = 2.0, 12  # of the second plant: executors that carry the peak


@cache
def load_rates(workload: str, folder: Path) -> Trace:
    """An hour of a workload, a slot a batch; read once a worker."""
    path = folder / f"thesis_{workload}_rates.txt"
    if not path.exists():
        raise BadInput(f"{path} is not there; --traces names the folder that holds thesis_w1_rates.txt and _w2_")
    return window(read_trace(path, step_s=INTERVAL_S), 0, SLOTS)


def identified_batches(workload: str) -> MicroBatches:
    """Batches as the published runs show them."""
    known = BATCH_S[workload]
    curve = np.interp(np.arange(1, MOST + 1), list(known), list(known.values()))
    return rhythm(float(curve.min()), tuple(curve.tolist()))


def rhythm(overhead_s: float, curve: tuple[float, ...] = ()) -> MicroBatches:
    """Unmerged batches of one interval with the thesis's noise."""
    return MicroBatches(
        INTERVAL_S, overhead_s, noise_s=NOISE_S, correlation=CORRELATION, merge=False, overhead_curve_s=curve
    )


def make_setting(workload: str, folder: Path, first: int, depends_on_rate: bool = False) -> Setting:
    """The thesis's job under a workload, the target put as a bound on records, which wait for their cut."""
    rates = load_rates(workload, folder)
    batches, record_s = identified_batches(workload), NO_WORK
    if depends_on_rate:
        batches = rhythm(OVERHEAD_S)
        record_s = (INTERVAL_S - OVERHEAD_S) * CARRIES / (float(rates.rates.max()) * INTERVAL_S)
    operator = Operator(
        "query", Moments(record_s, record_s * record_s / 2.0), MOST, batches=batches, k_min=LEAST,
        hold=HoldTimes(CHANGE, CHANGE),
    )  # fmt: skip
    return Setting(
        application=Application((operator,), name="thesis"),
        infrastructure=Infrastructure("executors", (NodeType(EXECUTOR, 1.0, 1.0),), 1.0),
        trace=rates,
        policy="static",
        r_max=bound_of(TARGET_S),
        first={EXECUTOR: first},
        plant="batches",
        inertia=Inertia(INTERVAL_S, 0.0, START_S),
    )


def bound_of(target_s: float) -> float:
    """The bound on records that stands for a target on batches, from their cut to their end."""
    return target_s + INTERVAL_S / 2.0


def train_on(setting: Setting, other: Trace, slots: int) -> Setting:
    """The setting under the first slots of another workload."""
    return replace(setting, trace=window(other, 0, slots))
