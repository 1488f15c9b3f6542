"""Read descriptions of applications from a file, the network or the database; refuse what cannot be simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from scaler.model.errors import BadInput
from sim.application import MAX_REPLICAS, parse_application, read_application
from sim.graphs import APPLICATIONS
from sim.infrastructure import INFRASTRUCTURES, describe_nodes, read_infrastructure
from sim.toml_table import Table, read_toml
from tuner.scenario.document import (
    Document,
    Stored,
    describe_application,
    freeze,
    is_alone,
    shape_of,
    thaw,
)
from tuner.scenario.layout import SOURCES
from tuner.scenario.scenario import Scenario, anchor, build_scenario, check_document, complete, lay_over, read_document


def read_description(path: Path, name: str, flags: Document) -> dict[str, Any]:
    """The document of a file with flags over it; refused unless it can be simulated."""
    stated = read_tables(path)
    application = build_scenario(path.stem, stated, flags, str(path)).settings[0].application
    laid = lay_over(stated, flags)
    inlined = {"application": describe_application(replace(application, name=name))}
    if "file" in laid.get("infrastructure", {}):
        inlined["infrastructure"] = put_inline(laid["infrastructure"])
    return {key: freeze(table) for key, table in {**laid, **inlined}.items()}


def read_tables(path: Path) -> Document:
    """A scenario's tables, or those of an application alone under `application`."""
    if is_alone(read_toml(path)):
        return {"application": describe_application(read_application(path))}
    stated = anchor(read_document(path), path.parent)
    if not any(key in stated.get("application", {}) for key in SOURCES["application"]):
        raise BadInput(
            f"{path} describes no operators; head each one with [[application.operator]], or name a built-in graph "
            "or a file of operators as `builtin` or `file` in [application]"
        )
    return stated


def put_inline(table: Table) -> dict[str, Any]:
    found = read_infrastructure(table["file"])
    rest = {key: value for key, value in table.items() if key != "file"}
    return {**rest, "node": describe_nodes(found), "normaliser_price": found.normaliser_price}


def tables_of(document: Stored, flags: Document | None = None) -> Document:
    """Every table of a scenario: as stated, with flags over it and defaults under it."""
    return complete(thaw(document), flags or {})


def scenario_of(document: Stored, flags: Document | None = None, name: str = "application") -> Scenario:
    """The scenario of a document, with flags over it and defaults under both."""
    shape_of(document)
    place = f"the description of {name!r}"
    stated = thaw(document)
    check_document(stated, place)
    return build_scenario(name, stated, flags or {}, place)


MAX_VALUES = {
    ("application", "k_max"): MAX_REPLICAS,
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
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, MemoryError) as error:
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
    stated = find(tables, "application", "operator")
    for operator in stated if isinstance(stated, list) else ():
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
