"""Start a cluster and a driver for a proof, and collect what they leave behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from scaler.model.task import Moments
from tests.live.proof_source import Levels
from tests.live.proof_stream import KEYS, OPERATOR, Setup, write_setup
from tuner.demo.cluster import ROOT, make_environment
from tuner.demo.demo_run import read_state
from tuner.demo.process_guard import guarded

MERGED_S = 25.0  # after a rate rises, in which it may show that more waits: a batch that was under way, and the next


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run left; seconds are those since the first record, but for `time` of the lines."""

    began: float
    start_s: float | None  # that a replica took to come, before the stream
    batches: list[dict[str, Any]]
    replicas: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    totals: dict[str, int]
    levels: Levels

    def answered(self) -> list[tuple[float, float]]:
        """(second at which it came, second at which its batch was done) of every record."""
        pairs: list[tuple[float, float]] = []
        for batch in self.batches:
            for number in range(len(pairs), batch["end"]):
                pairs.append((self.levels.arrival(number), batch["time"] - self.began))
        return pairs

    def changes(self, until: float) -> list[tuple[float, dict[str, int]]]:
        """Seconds at which the replicas that served were others than before, and what they were then."""
        found: list[tuple[float, dict[str, int]]] = []
        for one in self.replicas:
            second = one["time"] - self.began
            if second < until and (not found or found[-1][1] != one["replicas"]):
                found.append((max(0.0, second), one["replicas"]))
        return found

    def paid(self, prices: Mapping[str, float]) -> float:
        """Price times seconds of all replicas over the trace."""
        end = self.levels.seconds
        edges = [(at, sum(prices[name] * n for name, n in has.items())) for at, has in self.changes(end)]
        first = max((i for i, (at, _) in enumerate(edges) if at <= 0.0), default=0)
        return sum(price * (later - max(0.0, at)) for (at, price), (later, _) in pairwise([*edges[first:], (end, 0.0)]))

    def cost_at_rest(self, until: float) -> float | None:
        """Replica-seconds that a record took while batches were waited for, by what the sensors told of these slots."""
        told = [line["reading"] for line in self.decisions if 0.0 < line["reading"]["start"] - self.began < until]
        known = [one for one in told if one["arrival_rate"] and one["replicas"] and one["utilisation"] is not None]
        spent = sum(one["utilisation"] * sum(one["replicas"].values()) for one in known)
        return spent / sum(one["arrival_rate"] for one in known) if known else None

    def cost_in_haste(self, most: int) -> float | None:
        """Replica-seconds that a record took, all told, in batches as large as they may be, of replicas that stayed.

        Batches follow each other then, and what Spark takes between two is in it; so is whoever shares the machine.
        """
        spent = served = 0.0
        for before, batch in pairwise(self.batches):
            there = [sum(o["replicas"].values()) for o in self.replicas if before["time"] < o["time"] <= batch["time"]]
            if batch["end"] - before["end"] >= most and len(set(there)) == 1:
                spent += there[0] * (batch["time"] - before["time"])
                served += batch["end"] - before["end"]
        return spent / served if served else None

    def means(self, slot_s: float) -> list[float]:
        """Mean response time of the records of each slot, by when they came; 0 where none did."""
        took: list[list[float]] = [[] for _ in range(round(self.levels.seconds / slot_s))]
        for came, done in self.answered():
            took[min(len(took) - 1, int(came / slot_s - 1e-9))].append(done - came)
        return [sum(one) / len(one) if one else 0.0 for one in took]

    def drained(self, since: float) -> float:
        """Seconds from `since` until a batch took all that had come when the one before it was done."""
        behind = [
            (before["time"] - self.began, batch["time"] - self.began)
            for before, batch in pairwise(self.batches)
            if self.levels.count(before["time"] - self.began) > batch["end"]
        ]
        end = since
        for began, ended in behind:
            if end <= ended and began <= max(end, since + MERGED_S):
                end = ended
        return end - since

    def starts(self) -> list[float]:
        """Seconds that each replica took that was asked for, from its decision until it was there."""
        took = []
        for line in self.decisions:
            action = line["decision"]["action"] or ""
            if line["decision"]["kind"] == "SCALED" and action.startswith("+1 "):
                name = action[3:]
                seen = line["decision"]["seen"]
                before = seen.get("asked", seen["deployment"])[name]
                came = [
                    o["time"] for o in self.replicas if o["time"] > line["told"] and o["replicas"].get(name, 0) > before
                ]
                took += [min(came) - line["told"]] if came else []
        return took


def expect_totals(levels: Levels) -> dict[str, int]:
    """What the source put out of each key."""
    whole = levels.count(levels.seconds)
    return {str(key): len(range(key, whole, KEYS)) for key in range(KEYS)}


@contextmanager
def running(setup: Setup, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver at work; on leaving it is gone."""
    folder.mkdir(parents=True, exist_ok=True)
    write_setup(setup, folder)
    command = [sys.executable, "-m", "tests.live.proof_stream", str(folder)]
    number = len(list(folder.glob("driver*.log")))
    environment = make_environment("127.0.0.1")
    with guarded(command, environment, folder / f"driver{number}.log", ROOT) as process:
        yield process


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Those that are whole: it may be written just now."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def await_state(process: subprocess.Popen[bytes], folder: Path, state: str, seconds: float) -> dict[str, Any]:
    return await_it(process, folder, lambda: read_state(folder)["at"] in (state, "done"), seconds, state)


def await_it(
    process: subprocess.Popen[bytes], folder: Path, ask: Callable[[], bool], seconds: float, what: str
) -> dict[str, Any]:
    """The driver's state once it is so; its log, where it ended before."""
    limit = time.monotonic() + seconds
    while not ask():
        if process.poll() is not None or time.monotonic() > limit:
            log = sorted(folder.glob("driver*.log"))[-1].read_text(errors="replace")[-4000:]
            raise RuntimeError(f"the driver was {read_state(folder)}, and {what!r} did not come:\n{log}")
        time.sleep(0.2)
    return read_state(folder)


def finish(process: subprocess.Popen[bytes], folder: Path, setup: Setup, more_s: float = 120.0) -> Seen:
    """Wait for the end, and read what is left."""
    levels = Levels(setup.levels)
    told = await_state(process, folder, "streaming", 200.0)
    told |= await_state(process, folder, "done", levels.seconds + more_s)
    return Seen(
        told["began"],
        told.get("start_s"),
        read_lines(folder / "batches.jsonl"),
        read_lines(folder / "replicas.jsonl"),
        read_lines(folder / "decisions.jsonl"),
        json.loads((folder / "totals.json").read_text()),
        levels,
    )


def make_objective(
    setup: Setup, bound: float, constant: float, weights: Mapping[str, float], policy: str, moments: Moments
) -> dict[str, Any]:
    """The document of an objective; `bound` on the whole response time, of which `constant` is none of queueing's."""
    target = {
        "bound": bound - constant,
        "constant": constant,
        "mean": moments.mean,
        "variance": moments.variance,
        "k_max": setup.k_max,
        "highest_rate": max(rate for _, rate in setup.levels),
    }
    return {
        "version": 1,
        "weights": dict(weights),
        "policy": policy,
        "nodes": [{"name": name, "speedup": speedup, "price": price} for name, speedup, price in setup.nodes],
        "operators": {OPERATOR: target},
    }


def draw(seen: Seen) -> str:
    """A line a decision: what was seen, what was done."""
    rows = []
    for line in seen.decisions:
        d, r = line["decision"], line["reading"]
        figures = [d["rate"], d["response"], r["backlog"], r["utilisation"], r["completeness"]]
        shown = " ".join("   -  " if x is None else f"{float(x):6.2f}" for x in figures)
        rows.append(f"{d['time'] - seen.began:6.0f} {shown} {d['seen']['deployment']} {d['kind']} {d['action'] or ''} "
                    f"{d['reason'][:130]} {','.join(note['code'] for note in r['notes'])}")  # fmt: skip
    return "\n".join(rows)
