"""Settings of an application's retuning: defaults, and one codec that checks what people state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from scaler.model.errors import BadInput
from tuner.search.engines import ENGINES

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class RetuningSettings:
    """When an application is tuned again by itself, how, and by which evidence what comes of it goes on."""

    enabled: bool = True  # False: nothing is tuned unless a person asks; what is on its way in is watched all the same
    period_s: float = DAY_S
    check_s: float = 900.0  # between two looks for drift and broken QoS
    pause_s: float = 3_600.0  # after an objective was rolled back; doubled by each further one
    history_s: float = 14 * DAY_S  # of samples that a surrogate is fitted on
    sources: tuple[str, ...] = ()  # paths to read before each fit; none: what scalers report
    window_s: float = 60.0  # of the samples made of these
    budget: int = 60
    seconds: float = 1_800.0
    engine: str = "gp"
    batch: int = 1
    held_out: float = 0.2
    gain: float = 0.02  # of the cost, that a new objective must save
    alpha: float = 0.05  # chance of calling something worse that is not
    shadow_slots: int = 60
    canary_slots: int = 120
    watch_slots: int = 1_440
    most: float = 3.0  # times its slots, after which a stage that shows nothing is given up


POSITIVE = ("period_s", "check_s", "pause_s", "history_s", "window_s", "seconds")
COUNTS = ("budget", "batch", "shadow_slots", "canary_slots", "watch_slots")
SHARES = {"gain": (0.0, 1.0), "alpha": (1e-6, 0.5), "held_out": (0.0, 0.9)}
MAX_COUNT = 1_000_000


def read_retuning(document: Mapping[str, Any]) -> RetuningSettings:
    """The settings of a document, defaults where it says nothing; refused with one sentence."""
    known = [field.name for field in fields(RetuningSettings)]
    for name in document:
        if name not in known:
            raise BadInput(f"retuning has no setting {str(name)[:40]!r}; it has {', '.join(known)}")
    given = {name: read_setting(name, value) for name, value in document.items()}
    return RetuningSettings(**given)


def read_setting(name: str, value: Any) -> Any:
    if name == "enabled":
        if not isinstance(value, bool):
            raise wrong(name, value, "true or false")
        return value
    if name == "sources":
        if not isinstance(value, list | tuple) or not all(isinstance(path, str) and path for path in value):
            raise wrong(name, value, "a list of paths")
        return tuple(value)
    if name == "engine":
        return read_engine(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise wrong(name, value, "a number")
    if name in COUNTS:
        if value != int(value) or not 1 <= value <= MAX_COUNT:
            raise wrong(name, value, f"a whole number from 1 to {MAX_COUNT:,}")
        return int(value)
    low, high = SHARES.get(name, (1.0, 100.0) if name == "most" else (1e-3, 1e10))
    if not low <= value <= high:
        raise wrong(name, value, f"a number from {low:g} to {high:g}")
    return float(value)


def read_engine(value: Any) -> str:
    if not isinstance(value, str) or value not in ENGINES:
        raise wrong("engine", value, f"one of {', '.join(ENGINES)}")
    return value


def wrong(name: str, value: Any, right: str) -> BadInput:
    return BadInput(f"retuning: {name} is {str(value)[:80]!r}, and must be {right}")


def to_document(settings: RetuningSettings) -> dict[str, Any]:
    return {**asdict(settings), "sources": list(settings.sources)}


def read_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document as the watch keeps it: checked, and whole."""
    return to_document(read_retuning(document))


DEFAULTS: dict[str, Any] = to_document(RetuningSettings())
