"""Registry of guards by their name in a configuration: adding one is its functions and one line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scaler.guards.change_times import read_blocked_hours, read_cooldown, read_flap_budget, read_stabilisation
from scaler.guards.deployments import (
    DRY_RUN_GUARD,
    Span,
    find_span,
    read_bounds,
    read_direction_lock,
    read_dry_run,
    read_pin,
)
from scaler.guards.guard import Guard, GuardOptions, GuardReader
from scaler.model.errors import BadInput

GUARDS: dict[str, GuardReader] = {
    "bounds": read_bounds,
    "cooldown": read_cooldown,
    "stabilisation": read_stabilisation,
    "blocked_hours": read_blocked_hours,
    "flap_budget": read_flap_budget,
    "pin": read_pin,
    "direction_lock": read_direction_lock,
    DRY_RUN_GUARD: read_dry_run,
}


def parse_guards(configuration: Mapping[str, Any], types: Sequence[str]) -> tuple[Guard, ...]:
    """The guards that a configuration names, in its order, for an operator with node types of these names.

    A guard's value is a table of its settings, a list of such tables for several of a kind, or true (all defaults) or
    false (none).
    """
    guards: list[Guard] = []
    for name, value in configuration.items():
        if name not in GUARDS:
            raise BadInput(f"there is no guard {name!r}; choose of {', '.join(GUARDS)}")
        for settings in list_tables(name, value):
            table = GuardOptions(name, settings, types)
            guards.append(GUARDS[name](table))
            table.refuse_unknown()
    return tuple(guards)


def find_bounds(configurations: Sequence[Mapping[str, Any]], types: Sequence[str]) -> Span:
    """Replicas in all that the bounds of every configuration allow."""
    tables = (list_tables("bounds", configuration.get("bounds", False)) for configuration in configurations)
    return find_span([table for each in tables for table in each], types)


def is_dry_run(configuration: Mapping[str, Any]) -> bool:
    """Whether a configuration switches actuation off."""
    return configuration.get(DRY_RUN_GUARD, False) not in (False, [])


def list_tables(name: str, value: Any) -> list[Mapping[str, Any]]:
    """The tables of settings that a guard's value stands for."""
    if isinstance(value, bool):
        return [{}] if value else []
    tables = value if isinstance(value, list | tuple) else [value]
    for table in tables:
        if not isinstance(table, Mapping):
            raise BadInput(f"guard {name!r} is {value!r}, and must be a table of settings, a list of them, or true")
    return list(tables)
