"""How near the simulator comes to a live application on a real standalone cluster, under five loads.

python -m tests.bench.bench_fidelity [--runs 3] [--loads steady ramp ...] [--seconds 272] [--calibration 400]
                                     [--folder FOLDER]
python -m tests.bench.bench_fidelity --again FOLDER      (the comparison anew, without the cluster)

One operator whose records are served by sleeping, so that two cores suffice, scaled by the planner. A calibration run
comes first: the surrogate is fitted from its first third, which alone is played, and the objective of all agents made
of that. Then each load is run, and replayed with the same arrivals, policy and objective beside it. About 85 minutes.

Runs differ by chance. How much of the tolerances that takes is told by runs of the simulator held against itself: a
perfect simulator would hold no more often than that.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # a few hundred slots: compiling would take longer

from sim.setting import Setting
from tests.bench.fidelity_compare import SEEDS, Figures, count_agreeing, measure_cluster, simulate_load
from tests.bench.fidelity_fit import (
    STORE,
    find_length,
    fit_first_part,
    ingest_calibration,
    make_objective,
    make_setting,
    measure_starts,
)
from tests.bench.fidelity_loads import (
    COST,
    KEPT,
    KILLED,
    SECONDS,
    SLOT_S,
    Load,
    list_loads,
    make_setup,
    plan_calibration,
)
from tests.live.proof_bed import read_lines
from tests.live.proof_faults import Killable, killable_worker
from tests.live.proof_source import Levels
from tests.live.proof_stream import write_setup
from tuner.demo.cluster import ROOT, find_page, make_environment, start_cluster
from tuner.demo.demo_run import read_state
from tuner.demo.process_guard import guarded

CALIBRATION = "00-calibration"
TITLES = {
    "replicas": "replicas",
    "over": "slots over the bound",
    "p50": "p50 (s)",
    "p95": "p95 (s)",
    "recovery": "recovery (s)",
}
MEASURES = tuple(TITLES)
LOST_S = 5.0  # within which the replicas of a killed worker are gone


@dataclass(frozen=True, slots=True)
class Bed:
    """A cluster with a driver that does the runs of this folder."""

    folder: Path
    driver: subprocess.Popen[bytes]
    worker: Killable
    master: str
    page: str

    def play(self, run: Path, load: Load, **documents: Any) -> None:
        """One run, to its end; a worker that was killed is back by then. `documents` are files of its folder."""
        run.mkdir(parents=True)
        log = f"file://{self.folder / 'log'}"
        write_setup(make_setup(load, self.master, self.page, log, "objective" in documents), run)
        for name, document in {**documents, "script": documents.get("script", [])}.items():
            (run / f"{name}.json").write_text(json.dumps(document))
        told = self.wait(run, ("streaming", "done"), 200.0)
        if load.kill is not None:
            time.sleep(max(0.0, told["began"] + load.kill - time.time()))
            self.worker.kill()
        self.wait(run, ("done",), Levels(load.levels).seconds + 120.0)
        if load.kill is not None:
            self.worker.start()

    def wait(self, run: Path, states: Sequence[str], seconds: float) -> dict[str, Any]:
        limit = time.monotonic() + seconds
        while (told := read_state(run))["at"] not in states:
            if told["at"] == "failed" or self.driver.poll() is not None or time.monotonic() > limit:
                raise RuntimeError(f"{run.name} is {told}; see {self.folder / 'driver.log'}")
            time.sleep(0.2)
        return told


def run_all(
    folder: Path, names: Sequence[str], runs: int, seconds: float, calibration: float, taken: Path | None = None
) -> None:
    for name in ("log", "runs"):
        (folder / name).mkdir(parents=True)
    loads = list_loads(seconds)
    (folder / "bench.json").write_text(json.dumps({"seconds": seconds}))
    with ExitStack() as stack:
        master = stack.enter_context(start_cluster(folder / "cluster", [KEPT]))
        worker = stack.enter_context(killable_worker(folder / "cluster", KILLED, master))
        command = [sys.executable, "-m", "tests.bench.fidelity_stream", str(folder)]
        environment = make_environment("127.0.0.1")
        driver = stack.enter_context(guarded(command, environment, folder / "driver.log", ROOT))
        bed = Bed(folder, driver, worker, master, find_page(folder / "cluster"))
        if taken is None:
            plan, script = plan_calibration(calibration)
            bed.play(folder / "runs" / CALIBRATION, plan, script=script)
            ingest_calibration(folder, folder / "runs" / CALIBRATION)
        else:
            take_calibration(taken, folder)
        setting, constants = fit_setting(folder)
        objective = make_objective(setting, constants)
        order = [(name, number) for number in range(1, runs + 1) for name in names]
        for place, (name, number) in enumerate(order, 1):
            run = folder / "runs" / f"{place:02d}-{name.replace(' ', '-')}-{number}"
            print(f"{time.strftime('%H:%M:%S')} {run.name}", flush=True)
            try:
                bed.play(run, loads[name], objective=objective, name=name)
            except RuntimeError as error:
                print(error, flush=True)
                if driver.poll() is not None:
                    return
        (folder / "end").touch()
        driver.wait()


def take_calibration(taken: Path, folder: Path) -> None:
    """The calibration run of an earlier bench, and its samples."""
    shutil.copytree(taken / "runs" / CALIBRATION, folder / "runs" / CALIBRATION)
    shutil.copy(taken / STORE, folder / STORE)


def fit_setting(folder: Path, part: float = 1.0) -> tuple[Setting, Mapping[str, float]]:
    """Fit the first part of the calibration, and print what was found."""
    run = folder / "runs" / CALIBRATION
    surrogate, starts = fit_first_part(folder, run, part), measure_starts(run, part)
    fitted = surrogate.operators[0]
    model = fitted.response
    span = f"{fitted.windows} windows of the first {part * find_length(run):g} s"
    print(f"surrogate of {span}: a record takes {1e3 * fitted.mean.value:.1f} ms (slept: {1e3 * COST:g})")
    print(f"start-ups took {', '.join(map(show, starts)) or 'nobody knows how long'} s")
    if model is not None:
        parameters = ", ".join(f"{name} {value:.3g}" for name, value in model.parameters.items())
        error = "" if model.accuracy is None else f"; off by {model.accuracy.error.value:.1%} where held out"
        print(f"{model.model}: {parameters}{error}")
    for side in fitted.reconfiguration:
        print(f"holds {side.direction}: {side.events} events, {side.base_s} s and {side.each_s} s a replica")
    print(f"checks: {', '.join(f'{check.name} {check.verdict}' for check in surrogate.checks)}", flush=True)
    return make_setting(surrogate, starts)


def show(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def simulate_all(setting: Setting, runs: Sequence[Path], loads: Mapping[str, Load]) -> Iterator[Figures]:
    """The figures of each run in the simulator; those of equal runs are the same."""
    known: dict[tuple[str, int], Figures] = {}
    for run in runs:
        name = json.loads((run / "name.json").read_text())
        lost = count_lost(run, loads[name])
        if (name, lost) not in known:
            objective = json.loads((run / "objective.json").read_text())
            known[name, lost] = simulate_load(setting, objective, loads[name], lost)
        yield known[name, lost]


def count_lost(run: Path, load: Load) -> int:
    """Replicas that were gone with a killed worker."""
    if load.kill is None:
        return 0
    killed = json.loads((run / "at.json").read_text())["began"] + load.kill
    lines = [(line["time"] - killed, sum(line["replicas"].values())) for line in read_lines(run / "replicas.jsonl")]
    before = [count for at, count in lines if at < 0.0][-1]
    return max(0, before - min(count for at, count in lines if 0.0 <= at < LOST_S))


def show_all(folder: Path, courses: bool, part: float = 1.0) -> None:
    """The table of all runs that came to their end."""
    loads = list_loads(json.loads((folder / "bench.json").read_text())["seconds"])
    setting, _ = fit_setting(folder, part)
    done = [one for one in sorted((folder / "runs").iterdir()) if one.name != CALIBRATION]
    done = [one for one in done if read_state(one)["at"] == "done"]
    print(f"{'run':16}" + "".join(f"{title:>21}" for title in TITLES.values()) + "  holds")
    held, each = 0, dict.fromkeys(MEASURES, 0)
    courses_of: dict[str, tuple[Figures, Figures]] = {}
    for run, simulated in zip(done, simulate_all(setting, done, loads), strict=True):
        cluster = measure_cluster(run, loads[json.loads((run / "name.json").read_text())])
        courses_of[run.name] = cluster, simulated
        agrees = simulated.agrees(cluster)
        cells = [
            f"{show(getattr(cluster, name))} | {show(getattr(simulated, name))}{' ' if agrees[name] else '*'}"
            for name in MEASURES
        ]
        print(f"{run.name:16}" + "".join(f"{cell:>21}" for cell in cells) + ("  all" if all(agrees.values()) else ""))
        held += all(agrees.values())
        for name in MEASURES:
            each[name] += agrees[name]
    print(f"{'agree':16}" + "".join(f"{f'{each[name]} of {len(done)}':>20} " for name in MEASURES))
    print(f"cluster | simulator; * is off by more than was asked for. All hold in {held} of {len(done)} runs "
          "(wanted: 13 of 15)")  # fmt: skip
    show_ceiling(setting, done, loads)
    for name, (cluster, simulated) in courses_of.items() if courses else ():
        print(f"{name}: slot, replicas and mean response of the cluster | of the simulator")
        for slot, (seen, said) in enumerate(zip(cluster.course, simulated.course, strict=True)):
            print(f"{slot * SLOT_S:6.0f}  {seen[0]:4.1f} {seen[1]:5.2f} | {said[0]:4.1f} {said[1]:5.2f}")


def show_ceiling(setting: Setting, runs: Sequence[Path], loads: Mapping[str, Load]) -> None:
    """How often the simulator agrees with itself, load by load, as in the first run of each."""
    first = {json.loads((run / "name.json").read_text()): run for run in reversed(runs)}
    agree = []
    for name, run in first.items():
        objective = json.loads((run / "objective.json").read_text())
        count = count_agreeing(setting, objective, loads[name], count_lost(run, loads[name]))
        agree.append(f"{name} {count}")
    print(f"The simulator against itself: of {SEEDS} runs of each load all hold in {', '.join(agree)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="of each load")
    parser.add_argument("--loads", nargs="+", choices=list(list_loads(SECONDS)), default=list(list_loads(SECONDS)))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a run")
    parser.add_argument("--calibration", type=float, default=400.0, help="seconds of its first third")
    parser.add_argument("--calibrated", type=Path, metavar="FOLDER", help="the calibration run that this folder has")
    parser.add_argument("--folder", type=Path, help="leave everything in this new folder")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="compare anew what an earlier bench left")
    parser.add_argument(
        "--part", type=float, default=1.0, help="of the calibration that is fitted anew (default all of it)"
    )
    parser.add_argument("--courses", action="store_true", help="print every run slot by slot, too")
    asked = parser.parse_args()
    if asked.again is not None:
        show_all(asked.again, asked.courses, asked.part)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all that was started ends, too
    with tempfile.TemporaryDirectory() as made:
        folder = (asked.folder or Path(made)).absolute()
        run_all(folder, asked.loads, asked.runs, asked.seconds, asked.calibration, asked.calibrated)
        show_all(folder, asked.courses)


if __name__ == "__main__":
    main()
