"""Figures 12, 16 and 17: one operator under weights, under the rules of the literature, under all learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from scaler.model.kernel import Floats
from scaler.model.task import Weights
from tuner.lab.paper import ClaimCheck, PaperOutcome
from tuner.lab.published.figure_runs import (
    ACCEPTABLE,
    LEARNERS,
    NOT_RUN,
    RULES,
    RunJob,
    average_runs,
    make_taxi_setting,
)
from tuner.lab.published.figures import FigureRequest
from tuner.lab.published.tables import DEEP, CellComparison, reproduce_table, run_jobs, start_as_published
from tuner.lab.study import Study
from tuner.simulation.runner import OnShare

WEIGHTS = {"performance": 1, "reconfiguration": 2, "resources": 3}  # and the column of what each is the price of
WEIGHED = (0.2, 0.4, 0.6, 0.8)
SAME = 0.02  # relative difference below which two figures are the same
NODES = ("c", "s", "o")
SIZES = (3, 6, 10)
INFRASTRUCTURES = ("A", "B", "B2")
ALIKE = 2.2  # times the cheapest: on A, Table 2 prints QL+PDS+ at 2.1 times TB-C, and the text calls them alike
BREAKS = 0.5  # of slots: a bound that is broken in more of them is not kept
Costs = Mapping[tuple[str, str, int], Floats]  # by policy, infrastructure and N_res: the four measures


def figure_12(request: FigureRequest) -> PaperOutcome:
    """Violations, reconfigurations and resources of one operator as one of its weights grows."""
    setting = make_taxi_setting(request.folder, "QL+PDS+")
    jobs = [
        RunJob((name, weight), replace(setting, weights=spread_weights(name, weight)), tuple(range(request.seeds)))
        for name in WEIGHTS
        for weight in WEIGHED
    ]
    results = [result[0] for result in run_jobs(average_runs, jobs, request.on_share)]
    rows = [(*job.label, *list_measures(result)) for job, result in zip(jobs, results, strict=True)]
    claims = []
    for i, (name, column) in enumerate(WEIGHTS.items()):
        seen = [float(result[column]) for result in results[i * len(WEIGHED) : (i + 1) * len(WEIGHED)]]
        falls = all(later <= (1.0 + SAME) * earlier for earlier, later in pairwise(seen))
        measure = ("", "violations", "reconfigurations", "resources")[column]
        shown = ", ".join(f"{value:.3g}" for value in seen)
        claims.append(
            ClaimCheck(
                "Figure 12", f"{measure} fall as the weight of {name} grows", shown, falls and seen[-1] < seen[0]
            )
        )
    columns = ("weight of", "weight", *MEASURED)
    title = "One operator under different weights (taxi, A, N_res 3, K_max 10, QL+PDS+; the other two share the rest)"
    return PaperOutcome("fig12", title, (), tuple(claims), (), (Study("fig12", title, columns, rows),))


MEASURED = ("cost", "violations %", "reconfigurations %", "resources")


def list_measures(result: Floats) -> tuple[float, ...]:
    cost, violations, reconfigurations, resources = map(float, result)
    return cost, 100.0 * violations, 100.0 * reconfigurations, resources


def spread_weights(name: str, weight: float) -> Weights:
    """One weight, and half of the rest for each of the others."""
    return Weights(**{other: weight if other == name else (1.0 - weight) / 2.0 for other in WEIGHTS})


def figure_16(request: FigureRequest) -> PaperOutcome:
    """The four baselines with node choices C, S and O, and the learner, on A, B and B2."""
    policies = (*(f"{rule}-{node}" for rule in RULES for node in NODES), "QL+PDS", "QL+PDS+")
    labels = [(policy, part, n_res) for part in INFRASTRUCTURES for n_res in SIZES for policy in policies]
    jobs = [
        RunJob(
            label,
            start_as_published(make_taxi_setting(request.folder, *label), *label[1:]),
            tuple(range(request.seeds if label[0] == "QL+PDS+" else 1)),
        )
        for label in labels
    ]
    results = run_jobs(average_runs, jobs, request.on_share)
    costs = {label: result[0] for label, result in zip(labels, results, strict=True)}
    rows: list[tuple[object, ...]] = [(*label, *list_measures(result)) for label, result in costs.items()]
    title = "Threshold, DRS, Lohrmann and Heinze by node choice, and QL-PDS (taxi, K_max 10)"
    study = Study("fig16", title, ("policy", "infrastructure", "N_res", *MEASURED), rows)
    remarks = (
        "The text's QL-PDS costs what Table 2 prints of QL+PDS+, not of QL+PDS; claims are judged by the former.",
        f"Read as: alike, within {ALIKE:g} times the cheapest; acceptable, within {ACCEPTABLE:g} times the cheapest.",
    )
    return PaperOutcome("fig16", title, (), tuple(check_baselines(costs, policies)), remarks, (study,))


def check_baselines(costs: Costs, policies: Sequence[str]) -> list[ClaimCheck]:
    """The text's claims on each infrastructure and number of node types."""
    found = []
    for n_res in SIZES:
        on = {part: {p: float(costs[p, part, n_res][0]) for p in policies if p != "QL+PDS"} for part in INFRASTRUCTURES}
        part, dearer = f"A, N_res {n_res}", ("heinze-c", "lohrmann-c")
        rest = [cost for policy, cost in on["A"].items() if policy not in dearer]
        said = "all are alike but Heinze-C and Lohrmann-C, which are dearer than most"
        holds = max(rest) <= ALIKE * min(rest) and all(on["A"][p] > np.median(rest) for p in dearer)
        shown = f"{min(rest):.4f} to {max(rest):.4f}; {on['A']['heinze-c']:.4f}, {on['A']['lohrmann-c']:.4f}"
        found.append(ClaimCheck(part, said, shown, bool(holds)))
        found += [check_cheapest(f"{b}, N_res {n_res}", on[b]) for b in ("B", "B2")]
        late = float(costs["threshold-c", "B", n_res][1])
        part = f"B, N_res {n_res}"
        found.append(ClaimCheck(part, "Threshold-C fails the bound", f"{late:.0%} of slots late", late > BREAKS))
        median = float(np.median([cost for policy, cost in on["B"].items() if policy != "QL+PDS+"]))
        shown = f"{on['B']['threshold-s']:.4f}, median of the baselines {median:.4f}"
        said = "Threshold-S is acceptable (the cost of half the baselines' median at most)"
        found.append(ClaimCheck(part, said, shown, on["B"]["threshold-s"] <= median / ACCEPTABLE))
    return found


def check_cheapest(part: str, costs: Mapping[str, float]) -> ClaimCheck:
    """Whether the learner's cost is half of the next cheapest's at most, so that no other is acceptable."""
    mine = costs["QL+PDS+"]
    rival = min((policy for policy in costs if policy != "QL+PDS+"), key=lambda policy: costs[policy])
    shown = f"{mine:.4f}; {rival} {costs[rival]:.4f}"
    return ClaimCheck(part, "QL-PDS alone is acceptable", shown, ACCEPTABLE * mine <= costs[rival])


def figure_17(request: FigureRequest) -> PaperOutcome:
    """All learners at K_max 20: Tables 3 and 5 as bars."""
    policies = (*LEARNERS, "QL+FA", *(DEEP if request.deep else ()))
    cells: list[CellComparison] = []
    for half, table in enumerate((3, 5)):
        on_share = partial(share_half, request.on_share, half)
        cells += reproduce_table(table, request.folder, request.seeds, policies, True, on_share, request.known)
    rows: list[tuple[object, ...]] = [
        (c.cell.policy, c.cell.where, c.cost, 100.0 * c.violations, 100.0 * c.reconfigurations, c.resources)
        for c in cells
    ]
    title = "All learners at K_max 20 (Tables 3 and 5)"
    study = Study("fig17", title, ("policy", "cell", *MEASURED), rows)
    remarks = () if request.deep else (NOT_RUN.format(", ".join(DEEP)),)
    return PaperOutcome("fig17", title, (), tuple(check_learners(cells, request.deep)), remarks, (study,))


def share_half(on_share: OnShare, half: int, share: float) -> None:
    on_share((half + share) / 2.0)


GOOD = 0.05  # of slots late at most
PRINTED = 0.0005  # half of the last digit of a share


def check_learners(cells: Sequence[CellComparison], deep: bool) -> list[ClaimCheck]:
    """The text's claims on the learners."""

    def of(policy: str, *parts: str) -> list[CellComparison]:
        return [c for c in cells if c.cell.policy == policy and c.cell.infrastructure in (parts or ("A", "B"))]

    def most(policy: str, measure: str, *parts: str) -> float:
        return max(float(getattr(c, measure)) for c in of(policy, *parts))

    def below(says: str, policy: str, measure: str, limit: float, *parts: str) -> ClaimCheck:
        seen = most(policy, measure, *parts)
        return ClaimCheck("Figure 17", says, f"{seen:.2%} at most", seen <= limit + PRINTED)

    shallow = (*LEARNERS, "QL+FA")
    changes = {policy: float(np.mean([c.reconfigurations for c in of(policy)])) for policy in shallow}
    worse = [(q.cost, p.cost) for q, p in zip(of("QL", "B"), of("QL+PDS", "B"), strict=True)]
    found = [
        ClaimCheck(
            "Figure 17",
            "QL changes most of all",
            ", ".join(f"{policy} {share:.1%}" for policy, share in changes.items()),
            max(changes, key=lambda policy: changes[policy]) == "QL",
        ),
        below("on A, PDS keeps violations under .5 %", "QL+PDS", "violations", 0.005, "A"),
        below("on A, PDS changes in under 1 % of slots", "QL+PDS", "reconfigurations", 0.01, "A"),
        ClaimCheck(
            "Figure 17",
            "on B, PDS is worse than QL",
            f"dearer in {sum(p > q for q, p in worse)} of {len(worse)} cells",
            2 * sum(p > q for q, p in worse) > len(worse),
        ),
        below("PDS+ is good everywhere (late in 5 % of slots at most)", "QL+PDS+", "violations", GOOD),
        ClaimCheck(
            "Figure 17",
            "on B, QL+FA has up to 50 % violations (30 to 60 % at the worst)",
            f"{most('QL+FA', 'violations', 'B'):.1%} at most",
            0.3 <= most("QL+FA", "violations", "B") <= 0.6,
        ),
    ]
    if deep:
        found += [
            below("on A, DQL has under 1 % violations", "DQL", "violations", 0.01, "A"),
            below("on B, DQL has up to 9 % violations", "DQL", "violations", 0.09, "B"),
            below("DQL+PDS+ is good everywhere (late in 5 % of slots at most)", "DQL+PDS+", "violations", GOOD),
        ]
    return found
