"""Loads and settings of bench_fidelity: one operator, served by sleeping, on two workers of one node type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scaler.model.nodes import NodeType
from scaler.model.task import Weights
from tests.live.proof_stream import OURS, STATIC, Setup
from tuner.demo.cluster import Worker

SMALL = NodeType("small", 1.0, 1.0)
K_MAX = 4
COST = 0.05  # seconds of a record, slept
BOUND = 3.75  # seconds of the mean response time: a slot is clearly within it or over it
WEIGHTS = Weights(0.6, 0.02, 0.38)
SLOT_S, TRIGGER_S = 8.0, 2.0  # replicas that are ordered come within a slot
SECONDS = 34 * SLOT_S  # of a run: one late slot more or less is less than three points
TASKS = 12  # of a batch: any number of replicas up to K_MAX shares them evenly
STEADY, CALM, HIGH = 21.0, 16.0, 48.0  # records per second; two replicas serve the first two, three or four the last
UP, DOWN = 1, 3  # slots of a spike, and those until the next
WINDOW_S = 4.0  # of samples
KEPT, KILLED = (  # of two replicas one at most is lost
    Worker(host, SMALL.name, SMALL.speedup, many, f"{650 * many}m")
    for host, many in (("127.0.0.2", K_MAX), ("127.0.0.3", 1))
)
LOG = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",  # a compressed log lacks what it has not filled a block with
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
Levels = tuple[tuple[float, float], ...]
Script = list[tuple[float, Mapping[str, int]]]


@dataclass(frozen=True, slots=True)
class Load:
    """Rates of a run, and what befalls it."""

    levels: Levels
    first: int  # replicas
    disturbed: float | None = None  # seconds until what it has to recover from
    kill: float | None = None  # seconds until a worker is killed


def list_loads(seconds: float) -> dict[str, Load]:
    """The five loads; what changes does so at the start of a slot."""

    def at(share: float) -> float:
        return round(share * seconds / SLOT_S) * SLOT_S

    steps = round((at(0.5) - at(0.2)) / SLOT_S)
    ramp = tuple((SLOT_S, CALM + (HIGH - CALM) * (i + 1) / steps) for i in range(steps))
    spike = ((UP * SLOT_S, HIGH), (DOWN * SLOT_S, CALM))
    spikes = max(1, int((seconds - at(0.2)) // ((UP + DOWN) * SLOT_S)))
    rest = seconds - at(0.2) - spikes * (UP + DOWN) * SLOT_S
    return {
        "steady": Load(((seconds, STEADY),), 2),
        "ramp": Load(((at(0.2), CALM), *ramp, (seconds - at(0.5), HIGH)), 2, at(0.2)),
        "step x3": Load(((at(0.25), CALM), (at(0.75) - at(0.25), HIGH), (seconds - at(0.75), CALM)), 2, at(0.25)),
        "spikes": Load((*((at(0.2), CALM), *spikes * spike), *(((rest, CALM),) if rest else ())), 2, at(0.2)),
        "killed": Load(((seconds, STEADY),), 2, at(0.35), at(0.35)),  # a replica on each worker
    }


def plan_calibration(seconds: float) -> tuple[Load, Script]:
    """What is fitted: every number of replicas, at loads that it serves, and changes of all sizes, four each way.

    Between two changes lies more than windows take to settle.
    """
    rates, replicas = (17.0, 22.0, 26.0, 10.5, 10.5, 22.0, 10.5, 10.5), (3, 2, 4, 1, 4, 2, 1, 3)
    length = seconds / len(rates)
    script = [((i + 0.4) * length, {SMALL.name: k}) for i, k in enumerate(replicas)]
    return Load(tuple((length, rate) for rate in rates), 2), script


def make_setup(load: Load, master: str, page: str, log: str, ours: bool) -> Setup:
    return Setup(
        master, page, load.levels, COST, ((SMALL.name, SMALL.speedup, SMALL.price),), {SMALL.name: load.first},
        scaled=OURS if ours else STATIC, k_max=K_MAX, slot_s=SLOT_S, trigger_s=TRIGGER_S, most=100_000, tasks=TASKS,
        conf={**LOG, "spark.eventLog.dir": log},
    )  # fmt: skip
