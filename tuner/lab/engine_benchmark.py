"""Benchmark search engines: search every setting with each, and replay what it recommends with fresh seeds.

On published terms the baseline searches as its paper does: evaluations of the first 50,000 slots with one seed, and the
recommendation is the cheapest that was seen to be feasible. The others search as `tuner tune` does, with half as many
evaluations as the baseline took, and recommend what they have verified. On equal terms the baseline evaluates and
verifies as the others do, and these may replay as many slots as it did in all, looks and verifications included; on
half terms, half as many. The domain is always the same.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from sim.graphs import find_application
from sim.infrastructure import find_infrastructure
from sim.setting import Setting
from sim.trace import Trace, window
from tuner.scenario.layout import QoS
from tuner.search.engines import SearchProblem, Suggestion, find_engine
from tuner.search.evaluation import (
    EvaluationSpec,
    apply_parameters,
    average,
    count_replayed,
    evaluate_locally,
    replay_seeds,
)
from tuner.search.recommendation import PROVED, Verification, choose, list_candidates, needs_more, pick_next, verify
from tuner.search.search_plan import FIRST_VERIFICATION_SEED, HELD_OUT, SEEDS, SHORT_PART, VERIFICATION_SEEDS
from tuner.search.search_target import tighten
from tuner.search.space.space import EvaluationOutcome, History, Parameters, make_space, meets
from tuner.search.tuning_run import search
from tuner.simulation.workers import run_all

BASELINE = "skopt"
TERMS = ("published", "equal", "half")
SLOTS_SHARE = {"equal": 1.0, "half": 0.5}  # of the baseline's slots, that the others may replay
PAPER_SLOTS = 50_000
MAX_EVALUATIONS = 600  # of the baseline, which ends by itself long before, and of the others on equal terms
NO_BASELINE_EVALUATIONS = 60  # where there is none to go by
FINAL_SEEDS = 4  # of the replay that compares recommendations
FIRST_FINAL_SEED = 50_000  # the same for all engines, and no search's
RENAMED = {"cost": "price"}  # keys of older files


@dataclass(frozen=True, slots=True)
class EngineCell:
    """One setting and one seed of the searches."""

    application: str
    n_res: int
    r_max: float
    eta_v: float
    eta_r: float
    seed: int

    @property
    def setting(self) -> tuple[str, int, float, float, float]:
        return self.application, self.n_res, self.r_max, self.eta_v, self.eta_r


@dataclass(frozen=True, slots=True)
class Rules:
    """What is the same in all cells."""

    engines: tuple[str, ...]
    trace: Trace
    policy: str = "ql-pds-plus"
    k_max: int = 10
    highest_rate: float | None = None
    budget: int | None = None  # evaluations of the others; None: half the baseline's, or a share of its slots by terms
    terms: str = "published"


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What an engine recommended in a cell, as the judge saw it; NaN where it recommended nothing."""

    engine: str
    evaluations: int
    slots: int  # replayed in all, looks and verifications included
    asking_s: float
    seconds: float
    price: float  # per hour
    violations: float
    reconfigurations: float
    met: bool
    verification_slots: int = 0  # of `slots`


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a search may take."""

    evaluations: int
    slots: float = math.inf  # its verifications included


@dataclass(frozen=True, slots=True)
class EngineResults:
    """A cell and what every engine found there."""

    cell: EngineCell
    found: tuple[EngineResult, ...]


def list_cells(
    applications: Sequence[str], n_res: Sequence[int], r_max: Sequence[float], eta_v: Sequence[float],
    eta_r: Sequence[float], seeds: int,
) -> list[EngineCell]:  # fmt: skip
    """Every combination, seed by seed, so that what is there when one stops early covers all settings."""
    return [
        EngineCell(*setting, seed)
        for seed in range(seeds)
        for setting in product(applications, n_res, r_max, eta_v, eta_r)
    ]


def run_engine_benchmark(
    rules: Rules, cells: Sequence[EngineCell], on_done: Callable[[int], None], kept: Path | None = None
) -> list[EngineResults]:
    """All cells, on all cores; those in the file `kept` are not held again, and new ones are added to it at once."""
    known = {} if kept is None else load_results(kept, rules)
    missing = [cell for cell in cells if cell not in known]
    on_done(len(cells) - len(missing))

    def keep(i: int, match: EngineResults) -> None:
        known[match.cell] = match
        if kept is not None:
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"rules": describe(rules), **asdict(match)}) + "\n")
        on_done(len(cells) - sum(1 for cell in missing if cell not in known))

    run_all(run_cell, [(rules, cell) for cell in missing], keep)
    return [known[cell] for cell in cells]


def describe(rules: Rules) -> dict[str, Any]:
    rest = {key: value for key, value in asdict(replace(rules, trace=None)).items() if key != "trace"}  # type: ignore[arg-type]
    return {**rest, "engines": list(rules.engines), "trace": rules.trace.name, "slots": rules.trace.rates.size}


def load_results(path: Path, rules: Rules) -> dict[EngineCell, EngineResults]:
    """Matches of these very rules; a last line that was cut off is left out."""
    matches: dict[EngineCell, EngineResults] = {}
    if not path.exists():
        return matches
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row.pop("rules", None) == describe(rules):
            cell = EngineCell(**row["cell"])
            found = [{RENAMED.get(name, name): one[name] for name in one} for one in row["found"]]
            matches[cell] = EngineResults(cell, tuple(EngineResult(**one) for one in found))
    return matches


def run_cell(job: tuple[Rules, EngineCell]) -> EngineResults:
    rules, cell = job
    found: list[EngineResult] = []
    allowance = Allowance(rules.budget or NO_BASELINE_EVALUATIONS)
    for engine in sorted(rules.engines, key=lambda name: name != BASELINE):  # the others' allowance depends on it
        given = Allowance(MAX_EVALUATIONS) if engine == BASELINE else allowance
        found.append(run_engine(rules, cell, engine, given))
        if engine == BASELINE and rules.budget is None:
            allowance = find_allowance(rules, found[-1])
    return EngineResults(cell, tuple(found))


def find_allowance(rules: Rules, baseline: EngineResult) -> Allowance:
    """What the others may take beside what the baseline took."""
    if rules.terms == "published":
        return Allowance(math.ceil(baseline.evaluations / 2))
    return Allowance(MAX_EVALUATIONS, SLOTS_SHARE[rules.terms] * baseline.slots)


def run_engine(rules: Rules, cell: EngineCell, engine: str, allowance: Allowance) -> EngineResult:
    """One search, and the judge's replay of what it recommends."""
    began = time.perf_counter()
    setting, qos = make_setting(rules, cell), QoS(cell.r_max, cell.eta_v, cell.eta_r)
    space = make_space(setting.application, setting.infrastructure, qos)
    as_published = engine == BASELINE and rules.terms == "published"
    spec = (make_paper_evaluation if as_published else make_evaluation)(setting, qos, cell.seed)
    problem = SearchProblem(space, qos, allowance.evaluations)
    if rules.terms != "published":
        problem = tighten(problem, spec, VERIFICATION_SEEDS)
    asking, history, slots, verified = 0.0, [], 0, 0
    ask = find_engine(engine)
    most = allowance.slots - PROVED * VERIFICATION_SEEDS * setting.trace.rates.size  # of the search

    def timed(problem: SearchProblem, history: History, seed: int, count: int = 1) -> list[Suggestion]:
        nonlocal asking
        start = time.perf_counter()
        answer = ask(problem, history, seed, count)
        asking += time.perf_counter() - start
        return answer

    def is_affordable() -> bool:
        return slots + spec.short + spec.slots * len(spec.seeds) <= most

    for tried in search(timed, problem, spec, evaluate_locally, cell.seed, in_time=is_affordable):
        history.append(tried.outcome)
        slots += tried.slots
    if as_published or engine == "naive":
        best = find_lowest(history, qos)
    else:
        best, verified = recommend(setting, problem, history, cell.seed, allowance.slots - slots)
    seconds = time.perf_counter() - began
    judged: tuple[float, float, float, bool] = (math.nan, math.nan, math.nan, False)
    if best is not None:
        seen = replay_recommendation(setting, qos, best)
        judged = (seen.price, seen.violations, seen.reconfigurations, meets(seen, qos))
    return EngineResult(engine, len(history), slots + verified, asking, seconds, *judged, verified)


def make_setting(rules: Rules, cell: EngineCell) -> Setting:
    return Setting(
        application=find_application(cell.application, k_max=rules.k_max),
        infrastructure=find_infrastructure("A", cell.n_res),
        trace=rules.trace,
        policy=rules.policy,
        r_max=cell.r_max,
        highest_rate=rules.highest_rate if rules.highest_rate is not None else float(rules.trace.rates.max()),
        perturbed=True,
    )


def make_paper_evaluation(setting: Setting, qos: QoS, seed: int) -> EvaluationSpec:
    slots = min(PAPER_SLOTS, setting.trace.rates.size)
    return EvaluationSpec(replace(setting, trace=window(setting.trace, 0, slots)), qos, (seed,))


def make_evaluation(setting: Setting, qos: QoS, seed: int) -> EvaluationSpec:
    slots = count_searched(setting)
    searched = replace(setting, trace=window(setting.trace, 0, slots))
    return EvaluationSpec(searched, qos, tuple(SEEDS * seed + i for i in range(SEEDS)), slots // SHORT_PART)


def count_searched(setting: Setting) -> int:
    slots = setting.trace.rates.size
    return slots - int(HELD_OUT * slots)


def find_lowest(history: Sequence[EvaluationOutcome], qos: QoS) -> Parameters | None:
    """The cheapest that was seen to be feasible: what the paper does; the only one of the naive way, whatever it is."""
    feasible = [outcome for outcome in history if meets(outcome, qos)] or list(history[:1] if len(history) == 1 else [])
    return min(feasible, key=lambda outcome: outcome.price).parameters if feasible else None


def recommend(
    setting: Setting, problem: SearchProblem, history: Sequence[EvaluationOutcome], seed: int, most: float = math.inf
) -> tuple[Parameters | None, int]:
    """What `tuner tune` would recommend within `most` slots of verification, and the slots that these took."""
    proofs: dict[int, Verification] = {}
    seeds = [FIRST_VERIFICATION_SEED + VERIFICATION_SEEDS * seed + i for i in range(VERIFICATION_SEEDS)]
    held_out = setting.trace.rates.size - count_searched(setting)
    spec, taken = EvaluationSpec(setting, problem.qos, tuple(seeds)), 0
    candidates = list_candidates(problem.space, problem.target, history)
    while needs_more(list(proofs.values()), problem.qos) and taken + len(seeds) * spec.slots <= most:
        place = pick_next(candidates, history, proofs, problem.qos)
        if place is None:
            break
        proofs[place], runs = verify(spec, history[place].parameters, held_out)
        taken += count_replayed(runs)
    chosen = choose(list(proofs.values()), problem.qos)
    return None if chosen is None else history[list(proofs)[chosen]].parameters, taken


def replay_recommendation(setting: Setting, qos: QoS, parameters: Parameters) -> EvaluationOutcome:
    """A long replay with seeds that no search uses."""
    seeds = range(FIRST_FINAL_SEED, FIRST_FINAL_SEED + FINAL_SEEDS)
    spec = EvaluationSpec(setting, qos, tuple(seeds))
    return average(parameters, replay_seeds(apply_parameters(spec, parameters), list(seeds)), whole=True)
