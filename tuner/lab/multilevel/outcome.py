"""Verdicts on the paper: Tables 1 and 2, what stands beside them, and the claims of Figures 6 and 7."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from sim.estate_replay import EstateRun
from tuner.lab.multilevel.estate_rows import HEADROOM, ONE_IDLE, EstateRow, Runs, run_rows, simple_row
from tuner.lab.multilevel.printed_tables import IN_PER_CENT, MEASURES, STATIC, PublishedPool, learn_pool, read_tables
from tuner.lab.multilevel.wordcount import APPLICATION_POLICIES, SLOTS
from tuner.lab.paper import ClaimCheck, FigurePair, PaperOutcome, pair_figure
from tuner.simulation.runner import OnShare

ROUNDING, POINTS = 0.005, 0.06  # of a printed figure; what rules may differ by beside it
SHARES = {"replicas": 0.04, "nodes": 0.10, "reconfigurations": 0.15}  # that learners may differ by
MAGNITUDE = 10.0**0.5  # factor that learners' violations may differ by, up or down
WEIGHTS = (0.1, 0.3, 0.5, 0.7, 0.9)  # of refusals
FIRST_DAYS = 5
COURSE_DAYS = (1, 2, 3, 7, 14, 30, 69)
SETTLED_DAYS = slice(7, None)
SETTLED_SHARE = 0.15
BOTH_RL = EstateRow("RL", learn_pool(0.7))
RULES = EstateRow("threshold", STATIC)
REMARKS = (
    "The workload is the first 100,000 values of the taxi trace as tuples per second. The paper prints neither which "
    "operator runs in which region (here dc1, dc2, dc3, dc3), nor how many nodes its simple policy keeps idle (2), nor "
    "the rate levels and latency bounds of the operators' learners (10 levels up to 700, 11 ms).",
    "A replica that is removed is picked at random, as written. The printed nodes of learning pools mostly lie between "
    "that and removal that empties nodes; a remark says where.",
)


def reproduce_multilevel(folder: Path, seeds: int, on_share: OnShare) -> PaperOutcome:
    """Both tables, Figures 6 and 7, and headroom beside them."""
    return conclude(run_rows(folder, seeds, SLOTS, on_share))


def conclude(runs: Runs) -> PaperOutcome:
    pairs = (*judge_tables(runs), *show_beside(runs), *show_first_days(runs), *show_pool_costs(runs))
    claims = (*judge_pools(runs), *judge_weights(runs), *judge_courses(runs), *judge_headroom(runs))
    title = "Multi-level elasticity for wide-area data streaming systems (Russo Russo et al., 2018)"
    return PaperOutcome("multilevel", title, pairs, claims, REMARKS)


def take(runs: Sequence[EstateRun], measure: str) -> list[float]:
    """A measure of every run, in the tables' unit."""
    return [(100.0 if measure in IN_PER_CENT else 1.0) * getattr(run, measure) for run in runs]


def mean_of(runs: Runs, row: EstateRow, measure: str) -> float:
    return float(np.mean(take(runs[row], measure)))


def judge_tables(runs: Runs) -> Iterator[FigurePair]:
    """Every printed figure."""
    for published in read_tables():
        for measure in MEASURES:
            yield judge_cell(published, measure, runs)


def judge_cell(published: PublishedPool, measure: str, runs: Runs) -> FigurePair:
    """Rules agree within rounding and some points; learners by shares, their violations by order of magnitude."""
    printed: float = getattr(published, measure)
    row = EstateRow(published.application, published.choice)
    place = (published.table, published.row, measure + (" %" if measure in IN_PER_CENT else ""))
    ours = take(runs[row], measure)
    if not published.learns:
        return pair_figure(place, printed, ours, absolute=ROUNDING + POINTS)
    factor = MAGNITUDE if measure == "violations" else 1.0
    between = measure == "nodes" and published.pool == "RL" and lies_between(printed, row, runs)
    remark = "between random removal and removal that empties nodes" if between else ""
    return pair_figure(place, printed, ours, SHARES.get(measure, 0.0), ROUNDING, remark, factor)


def lies_between(printed: float, row: EstateRow, runs: Runs) -> bool:
    emptying = EstateRow(row.application, row.choice, empties=True)
    ends = sorted((mean_of(runs, row, "nodes"), mean_of(runs, emptying, "nodes")))
    return ends[0] <= printed <= ends[1]


def show_beside(runs: Runs) -> Iterator[FigurePair]:
    """What the paper does not print: refusals, headroom, one idle node, removal that empties nodes."""
    named = {HEADROOM: "headroom of one slot", ONE_IDLE: "one idle node"}
    named |= {one.choice: one.row.partition(" pool")[0] for one in read_tables()}
    for row, its in runs.items():
        name = f"{named[row.choice]} pool, {row.application}" + (", emptying" if row.empties else "")
        if row.empties or row.choice in (HEADROOM, ONE_IDLE):
            for measure in ("violations", "nodes"):
                unit = " %" if measure in IN_PER_CENT else ""
                yield pair_figure(("beside", name, measure + unit), None, take(its, measure))
        yield pair_figure(("beside", name, "slots with a refusal %"), None, [100.0 * run.short for run in its])


def daily(runs: Runs, row: EstateRow, measure: str) -> np.ndarray:
    """A measure by day, mean over seeds."""
    days: np.ndarray = np.mean([run.blocks[measure] for run in runs[row]], axis=0)
    return days


def show_first_days(runs: Runs) -> Iterator[FigurePair]:
    """Figure 6: violations in the first days, with and without learning."""
    for name, row in (("static pool, threshold", RULES), ("RL 0.7/0.3 pool, RL", BOTH_RL)):
        for day, share in enumerate(daily(runs, row, "violations")[:FIRST_DAYS], 1):
            yield pair_figure(("Figure 6", name, f"violations % on day {day}"), None, [100.0 * float(share)])


def show_pool_costs(runs: Runs) -> Iterator[FigurePair]:
    """Figure 7: the pools' mean cost since the start."""
    costs = daily(runs, BOTH_RL, "pool_cost")
    for day in COURSE_DAYS:
        if day <= len(costs):
            ours = [float(costs[:day].mean())]
            yield pair_figure(("Figure 7", "RL 0.7/0.3 pool, RL", f"mean pool cost after {day} days"), None, ours)


def judge_pools(runs: Runs) -> Iterator[ClaimCheck]:
    """What the text says of Table 1."""
    for application in APPLICATION_POLICIES:
        rows = EstateRow(application, STATIC), simple_row(application), EstateRow(application, learn_pool(0.7))
        static, simple, learned = (mean_of(runs, row, "nodes") for row in rows)
        seen = f"{static:.2f}, {simple:.2f}, {learned:.2f} nodes"
        claim = f"simple halves the static nodes, RL takes a third or less ({application})"
        yield ClaimCheck("Table 1", claim, seen, simple <= 0.55 * static and learned <= static / 3)
        refusals = sum(sum(run.refused.values()) for row in rows[:2] for run in runs[row])
        yield ClaimCheck("Table 1", f"static and simple refuse nothing ({application})", f"{refusals}", refusals == 0)
    changes = [mean_of(runs, EstateRow(one, STATIC), "reconfigurations") for one in ("threshold", "RL")]
    seen = "{:.2f} and {:.2f} % of the slots".format(*changes)
    claim = "RL at the application avoids the threshold policy's oscillation"
    yield ClaimCheck("Table 1", claim, seen, changes[1] < 0.5 * changes[0])


def judge_weights(runs: Runs) -> Iterator[ClaimCheck]:
    """The order of Table 2's rows."""
    for application in APPLICATION_POLICIES:
        late, nodes = (
            [mean_of(runs, EstateRow(application, learn_pool(weight)), measure) for weight in WEIGHTS]
            for measure in ("violations", "nodes")
        )
        seen = ", ".join(f"{one:.2f} %" for one in late)
        holds = all(one >= other - POINTS for one, other in pairwise(late))
        yield ClaimCheck("Table 2", f"violations fall with the weight of refusals ({application})", seen, holds)
        if application == "threshold":  # the printed nodes of the others are not in order
            seen = ", ".join(f"{one:.2f}" for one in nodes)
            holds = all(one < other for one, other in pairwise(nodes))
            yield ClaimCheck("Table 2", "nodes rise with the weight of refusals (threshold)", seen, holds)


def judge_courses(runs: Runs) -> Iterator[ClaimCheck]:
    """How long learning takes."""
    days = 100.0 * daily(runs, BOTH_RL, "violations")
    later = float(days[3 : FIRST_DAYS + 1].max()) if len(days) > 3 else float("nan")
    seen = f"{days[0]:.2f} % on day 1, at most {later:.2f} % on days 4 to 6"
    claim = "RL is not good at once, and is after two or three days"
    yield ClaimCheck("Figure 6", claim, seen, days[0] > 1.0 > later)
    costs = daily(runs, BOTH_RL, "pool_cost")
    second, settled = float(costs[1:7].mean()), float(costs[SETTLED_DAYS].mean())
    seen = f"{costs[0]:.3f} on day 1, {second:.3f} on days 2 to 7, {settled:.3f} later"
    holds = abs(second / settled - 1.0) <= SETTLED_SHARE
    yield ClaimCheck("Figure 7", "pools' cost does not change significantly after the first day", seen, holds)


def judge_headroom(runs: Runs) -> Iterator[ClaimCheck]:
    """Ours: slots kept free are cheaper than nodes kept empty."""
    for application in APPLICATION_POLICIES:
        row, simple = EstateRow(application, HEADROOM), simple_row(application)
        nodes = [mean_of(runs, one, "nodes") for one in (row, simple)]
        refusals = sum(sum(run.refused.values()) for run in runs[row])
        seen = "{:.2f} nodes against {:.2f}, {} refusals".format(*nodes, refusals)
        claim = f"headroom of one slot: at least 25 % fewer nodes than simple, nothing refused ({application})"
        yield ClaimCheck("beside", claim, seen, nodes[0] <= 0.75 * nodes[1] and refusals == 0)
