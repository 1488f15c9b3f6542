"""A tuning run's report in; its headline, its facts and its comparison with the baseline, in words and as JSON, out."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tuner.views.comparison_table import Column
from tuner.views.html_page import count
from tuner.views.tuning import Figures, Point, Tuning, is_searched, number, rank, table

MONTH = 730.0  # hours
NONE = "-"
STATES = {
    "running": "The run has not ended.",
    "stopped": "The run was stopped before its end.",
    "failed": "The run failed.",
}


def say_title(tuning: Tuning) -> str:
    return f"{tuning.application}: tuning run {tuning.run.id}"


def say_found(tuning: Tuning) -> list[str]:
    """The headline, a sentence each."""
    said = [STATES[tuning.run.state]] if tuning.run.state in STATES else []
    if tuning.run.failure:
        said = [f"The run failed: {tuning.run.failure}"]
    if tuning.chosen is None or tuning.tuned is None:
        return [*said, *say_nothing_feasible(tuning)]
    return [*said, say_chosen(tuning, tuning.chosen, tuning.tuned), *say_saving(tuning), *say_proof(tuning)]


def say_chosen(tuning: Tuning, chosen: Point, tuned: Figures) -> str:
    """What was recommended, and how far from its limits."""
    name = f"Trial {chosen.trial.number}"
    if tuning.objective is None:
        name = f"Nothing was recommended; of the feasible trials, number {chosen.trial.number}"
    kept = [
        f"{what} in {percent(value)} of the slots{f' ({percent(limit)} allowed)' if limit is not None else ''}"
        for what, value, limit in list_constraints(tuning, tuned)
        if value is not None
    ]
    verb = "is recommended: it costs" if tuning.objective is not None else "costs least,"
    return f"{name} {verb} {say_cost(tuned)} per hour{', with ' if kept else ''}{' and '.join(kept)}."


def list_constraints(tuning: Tuning, figures: Figures) -> list[tuple[str, float | None, float | None]]:
    return [
        ("violations", figures.violations, tuning.limits.eta_v),
        ("reconfigurations", figures.reconfigurations, tuning.limits.eta_r),
    ]


def say_saving(tuning: Tuning) -> list[str]:
    """Money, against equal shares and weights."""
    before, after = tuning.baseline, tuning.tuned
    if before is None or after is None or before.cost is None or after.cost is None:
        return []
    broken = list_broken(tuning, before)
    but = f", which would break the limit of {' and of '.join(broken)}" if broken else ""
    saved = before.cost - after.cost
    part = f", {percent(abs(saved) / before.cost)}" if before.cost > 0.0 else ""
    much = f"{money(abs(saved))} per hour{part} or {money(abs(saved) * MONTH, True)} a month"
    word = "less" if saved >= 0.0 else "more"
    return [f"That is {much} {word} than equal shares and weights ({say_cost(before)}){but}."]


def list_broken(tuning: Tuning, figures: Figures) -> list[str]:
    return [
        what
        for what, value, limit in list_constraints(tuning, figures)
        if value is not None and limit is not None and value > limit
    ]


def say_proof(tuning: Tuning) -> list[str]:
    """How far the figures can be trusted: confidence, fresh seeds, the part held out."""
    if tuning.objective is None:
        return []
    evidence = tuning.objective.evidence
    said = []
    confidence = number(evidence, "confidence")
    if confidence is not None:
        said.append(f"Both limits are kept with a confidence of {percent(confidence)}.")
    verified = table(evidence, "verified_on")
    seeds = verified.get("seeds")
    if isinstance(seeds, list) and seeds:
        slots = number(verified, "slots")
        over = "" if slots is None else f" over {slots:,.0f} slots"
        said.append(f"Verified{over} on {say_seeds(seeds)}, which the search had not seen.")
    held = table(evidence, "held_out")
    figures = {key: number(held, key) for key in ("cost", "violations", "reconfigurations")}
    if any(value is not None for value in figures.values()):
        told = [
            f"{name} {money(value) if name == 'cost' else percent(value)}"
            for name, value in figures.items()
            if value is not None
        ]
        said.append(f"On the part of the trace that was held out: {', '.join(told)}.")
    return said


def say_seeds(seeds: list[Any]) -> str:
    """Few of them by number, many by how many they are."""
    if len(seeds) > 8:
        return count(len(seeds), "seed", "seeds")
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"


def say_nothing_feasible(tuning: Tuning) -> list[str]:
    """The trial that broke least, and what would have to give."""
    best = next(iter(rank(tuning.points)), None)
    if best is None:
        return ["Nothing feasible was found: no trial came to its end."]
    trial = best.trial
    figures = Figures(trial.cost, trial.violations, trial.reconfigurations, trial.cost_error)
    told = [
        f"{what} in {percent(value)} of the slots{f' where {percent(limit)} are allowed' if limit is not None else ''}"
        for what, value, limit in list_constraints(tuning, figures)
        if value is not None
    ]
    nearest = f"Nothing feasible was found. Trial {trial.number} came nearest: {say_cost(figures)} per hour"
    said = [f"{nearest}{', with ' if told else ''}{' and '.join(told)}."]
    gives = {"violations": "eta_v", "reconfigurations": "eta_r"}
    needed = [
        f"{gives[what]} to {math.ceil(1000.0 * value) / 1000.0:g}"
        for what, value, limit in list_constraints(tuning, figures)
        if value is not None and limit is not None and value > limit
    ]
    if needed:
        said.append(
            f"To make it feasible, raise {' and '.join(needed)}; or allow a longer R_max, more replicas (k_max) or a "
            "faster node type, or a larger budget of evaluations."
        )
    return said


def list_facts(tuning: Tuning) -> dict[str, str]:
    """What was asked."""
    run, limits, settings = tuning.run, tuning.limits, tuning.run.settings
    searched = [p for p in tuning.points if is_searched(p)]
    kinds = [f"{sum(p.kind == kind for p in searched):,} {kind}" for kind in ("feasible", "infeasible", "pruned")]
    failed = sum(p.kind == "failed" for p in searched)
    kinds += [f"{failed:,} failed"] if failed else []
    seeds = settings.get("seeds")
    first = tuning.points[0].trial
    facts = {
        "response time": say_response(tuning),
        "limits": ", ".join(
            f"{what} in at most {percent(limit)} of the slots"
            for what, limit in (("violations", limits.eta_v), ("reconfigurations", limits.eta_r))
            if limit is not None
        ),
        "policy": say_policy(tuning),
        "trace": say_trace(tuning) or first.trace or "",
        "engine": f"{run.engine}, seed {run.seed}",
        "budget": f"{count(run.budget, 'evaluation', 'evaluations')}; {len(searched):,} done: {', '.join(kinds)}",
        "seeds": ", ".join(map(str, seeds)) if isinstance(seeds, list) else "",
        "surrogate": str(settings.get("surrogate_id") or first.surrogate_id or ""),
        "when": say_when(tuning),
    }
    return {key: value for key, value in facts.items() if value}


def say_response(tuning: Tuning) -> str:
    limits = tuning.limits
    said = [] if limits.r_max is None else [f"at most {milliseconds(limits.r_max)} on every path"]
    said += [f"at most {milliseconds(bound)} on {path}" for path, bound in limits.paths.items()]
    return "; ".join(said)


def say_policy(tuning: Tuning) -> str:
    named = tuning.run.settings.get("policy")
    return str(named or tuning.points[0].trial.detail.get("policy") or "")


def say_trace(tuning: Tuning) -> str:
    trace = table(tuning.document, "trace")
    slots = number(trace, "slots")
    name = trace.get("file") or trace.get("generator")
    return "" if name is None else f"{name}{'' if slots is None else f', {slots:,.0f} slots'}"


def say_when(tuning: Tuning) -> str:
    start, end = tuning.run.created, tuning.run.ended or max(p.trial.ended for p in tuning.points)
    began = f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d %H:%M} UTC"
    return f"{began}, {say_duration(end - start)}" if end > start else began


def say_duration(seconds: float) -> str:
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def list_measures(tuning: Tuning) -> list[Column]:
    """Baseline beside tuned: a row per measure."""
    before, after = tuning.baseline, tuning.tuned
    rows = [("cost per hour", cell(before, say_cost), cell(after, say_cost), differ(tuning, "cost"))]
    for name in ("violations", "reconfigurations"):
        rows.append((f"{name}, % of slots", say_share(before, name), say_share(after, name), differ(tuning, name)))
    rows.append(("replicas", say_replicas(before), say_replicas(after), differ(tuning, "replicas")))
    heads = ("", "equal shares", "tuned", "difference")
    readings = ("", "equal shares and weights", "what is recommended", "tuned less equal")
    return [
        Column(head, tuple(row[i] for row in rows), reading)
        for i, (head, reading) in enumerate(zip(heads, readings, strict=True))
    ]


def cell(figures: Figures | None, say: Callable[[Figures], str]) -> str:
    return NONE if figures is None else say(figures)


def say_share(figures: Figures | None, name: str) -> str:
    value = measure(figures, name)
    return NONE if value is None else f"{100.0 * value:.2f}"


def say_replicas(figures: Figures | None) -> str:
    value = measure(figures, "replicas")
    return NONE if value is None else f"{value:.2f}"


def measure(figures: Figures | None, name: str) -> float | None:
    if figures is None:
        return None
    if name == "replicas":
        return sum(sum(by.values()) for by in figures.replicas.values()) if figures.replicas else None
    value: float | None = getattr(figures, name)
    return value


def differ(tuning: Tuning, name: str) -> str:
    before, after = measure(tuning.baseline, name), measure(tuning.tuned, name)
    if before is None or after is None:
        return NONE
    if name in ("violations", "reconfigurations"):
        return f"{100.0 * (after - before):+.2f}"
    return f"{100.0 * (after / before - 1.0):+.1f} %" if before else f"{after - before:+.2f}"


def say_cost(figures: Figures) -> str:
    if figures.cost is None:
        return NONE
    error = figures.cost_error
    return money(figures.cost) + (f" ± {money(error)}" if error is not None and error > 0.0 else "")


def money(value: float, whole: bool = False) -> str:
    return f"{value:,.0f}" if whole and value >= 10.0 else f"{value:,.2f}" if abs(value) >= 0.01 else f"{value:.3g}"


def percent(share: float) -> str:
    """Three digits, and no 100 % that is not whole."""
    if 0.9995 <= share < 1.0:
        return "more than 99.9 %"
    return f"{100.0 * share:.3g} %"


def milliseconds(seconds: float) -> str:
    return f"{1000.0 * seconds:.4g} ms" if seconds < 10.0 else f"{seconds:.4g} s"


def shorten(name: str, letters: int) -> str:
    """A name in so many letters: its beginning and its end, for by these one tells names apart."""
    if len(name) <= letters:
        return name
    end = (letters - 1) // 2
    return f"{name[: letters - 1 - end]}…{name[len(name) - end :]}"
