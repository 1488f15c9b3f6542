"""Figures 23 to 25: cost over one run, alone and when rates or prices change half-way, beside dynamic programming.

DP plans once with the transitions of the history month, and keeps that plan whatever comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from scaler.model.kernel import Floats
from sim.setting import Setting
from tuner.lab.paper import ClaimCheck, PaperOutcome
from tuner.lab.published.figure_runs import ACCEPTABLE, NOT_RUN, RunJob, average_runs, make_taxi_setting
from tuner.lab.published.figures import FigureRequest
from tuner.lab.published.tables import DEEP, run_jobs
from tuner.lab.shifts import ShiftedWorld, double_rate, raise_prices_but_last
from tuner.lab.study import Study

PARTS = 8
BY_PART = tuple(f"eighth {i}" for i in range(1, PARTS + 1))
HALF = PARTS // 2
LAST = slice(PARTS - 2, PARTS)  # the last quarter, when a change is long past
TABLES = ("QL", "QL+PDS", "QL+PDS+")
NEAR = FAR = 2.0  # times DP: the text calls DQL+PDS close, which Table 2 prints at 1.8 times, and DQL, at 2.8, not
RULES = ("TB-C", "TB-S")
Courses = Mapping[str, Floats]  # by policy, the cost by part [PARTS]


def run_courses(request: FigureRequest, worlds: Mapping[str, ShiftedWorld]) -> dict[str, Floats]:
    """Mean cost by part of the run, policy by policy."""
    jobs = [
        RunJob((policy,), world.setting, take_seeds(policy, request.seeds), PARTS, world.shift)
        for policy, world in worlds.items()
    ]
    results = run_jobs(average_runs, jobs, request.on_share)
    return {policy: result[:, 0] for policy, result in zip(worlds, results, strict=True)}


def take_seeds(policy: str, seeds: int) -> tuple[int, ...]:
    """One where nothing is left to chance."""
    return tuple(range(1 if policy in (*RULES, "DP", "QL+PDS") else seeds))


def figure_23(request: FigureRequest) -> PaperOutcome:
    """The average cost so far over one run."""
    policies = ("DP", *TABLES, "QL+FA", *(DEEP if request.deep else ()))
    worlds = {policy: ShiftedWorld(make_taxi_setting(request.folder, policy)) for policy in policies}
    courses = run_courses(request, worlds)
    so_far = {policy: np.cumsum(costs) / np.arange(1, PARTS + 1) for policy, costs in courses.items()}
    title = "Average cost so far over one run (taxi, A, N_res 3, K_max 10)"
    least = float(so_far["DP"][-1])
    claims = [
        check_more(
            f"QL stays far from DP to the end ({FAR:g} times it)", courses["QL"][LAST], FAR, courses["DP"][LAST]
        ),
        *(
            ClaimCheck(
                "Figure 23",
                f"{policy} starts better than QL",
                f"{so_far[policy][0]:.4f} against {so_far['QL'][0]:.4f} in the first eighth",
                bool(so_far[policy][0] < so_far["QL"][0]),
            )
            for policy in TABLES[1:]
        ),
        *(
            check_less(
                f"{policy} comes close to DP ({NEAR:g} times it)", courses[policy][LAST], NEAR, courses["DP"][LAST]
            )
            for policy in ("QL+FA", *DEEP[1:])
            if policy in courses
        ),
    ]
    if request.deep:
        claims.append(check_more("DQL does not come close", courses["DQL"][LAST], NEAR, courses["DP"][LAST]))
    remarks = (f"DP over the whole run: {least:.4f}.", *say_not_run(request))
    return PaperOutcome("fig23", title, (), tuple(claims), remarks, (tabulate("fig23", title, so_far),))


def say_not_run(request: FigureRequest) -> tuple[str, ...]:
    return () if request.deep else (NOT_RUN.format(", ".join(DEEP)),)


def tabulate(figure: str, title: str, courses: Courses) -> Study:
    return Study(figure, title, ("policy", *BY_PART), [(policy, *map(float, c)) for policy, c in courses.items()])


def check_more(claim: str, ours: Floats, factor: float, other: Floats) -> ClaimCheck:
    """Whether one mean is at least so many times another; the part of the paper is added by the caller's claim."""
    shown = f"{ours.mean():.4f} against {other.mean():.4f}"
    return ClaimCheck("last quarter", claim, shown, bool(ours.mean() >= factor * other.mean()))


def check_less(claim: str, ours: Floats, factor: float, other: Floats) -> ClaimCheck:
    """Whether one mean is at most so many times another."""
    return replace(check_more(claim, ours, factor, other), holds=bool(ours.mean() <= factor * other.mean()))


def figure_24(request: FigureRequest) -> PaperOutcome:
    """The rate doubles half-way; rate levels stay as they were, since nobody knew."""

    def change(setting: Setting) -> ShiftedWorld:
        return ShiftedWorld(replace(double_rate(setting).setting, highest_rate=setting.highest_rate))

    policies = ("DP", *RULES, *TABLES, "QL+FA", *(DEEP if request.deep else ()))
    worlds = {policy: change(make_taxi_setting(request.folder, policy)) for policy in policies}
    courses = run_courses(request, worlds)
    title = "The rate doubles half-way (taxi, A, N_res 3, K_max 10)"
    before = {policy: float(costs[:HALF].mean()) for policy, costs in courses.items()}
    after = {policy: float(costs[LAST].mean()) for policy, costs in courses.items()}
    dearest = max(after, key=lambda policy: after[policy])
    claims = [
        ClaimCheck("before", "DP is the cheapest", show_costs(before), min(before, key=before.__getitem__) == "DP"),
        ClaimCheck("last quarter", "DP is the dearest", show_costs(after), dearest == "DP"),
        check_acceptable("thresholds stay acceptable", after, RULES),
        check_acceptable("learners with a model of post-decision states stay acceptable", after, TABLES[1:]),
    ]
    study = tabulate("fig24", title, courses)
    return PaperOutcome("fig24", title, (), tuple(claims), say_not_run(request), (study,))


def figure_25(request: FigureRequest) -> PaperOutcome:
    """Every price but the last type's rises a hundredfold half-way."""
    policies = ("DP", *RULES, *TABLES, "QL+FA", *(DEEP if request.deep else ()))
    worlds = {policy: raise_prices_but_last(make_taxi_setting(request.folder, policy)) for policy in policies}
    courses = run_courses(request, worlds)
    title = "Every price but the last type's rises a hundredfold half-way (taxi, A, N_res 3, K_max 10; C_max as before)"
    after = {policy: float(costs[LAST].mean()) for policy, costs in courses.items()}
    least = min(after.values())
    claims = [
        *(
            ClaimCheck(
                "last quarter",
                f"{policy} is unacceptable (more than {ACCEPTABLE:g} times the cheapest)",
                f"{after[policy]:.4f} against {least:.4f}",
                after[policy] > ACCEPTABLE * least,
            )
            for policy in ("DP", *RULES)
        ),
        check_below("RL adapts: it is cheaper than DP and thresholds", after, TABLES[1:], ("DP", *RULES)),
        check_acceptable("RL adapts: with post-decision states it is acceptable", after, TABLES[1:]),
    ]
    study = tabulate("fig25", title, courses)
    return PaperOutcome("fig25", title, (), tuple(claims), say_not_run(request), (study,))


def check_below(claim: str, costs: Mapping[str, float], policies: Sequence[str], others: Sequence[str]) -> ClaimCheck:
    """Whether each of some policies costs less than every one of others."""
    shown = ", ".join(f"{policy} {costs[policy]:.4f}" for policy in (*policies, *others))
    dearest, least = max(costs[policy] for policy in policies), min(costs[policy] for policy in others)
    return ClaimCheck("last quarter", claim, shown, dearest < least)


def check_acceptable(claim: str, costs: Mapping[str, float], policies: Sequence[str]) -> ClaimCheck:
    """Whether all of some policies cost at most so many times the cheapest of all."""
    least = min(costs.values())
    shown = ", ".join(f"{policy} {costs[policy] / least:.2f}" for policy in policies) + " times the cheapest"
    return ClaimCheck("last quarter", claim, shown, all(costs[policy] <= ACCEPTABLE * least for policy in policies))


def show_costs(costs: Mapping[str, float]) -> str:
    return ", ".join(f"{policy} {cost:.4f}" for policy, cost in costs.items())
