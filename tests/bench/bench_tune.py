"""Where the time of `tuner tune` goes: the bundled example, the default policy and budget; cold, then warm.

python -m tests.bench.bench_tune [--slots 50000]

Cold: no kernel was ever compiled. `asking` is the engine's, `compiling` the first call of the policy's loop, `replays`
all other calls; where operators are replayed side by side these run on several cores, hence processor seconds beside.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuner.__main__ import YOUNG
from tuner.__main__ import main as run

APP = "clicks"
PARTS = ("imports", "asking", "compiling", "replays", "verification", "database")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, help="slots of the trace (default: the example's 20,160)")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(tune_once()))
        return
    print(f"{'':<6} {'whole s':>9} {'cpu s':>7} " + " ".join(f"{part:>12}" for part in PARTS))
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "XDG_CACHE_HOME": f"{folder}/cache",
            "TUNER_STORE": f"{folder}/tuner.db",
        }
        describe(Path(folder), given.slots, environment)
        for name in ("cold", "warm", "warm"):
            began = time.perf_counter()
            command = [sys.executable, "-m", "tests.bench.bench_tune", "--one"]
            output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
            whole, parts = time.perf_counter() - began, json.loads(output.splitlines()[-1])
            shares = " ".join(f"{parts.get(part, 0.0):>12.1f}" for part in PARTS)
            print(f"{name:<6} {whole:>9.1f} {parts['cpu']:>7.1f} {shares}", flush=True)


def describe(folder: Path, slots: int | None, environment: dict[str, str]) -> None:
    """Store the bundled example, its trace as long as asked."""
    tuner, file = [sys.executable, "-m", "tuner"], folder / "clicks.toml"
    subprocess.run([*tuner, "demo", "--save", str(file)], check=True, capture_output=True)
    if slots is not None:
        text = file.read_text()
        assert "slots = 20160" in text, "the example has another length"
        file.write_text(text.replace("slots = 20160", f"slots = {slots}"))
    subprocess.run([*tuner, "app", "add", APP, str(file)], check=True, capture_output=True, env=environment)


def tune_once() -> dict[str, float]:
    """Seconds of each part of a tuning in this process, which is fresh."""
    began, spent = time.perf_counter(), dict[str, float]()
    gc.set_threshold(YOUNG)
    import sim.operator_replay
    import tuner.cli.tune_command as command
    import tuner.search.engines.gp as engine
    from tuner.search import tuning_run

    spent["imports"] = time.perf_counter() - began

    def clock(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **named)
            finally:
                spent[part] = spent.get(part, 0.0) + time.perf_counter() - start

        return timed

    tuning_run.find_engine = lambda name: clock("asking", engine.suggest)  # type: ignore[assignment]
    tuning_run.leave_out_fixed = clock("replays", tuning_run.leave_out_fixed)
    tuning_run.evaluate = clock("replays", tuning_run.evaluate)
    tuning_run.verify = clock("verification", tuning_run.verify)
    tuning_run.add_trial = clock("database", tuning_run.add_trial)
    spread = command.evaluate_locally
    command.evaluate_locally = lambda *job: iter(clock("replays", lambda: list(spread(*job)))())
    loop_for, first = sim.operator_replay.loop_for, [True]

    def find_loop(*kind: Any) -> Callable[..., Any]:
        loop = loop_for(*kind)
        return clock("compiling", loop) if first and first.pop() else loop

    sim.operator_replay.loop_for = find_loop
    sys.argv = ["tuner", "tune", APP, "--cold"]

    try:
        run()
    except SystemExit as end:
        if end.code:
            raise
    spent["replays"] -= spent["compiling"]
    return spent | {"cpu": time.process_time()}


if __name__ == "__main__":
    main()
