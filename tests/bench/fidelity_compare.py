"""Figures of a run on the cluster and of its replays in the simulator, and whether they agree.

A slot's response time is the mean over the records of the batches that started in it, on both sides; of a slot in which
none did, that of the records that came by its end and waited.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from scaler.model.kernel import Floats, lay_out
from scaler.model.orders import parse_objective, to_task
from sim.batch_course import END, FLYING, BatchPlant
from sim.batch_plant import change_batches, serve_batches, take_from_batch
from sim.operator_replay import begin_replay
from sim.replay import Record
from sim.replicas import Plant
from sim.setting import Setting, tasks
from sim.trace import Trace
from tests.bench.fidelity_fit import DELAY_S
from tests.bench.fidelity_loads import BOUND, SLOT_S, SMALL, Load
from tests.live.proof_bed import read_lines
from tests.live.proof_forecast import find_end
from tests.live.proof_source import Levels
from tests.live.proof_stream import OPERATOR

SEEDS = 10
POINTS = (np.arange(10) + 0.5) / 10.0  # of a part, in a quantile
MEDIAN, UPPER = 0.5, 0.95


@dataclass(frozen=True, slots=True)
class Figures:
    replicas: float
    over: float  # share of slots over the bound
    p50: float
    p95: float
    recovery: float  # seconds; nan where there is nothing to recover from
    course: tuple[tuple[float, float], ...]  # replicas and response time, slot by slot

    def agrees(self, cluster: Figures) -> dict[str, bool]:
        """Whether these, simulated, are as near to the cluster's as was asked for."""

        def near(mine: float, other: float, share: float, seconds: float = 0.0) -> bool:
            return abs(mine - other) <= max(share * other, seconds)

        return {
            "replicas": near(self.replicas, cluster.replicas, 0.1),
            "over": abs(self.over - cluster.over) <= 0.03 + 1e-9,
            "p50": near(self.p50, cluster.p50, 0.2),
            "p95": near(self.p95, cluster.p95, 0.2),
            "recovery": math.isnan(cluster.recovery) or near(self.recovery, cluster.recovery, 0.2, SLOT_S),
        }


@dataclass(frozen=True, slots=True)
class Batch:
    start: float  # seconds of the run
    done: float
    came: Floats  # [n] seconds at which its records came


def read_batches(run: Path, began: float, levels: Levels) -> list[Batch]:
    reports = json.loads((run / "progress.json").read_text())
    starts = {one["batchId"]: datetime.fromisoformat(one["timestamp"]).timestamp() - began for one in reports}
    ends, came = levels.marks()
    found, first = [], 0
    for line in read_lines(run / "batches.jsonl"):
        if line["end"] > first and line["batch"] in starts:
            numbers = np.arange(first, line["end"]) + 1.0
            found.append(Batch(starts[line["batch"]], line["time"] - began, np.interp(numbers, came, ends)))
        first = line["end"]
    return found


def measure_cluster(run: Path, load: Load) -> Figures:
    began, levels = json.loads((run / "at.json").read_text())["began"], Levels(load.levels)
    slots = round(levels.seconds / SLOT_S)
    batches = [one for one in read_batches(run, began, levels) if one.start < levels.seconds]
    slot_of = np.array([min(slots - 1, max(0, int(one.start / SLOT_S))) for one in batches])
    means = []
    for slot in range(slots):
        own = [batches[i].done - batches[i].came for i in np.flatnonzero(slot_of == slot)]
        if not own:
            own = [
                one.done - one.came[one.came <= (slot + 1) * SLOT_S] for one in batches if one.start >= slot * SLOT_S
            ]
        waited = np.concatenate([*own, np.empty(0)])
        means.append(float(waited.mean()) if waited.size else 0.0)
    took = np.concatenate([one.done - one.came for one in batches])
    there = count_replicas(run, began, slots)
    p50, p95 = (float(q) for q in np.quantile(took, (MEDIAN, UPPER)))
    return sum_up(there, np.array(means), p50, p95, load.disturbed)


def count_replicas(run: Path, began: float, slots: int) -> Floats:
    """Mean of the executors that were there, slot by slot."""
    lines = read_lines(run / "replicas.jsonl")
    times = np.array([line["time"] - began for line in lines])
    counts = np.array([sum(line["replicas"].values()) for line in lines], dtype=np.float64)
    slot = np.floor(times / SLOT_S)
    return np.array([counts[slot == i].mean() if (slot == i).any() else math.nan for i in range(slots)])


def sum_up(replicas: Floats, means: Floats, p50: float, p95: float, disturbed: float | None) -> Figures:
    over = means > BOUND
    recovery = math.nan if disturbed is None else find_end(over, SLOT_S, disturbed)
    course = tuple(zip(replicas.tolist(), means.tolist(), strict=True))
    return Figures(float(np.nanmean(replicas)), float(over.mean()), p50, p95, recovery, course)


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replay, and the response times of as many records."""

    figures: Figures  # without the quantiles
    took: Floats
    many: Floats


def simulate_load(setting: Setting, objective: Mapping[str, Any], load: Load, lost: int) -> Figures:
    """What the simulator says of a load, by replays of seeds of their own."""
    return average(replay_load(setting, objective, load, lost, range(SEEDS)))


def replay_load(
    setting: Setting, objective: Mapping[str, Any], load: Load, lost: int, seeds: Sequence[int]
) -> list[Replayed]:
    levels = Levels(load.levels)
    there = replace(setting, trace=Trace(levels.rates(SLOT_S), SLOT_S), first={SMALL.name: load.first})
    kill = None if load.kill is None else round(load.kill / SLOT_S)
    return [Replayed(*replay(there, objective, seed, kill, lost, load.disturbed)) for seed in seeds]


def average(replays: Sequence[Replayed]) -> Figures:
    """The mean of replicas over the replays, quantiles over the records of all, the rest of the replay in the middle.

    A run's late slots are a whole number; the mean of replays lies between two, and is as good as neither.
    """
    took, many = np.concatenate([one.took for one in replays]), np.concatenate([one.many for one in replays])
    order = np.argsort(took)
    share = np.cumsum(many[order]) / many.sum()
    p50, p95 = (float(took[order][np.searchsorted(share, q)]) for q in (MEDIAN, UPPER))
    each = [one.figures for one in replays]
    course = np.mean([one.course for one in each], axis=0)
    replicas = float(np.mean([one.replicas for one in each]))
    over, recovery = (
        float(np.quantile([getattr(one, name) for one in each], 0.5, method="lower")) for name in ("over", "recovery")
    )
    return Figures(replicas, over, p50, p95, recovery, tuple((k, r) for k, r in course.tolist()))


def count_agreeing(setting: Setting, objective: Mapping[str, Any], load: Load, lost: int) -> int:
    """Of as many runs of the simulator, those that it agrees with itself: what chance leaves of a perfect one."""
    said = simulate_load(setting, objective, load, lost)
    runs = replay_load(setting, objective, load, lost, range(SEEDS, 2 * SEEDS))
    return sum(all(said.agrees(average([one])).values()) for one in runs)


def replay(
    setting: Setting, objective: Mapping[str, Any], seed: int, kill: int | None, lost: int, disturbed: float | None
) -> tuple[Figures, Floats, Floats]:
    """One replay; response times and how many records they are of come from a twin that is asked for a quantile.

    The policy goes by what the cluster's agent was told, the plant by the setting.
    """
    operator, truth = setting.application.operators[0], tasks(setting)[0]
    run = begin_replay(to_task(parse_objective(objective), OPERATOR), setting, operator, seed)
    run.plant, run.truth = begin_replay(truth, setting, operator, seed).plant, lay_out(truth)
    asked = replace(truth, quantile=MEDIAN)
    twin, problem = begin_replay(asked, replace(setting, quantile=MEDIAN), operator, seed).plant, lay_out(asked)
    slots = setting.trace.rates.size
    means, action, replicas = np.empty(slots), np.zeros(slots, np.int64), np.empty(slots)
    served: list[Served] = []
    for slot, rate in enumerate(setting.trace.rates):
        if slot == kill:
            ended = float(twin.clock[END])
            for p, plant in ((run.truth, run.plant), (problem, twin)):
                take_from_batch(p, plant, 0, min(lost, int(plant.change.serving[0])))
                plant.change.boot_left[: plant.change.booting[0]] -= DELAY_S  # Spark replaces it without a decision
            means[slot - 1] += served[-1].put_off(twin, ended)
        replicas[slot] = mean_serving(run.plant.change)
        before, here = run.k.copy(), slice(slot, slot + 1)
        record = Record(means[here], np.empty(1), action[here])
        run.advance(setting.trace.rates[here], 1, np.zeros((1, 4)), record)
        serve_batches(problem, twin, before, int(before.sum()), 0, float(rate))
        served.append(Served.of(twin))
        if action[slot]:
            ended = float(twin.clock[END])
            change_batches(problem, twin, before, int(action[slot]))
            means[slot] += served[-1].put_off(twin, ended)
    took = np.concatenate([(one.lows + np.outer(POINTS, one.highs - one.lows)).ravel() for one in served])
    many = np.concatenate([np.tile(one.tuples / POINTS.size, POINTS.size) for one in served])
    return sum_up(replicas, means, math.nan, math.nan, disturbed), took, many


@dataclass(frozen=True, slots=True)
class Served:
    """Response times of the records of the batches that started in a slot, and how many they are, oldest first."""

    lows: Floats
    highs: Floats
    tuples: Floats

    @staticmethod
    def of(plant: BatchPlant) -> Served:
        parts = plant.change.parts
        kept = slice(0, int(parts.many[0]))
        return Served(parts.lows[kept].copy(), parts.highs[kept].copy(), parts.tuples[kept].copy())

    def put_off(self, plant: BatchPlant, ended: float) -> float:
        """Have the batch in flight end when it does since a change, and return what that adds to the slot's mean."""
        if ended <= 0.0 or self.tuples.size == 0:
            return 0.0
        since = np.cumsum(self.tuples[::-1])[::-1]
        flying = since <= plant.clock[FLYING] * (1.0 + 1e-9)
        later = plant.part * (float(plant.clock[END]) - ended)
        self.lows[flying] += later
        self.highs[flying] += later
        return later * float(self.tuples[flying].sum() / self.tuples.sum())


def mean_serving(plant: Plant) -> float:
    """Replicas that serve in the coming slot, on average."""
    left = plant.boot_left[: plant.booting[0]]
    more = np.maximum(0.0, 1.0 - left / plant.slot_s).sum()
    gone = int(plant.leaving.sum())
    return float(plant.serving.sum() + more - gone * (1.0 - left.max() / plant.slot_s if left.size else 1.0))
