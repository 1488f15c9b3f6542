"""What a live scaler is worth beside Spark as it comes, and how near the simulator comes to it.

python -m tests.bench.bench_live [--folder FOLDER]

On a real standalone cluster on loopback, whose records are served by sleeping, so that two cores suffice. The stream is
watched first, by a scaler that changes nothing; a surrogate is fitted from what its sensors told, and an objective made
of that. Then the same trace under our scaler, Spark's own dynamic allocation, the rules of Spark Streaming, Flink and
DS2 as their authors wrote them (carried out by our agent), and static deployments, each row three times, in turns;
printed are medians with the least and the most. Once more it is played in the simulator, on that surrogate and under
that objective.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scaler.model.task import Moments
from scaler.sensing.observation import make_samples
from scaler.sensing.reading import Reading
from tests.live.proof_bed import Seen, draw, expect_totals, finish, make_objective, running
from tests.live.proof_forecast import forecast
from tests.live.proof_scene import BELIEVED, BOUND, CONSTANT, COST, K_MAX, SMALL, WEIGHTS, run_bench
from tests.live.proof_source import Levels
from tests.live.proof_stream import APP, OPERATOR, OURS, SPARKS, STATIC, WATCHED, Setup

PRICES = {SMALL[0]: SMALL[2]}
DAY_S, LOW, PEAK = 180.0, 4.0, 15.0  # a day, as short as slots of five seconds make it, and its rates
STEPS = np.arange(0.0, DAY_S, 5.0)
TRACE = tuple((5.0, float(rate)) for rate in LOW + (PEAK - LOW) * (0.5 - 0.5 * np.cos(2 * np.pi * STEPS / DAY_S)))
RAMP = tuple((20.0, rate) for rate in (4.0, 8.0, 12.0, 16.0, 14.0, 10.0, 6.0, 15.0, 5.0))  # while it is watched
WATCHED_ON = 3  # replicas
REPEATS = 3  # of every row, in turns, so that what else the machine does meets all rows alike
LEAST = 0.5  # seconds that are left to queueing, whatever micro-batches take


def play(setup: Setup, folder: Path, objective: Mapping[str, Any]) -> Seen:
    folder.mkdir(parents=True)
    (folder / "objective.json").write_text(json.dumps(objective))
    with running(setup, folder) as driver:
        return finish(driver, folder, setup)


def watch(setup: Setup, folder: Path) -> tuple[Moments, float]:
    """What a surrogate of the stream says of a record, and the constant part of response times."""
    watched = replace(setup, levels=RAMP, scaled=WATCHED, first={SMALL[0]: WATCHED_ON})
    return fit_stream(play(watched, folder, state(setup, BELIEVED, CONSTANT)))


def state(setup: Setup, moments: Moments, constant: float, policy: str = "planner") -> dict[str, Any]:
    return make_objective(setup, BOUND, min(constant, BOUND - LEAST), WEIGHTS, policy, moments)


def count_changes(seen: Seen) -> int:
    """Times that the number of executors became another, during the trace."""
    return len(seen.changes(seen.levels.seconds)) - 1


def find_violations(seen: Seen, slot_s: float) -> tuple[float, float]:
    """Shares of records, and of slots by the mean of those that came in them, that broke the bound."""
    took = np.array([done - came for came, done in seen.answered()])
    return float(np.mean(took > BOUND)), float(np.mean(np.array(seen.means(slot_s)) > BOUND))


def list_runs(setup: Setup) -> dict[str, tuple[Setup, str]]:
    """Rows: how the stream is scaled, and by which policy where our agent does it."""
    names = ("executorIdleTimeout", "shuffleTracking.timeout")
    idle = {f"spark.dynamicAllocation.{name}": "10s" for name in names}
    ours = replace(setup, scaled=OURS)
    return {
        "ours": (ours, "planner"),
        "Spark's dynamic allocation": (replace(setup, scaled=SPARKS), "planner"),
        "the same, idle 10 s": (replace(setup, scaled=SPARKS, conf=idle), "planner"),
        "Spark Streaming's ratio": (ours, "spark-ratio-p"),
        "Flink's rule": (ours, "flink-p"),
        "DS2": (ours, "ds2-p"),
        "static, one": (replace(setup, scaled=STATIC, first={SMALL[0]: 1}), "planner"),
        f"static, {K_MAX}": (replace(setup, scaled=STATIC, first={SMALL[0]: K_MAX}), "planner"),
    }


def measure(setup: Setup, seen: Seen) -> tuple[float, float, float, float, float]:
    """Cost, violations by record and by slot, changes, and whether every record was counted once."""
    exact = seen.totals == expect_totals(seen.levels)
    return seen.paid(PRICES), *find_violations(seen, setup.slot_s), float(count_changes(seen)), float(exact)


def show_row(name: str, figures: list[tuple[float, float, float, float, float]]) -> str:
    """Medians, each with its range."""
    columns = list(zip(*figures, strict=True))
    shown = [
        f"{statistics.median(column):{form}} ({min(column):{form}} to {max(column):{form}})"
        for column, form in zip(columns, (".0f", ".1%", ".1%", ".0f"), strict=False)
    ]
    return f"{name:28s}" + "".join(f"{one:>26s}" for one in shown) + f"{sum(columns[-1]):4.0f} of {len(figures)}"


def contest(setup: Setup, folder: Path) -> None:
    fitted = watch(setup, folder / "watched")
    figures: dict[str, list[tuple[float, float, float, float, float]]] = {}
    first: Seen | None = None
    for number in range(REPEATS):
        for name, (one, policy) in list_runs(setup).items():
            place = folder / f"{name.replace(' ', '-').replace(',', '')}-{number + 1}"
            told = play(one, place, state(setup, *fitted, policy))
            figures.setdefault(name, []).append(measure(setup, told))
            first = first or told
            print(f"run {number + 1}: {show_row(name, figures[name][-1:])}", flush=True)
    print(f"{'who scales':28s}{'cost':>26s}{'violations: records':>26s}{'slots':>26s}{'changes':>26s} exact")
    for name, some in figures.items():
        print(show_row(name, some))
    print(f"cost is price x replica-seconds over {Levels(setup.levels).seconds:g} s, from an executor's registration "
          f"until it is told to go; a violation is an answer after more than {BOUND:g} s")  # fmt: skip
    assert first is not None
    print(draw(first))
    compare(setup, first, state(setup, *fitted))


def fit_stream(seen: Seen) -> tuple[Moments, float]:
    """From the samples that our scaler told of a run."""
    from scaler.model.sample import Sample
    from tuner.surrogate.fit import fit
    from tuner.surrogate.fitted_application import build_application, list_constants

    readings = [line["reading"] for line in seen.decisions]
    told = [one for reading in readings for one in make_samples(Reading(**{**reading, "notes": ()}))]
    surrogate = fit([Sample(application=APP, **one) for one in told], APP)
    fitted = surrogate.operators[0]
    constant, moments = list_constants(surrogate)[OPERATOR], build_application(surrogate).operators[0].moments
    spread = moments.variance / moments.mean**2
    print(f"surrogate of {len(told)} samples: a record takes {1e3 * fitted.mean.value:.1f} ms (slept: {1e3 * COST:g})")
    print(f"in the simulator {1e3 * moments.mean:.1f} ms (scv {spread:.2f}) and {constant:.2f} s")
    print(f"checks: {', '.join(f'{check.name} {check.verdict}' for check in surrogate.checks)}")
    return moments, constant


def compare(setup: Setup, seen: Seen, objective: Mapping[str, Any]) -> None:
    """The same trace in the simulator, slot by slot beside what happened."""
    starts = seen.starts()
    took = statistics.mean(starts) if starts else 10.0
    told = forecast(setup, objective, took)
    slots = len(told.responses)
    changes = seen.changes(seen.levels.seconds)
    edges = (np.arange(slots) + 0.5) * setup.slot_s
    real = np.array([[n.get("small", 0) for at, n in changes if at <= edge][-1] for edge in edges], float)
    means = np.array(seen.means(setup.slot_s))
    print(f"replicas came in {took:.1f} s")
    print("slot, rate, replicas and response: cluster | simulator")
    for slot, rate in enumerate(Levels(tuple(setup.levels)).rates(setup.slot_s)):
        print(f"{slot * setup.slot_s:5.0f} {rate:6.1f}   {real[slot]:.0f} {means[slot]:6.1f} | "
              f"{told.replicas[slot, 0]} {told.responses[slot]:6.1f}")  # fmt: skip
    simulated, happened = float(np.mean(told.responses > BOUND)), float(np.mean(means > BOUND))
    mean = float(told.replicas[:, 0].mean())
    print(f"mean replicas: cluster {real.mean():.2f}, simulator {mean:.2f} (ratio {mean / real.mean():.2f}); slots "
          f"that broke the bound: cluster {happened:.1%}, simulator {simulated:.1%}; replicas differ by "
          f"{np.abs(real - told.replicas[:, 0]).mean():.2f} a slot")  # fmt: skip


if __name__ == "__main__":
    run_bench(__doc__, TRACE, contest)
