"""Figures 20 to 22: whole applications, the naive baseline against Bayesian optimisation of bounds, weights or both.

Operators run QL+PDS+ on taxi. Every evaluation is the first 50,000 slots with one seed, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from sim.trace import Trace, window
from tuner.lab.engine_benchmark import EngineCell, Rules, make_paper_evaluation, make_setting
from tuner.lab.paper import ClaimCheck, PaperOutcome
from tuner.lab.published.figures import FigureRequest
from tuner.lab.published.tables import WORKLOADS, load_workload, run_jobs
from tuner.lab.study import Study
from tuner.scenario.layout import QoS
from tuner.search.engines import SearchProblem, naive, skopt
from tuner.search.evaluation import evaluate, evaluate_locally
from tuner.search.space.space import EvaluationOutcome, Parameters, gather, make_space, meets
from tuner.search.tuning_run import search

GRAPHS = ("pipeline", "diamond", "multi-sink")
TYPES = (1, 3)
R_MAX = (0.050, 0.040)
ETA_V, ETA_R = 0.05, 0.10
ETAS_V, ETAS_R = (0.01, 0.05, 0.10), (0.05, 0.10)
PAPER_N_BO = 25
ROUNDS = 4  # of the one search whose course is looked at
TWO_ROUNDS = 2 * sum(map(skopt.count_evaluations, range(2)))  # evaluations; each has a phase of bounds, one of weights
NEARLY = 0.02  # of the final value
DOUBLE = (1.5, 2.5)  # what "up to double" may be at the most
KEPT = {"baseline": (0.42, 0.15), "BO": (0.96, 0.06)}  # the published shares, and what ours may differ by


@dataclass(frozen=True, slots=True)
class SearchJob:
    """A setting, what is searched in it, and how long."""

    cell: EngineCell
    trace: Trace
    searched: str  # shares, weights or both
    budget: int
    done: tuple[EvaluationOutcome, ...] = ()  # of this very search with a smaller budget, the baseline's first


@dataclass(frozen=True, slots=True)
class Searched:
    """The naive baseline's outcome and those of the search, which begins with it."""

    cell: EngineCell
    outcomes: tuple[EvaluationOutcome, ...]

    @property
    def qos(self) -> QoS:
        return QoS(self.cell.r_max, self.cell.eta_v, self.cell.eta_r)

    @property
    def baseline(self) -> EvaluationOutcome:
        return self.outcomes[0]

    @property
    def best(self) -> EvaluationOutcome:
        """The lowest by what the paper minimises: money, and a penalty for each limit that is broken."""
        return min(self.outcomes, key=lambda outcome: skopt.penalise(outcome, self.qos))

    @property
    def ratio(self) -> float:
        """Money of the search's best over that of the baseline."""
        return self.best.price / self.baseline.price

    def keeps(self, outcome: EvaluationOutcome) -> bool:
        return meets(outcome, self.qos)


def run_search(job: SearchJob) -> Searched:
    """Evaluate the naive baseline, then search from it."""
    cell, qos = job.cell, QoS(job.cell.r_max, job.cell.eta_v, job.cell.eta_r)
    rules = Rules(("skopt",), job.trace, highest_rate=WORKLOADS["taxi"].highest_rate)
    setting = make_setting(rules, cell)
    problem = SearchProblem(make_space(setting.application, setting.infrastructure, qos), qos, job.budget)
    spec = make_paper_evaluation(setting, qos, cell.seed)
    start, *done = job.done or (evaluate(spec, naive.suggest(problem, (), cell.seed)[0].parameters).outcome,)
    if job.searched == "both":
        tried = search(skopt.suggest, problem, spec, evaluate_locally, cell.seed, done=done)
        return Searched(cell, (start, *done, *(one.outcome for one in tried)))

    def complete(point: np.ndarray) -> Parameters:
        if job.searched == "shares":
            return Parameters(tuple(map(float, point)), start.parameters.weights)
        return gather(np.array([start.parameters.shares]), point[None])[0]

    outcomes = improve_from(problem, job, start, lambda point: evaluate(spec, complete(point)).outcome)
    return Searched(cell, tuple(outcomes))


def improve_from(
    problem: SearchProblem, job: SearchJob, start: EvaluationOutcome, attempt: Callable[[np.ndarray], EvaluationOutcome]
) -> list[EvaluationOutcome]:
    """One phase of the paper's Algorithm 4 from the naive parameters: their outcome, and one for each evaluation."""
    domain = skopt.find_domain(problem.space, job.searched)
    w = start.parameters.weights
    naive_weights = (w.performance, w.reconfiguration, w.resources)
    points = [np.array(start.parameters.shares if job.searched == "shares" else naive_weights)]
    outcomes = [start]
    for number in range(job.budget):
        rng = np.random.default_rng([job.cell.seed, number])
        if len(points) < skopt.START[job.searched]:
            point = skopt.sample(domain, rng, 1)[0]
        else:
            values = np.array([skopt.penalise(outcome, problem.qos) for outcome in outcomes])
            point = skopt.improve(domain, np.array(points), values, rng)[0]
        points.append(point)
        outcomes.append(attempt(point))
    return outcomes


def run_searches(
    request: FigureRequest, cells: Sequence[tuple[str, int, float, float, float]], searched: str, budget: int
) -> list[Searched]:
    """One search a setting and seed, on all cores; each goes on where a shorter one of another figure ended."""
    trace = window(load_workload("taxi", request.folder), 0, 50_000)
    keys = [(searched, EngineCell(*cell, seed)) for cell in cells for seed in range(request.seeds)]
    jobs = [SearchJob(key[1], trace, searched, budget, request.known.get(key, ())[: budget + 1]) for key in keys]
    found = run_jobs(run_search, jobs, request.on_share)
    request.known.update((key, one.outcomes) for key, one in zip(keys, found, strict=True))
    return found


COLUMNS = (
    "application", "N_res", "R_max ms", "eta_V", "eta_R", "seed", "baseline price", "baseline keeps",
    "BO price", "BO keeps", "BO / baseline",
)  # fmt: skip


def tabulate(figure: str, title: str, found: Sequence[Searched]) -> Study:
    rows: list[tuple[object, ...]] = [
        (
            s.cell.application, s.cell.n_res, 1000.0 * s.cell.r_max, s.cell.eta_v, s.cell.eta_r, s.cell.seed,
            s.baseline.price, say(s.keeps(s.baseline)), s.best.price, say(s.keeps(s.best)), s.ratio,
        )
        for s in found
    ]  # fmt: skip
    return Study(figure, title, COLUMNS, rows)


def say(keeps: bool) -> str:
    return "yes" if keeps else "no"


def check_cheaper(part: str, found: Sequence[Searched]) -> ClaimCheck:
    """Whether the search saves money wherever the baseline keeps the limits, and keeps them where that does not."""
    better = [s.ratio < 1.0 if s.keeps(s.baseline) else s.ratio < 1.0 or s.keeps(s.best) for s in found]
    cheaper = sum(s.ratio < 1.0 for s in found)
    shown = f"better in {sum(better)} of {len(found)}, cheaper in {cheaper}; {mean_ratio(found):.3f} of the money"
    return ClaimCheck(
        part, "BO is cheaper, or keeps limits that the baseline breaks, in all settings", shown, all(better)
    )


def mean_ratio(found: Sequence[Searched]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean([np.log(s.ratio) for s in found])))


def figure_20(request: FigureRequest) -> PaperOutcome:
    """Latency bounds searched alone, weights fixed."""
    found = run_searches(request, list(product(GRAPHS, TYPES, R_MAX, (ETA_V,), (ETA_R,))), "shares", PAPER_N_BO)
    one, three = ([s for s in found if s.cell.n_res == n_res] for n_res in TYPES)
    claims = (
        check_cheaper("Figure 20", found),
        ClaimCheck(
            "Figure 20",
            "more is saved at N_res 1 than at N_res 3",
            f"{mean_ratio(one):.3f} and {mean_ratio(three):.3f} of the baseline's money",
            mean_ratio(one) < mean_ratio(three),
        ),
    )
    title = f"Latency bounds searched alone, weights 1/3 each (taxi, {PAPER_N_BO} evaluations)"
    return PaperOutcome("fig20", title, (), claims, (), (tabulate("fig20", title, found),))


def figure_21(request: FigureRequest) -> PaperOutcome:
    """Weights searched alone, bounds naive; the share of runs that keep both limits."""
    cells = list(product(GRAPHS, TYPES, (0.040,), ETAS_V, ETAS_R))
    found = run_searches(request, cells, "weights", PAPER_N_BO)
    both = [s for s in found if s.keeps(s.baseline) and s.keeps(s.best)]
    worst = max((1.0 / s.ratio for s in both), default=float("nan"))
    by_r, by_v = compare_limits(found, "eta_r"), compare_limits(found, "eta_v")
    claims = (
        ClaimCheck(
            "Figure 21",
            "the baseline costs up to double (1.5 to 2.5 times at the worst, where both keep the limits)",
            f"{worst:.2f} times at the worst, {1.0 / mean_ratio(both) if both else float('nan'):.2f} in the mean",
            DOUBLE[0] <= worst <= DOUBLE[1],
        ),
        *(
            ClaimCheck(
                "text",
                f"{who} keeps the limits in {published:.0%} of the runs (within {100 * allowed:.0f} points)",
                f"{share:.0%} of {len(found)}",
                abs(share - published) <= allowed,
            )
            for who, (published, allowed), share in (
                ("baseline", KEPT["baseline"], float(np.mean([s.keeps(s.baseline) for s in found]))),
                ("BO", KEPT["BO"], float(np.mean([s.keeps(s.best) for s in found]))),
            )
        ),
        ClaimCheck(
            "Figure 21", "a larger eta_R saves little (5 %)", f"saves {1.0 - by_r:.1%}", abs(1.0 - by_r) <= 0.05
        ),
        ClaimCheck("Figure 21", "a larger eta_V mostly saves", f"saves {1.0 - by_v:.1%}", by_v < min(1.0, by_r)),
    )
    title = f"Weights searched alone, bounds naive (taxi, R_max 40 ms, {PAPER_N_BO} evaluations)"
    return PaperOutcome("fig21", title, (), claims, (), (tabulate("fig21", title, found),))


def compare_limits(found: Sequence[Searched], limit: str) -> float:
    """Money at the widest of a limit over that at its narrowest, all else alike; geometric mean."""
    ends = min(getattr(s.cell, limit) for s in found), max(getattr(s.cell, limit) for s in found)
    groups: dict[tuple[object, ...], dict[float, float]] = {}
    for s in found:
        rest = tuple(
            getattr(s.cell, n) for n in ("application", "n_res", "r_max", "eta_v", "eta_r", "seed") if n != limit
        )
        if s.keeps(s.best):
            groups.setdefault(rest, {})[getattr(s.cell, limit)] = s.best.price
    ratios = [prices[ends[1]] / prices[ends[0]] for prices in groups.values() if set(ends) <= set(prices)]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")


def figure_22a(request: FigureRequest) -> PaperOutcome:
    """Bounds and weights searched in turn, by eta_V."""
    cells = list(product(GRAPHS, (3,), (0.040,), ETAS_V, (ETA_R,)))
    found = run_searches(request, cells, "both", 4 * PAPER_N_BO)
    kept = sum(s.keeps(s.best) for s in found)
    claims = (
        check_cheaper("Figure 22a", found),
        ClaimCheck("Figure 22a", "BO keeps both limits", f"{kept} of {len(found)}", kept == len(found)),
    )
    title = f"Bounds and weights searched in turn (taxi, N_res 3, R_max 40 ms, {4 * PAPER_N_BO} evaluations)"
    return PaperOutcome("fig22a", title, (), claims, (), (tabulate("fig22a", title, found),))


def figure_22b(request: FigureRequest) -> PaperOutcome:
    """The best value so far over the evaluations of Algorithm 4."""
    cells = [(graph, 3, 0.040, ETA_V, ETA_R) for graph in GRAPHS]
    found = run_searches(request, cells, "both", 2 * ROUNDS * PAPER_N_BO)
    rows: list[tuple[object, ...]] = []
    claims = []
    for s in found:
        values = np.minimum.accumulate([skopt.penalise(outcome, s.qos) for outcome in s.outcomes])
        after_two = float(values[min(TWO_ROUNDS, len(values) - 1)])
        rows += [(s.cell.application, s.cell.seed, n, float(values[n])) for n in range(0, len(values), PAPER_N_BO)]
        shown = f"{after_two:.4g} after two rounds, {values[-1]:.4g} after {len(values) - 1} evaluations"
        close = after_two <= (1.0 + NEARLY) * values[-1]
        part = f"{s.cell.application}, seed {s.cell.seed}"
        claims.append(ClaimCheck(part, "after two rounds the value is within 2 % of the final one", shown, bool(close)))
    title = "The candidate's value over the evaluations of Algorithm 4 (taxi, N_res 3, R_max 40 ms, eta 5 and 10 %)"
    study = Study("fig22b", title, ("application", "seed", "evaluations", "value"), rows)
    return PaperOutcome("fig22b", title, (), tuple(claims), (), (study,))
