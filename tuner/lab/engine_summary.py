"""Summarise an engine benchmark: how often recommendations meet the constraints, and their price over the baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import numpy as np

from tuner.lab.engine_benchmark import BASELINE, EngineResult, EngineResults

ALIKE = 1e-3  # prices so near to each other count as no higher


@dataclass(frozen=True, slots=True)
class EngineSummary:
    """One engine over all settings that are feasible: those in which anybody kept the constraints with any seed."""

    engine: str
    searches: int
    kept: float  # share of the searches whose recommendation keeps the constraints
    settings_kept: float  # share of the settings in which all of its recommendations do
    evaluations: float
    slots: float  # replayed in all
    verification_slots: float  # of these
    asking_ms: float  # a suggestion
    seconds: float  # a search
    ratio: float  # price over the baseline's, geometric mean over settings; where both kept the constraints
    worst: float  # the greatest of these
    no_higher: float  # share of the settings whose price is no higher
    compared: int  # settings in which both kept the constraints with some seed


def summarise_engines(matches: Sequence[EngineResults]) -> list[EngineSummary]:
    """A line for each engine, in the order in which they were asked for."""
    feasible = [part for part in split_settings(matches) if any(f.met for m in part for f in m.found)]
    names = dict.fromkeys(found.engine for match in matches for found in match.found)
    return [make_line(name, feasible) for name in names] if feasible else []


def split_settings(matches: Sequence[EngineResults]) -> list[list[EngineResults]]:
    ordered = sorted(matches, key=lambda match: (match.cell.setting, match.cell.seed))
    return [list(part) for _, part in groupby(ordered, key=lambda match: match.cell.setting)]


def make_line(engine: str, settings: Sequence[Sequence[EngineResults]]) -> EngineSummary:
    found = [pick(match, engine) for part in settings for match in part]
    ratios = [ratio for part in settings if not math.isnan(ratio := compare(part, engine))]
    asked = sum(one.evaluations for one in found)
    return EngineSummary(
        engine=engine,
        searches=len(found),
        kept=float(np.mean([one.met for one in found])),
        settings_kept=float(np.mean([all(pick(match, engine).met for match in part) for part in settings])),
        evaluations=float(np.mean([one.evaluations for one in found])),
        slots=float(np.mean([one.slots for one in found])),
        verification_slots=float(np.mean([one.verification_slots for one in found])),
        asking_ms=1000.0 * sum(one.asking_s for one in found) / max(1, asked),
        seconds=float(np.mean([one.seconds for one in found])),
        ratio=float(np.exp(np.mean(np.log(ratios)))) if ratios else math.nan,
        worst=max(ratios, default=math.nan),
        no_higher=float(np.mean([ratio <= 1.0 + ALIKE for ratio in ratios])) if ratios else math.nan,
        compared=len(ratios),
    )


def pick(match: EngineResults, engine: str) -> EngineResult:
    return next(found for found in match.found if found.engine == engine)


def compare(part: Sequence[EngineResults], engine: str) -> float:
    """The engine's price in a setting over the baseline's: geometric means over the seeds with which each kept the
    constraints; NaN where one never did."""
    names = {found.engine for match in part for found in match.found}
    if BASELINE not in names:
        return math.nan
    means = [average_price(part, name) for name in (engine, BASELINE)]
    return means[0] / means[1]


def average_price(part: Sequence[EngineResults], engine: str) -> float:
    prices = [found.price for match in part if (found := pick(match, engine)).met]
    return float(np.exp(np.mean(np.log(prices)))) if prices else math.nan


def list_settings(matches: Sequence[EngineResults]) -> list[dict[str, Any]]:
    """A row for each setting: what each engine costs there, and how often it kept the constraints."""
    rows = []
    for part in split_settings(matches):
        row: dict[str, Any] = {**asdict(part[0].cell), "seeds": len(part)}
        del row["seed"]
        for name in dict.fromkeys(found.engine for found in part[0].found):
            kept = sum(pick(match, name).met for match in part)
            row[name] = {"price": average_price(part, name), "kept": kept, "ratio": compare(part, name)}
        rows.append(row)
    return rows
