"""Steps per second and core of the compiled replay, by policy and by plant, beside the authors' Java program.

python -m tests.bench.bench_replay
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from scaler.model.micro_batches import MicroBatches
from scaler.model.nodes import Supply
from sim.arrivals import generate
from sim.graphs import find_application
from sim.infrastructure import find_infrastructure
from sim.lockstep import shares_anything
from sim.setting import Setting
from sim.simulate import simulate
from sim.trace import Trace, window
from sim.trace_file import read_trace

TRACES = Path(__file__).parents[3] / "shared" / "traces"
SLOTS = 525_533
WANTED = {"threshold-c": 100.0, "ql": 10.0, "ql-pds": 20.0, "ql-pds-plus": 20.0}
JAVA = {"threshold-c": 0.21, "ql": 0.10, "ql-pds": 0.12, "ql-pds-plus": 0.12}  # million steps per second, as published
JAVA_APPLICATION_S = 5.9
BATCHES = MicroBatches(trigger_s=10.0, overhead_s=0.5)
PLANTS = {  # million slots per second wanted of threshold-c
    "memoryless": ("memoryless", None, 100.0),
    "backlog": ("backlog", None, 10.0),
    "batches": ("batches", BATCHES, 10.0),
    "batches, noise": ("batches", replace(BATCHES, noise_s=0.2, correlation=0.3), 10.0),
    "batches, waves": ("batches", replace(BATCHES, partitions=8), 10.0),
}

LOCKSTEP = 3.0  # million slots per second wanted of three operators in lockstep


def find_trace() -> Trace:
    """The taxi trace, or one of our own of the same length where the folder is missing."""
    path = TRACES / "taxi.txt.gz"
    if path.exists():
        return read_trace(path)
    print(f"{path} is not there: measured on a diurnal trace of ours instead")
    return generate("diurnal", low=50.0, high=500.0, slots=SLOTS, seed=0)


def best_seconds(setting: Setting, tries: int = 7) -> float:
    """The least processor time of several runs after a first that compiles: the machine is shared."""
    simulate(setting)
    best = float("inf")
    for _ in range(tries):
        began = time.process_time()
        simulate(setting)
        best = min(best, time.process_time() - began)
    return best


START = """
from dataclasses import replace
from tests.bench.bench_replay import operator
from sim.simulate import simulate
from sim.trace import window
setting = operator("ql-pds")
simulate(replace(setting, trace=window(setting.trace, 0, 1000)))
"""


def measure_start(cache: str) -> float:
    """Seconds of a fresh process that replays 1,000 slots with kernels kept in this folder."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", START], check=True, env=os.environ | {"NUMBA_CACHE_DIR": cache})
    return time.perf_counter() - began


def operator(policy: str, trace: Trace | None = None) -> Setting:
    """One operator, infrastructure A, N_res 3, K_max 10."""
    return Setting(
        application=find_application("single", service_rate=180.0, k_max=10),
        infrastructure=find_infrastructure("A", 3),
        trace=trace or find_trace(),
        policy=policy,
        r_max=0.05,
        highest_rate=650.0,
    )


def in_plant(trace: Trace, plant: str, batches: MicroBatches | None) -> Setting:
    """The same operator under thresholds in another plant."""
    setting = operator("threshold-c", trace)
    (only,) = setting.application.operators
    application = replace(setting.application, operators=(replace(only, batches=batches),))
    return replace(setting, application=application, plant=plant, r_max=setting.r_max if batches is None else 20.0)


def in_lockstep(trace: Trace, plant: str, batches: MicroBatches | None) -> Setting:
    """Three operators in a row under thresholds, which share a supply that has an end."""
    whole = find_application("pipeline", k_max=10)
    operators = tuple(replace(each, batches=batches) for each in whole.operators)
    nodes = find_infrastructure("A", 3)
    limited = tuple(replace(node, supply=Supply(capacity=12)) for node in nodes.types)
    return Setting(
        application=replace(whole, operators=operators),
        infrastructure=replace(nodes, types=limited),
        trace=trace,
        policy="threshold-c",
        r_max=0.05 if batches is None else 60.0,
        highest_rate=650.0,
        plant=plant,
    )


def main() -> None:
    trace = find_trace()
    print(f"{'policy':<14}{'M steps/s':>10}{'wanted':>8}{'ratio':>7}{'x Java':>8}")
    speeds = {}
    for policy, wanted in WANTED.items():
        speeds[policy] = len(trace.rates) / best_seconds(operator(policy, trace)) / 1e6
        ratio, java = speeds[policy] / wanted, speeds[policy] / JAVA[policy]
        print(f"{policy:<14}{speeds[policy]:>10.1f}{wanted:>8.0f}{ratio:>7.2f}{java:>8.0f}")
    print(f"{'plant':<16}{'M slots/s':>10}{'wanted':>8}{'ratio':>7}")
    for name, (plant, batches, wanted) in PLANTS.items():
        speed = len(trace.rates) / best_seconds(in_plant(trace, plant, batches)) / 1e6
        print(f"{name:<16}{speed:>10.1f}{wanted:>8.0f}{speed / wanted:>7.2f}")
    for name, (plant, batches, _) in PLANTS.items():
        setting = in_lockstep(trace, plant, batches)
        assert shares_anything(setting)
        speed = len(trace.rates) / best_seconds(setting, 3) / 1e6
        print(f"{f'{name}, x 3':<16}{speed:>10.1f}{LOCKSTEP:>8.0f}{speed / LOCKSTEP:>7.2f}")
    short = replace(
        operator("ql-pds-plus", window(trace, 0, 50_000)),
        application=find_application("diamond", k_max=10),
    )
    seconds = best_seconds(short)
    print(
        f"5 operators, 50,000 slots, ql-pds-plus: {1000 * seconds:.1f} ms "
        f"(wanted under 20; {JAVA_APPLICATION_S / seconds:.0f} times the Java program's speed)"
    )
    with tempfile.TemporaryDirectory() as cache:
        first, second = measure_start(cache), measure_start(cache)
    print(
        f"a fresh process: {first:.1f} s with nothing kept, {second:.1f} s with kernels kept ({first / second:.1f} x)"
    )


if __name__ == "__main__":
    main()
