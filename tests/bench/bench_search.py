"""Where the time of a search goes: the seconds of each part of a fresh process that searches.

python -m tests.bench.bench_search [--slots 50000]

Printed are whole searches of the pipeline (R_max 40 ms, three node types), start-up included, and what one suggestion
takes at 100 trials of 10 variables. Slots come from a generator; each evaluation is one seed over all of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from itertools import pairwise

SEARCHES = {"gp": 60, "skopt": 1000, "optuna": 60, "random": 60}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=50_000)
    parser.add_argument("--one", metavar="ENGINE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(search_once(given.one, given.slots)))
        return
    heads = ("evaluations", "whole s", "start-up", "asking", "replays", "ms a suggestion")
    print(f"{'engine':<8} " + " ".join(f"{head:>11}" for head in heads))
    for engine in SEARCHES:
        began = time.perf_counter()
        command = [sys.executable, "-m", "tests.bench.bench_search", "--one", engine, "--slots", str(given.slots)]
        parts = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        whole = time.perf_counter() - began
        rest = whole - parts["asking"] - parts["replays"]
        shares = " ".join(f"{part / whole:>11.0%}" for part in (rest, parts["asking"], parts["replays"]))
        each = 1000.0 * parts["asking"] / parts["evaluations"]
        print(f"{engine:<8} {parts['evaluations']:>11} {whole:>11.1f} {shares} {each:>11.0f}")
    print(f"gp, 100 trials, 10 variables: {time_suggestion():.0f} ms a suggestion")


def search_once(engine: str, slots: int) -> dict[str, float]:
    from sim.arrivals import generate
    from sim.graphs import find_application
    from sim.infrastructure import find_infrastructure
    from sim.setting import Setting
    from tuner.scenario.layout import QoS
    from tuner.search.engines import SearchProblem, find_engine
    from tuner.search.evaluation import EvaluationSpec, evaluate
    from tuner.search.space.space import EvaluationOutcome, make_space

    trace = generate("diurnal", low=50.0, high=600.0, slots=slots, seed=0, noise=50.0)
    qos = QoS(0.04)
    setting = Setting(find_application("pipeline"), find_infrastructure("A", 3), trace, "ql-pds-plus", qos.r_max)
    spec = EvaluationSpec(setting, qos, (0,))
    problem = SearchProblem(make_space(setting.application, setting.infrastructure, qos), qos, SEARCHES[engine])
    ask, history, asking, replays = find_engine(engine), list[EvaluationOutcome](), 0.0, 0.0
    while len(history) < problem.budget:
        began = time.perf_counter()
        suggestions = ask(problem, history, 0)
        asked = time.perf_counter()
        asking += asked - began
        if not suggestions:
            break
        outcome = evaluate(spec, suggestions[0].parameters).outcome
        replays += time.perf_counter() - asked
        history.append(note(outcome, suggestions[0].note))
    return {"evaluations": len(history), "asking": asking, "replays": replays}


def note(outcome, memory):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    return replace(outcome, note=memory)


def time_suggestion(trials: int = 100, repeats: int = 10) -> float:
    """Milliseconds: eight operators and two weights, from where the last suggestion left its processes."""
    import numpy as np

    from scaler.model.task import Moments
    from sim.application import Application, Edge, Operator
    from sim.infrastructure import find_infrastructure
    from tuner.scenario.layout import QoS
    from tuner.search.engines import SearchProblem, find_engine
    from tuner.search.space.space import EvaluationOutcome, from_cube, make_space

    names = [f"op{i}" for i in range(8)]
    operators = tuple(Operator(name, Moments(0.002, 4e-6)) for name in names)
    edges = tuple(Edge(a, b) for a, b in pairwise(names))
    qos = QoS(0.05)
    space = make_space(Application(operators, edges), find_infrastructure("A", 3), qos)
    rng = np.random.default_rng(0)
    history = [
        EvaluationOutcome(one, 10.0 + 5.0 * sum(x * x for x in one.shares), 0.1 * one.weights.resources, 0.01)
        for one in from_cube(space, rng.random((trials, space.size)))
    ]
    ask, problem = find_engine("gp"), SearchProblem(space, qos, 400)
    history[-1] = note(history[-1], ask(problem, history[:-1], 0)[0].note)
    began = time.perf_counter()
    for seed in range(repeats):
        ask(problem, history, seed)
    return 1000.0 * (time.perf_counter() - began) / repeats


if __name__ == "__main__":
    main()
