"""Settings of an application's retuning: defaults with the range of each, and one codec that checks stated values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from scaler.model.errors import BadInput
from sim.toml_table import FLAG, TEXT, Kind, is_number
from tuner.search.engines import ENGINES

DAY_S = 86_400.0
MAX_COUNT = 1_000_000
PATHS = Kind("a list of paths", lambda value: isinstance(value, list | tuple) and all(map(TEXT.fits, value)))
ENGINE = Kind(f"one of {', '.join(ENGINES)}", lambda value: isinstance(value, str) and value in ENGINES)
WINDOWS = Kind(
    f"a whole number from 0 to {MAX_COUNT:,}",
    lambda value: is_number(value) and 0 <= value <= MAX_COUNT and value == int(value),
)
COUNT = Kind(
    f"a whole number from 1 to {MAX_COUNT:,}",
    lambda value: is_number(value) and 1 <= value <= MAX_COUNT and value == int(value),
)


def stated(default: Any, kind: Kind) -> Any:
    return field(default=default, metadata={"kind": kind})


def ranged(default: float, low: float = 1e-3, high: float = 1e10) -> Any:
    told = " to ".join(f"{bound:,f}".rstrip("0").rstrip(".") for bound in (low, high))
    return stated(default, Kind(f"a number from {told}", lambda v: is_number(v) and low <= v <= high))


@dataclass(frozen=True, slots=True)
class RetuningSettings:
    """When an application is tuned again by itself, how, and by which evidence the outcome is rolled out."""

    enabled: bool = stated(True, FLAG)  # False: tuned only on request; a candidate is checked all the same
    period_s: float = ranged(DAY_S)
    check_s: float = ranged(900.0)  # between two checks for drift and missed QoS
    pause_s: float = ranged(3_600.0)  # after a roll-back; doubled by each further one
    history_s: float = ranged(14 * DAY_S)  # of samples that a surrogate is fitted on
    arrivals_s: float = ranged(90 * DAY_S)  # of monitored arrivals that a search may reach back
    gap: int = stated(5, WINDOWS)  # windows in a row without monitoring that are interpolated
    sources: tuple[str, ...] = stated((), PATHS)  # paths to read before each fit; none: what scalers report
    window_s: float = ranged(60.0)  # of the samples made of these
    budget: int = stated(60, COUNT)
    seconds: float = ranged(1_800.0)
    engine: str = stated("gp", ENGINE)
    batch: int = stated(1, COUNT)
    held_out: float = ranged(0.2, 0.0, 0.9)
    gain: float = ranged(0.02, 0.0, 1.0)  # share of the price that a new objective must save
    alpha: float = ranged(0.05, 1e-6, 0.5)  # probability of a false alarm
    shadow_slots: int = stated(60, COUNT)
    canary_slots: int = stated(120, COUNT)
    watch_slots: int = stated(1_440, COUNT)
    most: float = ranged(3.0, 1.0, 100.0)  # times its slots, after which an undecided stage is given up


KINDS: dict[str, Kind] = {one.name: one.metadata["kind"] for one in fields(RetuningSettings)}


def read_retuning(document: Mapping[str, Any]) -> RetuningSettings:
    """The settings of a document, defaults where it says nothing; refused with one sentence."""
    for name, value in document.items():
        if name not in KINDS:
            raise BadInput(f"retuning has no setting {str(name)[:40]!r}; it has {', '.join(KINDS)}")
        if not KINDS[name].fits(value):
            raise BadInput(f"retuning: {name} is {str(value)[:80]!r}, and must be {KINDS[name].says}")
    defaults = RetuningSettings()
    return replace(defaults, **{name: type(getattr(defaults, name))(value) for name, value in document.items()})


def read_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """A checked and complete document, as the database stores it."""
    settings = asdict(read_retuning(document))
    return {**settings, "sources": list(settings["sources"])}


DEFAULTS: dict[str, Any] = read_settings({})
