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
COST = 0.1  # seconds of a record, slept
BOUND = 5.0  # seconds of the mean response time: slots are clearly within it or over it, and chance decides few
WEIGHTS = Weights(0.6, 0.02, 0.38)
SLOT_S, TRIGGER_S = 10.0, 2.0
TASKS = 12  # of a batch: any number of replicas up to K_MAX shares them evenly
CALM, HIGH, PEAK = 5.0, 14.0, 18.0  # records per second: a replica serves about seven
PULSE, UP, DOWN = 12.0, 4, 3  # records per second of a spike, its slots, and those until the next
WINDOW_S = 4.0  # of samples
KEPT, KILLED = (
    Worker(host, SMALL.name, SMALL.speedup, K_MAX, f"{650 * K_MAX}m") for host in ("127.0.0.2", "127.0.0.3")
)
LOG = {
    "spark.eventLog.enabled": "true",
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

    steps = round((at(0.8) - at(0.2)) / SLOT_S)
    ramp = tuple((SLOT_S, CALM + (PEAK - CALM) * (i + 1) / steps) for i in range(steps))
    spike = ((UP * SLOT_S, PULSE), (DOWN * SLOT_S, CALM))
    spikes = max(1, int((seconds - at(0.2)) // ((UP + DOWN) * SLOT_S)))
    rest = seconds - at(0.2) - spikes * (UP + DOWN) * SLOT_S
    return {
        "steady": Load(((seconds, 2.0 * CALM),), 2),
        "ramp": Load(((at(0.2), CALM), *ramp, (seconds - at(0.8), PEAK)), 1, at(0.2)),
        "step x3": Load(((at(0.25), CALM), (at(0.75) - at(0.25), HIGH), (seconds - at(0.75), CALM)), 1, at(0.25)),
        "spikes": Load((*((at(0.2), CALM), *spikes * spike), *(((rest, CALM),) if rest else ())), 1, at(0.2)),
        "killed": Load(((seconds, HIGH),), 3, at(0.35), at(0.35)),
    }


def plan_calibration(seconds: float) -> tuple[Load, Script]:
    """What is fitted: loads from low to high and back; a replica more three times, and one less again.

    Between two changes lies more than windows take to settle.
    """
    rates, changes = (1.0, 1.6, 2.1, 2.5, 1.2), 6
    levels = tuple((seconds / len(rates), rate * CALM) for rate in rates)
    return Load(levels, 2), [((i + 0.4) * seconds / changes, {SMALL.name: 3 - i % 2}) for i in range(changes)]


def make_setup(load: Load, master: str, page: str, log: str, ours: bool) -> Setup:
    return Setup(
        master, page, load.levels, COST, ((SMALL.name, SMALL.speedup, SMALL.price),), {SMALL.name: load.first},
        scaled=OURS if ours else STATIC, k_max=K_MAX, slot_s=SLOT_S, trigger_s=TRIGGER_S, most=100_000, tasks=TASKS,
        conf={**LOG, "spark.eventLog.dir": log},
    )  # fmt: skip
