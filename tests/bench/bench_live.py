"""What a live scaler is worth beside Spark as it comes, and how near the simulator comes to it.

python -m tests.bench.bench_live [--folder FOLDER]

On a real standalone cluster on loopback, whose records are served by sleeping, so that two cores suffice: the same
trace under static deployments, Spark's own dynamic allocation and our scaler, and then once more in the simulator, on a
surrogate fitted from what our scaler's sensors told of that very run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from scaler.live.reading import Reading
from scaler.live.telling import make_samples
from sim.application import Application, Operator
from tests.live.proof_bed import Seen, draw, expect_totals, finish, make_objective, running
from tests.live.proof_forecast import forecast
from tests.live.proof_scene import (
    BOUND,
    CONSTANT,
    COST,
    K_MAX,
    SMALL,
    TASK_COST,
    WEIGHTS,
    make_setup,
    make_worker,
)
from tests.live.proof_source import Levels
from tests.live.proof_stream import APP, OPERATOR, OURS, SPARKS, STATIC, Setup
from tuner.live.cluster import find_page, start_cluster

PRICES = {SMALL[0]: SMALL[2]}
TRACE = ((40.0, 5.0), (60.0, 15.0), (80.0, 5.0))


def play(setup: Setup, folder: Path) -> Seen:
    folder.mkdir(parents=True)
    objective = make_objective(setup, BOUND, CONSTANT, WEIGHTS, "planner", COST + TASK_COST)
    (folder / "objective.json").write_text(json.dumps(objective))
    with running(setup, folder) as driver:
        return finish(driver, folder, setup)


def count_changes(seen: Seen) -> int:
    """Times that the number of executors became another, during the trace."""
    return len(seen.changes(seen.levels.seconds)) - 1


def find_violations(seen: Seen, slot_s: float) -> tuple[float, float]:
    """Shares of records, and of slots by the mean of those that came in them, that broke the bound."""
    took = np.array([(came, done - came) for came, done in seen.answered()])
    slots = (took[:, 0] // slot_s).astype(int)
    means = np.bincount(slots, took[:, 1]) / np.maximum(1, np.bincount(slots))
    return float(np.mean(took[:, 1] > BOUND)), float(np.mean(means > BOUND))


def contest(setup: Setup, folder: Path) -> None:
    runs = {
        "ours": replace(setup, scaled=OURS),
        "Spark's dynamic allocation": replace(setup, scaled=SPARKS),
        "static, one": replace(setup, scaled=STATIC, first={"small": 1}),
        f"static, {K_MAX}": replace(setup, scaled=STATIC, first={"small": K_MAX}),
        "Spark's, idle 10 s": replace(
            setup, scaled=SPARKS, conf={"spark.dynamicAllocation.executorIdleTimeout": "10s"}
        ),
    }
    print(f"{'who scales':28s} {'cost':>7s} {'violations: records':>20s} {'slots':>7s} {'changes':>8s} exact")
    seen: dict[str, Seen] = {}
    for name, one in runs.items():
        seen[name] = told = play(one, folder / name.replace(" ", "-").replace(",", ""))
        records, slots = find_violations(told, setup.slot_s)
        exact = told.totals == expect_totals(told.levels)
        print(
            f"{name:28s} {told.paid(PRICES):7.0f} {records:20.1%} {slots:7.1%} {count_changes(told):8d} {exact}",
            flush=True,
        )
    print(f"cost is price x replica-seconds over {Levels(setup.levels).seconds:g} s; a violation is an answer after "
          f"more than {BOUND:g} s")  # fmt: skip
    print(draw(seen["ours"]))
    compare(setup, seen["ours"])


def fit_application(seen: Seen) -> tuple[Application, float]:
    """From the samples that our scaler told of this very run; with the constant part of response times."""
    from tuner.pipeline.sample import Sample
    from tuner.surrogate.application import build_application, list_constants
    from tuner.surrogate.fit import fit

    readings = [line["reading"] for line in seen.decisions]
    for reading in readings:
        reading["service"] = None if reading["service"] is None else tuple(reading["service"])
    told = [one for reading in readings for one in make_samples(Reading(**reading))]
    surrogate = fit([Sample(application=APP, **one) for one in told], APP)
    fitted = surrogate.operators[0]
    print(f"surrogate of {len(told)} samples: a record takes {1e3 * fitted.mean.value:.1f} ms (slept: {1e3 * COST:g}); "
          f"checks: {', '.join(f'{c.name} {c.verdict}' for c in surrogate.checks)}")  # fmt: skip
    constants = list_constants(surrogate)
    operator = build_application(surrogate).operators[0]
    return Application((Operator(OPERATOR, operator.moments, K_MAX, stateful=True),)), constants.get(OPERATOR, 0.0)


def compare(setup: Setup, seen: Seen) -> None:
    """The same trace in the simulator, slot by slot beside what happened."""
    application, constant = fit_application(seen)
    moments = application.operators[0].moments
    objective = make_objective(setup, BOUND, min(constant, BOUND - 0.5), WEIGHTS, "planner", moments.mean)
    starts = seen.starts()
    took = statistics.mean(starts) if starts else 10.0
    told = forecast(setup, objective, took, application=application)
    slots = len(told.responses)
    changes = seen.changes(seen.levels.seconds)
    edges = (np.arange(slots) + 0.5) * setup.slot_s
    real = np.array([[n.get("small", 0) for at, n in changes if at <= edge][-1] for edge in edges], float)
    answered = np.array([(came, done - came) for came, done in seen.answered()])
    member = (answered[:, 0] // setup.slot_s).astype(int)
    means = np.bincount(member, answered[:, 1], slots)[:slots] / np.maximum(
        1, np.bincount(member, minlength=slots)[:slots]
    )
    print(f"constant {constant:.2f} s, replicas came in {took:.1f} s")
    print("slot, rate, replicas and response: cluster | simulator")
    for slot, rate in enumerate(Levels(tuple(setup.levels)).rates(setup.slot_s)):
        print(f"{slot * setup.slot_s:5.0f} {rate:6.1f}   {real[slot]:.0f} {means[slot]:6.1f} | "
              f"{told.replicas[slot, 0]} {told.responses[slot]:6.1f}")  # fmt: skip
    simulated, happened = float(np.mean(told.responses > BOUND)), float(np.mean(means > BOUND))
    mean = float(told.replicas[:, 0].mean())
    print(f"mean replicas: cluster {real.mean():.2f}, simulator {mean:.2f} (ratio {mean / real.mean():.2f}); slots "
          f"that broke the bound: cluster {happened:.1%}, simulator {simulated:.1%}; replicas differ by "
          f"{np.abs(real - told.replicas[:, 0]).mean():.2f} a slot")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="Leave everything in this new folder.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = asked.folder or Path(made)
        with start_cluster(folder / "cluster", [make_worker()]) as master:
            contest(make_setup(TRACE, master, find_page(folder / "cluster")), folder)


if __name__ == "__main__":
    main()
