"""Check descriptions that come over the network: no files of this machine, no more work than a description needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from scaler.model.errors import BadInput
from sim.application import parse_application
from sim.graphs import APPLICATIONS
from sim.infrastructure import INFRASTRUCTURES
from tuner.scenario.describe import describe_application
from tuner.scenario.description import freeze, is_alone, scenario_of

MAX_VALUES = {
    ("application", "k_max"): 1_000,
    ("trace", "slots"): 1_100_000,  # two years of minutes
    ("run", "levels"): 1_000,
}
MAX_TABLES = {("application", "operator"): 2_000, ("infrastructure", "node"): 50}
BUILT_IN = {("application", "builtin"): tuple(APPLICATIONS), ("infrastructure", "name"): tuple(INFRASTRUCTURES)}
SHOWN = 200  # characters of what is wrong


def describe_received(tables: Mapping[str, Any], app: str) -> dict[str, Any]:
    """The document of a scenario's tables, or of an application alone; refused unless it can be simulated."""
    place = f"the description of {app!r}"
    if is_alone(tables):
        tables = {"application": describe_application(parse_application(tables))}
    check_limits(tables, place)
    try:
        application = scenario_of(tables, name=app).settings[0].application
        own = describe_application(replace(application, name=app))
    except BadInput:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, MemoryError) as error:
        raise BadInput(f"{place} cannot be read ({error!s:.{SHOWN}}); state it as a scenario's tables") from error
    return {name: freeze(table) for name, table in {**tables, "application": own}.items()}


def check_limits(tables: Mapping[str, Any], place: str) -> None:
    """Refuse files, graphs and node types that are not built in, and numbers that are too large."""
    for name, table in tables.items():
        if isinstance(table, Mapping) and "file" in table:
            raise BadInput(
                f"{place}, [{name}] file: no file of this machine is read for you; state its content instead"
            )
    for (name, key), names in BUILT_IN.items():
        value = find(tables, name, key)
        if value is not None and value not in names:
            raise BadInput(f"{place}, [{name}] {key} is {value!r:.99}, and must be one of {', '.join(names)}")
    for (name, key), limit in MAX_VALUES.items():
        check_limit(f"{place}, [{name}] {key}", find(tables, name, key), limit)
    for operator in find(tables, "application", "operator") or ():
        value = operator.get("k_max") if isinstance(operator, dict) else None
        check_limit(f"{place}, [application] k_max", value, MAX_VALUES["application", "k_max"])
    for (name, key), limit in MAX_TABLES.items():
        value = find(tables, name, key)
        check_limit(f"{place}, [{name}]: the number of {key}s", len(value) if isinstance(value, list) else None, limit)
    check_start(f"{place}, [trace] start", find(tables, "trace", "start"))


def find(tables: Mapping[str, Any], name: str, key: str) -> Any:
    table = tables.get(name)
    return table.get(key) if isinstance(table, Mapping) else None


def check_limit(place: str, value: Any, limit: int) -> None:
    if isinstance(value, int | float) and value > limit:
        raise BadInput(f"{place} is {value}, and may be {limit:,} at most")


def check_start(place: str, value: Any) -> None:
    """Refuse a text, as JSON has moments, that is none."""
    try:
        if isinstance(value, str):
            datetime.fromisoformat(value)
    except ValueError:
        raise BadInput(f"{place} is {value!r:.99}, and must be a moment like 2026-01-05T08:00:00") from None
