"""Settings of an application's retuning: defaults with the range of each, and one codec that checks stated values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields
from typing import Any

from scaler.model.errors import BadInput
from tuner.search.engines import ENGINES

DAY_S = 86_400.0
MAX_COUNT = 1_000_000


def ranged(default: float, low: float = 1e-3, high: float = 1e10) -> Any:
    return field(default=default, metadata={"range": (low, high), "kind": float})


def count(default: int) -> Any:
    return field(default=default, metadata={"range": (1, MAX_COUNT), "kind": int})


@dataclass(frozen=True, slots=True)
class RetuningSettings:
    """When an application is tuned again by itself, how, and by which evidence the outcome is rolled out."""

    enabled: bool = True  # False: tuned only on request; a candidate is checked all the same
    period_s: float = ranged(DAY_S)
    check_s: float = ranged(900.0)  # between two checks for drift and missed QoS
    pause_s: float = ranged(3_600.0)  # after a roll-back; doubled by each further one
    history_s: float = ranged(14 * DAY_S)  # of samples that a surrogate is fitted on
    sources: tuple[str, ...] = ()  # paths to read before each fit; none: what scalers report
    window_s: float = ranged(60.0)  # of the samples made of these
    budget: int = count(60)
    seconds: float = ranged(1_800.0)
    engine: str = "gp"
    batch: int = count(1)
    held_out: float = ranged(0.2, 0.0, 0.9)
    gain: float = ranged(0.02, 0.0, 1.0)  # share of the price that a new objective must save
    alpha: float = ranged(0.05, 1e-6, 0.5)  # probability of a false alarm
    shadow_slots: int = count(60)
    canary_slots: int = count(120)
    watch_slots: int = count(1_440)
    most: float = ranged(3.0, 1.0, 100.0)  # times its slots, after which an undecided stage is given up


FIELDS: dict[str, Field[Any]] = {one.name: one for one in fields(RetuningSettings)}


def read_retuning(document: Mapping[str, Any]) -> RetuningSettings:
    """The settings of a document, defaults where it says nothing; refused with one sentence."""
    for name in document:
        if name not in FIELDS:
            raise BadInput(f"retuning has no setting {str(name)[:40]!r}; it has {', '.join(FIELDS)}")
    return RetuningSettings(**{name: read_setting(FIELDS[name], value) for name, value in document.items()})


def read_setting(stated: Field[Any], value: Any) -> Any:
    """Check one value: a switch, paths, an engine, or a number within its field's range."""
    kind: type = type(value)
    if stated.name == "enabled":
        right, valid = "true or false", isinstance(value, bool)
    elif stated.name == "sources":
        right, kind = "a list of paths", tuple
        valid = isinstance(value, list | tuple) and all(isinstance(path, str) and path for path in value)
    elif stated.name == "engine":
        right, valid = f"one of {', '.join(ENGINES)}", isinstance(value, str) and value in ENGINES
    elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        right, valid = "a number", False
    else:
        low, high = stated.metadata["range"]
        kind, valid = stated.metadata["kind"], low <= value <= high
        right = f"a number from {low:g} to {high:g}"
        if kind is int:
            right, valid = f"a whole number from 1 to {MAX_COUNT:,}", valid and value == int(value)
    if not valid:
        raise BadInput(f"retuning: {stated.name} is {str(value)[:80]!r}, and must be {right}")
    return kind(value)


def read_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """A checked and complete document, as the database stores it."""
    settings = asdict(read_retuning(document))
    return {**settings, "sources": list(settings["sources"])}


DEFAULTS: dict[str, Any] = read_settings({})
