"""`tuner lab reproduce thesis`: every run over seeds beside the published one, a verdict on every conclusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tuner.lab.paper import ClaimCheck, FigurePair, PaperOutcome
from tuner.lab.published.tables import run_jobs
from tuner.lab.study import Study
from tuner.lab.thesis.claims import Verdict, judge
from tuner.lab.thesis.experiments import (
    Key,
    Outcome,
    PublishedRun,
    Recipe,
    list_recipes,
    list_rivals,
    read_runs,
    replay_run,
)
from tuner.lab.thesis.plant import WORKLOADS, load_rates
from tuner.simulation.runner import OnShare

TITLE = "Auto-scaling techniques for Spark Streaming (Azimi Gehraz 2018), nine experiments"
NAMES = {
    "e1": "1 strategy", "e2": "2 window", "e3": "3 interval", "e4": "4 first values", "e5": "5 alpha",
    "e6": "6 latency step", "e7": "7 training", "e8": "8 target", "final": "9 overall",
}  # fmt: skip
SPREADS, SHARE = 2.0, 0.10  # a run agrees within so many deviations of one seed, or so much of itself
Outcomes = Mapping[Key, Sequence[Outcome]]
Job = tuple[Recipe, Path, int]


def reproduce_thesis(folder: Path, seeds: int, on_share: OnShare) -> PaperOutcome:
    """All nine experiments on the plant that the published runs show, then on one whose work depends on the rate."""
    for workload in WORKLOADS:
        load_rates(workload, folder)
    recipes = list_recipes() | list_rivals()
    here = {key: recipe for key, recipe in recipes.items() if key[0] in NAMES}
    there = {key: replace(recipe, depends_on_rate=True) for key, recipe in recipes.items()}
    wanted = list(dict.fromkeys([*here.values(), *there.values()]))
    replayed = run_jobs(replay_seeds, [(recipe, folder, seeds) for recipe in wanted], on_share)
    known = dict(zip(wanted, replayed, strict=True))
    outcomes = {key: known[recipe] for key, recipe in here.items()}
    others = {key: known[recipe] for key, recipe in there.items()}
    runs, distinct = read_runs(), distinct_runs(here)
    pairs = [pair for run in runs if run.key in distinct for pair in compare_run(run, outcomes[run.key])]
    return PaperOutcome(
        name="thesis",
        title=TITLE,
        pairs=tuple(pairs),
        claims=tuple(check_claim(verdict) for verdict in judge(outcomes)),
        remarks=(count_cells(runs, distinct, outcomes), *READINGS),
        studies=(tabulate_runs(runs, outcomes), tabulate_other_plant(others)),
    )


def replay_seeds(job: Job) -> list[Outcome]:
    """A run with so many seeds, from 0 on."""
    recipe, folder, seeds = job
    return [replay_run(recipe, folder, seed) for seed in range(seeds)]


def distinct_runs(recipes: Mapping[Key, Recipe]) -> set[Key]:
    """The first name of each run that several experiments share."""
    return set({recipe: key for key, recipe in reversed(list(recipes.items()))}.values())


def take(outcomes: Sequence[Outcome], measure: str) -> np.ndarray:
    return np.array([getattr(outcome, measure) for outcome in outcomes], np.float64)


def spread(values: np.ndarray) -> float:
    """Standard deviation of one seed."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def compare_run(run: PublishedRun, outcomes: Sequence[Outcome]) -> list[FigurePair]:
    """Mean latency and mean executors of a run beside ours."""
    figures = (("latency s", run.latency_mean_s, "latency_s"), ("executors", run.executors_mean, "executors"))
    found = []
    for measure, published, name in figures:
        ours = take(outcomes, name)
        allowed = max(SPREADS * spread(ours), SHARE * published)
        remark = f"above {place(published, ours):.0%} of our seeds"
        row = f"{run.workload.upper()} {run.run}"
        found.append(
            FigurePair(
                NAMES[run.experiment], row, measure, published, float(ours.mean()), spread(ours), allowed, remark
            )
        )
    return found


def place(published: float, ours: np.ndarray) -> float:
    """Share of our seeds below the published run, half of those that equal it."""
    return float((ours < published).mean() + (ours == published).mean() / 2.0)


def count_cells(runs: Sequence[PublishedRun], distinct: set[Key], outcomes: Outcomes) -> str:
    """How many distinct runs agree; OPO's two are shown and not counted."""
    verdicts = [
        [bool(pair.agrees) for pair in compare_run(run, outcomes[run.key])]
        for run in runs
        if run.key in distinct and run.run != "OPO"
    ]
    latency, executors, both = (sum(column) for column in zip(*((a, b, a and b) for a, b in verdicts), strict=True))
    return (
        f"Of {len(verdicts)} distinct runs without OPO {latency} agree in latency, {executors} in executors, {both} in "
        "both: within two standard deviations of one seed, or 10 %."
    )


def check_claim(verdict: Verdict) -> ClaimCheck:
    claim = verdict.claim
    seen = f"{verdict.more:.3g} against {verdict.less:.3g}, p {verdict.p:.2g}: {verdict.says}"
    said = f"{claim.says} ({claim.measure}: {claim.more} over {claim.less})"
    return ClaimCheck(f"{NAMES[claim.experiment]}, {verdict.workload.upper()}", said, seen, verdict.holds)


def tabulate_runs(runs: Sequence[PublishedRun], outcomes: Outcomes) -> Study:
    """Every published run under each of its names, with what is not judged."""
    rows: list[tuple[object, ...]] = []
    for run in runs:
        ours = outcomes[run.key]
        means = {name: float(take(ours, name).mean()) for name in ("late", "changes", "cost", "response_s")}
        rows.append(
            (
                f"{NAMES[run.experiment]}, {run.workload.upper()} {run.run}",
                *show_figure(run.latency_mean_s, take(ours, "latency_s")),
                *show_figure(run.executors_mean, take(ours, "executors")),
                f"{run.share_of_windows_above_30_s:.0%} / {means['late']:.0%}",
                f"{run.executor_changes} / {means['changes']:.0f}",
                round(means["cost"], 3),
                round(means["response_s"], 1),
            )
        )
    columns = (
        "run", "latency s published", "ours", "± one seed", "place", "executors published", "ours ",
        "± one seed ", "place ", "late published / ours", "changes published / ours", "cost", "response s",
    )  # fmt: skip
    return Study("thesis-runs", "Batches from their cut to their end; the response is of records", columns, rows)


def show_figure(published: float, ours: np.ndarray) -> tuple[float, float, float, str]:
    return published, round(float(ours.mean()), 1), round(spread(ours), 1), f"{place(published, ours):.0%}"


def tabulate_other_plant(outcomes: Outcomes) -> Study:
    """The same runs and other policies where work depends on the rate; nothing of it was published."""
    rows: list[tuple[object, ...]] = []
    for (experiment, workload, run), ours in outcomes.items():
        figures = [f"{take(ours, n).mean():.1f} ± {spread(take(ours, n)):.1f}" for n in ("latency_s", "executors")]
        means = [float(take(ours, name).mean()) for name in ("late", "changes", "cost")]
        label = f"{NAMES.get(experiment, experiment)}, {workload.upper()} {run}"
        rows.append((label, "-", *figures, f"{means[0]:.0%}", round(means[1]), round(means[2], 3)))
    rows.sort(key=lambda row: str(row[0]))
    columns = ("run", "published", "latency s", "executors", "late", "changes", "cost")
    return Study(
        "thesis-rate", "Ours: a plant whose work depends on the rate, 12 executors carry the peak", columns, rows
    )


READINGS = (
    "Published is one run each; a verdict on a claim is a paired test over our seeds, at p < .01.",
    "Training is on the other workload; the published ones are other parts of the same data.",
    "OPO's latency differs: here each of its changes costs the next batch seconds, and it decides after every batch.",
)
