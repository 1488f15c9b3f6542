"""Summarise a tuning run: its headline in sentences, its facts, its comparison with the baseline, JSON."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

from scaler.model.task import name_quantile
from scaler.model.units import (
    NONE,
    format_count,
    format_duration,
    format_fixed,
    format_moment,
    format_money,
    format_percentage,
    format_share,
)
from tuner.search.monitored_arrivals import describe_arrivals
from tuner.search.other_days import DAY_S, ENOUGH_DAYS
from tuner.store.runs import INTERRUPTED, find_state
from tuner.views.tuning import MEASURES, Figures, Point, Tuning, is_searched, number, rank, table, to_figures
from tuner.views.words import Column, format_ordinal, make_columns, to_finite

MONTH = 730.0  # hours
NO_ERROR = 1e-6  # of the cost: what is left of rounding where seeds say the same
STATES = {
    "running": "The run has not ended.",
    INTERRUPTED: "The run was interrupted, and goes on with: tuner tune {app} --resume",
    "stopped": "The run was stopped before its end.",
    "failed": "The run failed.",
}


def write_title(tuning: Tuning) -> str:
    return f"{tuning.application}: tuning run {format_ordinal(tuning.run)}"


def summarise(tuning: Tuning) -> list[str]:
    """The headline, a sentence each."""
    state = find_state(tuning.run, time.time())
    sentences = [STATES[state].format(app=shlex.quote(tuning.application))] if state in STATES else []
    if tuning.run.failure:
        sentences = [f"The run failed: {tuning.run.failure}"]
    if tuning.chosen is None or tuning.tuned is None:
        return [*sentences, *describe_infeasible(tuning)]
    return [
        *sentences,
        describe_chosen(tuning, tuning.chosen, tuning.tuned),
        *describe_saving(tuning),
        *describe_verification(tuning),
    ]


def describe_chosen(tuning: Tuning, chosen: Point, tuned: Figures) -> str:
    """What was recommended, and how far from its limits."""
    name = f"Trial {format_ordinal(chosen.trial)}"
    if tuning.objective is None:
        name = f"Nothing was recommended; of the feasible trials, {format_ordinal(chosen.trial)}"
    kept = compare_with_limits(tuning, tuned, " ({} allowed)")
    verb = "is recommended: it costs" if tuning.objective is not None else "costs least,"
    return f"{name} {verb} {format_cost(tuned)} per hour{', with ' if kept else ''}{' and '.join(kept)}."


def list_constraints(tuning: Tuning, figures: Figures) -> list[tuple[str, float | None, float | None]]:
    return [
        ("violations", figures.violations, tuning.limits.eta_v),
        ("reconfigurations", figures.reconfigurations, tuning.limits.eta_r),
    ]


def compare_with_limits(tuning: Tuning, figures: Figures, allowed: str) -> list[str]:
    """Each figure, and its limit where there is one."""
    return [
        f"{what} in {format_share(value)} of the slots{'' if limit is None else allowed.format(format_share(limit))}"
        for what, value, limit in list_constraints(tuning, figures)
        if value is not None
    ]


def describe_saving(tuning: Tuning) -> list[str]:
    """Money, against equal shares and weights."""
    before, after = tuning.compared
    if before is None or after is None or before.cost is None or after.cost is None:
        return []
    broken = [what for what, _ in list_broken(tuning, before)]
    but = f", which would break the limit of {' and of '.join(broken)}" if broken else ""
    saved = before.cost - after.cost
    if abs(saved) <= NO_ERROR * before.cost:
        return [f"On the slots of the search that is as much as equal shares and weights cost{but}."]
    part = f", {format_share(abs(saved) / before.cost)}" if before.cost > 0.0 else ""
    much = f"{format_money(abs(saved))} per hour{part} or {format_money(abs(saved) * MONTH, True)} a month"
    word = "less" if saved >= 0.0 else "more"
    beside = f"({format_cost(after)} instead of {format_cost(before)})"
    return [f"On the slots of the search it costs {much} {word} than equal shares and weights {beside}{but}."]


def list_broken(tuning: Tuning, figures: Figures) -> list[tuple[str, float]]:
    """Which limits these figures break, and by what value."""
    return [
        (what, value)
        for what, value, limit in list_constraints(tuning, figures)
        if value is not None and limit is not None and value > limit
    ]


def describe_verification(tuning: Tuning) -> list[str]:
    """How far the figures can be trusted: confidence, fresh seeds, the part held out."""
    if tuning.objective is None:
        return []
    evidence = tuning.objective.evidence
    sentences = []
    confidence = number(evidence, "confidence")
    if confidence is not None:
        sentences.append(f"Both limits are kept with a confidence of {format_share(confidence)}{limit_claim(tuning)}.")
    verified = table(evidence, "verified_on")
    seeds = verified.get("seeds")
    if isinstance(seeds, list) and seeds:
        slots = number(verified, "slots")
        over = "" if slots is None else f" over {slots:,.0f} slots"
        sentences.append(f"Verified{over} on {join_seeds(seeds)}, which the search had not seen.")
    held = table(evidence, "held_out")
    parts = [
        f"{'price' if name == 'cost' else name} {format_money(value) if name == 'cost' else format_share(value)}"
        for name in ("cost", "violations", "reconfigurations")
        if (value := number(held, name)) is not None
    ]
    if parts:
        sentences.append(f"On the part of the trace that was held out: {', '.join(parts)}.")
    return sentences


def limit_claim(tuning: Tuning) -> str:
    """What the confidence covers: chance by the seeds, and other days' arrivals only where enough days were seen."""
    verified = table({} if tuning.objective is None else tuning.objective.evidence, "verified_on")
    days = number(verified, "days")
    if days is None:  # of an earlier version, whose confidence did not cover other days
        return ""
    if days >= ENOUGH_DAYS:
        return f", on other days like the {days:.0f} replayed"
    return (
        f" on these arrivals; they are of {format_duration(days * DAY_S)}, too few to say it of other days "
        f"({ENOUGH_DAYS} are enough)"
    )


def join_seeds(seeds: list[Any]) -> str:
    """Few of them by number, many by how many they are."""
    if len(seeds) > 8:
        return format_count(len(seeds), "seed", "seeds")
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"


def describe_infeasible(tuning: Tuning) -> list[str]:
    """The trial that broke its limits least, and which limits to raise."""
    best = next(iter(rank(tuning.points)), None)
    if best is None:
        return ["Nothing feasible was found: no trial came to its end."]
    trial, figures = best.trial, to_figures(best)
    kept = compare_with_limits(tuning, figures, " where {} are allowed")
    nearest = f"Nothing feasible was found. Trial {format_ordinal(trial)} came nearest: {format_cost(figures)} per hour"
    sentences = [f"{nearest}{', with ' if kept else ''}{' and '.join(kept)}."]
    keys = {"violations": "eta_v", "reconfigurations": "eta_r"}
    needed = [f"{keys[what]} to {math.ceil(1000.0 * v) / 1000.0:g}" for what, v in list_broken(tuning, figures)]
    if needed:
        sentences.append(
            f"To make it feasible, raise {' and '.join(needed)}; or allow a longer R_max, more replicas (k_max) or a "
            "faster node type, or a larger budget of evaluations."
        )
    return sentences


def describe_run(tuning: Tuning) -> dict[str, str]:
    """What the run was to find, and how it searched."""
    run, limits, settings = tuning.run, tuning.limits, tuning.run.settings
    searched = [p for p in tuning.points if is_searched(p)]
    kinds = [f"{sum(p.kind == kind for p in searched):,} {kind}" for kind in ("feasible", "infeasible", "pruned")]
    failed = sum(p.kind == "failed" for p in searched)
    kinds += [f"{failed:,} failed"] if failed else []
    seeds = settings.get("seeds")
    first, evaluations = tuning.points[0].trial, format_count(run.budget, "evaluation", "evaluations")
    facts = {
        "response time": describe_bounds(tuning),
        "limits": ", ".join(
            f"{what} in at most {format_share(limit)} of the slots"
            for what, limit in (("violations", limits.eta_v), ("reconfigurations", limits.eta_r))
            if limit is not None
        ),
        "policy": str(settings.get("policy") or first.about.policy or ""),
        "trace": describe_trace(tuning) or first.trace or "",
        "engine": f"{run.engine}, seed {run.seed}",
        "budget": f"{evaluations}; {len(searched):,} done: {', '.join(kinds)}",
        "seeds": ", ".join(map(str, seeds)) if isinstance(seeds, list) else "",
        "surrogate": str(settings.get("surrogate_number") or ""),
        "when": describe_time(tuning),
    }
    return {key: value for key, value in facts.items() if value}


def describe_bounds(tuning: Tuning) -> str:
    limits = tuning.limits
    bounds = [] if limits.r_max is None else [f"at most {format_duration(limits.r_max)} on every path"]
    bounds += [f"at most {format_duration(bound)} on {path}" for path, bound in limits.paths.items()]
    said = "" if limits.quantile is None or not bounds else f"{name_quantile(limits.quantile)} "
    shared = limits.shared
    if limits.r_max is not None and shared is not None and shared < limits.r_max * (1.0 - 1e-9):
        took = format_duration(limits.r_max - shared)
        bounds.append(
            f"of it {took} go to triggers and scheduling, and operators' bounds share {format_duration(shared)}"
        )
    return said + "; ".join(bounds)


def describe_trace(tuning: Tuning) -> str:
    samples = tuning.run.settings.get("samples")
    if samples:
        return describe_arrivals(samples)
    trace = table(tuning.document, "trace")
    slots = number(trace, "slots")
    name = trace.get("file") or trace.get("generator")
    return "" if name is None else f"{name}{'' if slots is None else f', {slots:,.0f} slots'}"


def describe_time(tuning: Tuning) -> str:
    start, end = tuning.run.created, tuning.run.ended or max(p.trial.ended for p in tuning.points)
    began = format_moment(start, "minutes")
    return f"{began}, {format_duration(end - start)}" if end > start else began


def list_measures(tuning: Tuning, names: Iterable[str] = MEASURES) -> list[Column]:
    """Baseline beside tuned, on the same slots: a row per measure."""
    before, after = (figures or Figures() for figures in tuning.compared)
    return make_columns([*names], [
        ("", MEASURES.__getitem__, ""),
        ("equal shares", partial(format_measure, before), "equal shares and weights"),
        ("tuned", partial(format_measure, after), "what is recommended, on the same slots"),
        ("difference", partial(format_difference, before, after), "tuned less equal"),
    ])  # fmt: skip


def format_measure(figures: Figures, name: str) -> str:
    if name == "cost":
        return format_cost(figures)
    value = figures.measure(name)
    return format_fixed(value, 2) if name == "replicas" else format_percentage(value)


def format_difference(before: Figures, after: Figures, name: str) -> str:
    old, new = before.measure(name), after.measure(name)
    if old is None or new is None:
        return NONE
    if name in ("violations", "reconfigurations"):
        return f"{100.0 * (new - old):+.2f}"
    return f"{100.0 * (new / old - 1.0):+.1f} %" if old else f"{new - old:+.2f}"


def format_cost(figures: Figures) -> str:
    if figures.cost is None:
        return NONE
    error = figures.cost_error
    return format_money(figures.cost) + (
        f" ± {format_error(error)}" if error is not None and error > NO_ERROR * figures.cost else ""
    )


def format_error(error: float) -> str:
    """A standard error as money, in two digits below a cent."""
    return f"{error:.2g}" if error < 0.01 else format_money(error)


def describe_tuning(tuning: Tuning) -> dict[str, Any]:
    """As plain values for JSON."""
    run, chosen, objective = tuning.run, tuning.chosen, tuning.objective
    nearest = next(iter(rank(tuning.points)), None)
    return to_finite(
        {
            "application": tuning.application,
            "run": run.ordinal,
            "state": find_state(run, time.time()),
            "engine": run.engine,
            "seed": run.seed,
            "budget": run.budget,
            "trials": len(tuning.points),
            "qos": {name: getattr(tuning.limits, name) for name in ("r_max", "quantile", "eta_v", "eta_r")},
            "says": summarise(tuning),
            "feasible": chosen is not None,
            "recommended": objective is not None,
            "trial": None if chosen is None else chosen.trial.ordinal,
            "parameters": None if chosen is None else dict(chosen.trial.parameters),
            "nearest_trial": None if nearest is None or chosen is not None else nearest.trial.ordinal,
            "objective": None if objective is None else {"version": objective.version, "state": objective.state},
            "evidence": None if objective is None else {**objective.evidence, "run": run.ordinal},
            "slack": None if tuning.tuned is None else find_slack(tuning, tuning.tuned),
            "tuned": describe_figures(tuning.tuned),
            "baseline": describe_figures(tuning.baseline),
        }
    )


def find_slack(tuning: Tuning, figures: Figures) -> float | None:
    """The lesser of what both limits leave, as a part of them."""
    kept = [1.0 - v / limit for _, v, limit in list_constraints(tuning, figures) if v is not None and limit]
    return min(kept, default=None)


def describe_figures(figures: Figures | None) -> dict[str, Any] | None:
    return None if figures is None else {key: value for key, value in asdict(figures).items() if key != "shares"}
