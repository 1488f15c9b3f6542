"""Verdicts on the paper: Table 1 row by row, and what the text says of it and of Figures 2a and 2b."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from tuner.lab.decentralised.chained_operators import YEAR
from tuner.lab.decentralised.control import KNOWN, LEARNED, PLANNED
from tuner.lab.decentralised.printed_table import MEASURES, PublishedControl, read_table_1
from tuner.lab.decentralised.years import (
    CENTRAL,
    DAYS,
    DECENTRAL,
    PIPELINES,
    TABLE_PIPELINE,
    TARGETS,
    ControlYear,
    Pipeline,
    list_control_jobs,
    run_control,
)
from tuner.lab.paper import ClaimCheck, FigurePair, PaperOutcome, pair_figure
from tuner.lab.published.tables import run_jobs
from tuner.simulation.runner import OnShare

COST_SHARE, COUNT_SHARE = 0.04, 0.15  # that costs and mean instances, and counts of slots, may differ by
MONTH = DAYS.index(30)
SLOWER = 1.25  # times the mean cost of RL+ that RL has after a month
TWICE = (1.5, 2.5)
KNOWS = {KNOWN: "utilisation known", LEARNED: "utilisation learned"}
Control = tuple[str, int, float]  # kind, what is known, target
Years = Mapping[tuple[Control, Pipeline], Sequence[ControlYear]]
REMARKS = (
    "T_SLA of 650 ms is less than the 944 ms that three operators serve a tuple for. Table 1 comes out with 1.9 s for "
    "the path, and Figure 2b is computed with .65 s an operator; why 1.9 s is not known.",
    "Levels are taken by floor, stand for their middle, and violations are judged in the slot after the decision. "
    "Whether the printed decentralised rows knew the utilisation is not said: both are computed.",
    "All policies run on levels drawn from the trace's transition matrix, as in the paper. The real trace is smoother.",
)


def reproduce_decentralised(folder: Path, seeds: int, on_share: OnShare) -> PaperOutcome:
    """Table 1, Figure 2a and Figure 2b over so many drawn years."""
    return conclude(run_years(folder, seeds, YEAR, on_share))


def run_years(folder: Path, seeds: int, slots: int, on_share: OnShare) -> Years:
    """Years of every decision maker on every pipeline, one a seed."""
    jobs = list_control_jobs(folder, seeds, slots)
    years: dict[tuple[Control, Pipeline], list[ControlYear]] = {}
    for job, found in zip(jobs, run_jobs(run_control, jobs, on_share), strict=True):
        for pipeline, year in found.items():
            years.setdefault(((job.kind, job.knows, job.target), pipeline), []).append(year)
    return years


def conclude(years: Years) -> PaperOutcome:
    pairs = (*judge_table(years), *show_learning(years), *show_sizes(years))
    claims = (*judge_order(years), judge_twice(years), *judge_speed(years), *judge_gap(years))
    title = "Decentralized auto-scaling policies (Russo Russo, 2018): Table 1, Figures 2a and 2b"
    return PaperOutcome("decentralised", title, pairs, claims, REMARKS)


def judge_table(years: Years) -> Iterator[FigurePair]:
    """Every printed figure; decentralised rows twice."""
    for published in read_table_1():
        every = tuple(KNOWS) if published.knows is None else (published.knows,)
        found = {knows: years[(published.kind, knows, published.target), TABLE_PIPELINE] for knows in every}
        for knows in every:
            for measure in MEASURES:
                yield judge_measure(published, measure, found, knows)


def judge_measure(
    published: PublishedControl, measure: str, found: Mapping[int, Sequence[ControlYear]], knows: int
) -> FigurePair:
    """One printed figure; said to be between ours where the two readings of a row enclose it."""
    printed: float = getattr(published, measure)
    ours = {one: [getattr(year, measure) for year in its] for one, its in found.items()}
    means = [float(np.mean(values)) for values in ours.values()]
    remark = "between utilisation known and learned" if min(means) <= printed <= max(means) else ""
    row = f"{published.row} ({KNOWS[knows]})" if len(found) > 1 else published.row
    share = COST_SHARE if measure in ("cost", "instances") else COUNT_SHARE
    return pair_figure(("Table 1", row, measure), printed, ours[knows], share, remark=remark)


SHOWN: dict[str, Control] = {
    "Centralized MDP": (CENTRAL, PLANNED, 0.0),
    "Centralized RL+": (CENTRAL, KNOWN, 0.0),
    "Centralized RL": (CENTRAL, LEARNED, 0.0),
    "Decentralized, target 0.7 (utilisation known)": (DECENTRAL, KNOWN, 0.7),
    "Decentralized, target 0.7 (utilisation learned)": (DECENTRAL, LEARNED, 0.7),
}


def show_learning(years: Years) -> Iterator[FigurePair]:
    """Figure 2a: mean cost since the start."""
    for row, chosen in SHOWN.items():
        for at, day in enumerate(DAYS):
            ours = [year.course[at] for year in years[chosen, TABLE_PIPELINE]]
            yield pair_figure(("Figure 2a", row, f"mean cost after {day} days"), None, ours)


def show_sizes(years: Years) -> Iterator[FigurePair]:
    """Figure 2b: mean cost by the number of operators."""
    for pipeline in PIPELINES:
        measure = f"mean cost, {pipeline[0]} operators"
        for row, chosen in {**SHOWN, "Decentralized, best of the targets": find_best(years, pipeline)}.items():
            if (chosen, pipeline) in years:
                ours = [year.cost for year in years[chosen, pipeline]]
                yield pair_figure(("Figure 2b", row, measure), None, ours)


def mean_cost(years: Years, chosen: Control, pipeline: Pipeline = TABLE_PIPELINE) -> float:
    return float(np.mean([year.cost for year in years[chosen, pipeline]]))


def find_best(years: Years, pipeline: Pipeline) -> Control:
    """The decentralised variant of least mean cost."""
    every: list[Control] = [(DECENTRAL, knows, target) for knows in KNOWS for target in TARGETS]
    return min(every, key=lambda chosen: mean_cost(years, chosen, pipeline))


def judge_order(years: Years) -> Iterator[ClaimCheck]:
    """The order of Table 1's rows by cost."""
    central: list[Control] = [(CENTRAL, knows, 0.0) for knows in (PLANNED, KNOWN, LEARNED)]
    for knows, note in KNOWS.items():
        costs = [mean_cost(years, one) for one in (*central, *((DECENTRAL, knows, u) for u in (0.7, 0.6, 0.8)))]
        holds = all(one <= other for one, other in pairwise(costs))
        seen = " ".join(f"{cost:.4f}" for cost in costs)
        yield ClaimCheck("Table 1", f"cost: MDP, RL+, RL, then targets .7, .6, .8 ({note})", seen, holds)


def judge_twice(years: Years) -> ClaimCheck:
    """Nobody coordinates decentralised changes."""
    many = [
        float(np.mean([year.reconfigurations for year in years[chosen, TABLE_PIPELINE]]))
        for chosen in ((CENTRAL, PLANNED, 0.0), (DECENTRAL, KNOWN, 0.7), (DECENTRAL, LEARNED, 0.7))
    ]
    ratios = [one / many[0] for one in many[1:]]
    seen = "{:.2f} and {:.2f} times the MDP's".format(*ratios)
    holds = all(TWICE[0] <= ratio <= TWICE[1] for ratio in ratios)
    return ClaimCheck("Table 1", "decentralised control reconfigures about twice as often", seen, holds)


def judge_speed(years: Years) -> Iterator[ClaimCheck]:
    """Who learns fast."""
    month, year = (
        {
            row: float(np.mean([one.course[at] for one in years[chosen, TABLE_PIPELINE]]))
            for row, chosen in SHOWN.items()
        }
        for at in (MONTH, len(DAYS) - 1)
    )
    ratio = month["Centralized RL"] / month["Centralized RL+"]
    seen = f"{ratio:.2f} times the mean cost of RL+ after 30 days"
    yield ClaimCheck("Figure 2a", "centralised RL without the model is much slower", seen, ratio >= SLOWER)
    others = {row: month[row] / year[row] for row in SHOWN if row != "Centralized RL"}
    seen = f"mean cost after 30 days at most {max(others.values()):.3f} times the year's"
    yield ClaimCheck(
        "Figure 2a", "all others converge at a similar speed", seen, max(others.values()) < 1.0 + COST_SHARE
    )


def judge_gap(years: Years) -> Iterator[ClaimCheck]:
    """Centralised planning against the best decentralised variant, by the number of operators."""
    planned: Control = (CENTRAL, PLANNED, 0.0)
    gaps = [
        mean_cost(years, find_best(years, pipeline), pipeline) / mean_cost(years, planned, pipeline) - 1.0
        for pipeline in PIPELINES
    ]
    seen = "gap of the best target " + ", ".join(f"{gap:.1%}" for gap in gaps) + " for 1 to 4 operators"
    yield ClaimCheck(
        "Figure 2b", "the gap to the MDP grows slightly with the operators", seen, gaps[-1] > gaps[0] > 0.0
    )
